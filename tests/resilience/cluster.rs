//! Several nodes with one ledger and one Redis.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use feedline::ledger::{
    BulkLoad, Durability, FANOUT_PARTITIONS, Ledger, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger,
    SqliteOptions, WorkLease,
};
use feedline::model::{Post, UserId};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use crate::api::{attempt, done, entry, timeline};
use crate::postgres_server::shared;
use crate::redis_server::RedisServer;
pub(crate) use crate::server::until;
use crate::server::{PATIENCE, Server};

/// The lease of a fan-out job in these tests.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// The broker's timeout in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);

/// Nodes with a shared ledger and a shared Redis.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    pub(crate) redis: RedisServer,
    /// The nodes' ledger, for direct reads and writes by the test.
    ledger: Shared,
    keys: Vec<(String, String)>,
}

/// The file name of a SQLite ledger in its folder.
const FILE: &str = "ledger.db";

/// The ledger that the nodes share.
enum Shared {
    Sqlite { ledger: SqliteLedger, folder: TempDir },
    Postgres(PostgresLedger),
}

impl Shared {
    /// Creates a SQLite file. Returns the ledger and its URL.
    async fn file() -> (Self, String) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join(FILE);
        let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(&path) };
        let ledger = SqliteLedger::open(options).await.expect("a ledger");
        (Self::Sqlite { ledger, folder }, format!("sqlite://{}", path.display()))
    }

    /// Creates a PostgreSQL database. Returns the ledger and its URL.
    async fn database() -> (Self, String) {
        let url = shared().url(&shared().migrated().await);
        let options = PostgresOptions {
            durability: Durability::Normal,
            connections: 2,
            ..PostgresOptions::new(PostgresUrl::parse(&url).expect("a URL"))
        };
        (Self::Postgres(PostgresLedger::open(options).await.expect("a ledger")), url)
    }

    fn stores(&self) -> &dyn Ledger {
        match self {
            Self::Sqlite { ledger, .. } => ledger,
            Self::Postgres(ledger) => ledger,
        }
    }
}

impl Cluster {
    /// Starts two nodes.
    pub(crate) async fn start() -> Self {
        Self::start_with(2, &[]).await
    }

    /// Pauses a node while it does not hold the lock of the ledger's file, which would block all writers.
    pub(crate) async fn pause_without_lock(&self, node: &Server) {
        let file = match &self.ledger {
            Shared::Sqlite { folder, .. } => {
                let file = Connection::open(folder.path().join(FILE)).expect("the ledger's file");
                file.busy_timeout(Duration::from_millis(300)).expect("a timeout");
                Some(file)
            }
            Shared::Postgres(_) => None,
        };
        pause_without_lock(node, file.as_ref()).await;
    }

    /// Starts nodes with additional configuration.
    pub(crate) async fn start_with(nodes: usize, keys: &[(&str, &str)]) -> Self {
        let redis = RedisServer::start();
        let url = redis.url();
        Self::start_on(redis, &url, nodes, keys).await
    }

    /// Starts nodes on PostgreSQL.
    pub(crate) async fn start_on_postgres(redis: RedisServer, nodes: usize, keys: &[(&str, &str)]) -> Self {
        let url = redis.url();
        let keys = [&[("ledger.connections", "4")], keys].concat();
        Self::start_all(redis, &url, Shared::database().await, nodes, &keys).await
    }

    /// Starts nodes that connect to Redis through another URL, such as a proxy's.
    pub(crate) async fn start_on(redis: RedisServer, url: &str, nodes: usize, keys: &[(&str, &str)]) -> Self {
        Self::start_all(redis, url, Shared::file().await, nodes, keys).await
    }

    async fn start_all(
        redis: RedisServer,
        url: &str,
        (ledger, ledger_url): (Shared, String),
        nodes: usize,
        keys: &[(&str, &str)],
    ) -> Self {
        let mut all = vec![
            ("broker.url", url),
            ("broker.timeout", "500ms"),
            ("broker.probe_interval", "200ms"),
            ("ledger.url", &ledger_url),
            ("ledger.durability", "normal"),
            ("fanout.lease", "1s"),
            ("client.recovery_limit", "5000"),
        ];
        all.extend(keys);
        let mut running = Vec::new();
        for _ in 0..nodes {
            running.push(Server::start_with(&all).await);
        }
        let keys = all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { nodes: running, redis, ledger, keys }
    }

    /// Starts another node that connects to Redis through a different URL.
    pub(crate) async fn join(&mut self, url: &str) {
        let keys = self.keys.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let keys: Vec<_> = keys.filter(|(key, _)| *key != "broker.url").chain([("broker.url", url)]).collect();
        self.nodes.push(Server::start_with(&keys).await);
    }

