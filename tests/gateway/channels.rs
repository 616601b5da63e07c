//! Channels of the application: permissions to publish, subscribe and read.

use futures::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::NAMESPACES;
use crate::client::{Client, Heard};
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, signed};

async fn server() -> Server {
    Server::start_with(&[("namespaces", NAMESPACES)]).await
}

fn publish(channel: &str, data: &Value) -> Value {
    json!({ "publish": { "channel": channel, "data": data } })
}

#[tokio::test]
async fn publications_reach_all_subscribers_with_client_info() {
    let server = server().await;
    let mut ann = Client::open(&server).await;
    let token = signed(&json!({ "sub": "ann", "info": { "name": "Ann" } }));
    ann.done(json!({ "connect": { "token": token } })).await;
    let mut bo = Client::connect(&server, "bo").await;
    ann.subscribe("chat:1").await;
    bo.subscribe("chat:1").await;
    for (n, data) in [json!({ "a": "b\nc" }), json!("text"), json!(null), json!([1, 2])].into_iter().enumerate() {
        ann.done(publish("chat:1", &data)).await;
        for client in [&mut ann, &mut bo] {
            let publication = client.publication("chat:1").await;
            assert_eq!((&publication["data"], publication["offset"].as_u64()), (&data, Some(n as u64 + 1)));
            assert_eq!(publication["info"]["user"], "ann");
            assert_eq!(publication["info"]["conn_info"], json!({ "name": "Ann" }));
            assert_eq!(publication.get("epoch").is_some(), n == 0, "the first entry of a log carries its epoch");
        }
    }
    bo.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
    ann.done(publish("chat:1", &json!("after"))).await;
    ann.publication("chat:1").await;
    let late: Vec<Value> = bo.pushed().await.into_iter().filter(|push| push.get("pub").is_some()).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test]
async fn channels_without_history_deliver_once() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    let reply = ann.subscribe("open:1").await;
    assert_eq!(reply, json!({}), "nothing to recover");
    let mut stranger = Client::connect(&server, "cy").await;
    stranger.done(publish("open:1", &json!(1))).await;
    assert_eq!(ann.push().await["pub"].get("offset"), None);
    assert_eq!(ann.refused(json!({ "history": { "channel": "open:1" } })).await, 108);
    assert_eq!(ann.refused(json!({ "presence": { "channel": "open:1" } })).await, 108);
}

#[tokio::test]
async fn join_leave_events_and_presence_match() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    assert_eq!(ann.push_of("chat:1", "join").await["info"]["user"], "ann");
    let mut bo = Client::connect(&server, "bo").await;
    bo.subscribe("chat:1").await;
    let mut bo_too = Client::connect(&server, "bo").await;
    bo_too.subscribe("chat:1").await;
    for _ in 0..2 {
        assert_eq!(ann.push_of("chat:1", "join").await["info"]["user"], "bo");
    }
    let stats = ann.done(json!({ "presence_stats": { "channel": "chat:1" } })).await;
    assert_eq!(stats["presence_stats"], json!({ "num_clients": 3, "num_users": 2 }));
    let there = ann.done(json!({ "presence": { "channel": "chat:1" } })).await;
    let there = there["presence"]["presence"].as_object().unwrap();
    assert_eq!(there.len(), 3);
    assert!(there.iter().all(|(client, info)| info["client"] == **client));
    bo.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
    assert_eq!(ann.push_of("chat:1", "leave").await["info"]["user"], "bo");
    drop(bo_too);
    assert_eq!(ann.push_of("chat:1", "leave").await["info"]["user"], "bo");
    let stats = server.backend("presence_stats", &json!({ "channel": "chat:1" })).await;
    assert_eq!(stats["result"], json!({ "num_clients": 1, "num_users": 1 }));
}

