//! The state of the deployment, over HTTP and by the command.

use serde_json::Value;

use crate::server::{API_KEY, Server, until};

#[tokio::test]
async fn operators_read_the_state_of_the_deployment() {
    let server = Server::start().await;
    server.post("ann", "hello").await;
    let read = async || {
        let answer = server.http("GET", "/api/status", &[("x-api-key", API_KEY)], "").await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        answer.body
    };
    // A node renews its row each second.
    until("the node has its number", async || read().await["nodes"][0]["number"].is_u64()).await;
    let status = read().await;
    assert_eq!(status["stores"], serde_json::json!({ "memory": "ok", "sqlite": "ok" }));
    let nodes = status["nodes"].as_array().expect("nodes");
    assert_eq!((nodes.len(), nodes[0]["version"].as_str()), (1, Some(env!("CARGO_PKG_VERSION"))));
    assert!(nodes[0]["number"].is_u64() && nodes[0]["started_at"].is_u64(), "{status}");
    assert!(status["work"]["fanout"]["waiting"].is_u64() && status["quarantine"] == 0, "{status}");

    let by_command = server.command(&["status", "--json"]);
    let by_command: Value = serde_json::from_slice(&by_command.stdout).expect("JSON");
    assert_eq!(by_command["nodes"], status["nodes"]);
    let text = String::from_utf8(server.command(&["status"]).stdout).expect("text");
    assert!(text.contains("1 alive") && text.contains("quarantine  0"), "{text}");

    for key in ["", "wrong"] {
        let refused = server.http("GET", "/api/status", &[("x-api-key", key)], "").await;
        assert_eq!(refused.status.as_u16(), 401, "{refused:?}");
    }
}
