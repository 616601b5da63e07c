//! Clocks: ids never go back.

use serde_json::{Value, json};

use crate::redis_server::RedisServer;
use crate::server::{Server, unix, until};

/// The bits of an id below its milliseconds.
const BELOW_MILLIS: u32 = 12;

/// A clock that is set back while the process is stopped looks as one that was an hour ahead before.
#[tokio::test]
async fn ids_do_not_go_back_across_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("ledger.db");
    let mut server = Server::start_with(&[("ledger.url", &format!("sqlite://{}", path.display()))]).await;
    let before = server.post("ann", "before").await;
    for is_killed in [true, false] {
        if is_killed {
            server.kill();
        } else {
            server.stop().await;
        }
        let ahead = server_ahead(&path, before, if is_killed { 1 } else { 2 });
        server.start_again().await;
        let after = server.post("ann", "after").await;
        assert!(after > ahead, "{after} after {ahead}");
        let comment =
            server.done("ann", "POST", &format!("/posts/{after}/comments"), &json!({ "text": "words" })).await["id"]
                .as_u64()
                .expect("an id");
        assert!(comment > after, "{comment} after {after}");
        let listed = server.done("ann", "GET", "/timeline?limit=1", &Value::Null).await;
        assert_eq!(listed["items"][0]["id"], after, "the newest is first");
    }
}

/// Adds a post that was made some hours after another one, and deleted since. Returns its id.
fn server_ahead(path: &std::path::Path, before: u64, hours: u64) -> u64 {
    let ahead = before + ((hours * 3_600_000) << BELOW_MILLIS);
    let db = rusqlite::Connection::open(path).expect("the ledger");
    let sql = "INSERT INTO posts (id, author, deleted_at) VALUES (?1, 'ann', 1)";
    db.execute(sql, [i64::try_from(ahead).expect("53 bits")]).expect("a post");
    ahead
}

/// Another node has made ids by a clock that was a minute ahead.
#[tokio::test]
async fn ids_continue_above_those_of_other_nodes() {
    let redis = RedisServer::start();
    let ahead = unix() * 1_000 + 60_000;
    assert_eq!(redis.ask(&format!("HSET feedline:nodes all {ahead}")), ":1");
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    let post = server.post("ann", "a post").await;
    let shown = server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await;
    assert!(shown["created_at"].as_u64() > Some(ahead), "{shown}, {ahead}");
    // Its reader can mark it, although it is ahead of every clock.
    server.follow("bo", "ann").await;
    let listed = async || server.done("bo", "GET", "/timeline", &Value::Null).await["items"][0]["id"] == post;
    until("the post is in the timeline", listed).await;
    let marked = server.done("bo", "PUT", "/timeline/read", &json!({ "id": post })).await;
    assert_eq!(marked, json!({ "id": post, "unread": 0 }));
    let beyond = server.done("bo", "PUT", "/timeline/read", &json!({ "id": 9_007_199_254_740_991_u64 })).await;
    assert_eq!(beyond, marked, "cut to the newest known post");
}

#[tokio::test]
async fn the_skew_of_the_clock_is_a_metric() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    assert_eq!(server.metric("feedline_clock_skew_seconds").await, Some(0.0), "Redis runs on the same machine");
}