/// `presence` returns at most this many clients, to clients and to backends; the counts include all.
#[tokio::test]
async fn presence_lists_are_truncated_and_counts_are_exact() {
    let server = Server::start_with(&[("namespaces", NAMESPACES), ("client.presence_limit", "3")]).await;
    let mut clients = Vec::new();
    for name in ["ann", "bo", "cy", "bo", "ann"] {
        let mut client = Client::connect(&server, name).await;
        client.subscribe("chat:1").await;
        clients.push(client);
    }
    let there = clients[0].done(json!({ "presence": { "channel": "chat:1" } })).await;
    assert_eq!(there["presence"]["presence"].as_object().unwrap().len(), 3, "{there}");
    let all = json!({ "num_clients": 5, "num_users": 3 });
    let stats = clients[0].done(json!({ "presence_stats": { "channel": "chat:1" } })).await;
    assert_eq!(stats["presence_stats"], all);
    let there = server.backend("presence", &json!({ "channel": "chat:1" })).await;
    assert_eq!(there["result"]["presence"].as_object().unwrap().len(), 3, "{there}");
    let stats = server.backend("presence_stats", &json!({ "channel": "chat:1" })).await;
    assert_eq!(stats["result"], all);
}

#[tokio::test]
async fn a_client_that_subscribes_again_at_once_stays_present() {
    let redis = RedisServer::start();
    let url = redis.url();
    for keys in [vec![("namespaces", NAMESPACES)], vec![("namespaces", NAMESPACES), ("broker.url", &url)]] {
        let server = Server::start_with(&keys).await;
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe("chat:1").await;
        for round in 0..50 {
            let [unsubscribe, subscribe] =
                ["unsubscribe", "subscribe"].map(|method| Value::from_iter([(method, json!({ "channel": "chat:1" }))]));
            let first = ann.command(unsubscribe).await;
            let second = ann.command(subscribe).await;
            assert!(ann.reply(first).await.get("error").is_none() && ann.reply(second).await.get("error").is_none());
            let stats = ann.command(json!({ "presence_stats": { "channel": "chat:1" } })).await;
            let counted = &ann.reply(stats).await["presence_stats"];
            assert_eq!(counted, &json!({ "num_clients": 1, "num_users": 1 }), "round {round}");
        }
    }
}

#[tokio::test]
async fn rejected_subscriptions_leave_no_presence() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    let mut bo = Client::connect(&server, "bo").await;
    let strict =
        json!({ "subscribe": { "channel": "chat:1", "recover": true, "offset": 9, "epoch": "other", "flag": 2 } });
    assert_eq!(bo.refused(strict).await, 112);
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let stats = server.backend("presence_stats", &json!({ "channel": "chat:1" })).await;
        if stats["result"] == json!({ "num_clients": 1, "num_users": 1 }) {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "{stats}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // A join that was not pushed has no leave.
    bo.subscribe("chat:1").await;
    for expected in ["ann", "bo"] {
        assert_eq!(ann.push_of("chat:1", "join").await["info"]["user"], expected);
    }
}

#[tokio::test]
async fn history_is_read_in_both_directions_and_in_pages() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    for n in 1..=6 {
        ann.done(publish("chat:1", &json!(n))).await;
    }
    let top = ann.done(json!({ "history": { "channel": "chat:1" } })).await["history"].take();
    assert_eq!((top["offset"].as_u64(), top["publications"].as_array().map(Vec::len)), (Some(6), Some(0)));
    let since = |offset: u64| json!({ "offset": offset, "epoch": top["epoch"] });
    for (ask, expected) in [
        (json!({ "limit": -1 }), vec![1, 2, 3, 4, 5, 6]),
        (json!({ "limit": 2 }), vec![1, 2]),
        (json!({ "limit": 2, "reverse": true }), vec![6, 5]),
        (json!({ "limit": 10, "since": since(4) }), vec![5, 6]),
        (json!({ "limit": 2, "since": since(4), "reverse": true }), vec![3, 2]),
        (json!({ "limit": 10, "since": since(6) }), vec![]),
    ] {
        let mut history = ask.clone();
        history["channel"] = "chat:1".into();
        let read = ann.done(json!({ "history": history })).await["history"].take();
        let data: Vec<u64> =
            read["publications"].as_array().unwrap().iter().map(|one| one["data"].as_u64().unwrap()).collect();
        assert_eq!((data, &read["offset"]), (expected, &json!(6)), "{ask}");
        let mut asked = ask.clone();
        asked["channel"] = "chat:1".into();
        assert_eq!(server.backend("history", &asked).await["result"], read, "a backend reads the same: {ask}");
    }
}

