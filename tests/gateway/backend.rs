//! The server API for backends: `/api/publish` and related methods.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::Client;
use crate::server::{API_KEY, Server, token};

async fn server() -> Server {
    Server::start_with(&[("namespaces", NAMESPACES)]).await
}

fn code(answer: &Value) -> u64 {
    answer["error"]["code"].as_u64().unwrap_or_else(|| panic!("not refused: {answer}"))
}

#[tokio::test]
async fn publications_reach_subscribers_with_their_tags() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    let published =
        server.backend("publish", &json!({ "channel": "chat:1", "data": { "n": 1 }, "tags": { "k": "v" } })).await;
    assert_eq!(published["result"]["offset"], 1);
    let publication = ann.publication("chat:1").await;
    assert_eq!(publication["epoch"], published["result"]["epoch"]);
    assert_eq!((&publication["data"], &publication["tags"]), (&json!({ "n": 1 }), &json!({ "k": "v" })));
    assert!(publication.get("info").is_none(), "the publisher is anonymous");

    let b64data = BASE64_STANDARD.encode(" { \"n\" :\n2 } ");
    server.backend("publish", &json!({ "channel": "chat:1", "b64data": b64data })).await;
    assert_eq!(ann.publication("chat:1").await["data"], json!({ "n": 2 }));

    let skipped = json!({ "channel": "chat:1", "data": 3, "skip_history": true });
    assert_eq!(server.backend("publish", &skipped).await["result"], json!({}));
    let publication = ann.publication("chat:1").await;
    assert_eq!((&publication["data"], publication.get("offset")), (&json!(3), None));
    let history = server.backend("history", &json!({ "channel": "chat:1", "limit": 10 })).await;
    assert_eq!(history["result"]["publications"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn repeats_and_older_versions_publish_nothing() {
    let server = server().await;
    let publish = |data: u64, more: Value| {
        let mut body = json!({ "channel": "chat:1", "data": data });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let first = server.backend("publish", &publish(1, json!({ "idempotency_key": "k" }))).await;
    server.backend("publish", &publish(2, json!({}))).await;
    let again = server.backend("publish", &publish(3, json!({ "idempotency_key": "k" }))).await;
    assert_eq!(first, again);
    for (version, data) in [(7, 4), (7, 5), (6, 6), (8, 7)] {
        server.backend("publish", &publish(data, json!({ "version": version, "version_epoch": "e" }))).await;
    }
    let history = server.backend("history", &json!({ "channel": "chat:1", "limit": -1 })).await;
    let data: Vec<&Value> =
        history["result"]["publications"].as_array().unwrap().iter().map(|one| &one["data"]).collect();
    assert_eq!(data, [1, 2, 4, 7]);
}

#[tokio::test]
async fn broadcasts_answer_for_each_channel() {
    let server = server().await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("chat:1").await;
    ann.subscribe("plain:1").await;
    let channels = json!(["chat:1", "none:1", "plain:1", "timeline:ann", ""]);
    let answer = server.backend("broadcast", &json!({ "channels": channels, "data": 1 })).await;
    let responses = answer["result"]["responses"].as_array().unwrap();
    assert_eq!(responses[0]["result"]["offset"], 1);
    assert_eq!(code(&responses[1]), 102);
    assert_eq!(responses[2], json!({ "result": {} }));
    assert_eq!(code(&responses[3]), 103);
    assert_eq!(code(&responses[4]), 107);
    assert_eq!(ann.publication("chat:1").await["data"], 1);
    assert_eq!(ann.publication("plain:1").await["data"], 1);
    assert_eq!(code(&server.backend("broadcast", &json!({ "channels": [], "data": 1 })).await), 107);
}

#[tokio::test]
async fn invalid_server_api_calls_return_errors() {
    let server = server().await;
    for (method, body, expected) in [
        ("publish", json!({ "channel": "none:1", "data": 1 }), 102),
        ("publish", json!({ "channel": "chat", "data": 1 }), 102),
        ("publish", json!({ "channel": "", "data": 1 }), 107),
        ("publish", json!({ "channel": "chat:1" }), 107),
        ("publish", json!({ "channel": "chat:1", "b64data": "%" }), 107),
        ("publish", json!({ "channel": "chat:1", "b64data": BASE64_STANDARD.encode("{") }), 107),
        ("publish", json!({ "channel": 1, "data": 1 }), 107),
        ("publish", json!({ "channel": format!("chat:{}", "x".repeat(251)), "data": 1 }), 107),
        ("publish", json!([1]), 107),
        ("publish", json!({ "channel": "timeline:ann", "data": 1 }), 103),
        ("publish", json!({ "channel": "notifications:ann", "data": 1 }), 103),
        ("publish", json!({ "channel": "user:ann", "data": 1 }), 103),
        ("publish", json!({ "channel": "topic:x", "data": 1 }), 103),
        ("publish", json!({ "channel": "post:1", "data": 1 }), 103),
        ("presence", json!({ "channel": "plain:1" }), 108),
        ("presence_stats", json!({ "channel": "none:1" }), 102),
        ("history", json!({ "channel": "plain:1" }), 108),
        ("history", json!({ "channel": "chat:1", "since": { "offset": 1, "epoch": "other" } }), 112),
    ] {
        assert_eq!(code(&server.backend(method, &body).await), expected, "{method} {body}");
    }
    let publish = json!({ "channel": "chat:1", "data": 1 }).to_string();
    for key in [vec![], vec![("x-api-key", "wrong")], vec![("x-api-key", "")]] {
        let answer = server.http("POST", "/api/publish", &key, &publish).await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (401, &json!("unauthorized")), "{key:?}");
    }
    let bearer = format!("Bearer {}", token("ann"));
    assert_eq!(server.http("POST", "/api/publish", &[("authorization", &bearer)], &publish).await.status, 401);
    let key = [("x-api-key", API_KEY)];
    assert_eq!(server.http("POST", "/api/no_such", &key, "{}").await.status, 404);
    assert_eq!(server.http("GET", "/api/publish", &key, "").await.status, 405);
    let large = format!("{{\"channel\":\"chat:1\",\"data\":\"{}\"}}", "x".repeat(300 * 1024));
    assert_eq!(server.http("POST", "/api/publish", &key, &large).await.status, 413);
    assert!(server.backend("publish", &json!({ "channel": "chat:1", "data": 1 })).await.get("result").is_some());
}