    /// Stores users and follow edges (follower, followee) in the ledger, before any timeline exists.
    pub(crate) async fn load(&self, edges: &[(String, String)]) {
        let id = |name: &String| UserId::parse(name).expect("a user's id");
        let mut people: Vec<UserId> = edges.iter().flat_map(|(one, other)| [id(one), id(other)]).collect();
        people.sort_unstable();
        people.dedup();
        let edges: Vec<_> = edges.iter().map(|(follower, followee)| (id(follower), id(followee))).collect();
        match &self.ledger {
            Shared::Sqlite { ledger, .. } => {
                ledger.load_users(&people, 1).await.expect("users");
                ledger.load_follows(&edges, 1).await.expect("edges");
            }
            Shared::Postgres(ledger) => {
                ledger.load_users(&people, 1).await.expect("users");
                ledger.load_follows(&edges, 1).await.expect("edges");
            }
        }
    }

    /// Stores posts with unclaimed fan-out jobs, `at_once` at a time. The authors must exist.
    pub(crate) async fn write_unclaimed(&self, posts: &[Post], at_once: usize) {
        for posts in posts.chunks(at_once) {
            let created = posts.iter().map(|post| self.ledger.stores().create_post(post, None));
            for created in futures::future::join_all(created).await {
                created.expect("a post").expect("a new post");
            }
        }
    }

    /// The number of partitions of fan-out that each process owns, of those with a valid lease.
    pub(crate) async fn shares(&self) -> BTreeMap<String, u16> {
        // A process that does no work has no share.
        let lease = WorkLease { holder: "test".into(), length: LEASE, kinds: Vec::new() };
        let view = self.ledger.stores().renew_work_lease(&lease).await.expect("the owners");
        let fanout = view.partitions.into_iter().filter(|partition| partition.name.starts_with("fanout/"));
        let mut shares = BTreeMap::new();
        fanout.filter_map(|partition| partition.owner).for_each(|owner| *shares.entry(owner).or_default() += 1);
        shares
    }

    /// The names of the items in quarantine.
    pub(crate) async fn quarantined(&self) -> Vec<String> {
        let items = self.ledger.stores().quarantined(None, 0, 99).await.expect("a list");
        items.into_iter().map(|item| format!("{} {}", item.kind, item.name)).collect()
    }

    /// The URL of the nodes' ledger.
    pub(crate) fn ledger_url(&self) -> &str {
        self.keys.iter().find(|(key, _)| key == "ledger.url").map_or("", |(_, url)| url)
    }

    /// The number of jobs in the ledger.
    pub(crate) async fn backlog(&self) -> u64 {
        // A paused node may hold a lock.
        let begun = Instant::now();
        loop {
            match self.ledger.stores().backlog(&Vec::from_iter(0..FANOUT_PARTITIONS)).await {
                Ok(backlog) => return backlog.jobs,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
        }
    }

    /// Waits until the ledger has no jobs. Returns the elapsed time.
    pub(crate) async fn carried(&self, patience: Duration) -> Duration {
        let begun = Instant::now();
        while self.backlog().await > 0 {
            assert!(begun.elapsed() < patience, "jobs are left after {patience:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        begun.elapsed()
    }
}

/// Suspends a process with SIGSTOP.
pub(crate) fn pause(server: &Server) {
    signal(server, "-STOP");
}

/// Pauses a node while it does not hold the lock of the ledger's file, which would block all writers.
pub(crate) async fn pause_without_lock(node: &Server, file: Option<&Connection>) {
    until("the node is paused without the lock", async || {
        pause(node);
        let is_free = file.is_none_or(|file| file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok());
        if !is_free {
            resume(node);
        }
        is_free
    })
    .await;
}

/// Resumes a process.
pub(crate) fn resume(server: &Server) {
    signal(server, "-CONT");
}

fn signal(server: &Server, which: &str) {
    let sent = Command::new("kill").arg(which).arg(server.pid().to_string()).status();
    assert!(sent.expect("to run kill").success());
}

/// Creates a post and returns its id.
pub(crate) async fn post(node: &Server, author: &str, text: &str) -> u64 {
    let (status, body) = attempt(node, author, "POST", "/posts", &json!({ "text": text })).await;
    assert_eq!(status, 201, "{body}\n{}", node.log());
    body["id"].as_u64().expect("an id")
}

/// The current position of a timeline.
pub(crate) async fn position(node: &Server, user: &str) -> Value {
    done(node, user, "GET", "/timeline?limit=1").await["position"].take()
}

/// The entries of a timeline's log since a position: `(offset, type, post)`. The position must be of the current epoch.
pub(crate) async fn log_since(node: &Server, user: &str, position: &Value) -> Vec<(u64, String, u64)> {
    let log = try_log_since(node, user, position).await;
    log.unwrap_or_else(|| panic!("the log of {user} does not reach back to {position}"))
}

/// Like [`log_since`]; `None` if the log does not reach back to the position.
pub(crate) async fn try_log_since(node: &Server, user: &str, position: &Value) -> Option<Vec<(u64, String, u64)>> {
    let (offset, epoch) = (&position["offset"], position["epoch"].as_str().expect("an epoch"));
    let path = format!("/timeline/updates?offset={offset}&epoch={epoch}");
    let updates = done(node, user, "GET", &path).await;
    let items = updates["items"].as_array().expect("items");
    (updates["recovered"] == true).then(|| items.iter().map(entry).collect())
}
