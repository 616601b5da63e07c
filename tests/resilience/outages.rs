//! Outages of Redis: operations that still work, the errors of those that fail, and the recovery.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{Cluster, TIMEOUT, attempt, done, post, until};
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, token};

/// The longest time until an error reply during an outage.
const MAX_REPLY_TIME: Duration = TIMEOUT.saturating_mul(3);

/// Checks that operations that need Redis fail with a temporary error, and that the node reports it is not ready.
async fn assert_field_error(node: &Server, socket: &mut Client) {
    for (method, path) in [("GET", "/timeline"), ("GET", "/timeline/updates?offset=0&epoch=x")] {
        let asked = Instant::now();
        let (status, body) = attempt(node, "ann", method, path, &Value::Null).await;
        assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{path}: {body}");
        assert!(asked.elapsed() < MAX_REPLY_TIME, "{path} took {:?}", asked.elapsed());
    }
    assert_eq!(node.http("GET", "/health/stores", &[], "").await.status, 503);
    assert_eq!(node.http("GET", "/ready", &[], "").await.status, 200);
    assert_eq!(node.http("GET", "/health", &[], "").await.status, 200);
    let asked = Instant::now();
    let reply = socket.call(json!({ "rpc": { "method": "timeline.read", "data": {} } })).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(503), &json!(true)), "{reply}");
    for command in
        [json!({ "subscribe": { "channel": "topic:x" } }), json!({ "history": { "channel": "user:ann", "limit": 5 } })]
    {
        let reply = socket.call(command.clone()).await;
        let error = &reply["error"];
        assert_eq!((&error["code"], &error["temporary"]), (&json!(100), &json!(true)), "{command}: {reply}");
    }
    assert!(asked.elapsed() < 3 * MAX_REPLY_TIME, "took {:?}", asked.elapsed());
    // New connections are asked to reconnect.
    let mut other = Client::open(node).await;
    let reply = other.call(json!({ "connect": { "token": token("bo") } })).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(100), &json!(true)), "{reply}");
}

#[tokio::test]
async fn unresponsive_redis_is_reported_and_recovered() {
    let cluster = Cluster::start_with(1, &[]).await;
    let node = &cluster.nodes[0];
    let mut ann = Client::connect(node, "ann").await;
    ann.subscribe("user:ann").await;
    cluster.redis.pause();
    // Writes to the ledger succeed, and their delivery follows when Redis is back.
    let asked = Instant::now();
    let id = post(node, "ann", "written meanwhile").await;
    assert!(asked.elapsed() < MAX_REPLY_TIME, "took {:?}", asked.elapsed());
    // The first request on each of the broker's connections waits for the timeout.
    for _ in 0..2 {
        assert_eq!(attempt(node, "ann", "GET", "/timeline", &Value::Null).await.0, 503);
    }
    assert_field_error(node, &mut ann).await;
    cluster.redis.resume();
    node.ready().await;
    // The posts arrive on the same socket, which stayed open.
    assert_eq!(ann.publication("timeline:ann").await["data"]["post"]["id"], id);
    assert_eq!(ann.publication("user:ann").await["data"]["post"]["id"], id);
    assert_eq!(ann.rpc("timeline.read", &json!({})).await["items"][0]["id"], id);
    cluster.carried(PATIENCE).await;
}

#[tokio::test]
async fn full_redis_is_unavailable_and_recovered() {
    let cluster = Cluster::start_with(1, &[]).await;
    let node = &cluster.nodes[0];
    let post_id = post(node, "ann", "written before").await;
    assert_eq!(cluster.redis.ask("CONFIG SET maxmemory 1"), "+OK");
    // New timelines, likes and channels need memory in Redis.
    for (user, method, path) in [("bo", "GET", "/timeline".to_owned()), ("bo", "PUT", format!("/posts/{post_id}/like"))]
    {
        let (status, body) = attempt(node, user, method, &path, &Value::Null).await;
        assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{path}: {body}");
    }
    assert_eq!(node.http("GET", "/health/stores", &[], "").await.status, 503);
    assert_eq!(node.http("GET", "/ready", &[], "").await.status, 200);
    assert_eq!(cluster.redis.ask("CONFIG SET maxmemory 0"), "+OK");
    node.ready().await;
    done(node, "bo", "PUT", "/users/ann/follow").await;
    done(node, "bo", "PUT", &format!("/posts/{post_id}/like")).await;
    let (status, page) = attempt(node, "bo", "GET", "/timeline", &Value::Null).await;
    assert_eq!((status, &page["items"][0]["id"]), (200, &json!(post_id)), "{page}");
}

