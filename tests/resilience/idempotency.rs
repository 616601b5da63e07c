//! Writes with an idempotency key execute once, even if the server dies at any moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::cluster::{done, until};
use crate::random::SeededRandom;
use crate::server::{PATIENCE, Server, token};

/// Creates a post with an idempotency key, with retries until it succeeds. Returns the response.
async fn post(port: u16, key: &str) -> Value {
    let begun = Instant::now();
    loop {
        let bearer = format!("Bearer {}", token("ann"));
        let headers = [("authorization", &*bearer), ("idempotency-key", key)];
        let body = json!({ "text": key }).to_string();
        match Server::http_at(port, "POST", "/api/v1/posts", &headers, body).await {
            Some(answer) if answer.status == 201 => return answer.body,
            // The server is not ready, or another attempt is in progress.
            Some(answer) if answer.status.is_server_error() || answer.status == 409 => {}
            Some(answer) => panic!("{key}: {answer:?}"),
            // The server is down, or the connection broke.
            None => {}
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{key} is never answered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The number of keys with a stored response, and of keys with a post but without a response.
fn look(db: &Connection) -> (u32, u32) {
    let sql = "SELECT (SELECT count(*) FROM idempotency WHERE answer IS NOT NULL), \
               (SELECT count(*) FROM idempotency JOIN posts ON posts.id = reserved WHERE answer IS NULL)";
    db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("counts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_execute_once_when_the_server_dies_before_answering() {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    let url = format!("sqlite://{}", path.display());
    let mut server = Server::start_with(&[("ledger.url", &url), ("fanout.lease", "1s")]).await;
    done(&server, "bo", "GET", "/users/bo").await;
    done(&server, "ann", "GET", "/users/ann").await;
    done(&server, "bo", "PUT", "/users/ann/follow").await;
    let db = Connection::open(&path).expect("the ledger");
    db.busy_timeout(PATIENCE).expect("a time");

    let (port, over) = (server.port(), AtomicBool::new(false));
    let client = async {
        let mut received = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let key = format!("k{}", received.len());
            received.push((key.clone(), post(port, &key).await));
        }
        received
    };
    let chaos = async {
        let mut between = 0;
        for _ in 0..SeededRandom::rounds(10) {
            // A few posts must succeed first, so that the kill interrupts a write.
            let (before, _) = look(&db);
            until("the client goes on", async || look(&db).0 > before + 2).await;
            tokio::time::sleep(Duration::from_micros(random.below(20_000) as u64)).await;
            server.kill();
            between += look(&db).1;
            server.start_again().await;
        }
        over.store(true, Ordering::Relaxed);
        between
    };
    let (received, between) = tokio::join!(client, chaos);
    eprintln!(
        "seed {seed}: {} posts, {between} of them stored by a server that died before it said so",
        received.len()
    );

    // Each key has one post, and the response contained that post.
    let mut stored = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = done(&server, "bo", "GET", &format!("/users/ann/posts?limit=100&cursor={cursor}")).await;
        stored.extend(page["items"].as_array().expect("items").iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    let by_key = |post: &Value| post["text"].as_str().and_then(|key| key[1..].parse::<usize>().ok());
    stored.sort_by_key(by_key);
    let expected: Vec<Value> = received.iter().map(|(_, post)| post.clone()).collect();
    assert_eq!(stored, expected, "seed {seed}");
    for (key, post) in &received {
        assert_eq!(self::post(server.port(), key).await, *post, "seed {seed}: {key} still means its post");
    }
    // Each post reaches its readers, regardless of the attempt that stored it.
    until("all of them are in the follower's timeline", async || {
        let page = done(&server, "bo", "GET", "/timeline?limit=100").await;
        let newest: Vec<&Value> = received.iter().rev().take(100).map(|(_, post)| &post["id"]).collect();
        page["items"].as_array().is_some_and(|items| items.iter().map(|item| &item["id"]).eq(newest))
    })
    .await;
}
