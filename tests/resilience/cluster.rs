//! Several nodes on one ledger and one Redis.

use std::process::Command;
use std::time::{Duration, Instant};

use feedline::ledger::{Durability, Jobs, SqliteLedger, SqliteOptions};
use feedline::model::UserId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server};

/// How long a job of fan-out is held without a sign of life, in these tests.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// How long the broker may take to answer, in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);

/// Nodes that share everything.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    pub(crate) redis: RedisServer,
    /// The nodes' ledger, to fill it and to look into it.
    ledger: SqliteLedger,
    _folder: TempDir,
}

impl Cluster {
    /// Two nodes.
    pub(crate) async fn start() -> Self {
        Self::start_with(2, &[]).await
    }

    /// So many nodes, all configured so.
    pub(crate) async fn start_with(nodes: usize, keys: &[(&str, &str)]) -> Self {
        let redis = RedisServer::start();
        let url = redis.url();
        Self::start_on(redis, &url, nodes, keys).await
    }

    /// Nodes that reach the Redis at another address than its own.
    pub(crate) async fn start_on(redis: RedisServer, url: &str, nodes: usize, keys: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("ledger.db");
        let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(&path) };
        let ledger = SqliteLedger::open(options).await.expect("a ledger");
        let path = format!("sqlite://{}", path.display());
        let mut all = vec![
            ("broker.url", url),
            ("broker.timeout", "500ms"),
            ("broker.probe_interval", "200ms"),
            ("ledger.url", &path),
            ("ledger.durability", "normal"),
            ("fanout.lease", "1s"),
            ("client.recovery_limit", "5000"),
        ];
        all.extend(keys);
        let mut running = Vec::new();
        for _ in 0..nodes {
            running.push(Server::start_with(&all).await);
        }
        Self { nodes: running, redis, ledger, _folder: folder }
    }

    /// Puts people and edges (follower, followee) into the ledger, before anybody has a timeline.
    pub(crate) async fn load(&self, edges: &[(String, String)]) {
        let id = |name: &String| UserId::parse(name).expect("a user's id");
        let mut people: Vec<UserId> = edges.iter().flat_map(|(one, other)| [id(one), id(other)]).collect();
        people.sort_unstable();
        people.dedup();
        let edges: Vec<_> = edges.iter().map(|(follower, followee)| (id(follower), id(followee))).collect();
        self.ledger.bulk_users(&people, 1).await.expect("users");
        self.ledger.bulk_follows(&edges, 1).await.expect("edges");
    }

    /// Waits until no job is left in the ledger; how long that took.
    pub(crate) async fn carried(&self, patience: Duration) -> Duration {
        let begun = Instant::now();
        while self.ledger.backlog().await.expect("the backlog").jobs > 0 {
            assert!(begun.elapsed() < patience, "jobs are left after {patience:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        begun.elapsed()
    }
}

/// Stops a process where it stands.
pub(crate) fn pause(server: &Server) {
    signal(server, "-STOP");
}

/// Lets it go on.
pub(crate) fn resume(server: &Server) {
    signal(server, "-CONT");
}

fn signal(server: &Server, which: &str) {
    let sent = Command::new("kill").arg(which).arg(server.pid().to_string()).status();
    assert!(sent.expect("to run kill").success());
}

/// An operation by HTTP as a backend does it for a user; the status (0: no answer) and the body.
pub(crate) async fn attempt(node: &Server, user: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("x-api-key", API_KEY), ("x-user", user)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = node.try_http(method, &format!("/api/v1{path}"), &headers, body).await;
    answer.map_or((0, Value::Null), |answer| (answer.status.as_u16(), answer.body))
}

/// The same, and it must succeed.
pub(crate) async fn done(node: &Server, user: &str, method: &str, path: &str) -> Value {
    let (status, body) = attempt(node, user, method, path, &Value::Null).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {body}\n{}", node.log());
    body
}

/// Writes a post; its id.
pub(crate) async fn post(node: &Server, author: &str, text: &str) -> u64 {
    let (status, body) = attempt(node, author, "POST", "/posts", &json!({ "text": text })).await;
    assert_eq!(status, 201, "{body}\n{}", node.log());
    body["id"].as_u64().expect("an id")
}

/// Where a timeline stands.
pub(crate) async fn position(node: &Server, user: &str) -> Value {
    done(node, user, "GET", "/timeline?limit=1").await["position"].take()
}

/// What was written to a timeline's log since a position: `(offset, type, post)`. The position must be of its life.
pub(crate) async fn log_since(node: &Server, user: &str, position: &Value) -> Vec<(u64, String, u64)> {
    let log = try_log_since(node, user, position).await;
    log.unwrap_or_else(|| panic!("the log of {user} does not reach back to {position}"))
}

/// The same; `None` if the log does not reach so far back.
pub(crate) async fn try_log_since(node: &Server, user: &str, position: &Value) -> Option<Vec<(u64, String, u64)>> {
    let (offset, epoch) = (&position["offset"], position["epoch"].as_str().expect("an epoch"));
    let path = format!("/timeline/updates?offset={offset}&epoch={epoch}");
    let updates = done(node, user, "GET", &path).await;
    let items = updates["items"].as_array().expect("items");
    (updates["recovered"] == true).then(|| items.iter().map(entry).collect())
}

/// An entry of a log, as sockets and `timeline.updates` tell it: its offset, its type, the post it is about.
pub(crate) fn entry(publication: &Value) -> (u64, String, u64) {
    let data = &publication["data"];
    let post = data["post"]["id"].as_u64().or(data["id"].as_u64());
    let kind = data["type"].as_str().expect("a type").to_owned();
    (publication["offset"].as_u64().expect("an offset"), kind, post.expect("a post"))
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
