//! Requests to `/emulation`: what they need, and what they must not reveal or reach.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Wire};
use crate::server::{Answer, Server, token};
use crate::stream_socket::StreamKind;

async fn emulate(server: &Server, body: &Value) -> Answer {
    server.http("POST", "/emulation", &[("content-type", "application/json")], &body.to_string()).await
}

/// Opens a stream. Returns it with its session, node and client id.
async fn opened(server: &Server, kind: StreamKind) -> (Client, String, String, String) {
    let mut client = Client::stream(server, kind);
    let connected = client.done(json!({ "connect": { "token": token("ann") } })).await;
    let text = |name: &str| connected["connect"][name].as_str().expect("a name").to_owned();
    let names = (text("session"), text("node"), text("client"));
    (client, names.0, names.1, names.2)
}

const SUBSCRIBE: &str = r#"{"id":77,"subscribe":{"channel":"topic:x"}}"#;

#[tokio::test]
async fn requests_have_the_statuses_of_the_protocol() {
    let server = Server::start_with(&[("client.message_bytes", "2048")]).await;
    let (mut client, session, node, _) = opened(&server, StreamKind::Json).await;
    let other_node = "00000000-0000-4000-8000-000000000000";
    let large = "x".repeat(2_049);
    for (body, status) in [
        (json!({ "session": session, "node": node, "data": SUBSCRIBE }), 204),
        (json!({ "session": "gone", "node": node, "data": SUBSCRIBE }), 204),
        (json!({ "session": session, "node": other_node, "data": SUBSCRIBE }), 404),
        (json!({ "session": session, "node": "a:b*", "data": SUBSCRIBE }), 400),
        (json!({ "session": session, "node": "a".repeat(37), "data": SUBSCRIBE }), 400),
        (json!({ "session": "", "node": node, "data": SUBSCRIBE }), 400),
        (json!({ "session": session, "node": node, "data": "" }), 400),
        (json!({ "session": session, "node": node, "data": {} }), 400),
        (json!({ "session": session, "node": node }), 400),
        (json!({}), 400),
        (json!([]), 400),
        (json!({ "session": session, "node": node, "data": large }), 413),
        (json!({ "session": session, "node": node, "data": large.repeat(4) }), 413),
    ] {
        assert_eq!(emulate(&server, &body).await.status.as_u16(), status, "{body}");
    }
    assert!(client.reply(77).await.get("subscribe").is_some(), "exactly one of them arrived");
    assert!(client.push_within(Duration::from_millis(300)).await.is_none());
    for (name, requests) in [("delivered", 1.0), ("gone", 1.0), ("unknown", 1.0)] {
        server.metric_is(&format!("feedline_emulation_requests_total{{outcome=\"{name}\"}}"), requests).await;
    }
}

#[tokio::test]
async fn nobody_reaches_a_session_without_its_secret() {
    let server = Server::start().await;
    let (mut client, session, node, id) = opened(&server, StreamKind::Json).await;
    let mut guesses = vec![id.clone(), node.clone(), session.to_uppercase(), session.replace('-', "")];
    guesses.extend((0..16).map(|digit| format!("{digit:x}{}", &session[1..])).filter(|guess| *guess != session));
    for guess in guesses {
        let body = json!({ "session": guess, "node": node, "data": SUBSCRIBE });
        let answer = emulate(&server, &body).await;
        // A session that exists, and one that does not, have the same answer.
        assert_eq!((answer.status.as_u16(), &answer.body), (204, &json!("")), "{guess}");
    }
    assert!(client.push_within(Duration::from_millis(300)).await.is_none());
    // Others see the id of the client, and never the session.
    let mut other = Client::connect(&server, "bo").await;
    other.subscribe("topic:x").await;
    for method in ["info", "channels"] {
        let answer = server.backend(method, &json!({})).await.to_string();
        assert!(!answer.contains(&session), "{method}: {answer}");
    }
    assert!(!server.log().contains(&session), "the log has the session");
}

