//! Connections for development, and the channels that the server subscribes users to.

use serde_json::json;

use crate::client::{Client, Heard, Wire};
use crate::identity::account;
use crate::redis_server::RedisServer;
use crate::server::{Server, signed, token, unix};

const NAMESPACES: &str = r#"[
    {"name":"","subscribe":"nobody","history":"nobody","history_size":9,"history_ttl":"60s","presence":true},
    {"name":"shut","subscribe":"nobody","history":"nobody","history_size":9,"history_ttl":"60s","presence":true}
]"#;

#[tokio::test]
async fn an_insecure_server_needs_no_token_and_grants_all_rights_to_everybody() {
    let keys = [("namespaces", NAMESPACES), ("client.insecure", "true"), ("auth.require_exp", "true")];
    let server = Server::start_with(&keys).await;
    let mut nobody = Client::open(&server).await;
    nobody.done(json!({ "connect": {} })).await;
    for channel in ["lobby", "shut:1", "$shut:1", "shut:1#ann"] {
        nobody.subscribe(channel).await;
        nobody.done(json!({ "publish": { "channel": channel, "data": 1 } })).await;
        let history = nobody.done(json!({ "history": { "channel": channel, "limit": 9 } })).await;
        assert_eq!(history["history"]["publications"][0]["data"], 1, "{channel}");
        let there = nobody.done(json!({ "presence_stats": { "channel": channel } })).await;
        assert_eq!(there["presence_stats"]["num_clients"], 1, "{channel}");
    }
    for (channel, code) in [("timeline:ann", 103), ("other:1", 102)] {
        assert_eq!(nobody.refused(json!({ "subscribe": { "channel": channel } })).await, code, "{channel}");
    }
    // A token is verified, but needs neither `exp` nor `sub`.
    for (claims, code) in [
        (json!({ "sub": "ann" }), 0),
        (json!({}), 0),
        (json!({ "sub": "ann", "exp": unix() - 600 }), 109),
        (json!({ "sub": "a b" }), 3500),
    ] {
        let mut client = Client::open(&server).await;
        client.command(json!({ "connect": { "token": signed(&claims) } })).await;
        let found = match client.hear().await {
            Heard::Reply(reply) => reply["error"]["code"].as_u64().unwrap_or(0),
            Heard::Closed(code, _) => code.into(),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, code, "{claims}");
    }
    let mut forged = Client::open(&server).await;
    forged.command(json!({ "connect": { "token": token("ann") + "x" } })).await;
    assert_eq!(forged.closed().await.0, 3500);
}

#[tokio::test]
async fn users_are_subscribed_to_their_personal_channel() {
    let keys = [("client.user_personal_channel", "true"), ("auth.anonymous", "true")];
    for more in [None, Some(("namespaces", NAMESPACES))] {
        let server = Server::start_with(&[&keys[..], more.as_slice()].concat()).await;
        let mut ann = Client::open(&server).await;
        let reply = ann.done(json!({ "connect": { "token": token("ann") } })).await;
        let subs: Vec<&String> = reply["connect"]["subs"].as_object().unwrap().keys().collect();
        assert_eq!(subs, ["#ann"], "the channels of the feed are off by default then");
        server.backend("publish", &json!({ "channel": "#ann", "data": "hello" })).await;
        assert_eq!(ann.publication("#ann").await["data"], "hello");
        assert_eq!(ann.refused(json!({ "subscribe": { "channel": "#bo" } })).await, 103);
        // A token may name it; a refresh is for the same channels then.
        let named = json!({ "sub": "ann", "channels": ["#ann"] });
        assert!(ann.done(json!({ "refresh": { "token": signed(&named) } })).await.get("refresh").is_some());
        let mut nobody = Client::open(&server).await;
        let reply = nobody.done(json!({ "connect": {} })).await;
        assert_eq!(reply["connect"].get("subs"), None, "{reply}");
    }
}

#[tokio::test]
async fn users_may_have_personal_channels_beside_those_of_the_feed() {
    let keys = [("client.user_personal_channel", "true"), ("client.feed_channels", "true")];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::open(&server).await;
    let reply = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    let subs: Vec<&String> = reply["connect"]["subs"].as_object().unwrap().keys().collect();
    assert_eq!(subs, ["#ann", "notifications:ann", "timeline:ann"]);
}

#[tokio::test]
async fn the_channels_of_the_feed_can_be_off_for_users_of_the_application() {
    let keys = [("client.feed_channels", "false"), ("accounts.enabled", "true")];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::open(&server).await;
    let reply = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    assert_eq!(reply["connect"].get("subs"), None, "{reply}");
    // A token can name them.
    let named = signed(&json!({ "sub": "bo", "channels": ["timeline:bo"] }));
    let mut bo = Client::open(&server).await;
    let reply = bo.done(json!({ "connect": { "token": named } })).await;
    assert!(reply["connect"]["subs"].get("timeline:bo").is_some(), "{reply}");
    // People with an account have them.
    let session = account(&server, "cy").await;
    let mut cy = Client::open(&server).await;
    let reply = cy.done(json!({ "connect": { "token": session } })).await;
    assert_eq!(reply["connect"]["subs"].as_object().map(serde_json::Map::len), Some(2), "{reply}");
}

#[tokio::test]
async fn a_new_connection_closes_the_others_of_its_user() {
    let redis = RedisServer::start();
    let url = redis.url();
    let keys =
        [("client.user_personal_channel", "true"), ("client.single_connection", "true"), ("auth.anonymous", "true")];
    for broker in [None, Some(("broker.url", url.as_str()))] {
        let server = Server::start_with(&[&keys[..], broker.as_slice()].concat()).await;
        let mut bo = Client::connect(&server, "bo").await;
        let mut nobody = Client::open(&server).await;
        nobody.done(json!({ "connect": {} })).await;
        let mut last = Client::connect(&server, "ann").await;
        for wire in Wire::BIDIRECTIONAL {
            // A token that names the channel has the same effect.
            let mut next = Client::open_over(&server, wire).await;
            let named = signed(&json!({ "sub": "ann", "channels": ["#ann"] }));
            next.done(json!({ "connect": { "token": named } })).await;
            assert_eq!(last.closed().await, (3504, "connection limit".to_owned()), "{wire:?}");
            last = next;
        }
        server.backend("publish", &json!({ "channel": "#ann", "data": "still here" })).await;
        assert_eq!(last.publication("#ann").await["data"], "still here");
        // Other users stay, and so do anonymous clients.
        assert!(bo.pushed().await.is_empty() && nobody.pushed().await.is_empty());
    }
}
