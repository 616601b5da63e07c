//! Options of single subscriptions: from tokens, hooks' answers and backends; and what recovers.

use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::redis_server::RedisServer;
use crate::server::{Server, signed};

const NAMESPACES: &str = r#"[
    {"name":"bare","history_size":10,"history_ttl":"60s","force_recovery":false,"publish":"subscriber"},
    {"name":"full","history_size":10,"history_ttl":"60s","presence":true,"join_leave":true,"publish":"subscriber"},
    {"name":"last","history_size":10,"history_ttl":"60s","recovery_mode":"cache"}
]"#;

async fn server(more: &[(&str, &str)]) -> Server {
    Server::start_with(&[&[("namespaces", NAMESPACES)], more].concat()).await
}

fn all(value: bool) -> Value {
    let value = json!({ "value": value });
    json!({
        "presence": value, "join_leave": value, "force_push_join_leave": value,
        "force_recovery": value, "force_positioning": value,
    })
}

fn with_token(user: &str, channel: &str, replaced: &Value) -> Value {
    let token = signed(&json!({
        "sub": user, "channel": channel, "override": replaced, "info": { "role": "host" }, "data": { "hello": 1 },
    }));
    json!({ "subscribe": { "channel": channel, "token": token } })
}

#[tokio::test]
async fn without_force_recovery_only_a_token_makes_a_subscription_recoverable() {
    let server = server(&[]).await;
    let mut ann = Client::connect(&server, "ann").await;
    let plain = ann.subscribe("bare:1").await;
    assert_eq!((plain.get("recoverable"), plain.get("positioned"), plain.get("epoch")), (None, None, None), "{plain}");
    let mut bo = Client::connect(&server, "bo").await;
    let reply = bo.done(with_token("bo", "bare:1", &all(true))).await["subscribe"].take();
    assert_eq!((&reply["recoverable"], &reply["positioned"]), (&json!(true), &json!(true)), "{reply}");
    assert_eq!(reply["data"], json!({ "hello": 1 }));
    // Live publications reach both.
    ann.done(json!({ "publish": { "channel": "bare:1", "data": 1 } })).await;
    assert_eq!(ann.publication("bare:1").await["data"], 1);
    let mut cy = Client::connect(&server, "cy").await;
    let recover = json!({ "channel": "bare:1", "recover": true, "offset": 0, "epoch": reply["epoch"], "flag": 2 });
    let lost = cy.done(json!({ "subscribe": recover })).await["subscribe"].take();
    assert_eq!((lost.get("recovered"), lost.get("publications")), (None, None), "a subscription that recovers nothing");
    let mut dan = Client::connect(&server, "dan").await;
    let mut recover = with_token("dan", "bare:1", &json!({ "force_recovery": { "value": true } }));
    recover["subscribe"]["recover"] = true.into();
    recover["subscribe"]["epoch"] = reply["epoch"].clone();
    let found = dan.done(recover).await["subscribe"].take();
    assert_eq!((&found["recovered"], &found["publications"][0]["data"]), (&json!(true), &json!(1)), "{found}");
}