#[tokio::test]
async fn every_command_of_a_burst_is_answered() {
    let server = Server::start_with(&[("client.commands_per_second", "0")]).await;
    let mut ann = Client::connect(&server, "ann").await;
    // A connection occasionally polls for commands out of turn: in some round, such a poll finds the last command.
    for many in (0..300_u32).map(|round| 2 + round * round % 7) {
        for id in 1..=many {
            let ping = json!({ "id": id, "ping": {} }).to_string();
            ann.socket.feed(Message::text(ping)).await.unwrap();
        }
        ann.socket.flush().await.unwrap();
        for id in 1..=many {
            ann.reply(id).await;
        }
    }
}

#[tokio::test]
async fn reconnecting_clients_recover_or_learn_that_they_cannot() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    let position = ann.subscribe("chat:1").await;
    assert_eq!((&position["recoverable"], &position["positioned"]), (&json!(true), &json!(true)));
    let recover = |offset: u64, epoch: &Value| {
        json!({
            "subscribe": { "channel": "chat:1", "recover": true, "offset": offset, "epoch": epoch },
        })
    };
    let mut speaker = Client::connect(&server, "bo").await;
    speaker.subscribe("chat:1").await;
    for n in 1..=4 {
        speaker.done(publish("chat:1", &json!(n))).await;
    }
    let mut again = Client::connect(&server, "ann").await;
    let reply = again.done(recover(2, &position["epoch"])).await["subscribe"].take();
    assert_eq!((&reply["recovered"], reply["offset"].as_u64()), (&json!(true), Some(2)));
    let offsets: Vec<u64> =
        reply["publications"].as_array().unwrap().iter().map(|one| one["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [3, 4]);
    speaker.done(publish("chat:1", &json!(5))).await;
    assert_eq!(again.publication("chat:1").await["offset"], 5);
    for n in 6..=40 {
        speaker.done(publish("chat:1", &json!(n))).await;
    }
    for (offset, epoch) in [(2, &position["epoch"]), (40, &json!("other")), (99, &position["epoch"])] {
        let mut late = Client::connect(&server, "ann").await;
        let reply = late.done(recover(offset, epoch)).await["subscribe"].take();
        assert_eq!((reply.get("recovered"), reply["offset"].as_u64()), (None, Some(40)), "{offset} {epoch}");
        assert_eq!(reply["was_recovering"], true);
        let mut strict = recover(offset, epoch);
        strict["subscribe"]["flag"] = 2.into();
        late.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
        assert_eq!(late.refused(strict).await, 112);
    }
}

#[tokio::test]
async fn clients_recover_the_first_entry_of_a_channel() {
    recovering_the_first_entry(&server().await).await;
    let redis = RedisServer::start();
    let before = redis.ask("DBSIZE");
    let keys = [("namespaces", NAMESPACES), ("broker.url", &redis.url())];
    let server = Server::start_with(&keys).await;
    recovering_the_first_entry(&server).await;
    assert_eq!(before, ":0");
}

async fn recovering_the_first_entry(server: &Server) {
    for (rest, asked) in [("1", true), ("2", false)] {
        let channel = format!("chat:{rest}");
        let mut ann = Client::connect(server, "ann").await;
        let position = ann.subscribe(&channel).await;
        assert_eq!(position["recoverable"], true);
        drop(ann);
        if asked {
            let nobody = server.backend("history", &json!({ "channel": channel, "limit": 0 })).await;
            assert_eq!(nobody["result"]["epoch"], position["epoch"]);
        }
        server.backend("publish", &json!({ "channel": channel, "data": 1 })).await;
        let mut again = Client::connect(server, "ann").await;
        let recover = json!({ "channel": channel, "recover": true, "epoch": position["epoch"] });
        let reply = again.done(json!({ "subscribe": recover })).await["subscribe"].take();
        assert_eq!((&reply["recovered"], &reply["publications"][0]["data"]), (&json!(true), &json!(1)), "{reply}");
        server.backend("publish", &json!({ "channel": channel, "data": 2 })).await;
        assert_eq!(again.publication(&channel).await["offset"], 2);
    }
}

#[tokio::test]
async fn unknown_channel_names_are_rejected() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    let long = format!("topic:{}", "x".repeat(101));
    for channel in ["topic:a b", "topic:#rust", "topic:a:b", "post:007", "user:a b", &long] {
        assert_eq!(ann.refused(json!({ "subscribe": { "channel": channel } })).await, 102, "{channel}");
    }
    ann.subscribe("topic:größe_2").await;
}

