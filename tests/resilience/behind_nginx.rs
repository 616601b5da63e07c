//! A rolling restart behind a real nginx, as an operator does it: clients and backends know the proxy alone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;

use crate::chaos;
use crate::cluster::{Cluster, position, until};
use crate::nginx::Nginx;
use crate::reader::Reader;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server};

const NODES: usize = 3;
const READERS: usize = 300;
const AUTHORS: usize = 3;

/// The nodes leave as the files of `ops/` let them: not ready first, then without their sockets.
const KEYS: [(&str, &str); 4] = [
    ("server.drain_delay", "300ms"),
    ("server.drain", "500ms"),
    ("timeline.length", "10000"),
    ("server.trusted_proxies", "127.0.0.1"),
];

fn reader(n: usize) -> String {
    format!("reader-{n}")
}

fn author(n: usize) -> String {
    format!("author-{n}")
}

/// A request of a backend to the proxy. Returns the id of the answer.
async fn request(nginx: &Nginx, user: &str, method: &str, path: &str, body: &str) -> Result<u64, String> {
    let headers = [("x-api-key", API_KEY), ("x-user", user)];
    // nginx answers with pages of its own, which no contract describes.
    let answer = Server::request_at(nginx.port(), method, &format!("/api/v1{path}"), &headers, body.to_owned()).await;
    match answer {
        Some(answer) if answer.status.is_success() => Ok(answer.body["id"].as_u64().unwrap_or_default()),
        Some(answer) => Err(format!("{method} {path}: {} {}", answer.status, answer.body)),
        None => Err(format!("{method} {path}: no answer")),
    }
}

/// Writes posts and reads pages until the end. Returns the ids, and every request that failed.
async fn use_until(over: &AtomicBool, nginx: &Nginx, n: usize) -> (Vec<u64>, Vec<String>) {
    let (mut ids, mut failed) = (Vec::new(), Vec::new());
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        count += 1;
        let text = json!({ "text": format!("{n}-{count}") }).to_string();
        match request(nginx, &author(n), "POST", "/posts", &text).await {
            Ok(id) => ids.push(id),
            Err(error) => failed.push(error),
        }
        if let Err(error) = request(nginx, &reader(count % READERS), "GET", "/timeline", "").await {
            failed.push(error);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (ids, failed)
}

#[tokio::test]
async fn a_rolling_restart_loses_doubles_and_fails_nothing() {
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), NODES, &KEYS).await;
    let edges: Vec<_> = (0..READERS).flat_map(|n| (0..AUTHORS).map(move |m| (reader(n), author(m)))).collect();
    cluster.load(&edges).await;
    position(&cluster.nodes[0], &reader(0)).await;
    let ports: Vec<u16> = cluster.nodes.iter().map(Server::port).collect();
    let nginx = Nginx::start(&ports).await;
    let readers: Vec<Reader> = (0..READERS).map(|n| Reader::new(&reader(n))).collect();
    for reader in &readers {
        reader.go(Some(nginx.port()));
    }
    let none = BTreeSet::new();
    for connected in join_all(readers.iter().map(|reader| reader.sees(&none, PATIENCE))).await {
        connected.expect("a connected reader");
    }

    let over = AtomicBool::new(false);
    let restarts = async {
        for round in 0..chaos::rounds(NODES, 4 * NODES) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let node = &mut cluster.nodes[round % NODES];
            assert!(node.stop().await.success(), "{}", node.log());
            node.start_again().await;
            // Sockets and requests use it again.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let begun = Instant::now();
    let (used, ()) = tokio::join!(join_all((0..AUTHORS).map(|n| use_until(&over, &nginx, n))), restarts);
    let failed: Vec<&String> = used.iter().flat_map(|(_, failed)| failed).collect();
    let posts: BTreeSet<u64> = used.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
    eprintln!("{} posts in {:?}, {} requests failed", posts.len(), begun.elapsed(), failed.len());
    assert!(failed.is_empty(), "{failed:?}\n{}", nginx.errors());
    assert!(posts.len() > 5 * NODES, "{} posts", posts.len());
    cluster.carried(PATIENCE).await;
    for seen in join_all(readers.iter().map(|reader| reader.sees(&posts, PATIENCE))).await {
        seen.expect("every post");
    }
    let mut moved = 0;
    for reader in &readers {
        reader.look(|view| {
            assert!(view.wrong.is_empty() && view.unrecovered.is_empty(), "{:?} {:?}", view.wrong, view.unrecovered);
            assert_eq!(view.anew, 1, "{}: only the first connection reads pages", reader.user);
            assert_eq!(view.received.len(), posts.len(), "{}: each post arrives once, live or recovered", reader.user);
            moved += view.closes.len();
        });
    }
    assert!(moved >= READERS, "{moved} sockets moved: every node has left once");
    until("the nodes own their shares again", async || cluster.shares().await.len() == NODES).await;
}

#[tokio::test]
async fn an_outage_of_a_store_takes_no_node_out_of_the_proxy() {
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &KEYS).await;
    let nginx = Nginx::start(&cluster.nodes.iter().map(Server::port).collect::<Vec<u16>>()).await;
    let post = request(&nginx, "ann", "POST", "/posts", r#"{"text":"before"}"#).await.expect("a post");
    request(&nginx, "ann", "GET", "/timeline", "").await.expect("a timeline");
    cluster.redis.kill();
    for round in 0..20 {
        let timeline = request(&nginx, "ann", "GET", "/timeline", "").await.expect_err("it needs Redis");
        assert!(timeline.contains("503"), "{round}: {timeline}");
        let written = request(&nginx, "ann", "POST", "/posts", r#"{"text":"meanwhile"}"#).await;
        let read = request(&nginx, "ann", "GET", &format!("/posts/{post}"), "").await;
        assert!(written.is_ok() && read.is_ok(), "{round}: {written:?} {read:?}\n{}", nginx.errors());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.redis.start_again();
    until("timelines are read again", async || request(&nginx, "ann", "GET", "/timeline", "").await.is_ok()).await;
}
