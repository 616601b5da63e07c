//! Two nodes on one Redis and one PostgreSQL. Outages of the ledger: operations that still work, the errors of those
//! that fail, and the recovery.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{attempt, done, post, until};
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The ledger's timeout in these tests.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Two nodes and their stores.
struct Nodes {
    a: Server,
    b: Server,
    postgres: PostgresServer,
    redis: RedisServer,
}

impl Nodes {
    async fn start() -> Self {
        let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
        let (broker, ledger) = (redis.url(), postgres.url("postgres"));
        let keys = [
            ("broker.url", broker.as_str()),
            ("ledger.url", &ledger),
            ("ledger.timeout", "2s"),
            ("ledger.connections", "4"),
            ("fanout.lease", "1s"),
        ];
        // Both nodes find an empty database.
        let (a, b) = tokio::join!(Server::start_with(&keys), Server::start_with(&keys));
        Self { a, b, postgres, redis }
    }

    /// Waits until the ledger has no fan-out jobs.
    async fn carried(&self) {
        let client = self.postgres.client("postgres").await;
        until("everything is carried", async || {
            client.query_one("SELECT count(*) FROM jobs", &[]).await.expect("a count").get::<_, i64>(0) == 0
        })
        .await;
    }
}

/// Checks that requests that need the ledger fail quickly with a temporary error at both nodes.
async fn assert_field_error(nodes: &Nodes, socket: &mut Client) {
    for node in [&nodes.a, &nodes.b] {
        let asked = Instant::now();
        for n in 0..5 {
            let text = json!({ "text": format!("lost {n}") });
            let (status, body) = attempt(node, "ann", "POST", "/posts", &text).await;
            assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{body}");
        }
        // One of the requests may have waited for the timeout.
        assert!(asked.elapsed() < 3 * TIMEOUT, "took {:?}", asked.elapsed());
        assert_eq!(node.http("GET", "/health/stores", &[], "").await.status, 503);
        assert_eq!(node.http("GET", "/ready", &[], "").await.status, 200);
        assert_eq!(node.http("GET", "/health", &[], "").await.status, 200);
    }
    let asked = Instant::now();
    let reply = socket.call(json!({ "rpc": { "method": "posts.create", "data": { "text": "lost" } } })).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(503), &json!(true)), "{reply}");
    assert!(asked.elapsed() < TIMEOUT, "took {:?}", asked.elapsed());
    // Operations that need only the broker work.
    socket.subscribe("topic:anything").await;
    socket.done(json!({ "unsubscribe": { "channel": "topic:anything" } })).await;
}

/// Checks that both nodes serve again, on the sockets that stayed open.
async fn assert_all_correct(nodes: &Nodes, ann: &mut Client, bo: &mut Client) {
    nodes.a.ready().await;
    nodes.b.ready().await;
    let id = post(&nodes.a, "ann", "after").await;
    for (socket, channel) in [(ann, "timeline:ann"), (bo, "timeline:bo")] {
        assert_eq!(socket.publication(channel).await["data"]["post"]["id"], id);
    }
    nodes.carried().await;
}

#[tokio::test]
async fn writes_at_one_node_are_seen_at_the_other() {
    let nodes = Nodes::start().await;
    let Nodes { a, b, .. } = &nodes;
    assert!(!a.log().contains("feedline@"), "the log names the user of the database:\n{}", a.log());
    done(a, "ann", "GET", "/users/ann").await;
    let mut bo = Client::connect(b, "bo").await;
    let first = post(a, "ann", "first").await;
    done(b, "bo", "PUT", "/users/ann/follow").await;
    assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], first);
    let second = post(a, "ann", "second #rust").await;
    assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], second);
    let page = bo.rpc("timeline.read", &json!({})).await;
    assert_eq!((&page["items"][0]["id"], &page["items"][1]["id"]), (&json!(second), &json!(first)), "{page}");
    let topic = done(b, "bo", "GET", "/topics/rust/posts").await;
    assert_eq!(topic["items"][0]["id"], second, "{topic}");

    done(a, "ann", "DELETE", &format!("/posts/{second}")).await;
    let gone = bo.publication("timeline:bo").await["data"].clone();
    assert_eq!(gone, json!({ "type": "gone", "id": second, "reason": "deleted" }));
    assert_eq!(attempt(b, "bo", "GET", &format!("/posts/{second}"), &Value::Null).await.0, 404);
    done(b, "bo", "DELETE", "/users/ann/follow").await;
    let gone = bo.publication("timeline:bo").await["data"].clone();
    assert_eq!(gone, json!({ "type": "gone", "id": first, "reason": "unfollowed" }));
    nodes.carried().await;
}