#[tokio::test]
async fn lost_redis_is_reported_and_recovered() {
    let redis = RedisServer::start_appending();
    let url = redis.url();
    let mut cluster = Cluster::start_on(redis, &url, 1, &[]).await;
    let before = post(&cluster.nodes[0], "ann", "before").await;
    for keeps in [true, false] {
        let node = &cluster.nodes[0];
        let mut ann = Client::connect(node, "ann").await;
        ann.subscribe("user:ann").await;
        cluster.redis.kill();
        let id = post(node, "ann", "written meanwhile").await;
        assert_field_error(node, &mut ann).await;
        if !keeps {
            cluster.redis.forget();
        }
        cluster.redis.start_again();
        // The logs start a new epoch, so clients must reconnect. Their next read is complete.
        assert_eq!(ann.closed().await.0, 3010);
        let node = &cluster.nodes[0];
        node.ready().await;
        let mut ann = Client::connect(node, "ann").await;
        cluster.carried(PATIENCE).await;
        let page = ann.rpc("timeline.read", &json!({})).await;
        let items = page["items"].as_array().expect("items");
        assert_eq!((&items[0]["id"], &items[items.len() - 1]["id"]), (&json!(id), &json!(before)), "{page}");
        let live = post(node, "ann", "after").await;
        let received: Vec<_> = ann.pushed().await;
        let last = if received.is_empty() {
            ann.publication("timeline:ann").await
        } else {
            received[received.len() - 1]["pub"].clone()
        };
        assert!(last["data"]["post"]["id"] == live || last["data"]["post"]["id"] == id, "{last}");
    }
}

#[tokio::test]
async fn startup_without_redis_fails_with_the_reason() {
    let mut redis = RedisServer::start();
    let url = redis.url();
    redis.kill();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let started = Instant::now();
    let ended = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .current_dir(folder.path())
        .env_clear()
        .env("FEEDLINE__BROKER__URL", &url)
        .env("FEEDLINE__SERVER__LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .output()
        .expect("the binary that cargo built");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("broker.url") && said.contains(&url), "{said}");
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
}

/// Makes bo follow or unfollow ann at a node without access to Redis.
async fn store_edge(node: &Server, method: &str) {
    let (status, body) = attempt(node, "bo", method, "/users/ann/follow", &Value::Null).await;
    assert!(matches!(status, 200 | 503), "{status} {body}");
}

#[tokio::test]
async fn follows_made_without_redis_apply_when_it_returns() {
    let cluster = Cluster::start_with(1, &[]).await;
    let node = &cluster.nodes[0];
    let id = post(node, "ann", "of ann").await;
    let mut bo = Client::connect(node, "bo").await;
    cluster.redis.pause();
    // The edge is stored in any case. The response is 503 if other nodes may not know of it yet.
    store_edge(node, "PUT").await;
    cluster.redis.resume();
    assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], id);
}

#[tokio::test]
async fn unfollows_without_redis_apply_when_it_returns() {
    let cluster = Cluster::start_with(1, &[]).await;
    let node = &cluster.nodes[0];
    let id = post(node, "ann", "of ann").await;
    done(node, "bo", "PUT", "/users/ann/follow").await;
    let shown = async || {
        let (status, page) = attempt(node, "bo", "GET", "/timeline", &Value::Null).await;
        (status == 200).then(|| page["items"].as_array().expect("items").iter().any(|item| item["id"] == id))
    };
    assert_eq!(shown().await, Some(true));
    cluster.redis.pause();
    store_edge(node, "DELETE").await;
    cluster.redis.resume();
    // The inbox still contains the post at first.
    let begun = Instant::now();
    let first = loop {
        if let Some(shown) = shown().await {
            break shown;
        }
        assert!(begun.elapsed() < PATIENCE, "no page in {PATIENCE:?}");
    };
    assert!(!first);
}

#[tokio::test]
async fn refollows_without_redis_reach_current_readers() {
    let mut cluster = Cluster::start_with(1, &[]).await;
    let proxy = Proxy::start(cluster.redis.port()).await;
    cluster.join(&proxy.url()).await;
    let [node, cut_off] = &cluster.nodes[..] else { panic!("two nodes") };
    let id = post(node, "ann", "of ann").await;
    done(node, "bo", "PUT", "/users/ann/follow").await;
    let mut bo = Client::connect(node, "bo").await;
    proxy.hold(true);
    // The ledger has the change; the inbox and the other node do not.
    store_edge(cut_off, "DELETE").await;
    until("a page is without the post", async || {
        let page = bo.rpc("timeline.read", &json!({})).await;
        page["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    store_edge(cut_off, "PUT").await;
    proxy.hold(false);
    until("it is answered", async || attempt(cut_off, "bo", "PUT", "/users/ann/follow", &Value::Null).await.0 == 200)
        .await;
    while bo.publication("timeline:bo").await["data"]["post"]["id"] != id {}
    assert_eq!(bo.rpc("timeline.read", &json!({})).await["items"][0]["id"], id);
}