#[tokio::test]
async fn subscribe_reply_precedes_publications_after_its_offset() {
    subscribing_amid_publications(&server().await).await;
    // With Redis, time passes between the subscription and the read of the missed entries.
    let redis = RedisServer::start();
    let keys = [("namespaces", NAMESPACES), ("broker.url", &redis.url())];
    subscribing_amid_publications(&Server::start_with(&keys).await).await;
}

async fn subscribing_amid_publications(server: &Server) {
    let publishing = async {
        loop {
            server.backend("publish", &json!({ "channel": "chat:1", "data": 1 })).await;
        }
    };
    let subscribing = async {
        let mut known = json!({ "offset": 0, "epoch": "" });
        for round in 0..60 {
            let mut ann = Client::connect(server, "ann").await;
            let mut subscribe = known.clone();
            (subscribe["channel"], subscribe["recover"]) = ("chat:1".into(), (round % 2 == 1).into());
            let id = ann.command(json!({ "subscribe": subscribe })).await;
            let Heard::Reply(reply) = ann.hear().await else { panic!("a push before the answer, in round {round}") };
            assert_eq!(reply["id"], id);
            let subscribed = &reply["subscribe"];
            let mut offset = subscribed["offset"].as_u64().unwrap_or(0);
            for missed in subscribed["publications"].as_array().into_iter().flatten() {
                assert_eq!(missed["offset"], offset + 1, "round {round}");
                offset += 1;
            }
            known = json!({ "offset": offset, "epoch": subscribed["epoch"] });
            for next in 1..=3 {
                assert_eq!(ann.publication("chat:1").await["offset"], offset + next, "round {round}");
            }
        }
    };
    tokio::select! {
        () = publishing => {}
        () = subscribing => {}
    }
}

#[tokio::test]
async fn names_of_channels_match_the_expression_of_their_namespace() {
    const LIMITED: &str = r#"[
        {"name":"chat","channel_regex":"^[a-z]+$","presence":true,"publish":"anyone",
         "history":"anyone","history_size":9,"history_ttl":"60s"},
        {"name":"open","publish":"anyone"}
    ]"#;
    let server = Server::start_with(&[("namespaces", LIMITED)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for channel in ["chat:1", "chat:lobby2", "chat:lobby#ann", "$chat:1"] {
        let token = signed(&json!({ "sub": "ann", "channel": channel }));
        for command in [
            json!({ "subscribe": { "channel": channel } }),
            json!({ "subscribe": { "channel": channel, "token": token } }),
            publish(channel, &json!(1)),
            json!({ "history": { "channel": channel } }),
            json!({ "presence": { "channel": channel } }),
            json!({ "presence_stats": { "channel": channel } }),
        ] {
            assert_eq!(ann.refused(command.clone()).await, 107, "{command}");
        }
    }
    ann.subscribe("chat:lobby").await;
    ann.subscribe("open:1").await;
    // Backends and tokens of connections name any channel.
    assert!(server.backend("publish", &json!({ "channel": "chat:1", "data": 1 })).await.get("result").is_some());
    let mut bo = Client::open(&server).await;
    let token = signed(&json!({ "sub": "bo", "channels": ["chat:1"] }));
    let connected = bo.done(json!({ "connect": { "token": token } })).await;
    assert!(connected["connect"]["subs"].get("chat:1").is_some(), "{connected}");
}

/// Joins and leaves are sent by tasks of their own, and keep their order.
#[tokio::test]
async fn joins_and_leaves_of_a_client_alternate() {
    let redis = RedisServer::start();
    for server in [
        Server::start_with(&[("namespaces", NAMESPACES)]).await,
        Server::start_with(&[("namespaces", NAMESPACES), ("broker.url", &redis.url())]).await,
    ] {
        let mut listener = Client::connect(&server, "bo").await;
        listener.subscribe("chat:1").await;
        listener.push_of("chat:1", "join").await;
        let mut ann = Client::connect(&server, "ann").await;
        let frame: Vec<String> = (0..100)
            .flat_map(|n| {
                [("subscribe", 2 * n + 100), ("unsubscribe", 2 * n + 101)]
                    .map(|(method, id)| json!({ "id": id, method: { "channel": "chat:1" } }).to_string())
            })
            .collect();
        ann.send(frame.join("\n")).await;
        for n in 0..100 {
            for expected in ["join", "leave"] {
                let push = listener.push().await;
                assert!(push.get(expected).is_some(), "{push} instead of {expected} {n}");
            }
        }
    }
}