#[tokio::test]
async fn presence_and_joins_are_replaced_for_one_subscription() {
    let server = server(&[]).await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.done(with_token("ann", "full:1", &json!({}))).await;
    assert_eq!(ann.push_of("full:1", "join").await["info"]["user"], "ann");
    // A hidden client: nobody learns of it, and it hears of nobody.
    let mut spy = Client::connect(&server, "spy").await;
    spy.done(with_token("spy", "full:1", &all(false))).await;
    let mut bo = Client::connect(&server, "bo").await;
    bo.done(with_token("bo", "full:1", &Value::Null)).await;
    let join = ann.push_of("full:1", "join").await;
    assert_eq!((&join["info"]["user"], &join["info"]["chan_info"]["role"]), (&json!("bo"), &json!("host")));
    let stats = ann.done(json!({ "presence_stats": { "channel": "full:1" } })).await;
    assert_eq!(stats["presence_stats"], json!({ "num_clients": 2, "num_users": 2 }));
    bo.done(json!({ "publish": { "channel": "full:1", "data": 1 } })).await;
    match spy.hear().await {
        Heard::Push(push) => {
            assert_eq!(push["pub"]["data"], 1, "a join was pushed: {push}");
            assert_eq!(push["pub"]["info"]["chan_info"], json!({ "role": "host" }), "{push}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn connect_tokens_and_backends_replace_options_too() {
    let redis = RedisServer::start();
    for more in [vec![], vec![("broker.url", redis.url())]] {
        let more: Vec<(&str, &str)> = more.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = server(&more).await;
        let mut ann = Client::open(&server).await;
        let sub = json!({ "override": all(true), "info": 1, "data": 2 });
        let token = signed(&json!({ "sub": "ann", "subs": { "bare:1": sub, "bare:2": {} } }));
        let subs = ann.done(json!({ "connect": { "token": token } })).await["connect"]["subs"].take();
        assert_eq!((&subs["bare:1"]["recoverable"], &subs["bare:1"]["data"]), (&json!(true), &json!(2)), "{subs}");
        assert_eq!(subs["bare:2"].get("recoverable"), None, "{subs}");
        let mut asked = json!({ "user": "ann", "channel": "bare:3", "override": all(true) });
        assert_eq!(server.backend("subscribe", &asked).await["result"], json!({}));
        assert_eq!(ann.push_of("bare:3", "subscribe").await["recoverable"], true);
        asked["channel"] = "bare:4".into();
        asked["override"] = Value::Null;
        assert_eq!(server.backend("subscribe", &asked).await["result"], json!({}));
        assert_eq!(ann.push_of("bare:4", "subscribe").await.get("recoverable"), None);
    }
}

#[tokio::test]
async fn cache_mode_recovers_the_latest_publication_only() {
    let redis = RedisServer::start();
    for more in [vec![], vec![("broker.url", redis.url())]] {
        let more: Vec<(&str, &str)> = more.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = server(&more).await;
        let recover = |offset: u64, epoch: &Value| {
            let position = json!({ "channel": "last:1", "recover": true, "offset": offset, "epoch": epoch });
            json!({ "subscribe": position })
        };
        let mut ann = Client::connect(&server, "ann").await;
        let empty = ann.done(recover(0, &json!(""))).await["subscribe"].take();
        assert_eq!((&empty["recovered"], empty.get("publications")), (&json!(true), None), "{empty}");
        for n in 1..=15 {
            server.backend("publish", &json!({ "channel": "last:1", "data": n })).await;
        }
        for (offset, epoch) in [(0, json!("")), (2, empty["epoch"].clone()), (7, json!("other"))] {
            let mut late = Client::connect(&server, "bo").await;
            let found = late.done(recover(offset, &epoch)).await["subscribe"].take();
            let publications = found["publications"].as_array().unwrap();
            assert_eq!((&found["recovered"], publications.len()), (&json!(true), 1), "{found}");
            assert_eq!((&publications[0]["data"], &publications[0]["offset"]), (&json!(15), &json!(15)));
            server.backend("history", &json!({ "channel": "last:1", "limit": 0 })).await;
        }
        let mut same = Client::connect(&server, "cy").await;
        let found = same.done(recover(15, &empty["epoch"])).await["subscribe"].take();
        assert_eq!((&found["recovered"], found.get("publications")), (&json!(true), None), "{found}");
        server.backend("publish", &json!({ "channel": "last:1", "data": 16 })).await;
        assert_eq!(same.publication("last:1").await["offset"], 16);
        // Without a publication, only a client at the end of the log has everything.
        server.backend("history_remove", &json!({ "channel": "last:1" })).await;
        let mut strict = recover(2, &empty["epoch"]);
        strict["subscribe"]["flag"] = 2.into();
        assert_eq!(Client::connect(&server, "dan").await.refused(strict).await, 112);
    }
}

#[tokio::test]
async fn refreshes_must_name_the_same_channels_and_may_change_the_rest() {
    let server = server(&[]).await;
    let claims = |subs: Value| signed(&json!({ "sub": "ann", "channels": ["full:1"], "subs": subs, "info": 7 }));
    let connect = |token: &str| json!({ "connect": { "token": token } });
    for (subs, closes) in
        [(json!({ "bare:1": { "info": 1 } }), false), (json!({}), true), (json!({ "bare:2": {} }), true)]
    {
        let mut ann = Client::open(&server).await;
        ann.done(connect(&claims(json!({ "bare:1": {} })))).await;
        ann.command(json!({ "refresh": { "token": claims(subs.clone()) } })).await;
        match ann.hear().await {
            Heard::Closed(code, _) => assert_eq!((code, closes), (3010, true), "{subs}"),
            Heard::Reply(reply) => assert_eq!((reply.get("error"), closes), (None, false), "{subs}: {reply}"),
            Heard::Push(_) => match ann.hear().await {
                Heard::Closed(code, _) => assert_eq!((code, closes), (3010, true), "{subs}"),
                other => assert!(!closes, "{subs}: {other:?}"),
            },
            other => panic!("{subs}: {other:?}"),
        }
    }
}
