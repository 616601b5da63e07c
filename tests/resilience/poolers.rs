//! A node behind PgBouncer: nothing of its calls stays on connections that other applications share. And a node that
//! reaches its stores by their sockets.

use futures::future::join_all;
use serde_json::json;

use crate::api::{attempt, done, timeline};
use crate::pooler::Pooler;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// Does some of everything at once: eight users follow Ann, post, like, comment and read.
async fn use_all(node: &Server) {
    let users: Vec<String> = (0..8).map(|n| format!("user{n}")).collect();
    done(node, "ann", "GET", "/users/ann").await;
    let id = node.post("ann", "for all #rust").await;
    let all = users.iter().map(|user| async move {
        let ask = async |method: &str, path: &str, body: serde_json::Value| {
            let (status, answer) = attempt(node, user, method, path, &body).await;
            assert!((200..300).contains(&status), "{user} {method} {path}: {status} {answer}");
        };
        ask("PUT", "/users/ann/follow", json!({})).await;
        ask("POST", "/posts", json!({ "text": format!("from {user} #rust") })).await;
        ask("PUT", &format!("/posts/{id}/like"), json!({})).await;
        ask("POST", &format!("/posts/{id}/comments"), json!({ "text": "yes" })).await;
        for path in ["/timeline", "/notifications", "/topics/rust/posts", "/users/ann/followers", "/accounts/export"] {
            ask("GET", path, json!(null)).await;
        }
        ask("DELETE", &format!("/posts/{id}/like"), json!({})).await;
    });
    join_all(all).await;
    let last = node.post("ann", "the last one").await;
    crate::server::until("the fan-out ends", async || timeline(node, "user7").await.first() == Some(&last)).await;
}

/// What applications share: the settings that differ from the server's, and the prepared statements.
const SHARED: &str =
    "SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'transaction_%'
                   AND name <> 'application_name'
               UNION ALL SELECT 'prepared ' || name FROM pg_prepared_statements";

#[tokio::test]
async fn behind_a_pooler_in_transaction_mode_all_calls_work_and_leave_nothing() {
    for prepared in ["true", "false"] {
        let postgres = PostgresServer::start();
        let pooler = Pooler::start(&postgres, "transaction").await;
        let url = pooler.url("postgres");
        let mut node = Server::start_with(&[("ledger.url", &url), ("ledger.prepared_statements", prepared)]).await;
        use_all(&node).await;
        assert_eq!(node.log().contains("ledger.prepared_statements = false"), prepared == "true", "{}", node.log());
        // A killed one could leave the statement that it is at.
        assert!(node.stop().await.success(), "{}", node.log());
        assert_eq!(pooler.ask_each(SHARED, "postgres").await, [""; 0]);
    }
}

#[tokio::test]
async fn behind_a_pooler_in_session_mode_statements_are_prepared() {
    let postgres = PostgresServer::start();
    let pooler = Pooler::start(&postgres, "session").await;
    let node = Server::start_with(&[("ledger.url", &pooler.url("postgres"))]).await;
    use_all(&node).await;
    assert!(!node.log().contains("prepared_statements"), "{}", node.log());
    drop(node);
    assert_eq!(pooler.ask_each(SHARED, "postgres").await, [""; 0]);
}

#[tokio::test]
async fn the_documented_rights_in_redis_are_enough() {
    let redis = RedisServer::start();
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).expect("it");
    let rights = document.split("user feedline on >secret").nth(1).expect("the rights");
    let rights: Vec<&str> = rights.split("```").next().unwrap_or_default().split_whitespace().collect();
    redis.ask(&format!("ACL SETUSER exact on >secret {}", rights.join(" ")));
    let url = format!("redis://exact:secret@127.0.0.1:{}", redis.port());
    let node = Server::start_with(&[("broker.url", &url), ("outlet.stream", "true")]).await;
    use_all(&node).await;
    let refused = redis.ask_all("INFO errorstats");
    assert!(!refused.contains("errorstat_NOPERM"), "{refused}\n{}", redis.ask_all("ACL LOG"));
}

#[tokio::test]
async fn both_stores_are_reached_by_sockets() {
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start());
    let url = format!("{}&application_name=of%20a%20test", postgres.socket_url("postgres"));
    let node = Server::start_with(&[("ledger.url", &url), ("broker.url", &redis.socket_url())]).await;
    use_all(&node).await;
    let client = postgres.client("postgres").await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'of a test' AND client_addr IS NULL";
    assert!(client.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) > 0);
}
