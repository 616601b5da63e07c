//! The state of the deployment, over HTTP and by the command.

use feedline::ledger::FANOUT_PARTITIONS;
use serde_json::Value;

use crate::server::{API_KEY, Server, unix, until};

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
    // It takes its share of the work after its start.
    until("the node owns all partitions", async || {
        read().await["nodes"][0]["partitions"].as_u64() >= Some(u64::from(FANOUT_PARTITIONS))
    })
    .await;
    let done = server.backend("delete_user", &serde_json::json!({ "user": "bo" })).await;
    assert!(done.is_object(), "{done}");
    let status = read().await;
    assert_eq!(status["stores"], serde_json::json!({ "memory": "ok", "sqlite": "ok" }));
    let nodes = status["nodes"].as_array().expect("nodes");
    assert_eq!((nodes.len(), nodes[0]["version"].as_str()), (1, Some(env!("CARGO_PKG_VERSION"))));
    assert!(nodes[0]["number"].is_u64() && nodes[0]["started_at"].is_u64(), "{status}");
    assert!(status["work"]["fanout"]["waiting"].is_u64() && status["quarantine"] == 0, "{status}");
    assert_eq!(status["work"]["erasures"]["waiting"], 1, "{status}");
    assert_eq!(status["failover"], "none");
    let lease = status["nodes"][0]["lease_until"].as_u64().expect("the end of the lease") / 1_000;
    assert!((unix() - 1..unix() + 10).contains(&lease), "{status}");

    let by_command = server.command(&["status", "--json"]);
    let by_command: Value = serde_json::from_slice(&by_command.stdout).expect("JSON");
    for member in ["id", "number", "started_at", "partitions"] {
        assert_eq!(by_command["nodes"][0][member], status["nodes"][0][member], "{member}");
    }
    let text = String::from_utf8(server.command(&["status"]).stdout).expect("text");
    for part in ["1 alive", "quarantine  0", "failover    none", " lease ", " partitions of work", "  erasures  "] {
        assert!(text.contains(part), "{part}: {text}");
    }

    for key in ["", "wrong"] {
        let refused = server.http("GET", "/api/status", &[("x-api-key", key)], "").await;
        assert_eq!(refused.status.as_u16(), 401, "{refused:?}");
    }
}