#[tokio::test]
async fn sessions_of_two_streams_are_their_own() {
    let server = Server::start().await;
    let (mut first, session, node, _) = opened(&server, StreamKind::Json).await;
    let (mut second, other, _, _) = opened(&server, StreamKind::Events).await;
    assert_ne!(session, other);
    emulate(&server, &json!({ "session": other, "node": node, "data": SUBSCRIBE })).await;
    assert!(second.reply(77).await.get("subscribe").is_some());
    assert!(first.push_within(Duration::from_millis(200)).await.is_none());
    drop(second);
    server.metric_is("feedline_connections", 1.0).await;
    let gone = json!({ "session": other, "node": node, "data": SUBSCRIBE });
    assert_eq!(emulate(&server, &gone).await.status.as_u16(), 204);
    first.subscribe("topic:x").await;
}

#[tokio::test]
async fn malformed_commands_end_the_session_only() {
    let server = Server::start().await;
    for (data, code) in [("nonsense", 3501), ("{}\n\n{}", 3501), ("{}", 3501)] {
        let (mut client, session, node, _) = opened(&server, StreamKind::Json).await;
        let body = json!({ "session": session, "node": node, "data": data });
        assert_eq!(emulate(&server, &body).await.status.as_u16(), 204);
        assert_eq!(client.closed().await.0, code, "{data}");
    }
    // JSON for a stream of Protobuf.
    let (mut client, session, node, _) = opened(&server, StreamKind::Protobuf).await;
    emulate(&server, &json!({ "session": session, "node": node, "data": SUBSCRIBE })).await;
    assert_eq!(client.closed().await.0, 3506);
}

#[tokio::test]
async fn a_flood_of_commands_ends_its_session() {
    let server = Server::start_with(&[("client.message_bytes", "65536")]).await;
    let (mut client, session, node, _) = opened(&server, StreamKind::Json).await;
    let mut other = Client::connect_over(&server, "bo", Wire::Stream(StreamKind::Json)).await;
    // Each command takes time, so that the requests behind it wait.
    let line = json!({ "id": 5, "rpc": { "method": "timeline.read", "data": {} } }).to_string();
    let data = vec![line; 700].join("\n");
    let body = json!({ "session": session, "node": node, "data": data });
    let bodies = (0..40).map(|_| emulate(&server, &body));
    for answer in futures::future::join_all(bodies).await {
        assert_eq!(answer.status.as_u16(), 204);
    }
    assert_eq!(client.closed().await, (3013, "too many requests".into()));
    other.subscribe("topic:x").await;
}

/// Each request for another node is a message between nodes, and nobody is signed in here.
#[tokio::test]
async fn commands_for_other_nodes_are_limited_by_address() {
    let keys = [("rates.publications", "1"), ("server.trusted_proxies", "127.0.0.1")];
    let server = Server::start_with(&keys).await;
    let (mut client, session, node, _) = opened(&server, StreamKind::Json).await;
    let other_node = "00000000-0000-4000-8000-000000000000";
    let send = async |node: &str, data: &str, address: &str| {
        let body = json!({ "session": session, "node": node, "data": data }).to_string();
        let headers = [("content-type", "application/json"), ("x-forwarded-for", address)];
        server.http("POST", "/emulation", &headers, &body).await.status.as_u16()
    };
    // Twice the units of a minute: ten times those of a user, one for each KiB.
    assert_eq!(send(other_node, &"x".repeat(17 * 1024), "203.0.113.1").await, 404);
    for status in [404, 404, 404, 429, 429] {
        assert_eq!(send(other_node, "x", "203.0.113.1").await, status);
    }
    assert_eq!(send(other_node, "x", "203.0.113.200").await, 404, "others have budgets of their own");
    assert_eq!(send(&node, SUBSCRIBE, "203.0.113.1").await, 204, "streams of this node cost nothing");
    assert!(client.reply(77).await.get("subscribe").is_some());
    server.metric_is("feedline_emulation_requests_total{outcome=\"limited\"}", 2.0).await;
}