#[tokio::test]
async fn unresponsive_ledgers_are_reported_and_recovered() {
    let nodes = Nodes::start().await;
    done(&nodes.a, "ann", "GET", "/users/ann").await;
    done(&nodes.b, "bo", "PUT", "/users/ann/follow").await;
    let mut ann = Client::connect(&nodes.a, "ann").await;
    let mut bo = Client::connect(&nodes.b, "bo").await;
    nodes.postgres.pause();
    // The first request at each node waits for the ledger's timeout.
    for node in [&nodes.a, &nodes.b] {
        assert_eq!(attempt(node, "ann", "POST", "/posts", &json!({ "text": "lost" })).await.0, 503);
    }
    assert_field_error(&nodes, &mut ann).await;
    nodes.postgres.resume();
    nodes.a.ready().await;
    nodes.b.ready().await;
    // A request that returned an error may have taken effect.
    nodes.carried().await;
    ann.pushed().await;
    bo.pushed().await;
    assert_all_correct(&nodes, &mut ann, &mut bo).await;
}

#[tokio::test]
async fn lost_ledgers_are_reported_and_recovered() {
    let mut nodes = Nodes::start().await;
    done(&nodes.a, "ann", "GET", "/users/ann").await;
    done(&nodes.b, "bo", "PUT", "/users/ann/follow").await;
    let mut ann = Client::connect(&nodes.a, "ann").await;
    let mut bo = Client::connect(&nodes.b, "bo").await;
    let before = post(&nodes.a, "ann", "before").await;
    for (socket, channel) in [(&mut ann, "timeline:ann"), (&mut bo, "timeline:bo")] {
        assert_eq!(socket.publication(channel).await["data"]["post"]["id"], before);
    }
    nodes.postgres.kill();
    assert_field_error(&nodes, &mut ann).await;
    nodes.postgres.start_again();
    assert_all_correct(&nodes, &mut ann, &mut bo).await;
    let page = bo.rpc("timeline.read", &json!({})).await;
    assert_eq!(page["items"][1]["id"], before, "what was acknowledged is there: {page}");
    let mine = done(&nodes.b, "bo", "GET", "/users/ann/posts").await;
    assert_eq!(mine["items"].as_array().map(Vec::len), Some(2), "nothing refused was stored: {mine}");
}

/// Without Redis, a node cannot verify that the database is not an older state with deleted posts, so requests fail.
#[tokio::test]
async fn ledger_restarts_without_redis_are_rejected_at_once() {
    let mut nodes = Nodes::start().await;
    let id = post(&nodes.a, "ann", "a post").await;
    let read = async |nodes: &Nodes| attempt(&nodes.a, "bo", "GET", &format!("/posts/{id}"), &Value::Null).await.0;
    assert_eq!(read(&nodes).await, 200);
    nodes.redis.kill();
    nodes.postgres.kill();
    nodes.postgres.start_again();
    let client = nodes.postgres.client("postgres").await;
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'feedline'";
    until("the nodes are connected", async || {
        client.query_one(connected, &[]).await.expect("a count").get::<_, i64>(0) >= 8
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let asked = Instant::now();
    for _ in 0..5 {
        let path = "/users/ann/followers";
        let (status, body) = attempt(&nodes.a, "bo", "GET", path, &Value::Null).await;
        assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{body}");
        assert_eq!(attempt(&nodes.a, "bo", "PUT", "/users/ann/follow", &Value::Null).await.0, 503);
    }
    assert!(asked.elapsed() < TIMEOUT, "took {:?}", asked.elapsed());
    nodes.redis.start_again();
    nodes.a.ready().await;
    assert_eq!(read(&nodes).await, 200);
}
