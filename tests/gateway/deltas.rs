//! Deltas on the wire; `tests/sdk/delta.test.mjs` has them with the official SDK.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

const NAMESPACES: &str = r#"[
    {"name":"chat","history_size":10,"history_ttl":"60s","delta":true},
    {"name":"whole","history_size":10,"history_ttl":"60s"},
    {"name":"brief","delta":true}
]"#;

async fn publish(server: &Server, channel: &str, data: &Value) {
    let answer = server.backend("publish", &json!({ "channel": channel, "data": data, "tags": { "k": "v" } })).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

#[tokio::test]
async fn deltas_are_for_subscribers_that_ask_where_the_namespace_has_them() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for (channel, expected) in [("chat:1", Some(true)), ("whole:1", None), ("brief:1", None), ("topic:x", None)] {
        let subscribed = ann.done(json!({ "subscribe": { "channel": channel, "delta": "fossil" } })).await;
        assert_eq!(subscribed["subscribe"]["delta"].as_bool(), expected, "{channel}");
    }
    let mut bo = Client::connect(&server, "bo").await;
    assert!(bo.subscribe("chat:1").await.get("delta").is_none());

    let data = |n: u32| json!({ "n": n, "text": "a text that stays the same in every publication" });
    for n in 1..=3 {
        publish(&server, "chat:1", &data(n)).await;
    }
    for n in 1..=3 {
        let whole = bo.publication("chat:1").await;
        assert_eq!((&whole["data"], whole.get("delta")), (&data(n), None));
        let publication = ann.publication("chat:1").await;
        assert_eq!((&publication["offset"], &publication["tags"]), (&json!(n), &json!({ "k": "v" })));
        let text = publication["data"].as_str().expect("text");
        assert_eq!(publication["delta"].as_bool(), (n > 1).then_some(true), "the first one is whole: {publication}");
        if n == 1 {
            assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), data(1));
        } else {
            assert!(text.len() < data(n).to_string().len() && text.ends_with(';'), "{text}");
        }
    }
    // A member that joins later has no base, the others go on.
    let mut cy = Client::connect(&server, "cy").await;
    cy.done(json!({ "subscribe": { "channel": "chat:1", "delta": "fossil" } })).await;
    publish(&server, "chat:1", &data(4)).await;
    assert_eq!(ann.publication("chat:1").await["delta"], true);
    let first = cy.publication("chat:1").await;
    assert_eq!((first.get("delta"), first["data"].is_string()), (None, true));
    publish(&server, "chat:1", &data(5)).await;
    assert_eq!(cy.publication("chat:1").await["delta"], true);
}

#[tokio::test]
async fn filters_and_unknown_deltas_are_refused() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for delta in ["", "fossil"] {
        let filter = json!({ "key": "k", "cmp": "eq", "val": "v" });
        let subscribe = json!({ "subscribe": { "channel": "chat:1", "tf": filter, "delta": delta } });
        assert_eq!(ann.refused(subscribe).await, 107);
    }
    ann.done(json!({ "subscribe": { "channel": "chat:1", "tf": null } })).await;
    ann.command(json!({ "subscribe": { "channel": "chat:2", "delta": "other" } })).await;
    assert_eq!(ann.closed().await.0, 3501);
}
