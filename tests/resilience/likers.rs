//! Users who like and unlike, and the state that the ledger must have afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use feedline::feed::now;
use feedline::ledger::{
    Durability, FANOUT_PARTITIONS, Ledger, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions,
    WorkLease,
};
use feedline::model::{PostId, UserId};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server};

/// The longest time until likes are settled after a kill: first, the lease of the process must expire.
pub(crate) const RECOVERY: Duration = Duration::from_secs(40);

/// Keys: leases end soon, and posts of authors with more than one follower are pulled. Their jobs write to the ledger.
pub(crate) const PULLED: [(&str, &str); 2] = [("fanout.push_limit", "1"), ("fanout.lease", "1s")];

/// The file name of a SQLite ledger in its folder.
const FILE: &str = "ledger.db";

/// Nodes with any stores, and their ledger.
pub(crate) struct Field {
    pub(crate) nodes: Vec<Server>,
    pub(crate) redis: Option<RedisServer>,
    pub(crate) postgres: Option<PostgresServer>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// When the nodes were started, in Unix milliseconds.
    starts: Vec<u64>,
    folder: TempDir,
}

impl Field {
    /// The number of jobs in the ledger.
    pub(crate) async fn backlog(&self) -> u64 {
        self.ledger.backlog(&Vec::from_iter(0..FANOUT_PARTITIONS)).await.expect("an answer").jobs
    }

    /// The node that owns a partition of work; `None`: none does. No node may have been restarted.
    pub(crate) async fn owner(&self, partition: &str) -> Option<usize> {
        // A process that does no work has no share.
        let lease = WorkLease { holder: "test".into(), length: Duration::from_secs(1), kinds: Vec::new() };
        let view = self.ledger.renew_work_lease(&lease).await.expect("the owners");
        let owner = view.partitions.into_iter().find(|row| row.name == partition)?.owner?;
        // The name of a process is a UUID that begins with the time of its start, in milliseconds.
        let started = u64::from_str_radix(owner.get(..12)?, 16).expect("a time");
        self.starts.partition_point(|start| *start <= started).checked_sub(1)
    }

    /// Starts a single process with the memory broker and SQLite.
    pub(crate) async fn embedded(keys: &[(&str, &str)]) -> Self {
        Self::sqlite(None, 1, keys).await
    }

    /// Starts nodes on a Redis with an append-only file.
    pub(crate) async fn redis(nodes: usize, keys: &[(&str, &str)]) -> Self {
        Self::sqlite(Some(RedisServer::start_appending()), nodes, keys).await
    }

    /// Starts nodes on Redis and PostgreSQL. Acknowledged writes survive a kill.
    pub(crate) async fn postgres(nodes: usize, keys: &[(&str, &str)]) -> Self {
        let (redis, server) = (RedisServer::start_appending(), PostgresServer::start());
        // As in production, the nodes' user is no superuser: rights can be revoked from it.
        let role = "CREATE ROLE app LOGIN; GRANT ALL ON DATABASE postgres TO app; GRANT ALL ON SCHEMA public TO app";
        server.ask("postgres", role).await;
        let url = server.url("postgres").replace("feedline@", "app@");
        let options = PostgresOptions::new(PostgresUrl::parse(&url).expect("a URL"));
        let ledger = PostgresLedger::open(options).await.expect("a ledger");
        let mut all = vec![("ledger.durability", "full"), ("ledger.timeout", "2s"), ("ledger.connections", "4")];
        all.extend(keys);
        let field = Self::start(Some(redis), (Arc::new(ledger), &url), nodes, &all).await;
        Self { postgres: Some(server), ..field }
    }

    async fn sqlite(redis: Option<RedisServer>, nodes: usize, keys: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join(FILE);
        let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(&path) };
        let ledger = SqliteLedger::open(options).await.expect("a ledger");
        let url = format!("sqlite://{}", path.display());
        let field = Self::start(redis, (Arc::new(ledger), &url), nodes, keys).await;
        Self { folder, ..field }
    }

    async fn start(
        redis: Option<RedisServer>,
        (ledger, url): (Arc<dyn Ledger>, &str),
        nodes: usize,
        keys: &[(&str, &str)],
    ) -> Self {
        let broker = redis.as_ref().map_or_else(|| "memory:".to_owned(), RedisServer::url);
        let mut all = vec![
            ("broker.url", broker.as_str()),
            ("broker.timeout", "500ms"),
            ("broker.probe_interval", "200ms"),
            ("ledger.url", url),
            ("ledger.durability", "normal"),
        ];
        all.extend(keys);
        let (mut running, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            starts.push(now());
            running.push(Server::start_with(&all).await);
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        Self { nodes: running, redis, postgres: None, ledger, starts, folder }
    }

    /// Waits until the ledger answers again after a kill.
    pub(crate) async fn answers(&self) {
        let begun = Instant::now();
        while let Err(error) = self.ledger.ping().await {
            assert!(begun.elapsed() < PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Server::port).collect()
    }

    /// Opens a separate connection to the file of a SQLite ledger. While it holds the write lock, no other process
    /// writes.
    pub(crate) fn connection(&self) -> Connection {
        let db = Connection::open(self.folder.path().join(FILE)).expect("the ledger's file");
        db.busy_timeout(PATIENCE).expect("a timeout");
        db
    }

    /// The users who like a post, from the rows of the ledger. Fails if the stored count differs.
    async fn liked_by(&self, post: u64) -> Result<BTreeSet<String>, String> {
        let id = PostId(post);
        let rows = self.ledger.likers(id, None, 1_000_000).await.expect("the rows");
        let who: BTreeSet<String> = rows.items.iter().map(|user| user.id.to_string()).collect();
        let counts = self.ledger.counts(&[id]).await.expect("the counts");
        let count = counts.first().map_or(0, |(_, counts)| counts.likes);
        if count != who.len() as u64 || who.len() != rows.items.len() {
            return Err(format!("{post}: {count} counted, {} rows of {} people", rows.items.len(), who.len()));
        }
        Ok(who)
    }

    /// Waits until the ledger's state matches the acknowledged likes.
    pub(crate) async fn settled_as(&self, book: &Book) {
        let begun = Instant::now();
        loop {
            let wrong = self.differs_from(book).await;
            let Some(wrong) = wrong else { return };
            assert!(begun.elapsed() < RECOVERY, "not in {RECOVERY:?}: {wrong}\n{}", self.nodes[0].log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn differs_from(&self, book: &Book) -> Option<String> {
        for (post, people) in book.by_post() {
            let liked_by = match self.liked_by(post).await {
                Ok(liked_by) => liked_by,
                Err(wrong) => return Some(wrong),
            };
            for (user, expected) in &people {
                let liked = liked_by.contains(user);
                if !expected.contains(&liked) {
                    return Some(format!("{user} and {post}: liked is {liked}, acknowledged was {expected:?}"));
                }
                let reader = UserId::parse(user).expect("a user");
                let page = self.ledger.hydrate(Some(&reader), &[PostId(post)], &[]).await.expect("the flags");
                let flag = page.flags.first().is_some_and(|(_, flags)| flags.liked);
                // A like without a response may be settled between the two reads.
                if flag != liked {
                    return Some(format!("{user} and {post}: liked is {liked}, the flag says {flag}"));
                }
            }
            if let Some(stranger) = liked_by.iter().find(|user| !people.contains_key(*user)) {
                return Some(format!("{stranger} never liked {post}"));
            }
        }
        None
    }
}

/// The possible states of each user's like of a post, from the acknowledged and attempted requests.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<HashMap<Pair, Possible>>>);

/// What one user's like of a post may be.
#[derive(Default)]
struct Possible {
    states: BTreeSet<bool>,
    /// Whether a request had no response: it may still take effect, after requests that came later.
    is_uncertain: bool,
}

/// A user and a post.
type Pair = (String, u64);

impl Book {
    /// Records an acknowledged request; it came after all others of this user and post.
    pub(crate) fn acknowledged(&self, user: &str, post: u64, liked: bool) {
        let possible = Possible { states: BTreeSet::from([liked]), is_uncertain: false };
        self.0.lock().insert((user.to_owned(), post), possible);
    }

    /// Records a request that may or may not take effect.
    fn tried(&self, user: &str, post: u64, liked: bool) {
        let mut book = self.0.lock();
        let possible = book.entry((user.to_owned(), post)).or_default();
        if possible.states.is_empty() {
            possible.states.insert(false);
        }
        possible.states.insert(liked);
        possible.is_uncertain = true;
    }

    /// The pairs with a request that had no response.
    pub(crate) fn uncertain(&self) -> Vec<Pair> {
        let book = self.0.lock();
        book.iter().filter(|(_, possible)| possible.is_uncertain).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn by_post(&self) -> BTreeMap<u64, BTreeMap<String, BTreeSet<bool>>> {
        let mut posts: BTreeMap<u64, BTreeMap<String, BTreeSet<bool>>> = BTreeMap::new();
        for ((user, post), possible) in &*self.0.lock() {
            posts.entry(*post).or_default().insert(user.clone(), possible.states.clone());
        }
        posts
    }
}

/// A backend that likes for its users over persistent connections.
#[derive(Clone)]
pub(crate) struct Backend(HttpClient<HttpConnector, Empty<Bytes>>);

impl Backend {
    pub(crate) fn new() -> Self {
        Self(HttpClient::builder(TokioExecutor::new()).build_http())
    }

    /// Returns the status and the body; `None` if there was no response.
    pub(crate) async fn like(&self, port: u16, user: &str, post: u64, liked: bool) -> Option<(u16, Value)> {
        let request = Request::builder()
            .method(if liked { "PUT" } else { "DELETE" })
            .uri(format!("http://127.0.0.1:{port}/api/v1/posts/{post}/like"))
            .header("x-api-key", API_KEY)
            .header("x-user", user)
            .body(Empty::new())
            .expect("a request");
        let answer = tokio::time::timeout(PATIENCE, self.0.request(request)).await.ok()?.ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Likes or unlikes, and records the result. Returns whether the request was acknowledged.
    pub(crate) async fn note(&self, book: &Book, port: u16, user: &str, post: u64, liked: bool) -> bool {
        let uncertain = book.0.lock().get(&(user.to_owned(), post)).is_some_and(|possible| possible.is_uncertain);
        match self.like(port, user, post, liked).await {
            // An earlier request without a response may still take effect.
            Some((200, _)) if uncertain => book.tried(user, post, liked),
            Some((200, _)) => book.acknowledged(user, post, liked),
            // The response states that nothing was done.
            Some((_, body)) if body["error"]["code"] == "busy" => return false,
            _ => {
                book.tried(user, post, liked);
                return false;
            }
        }
        true
    }
    /// Likes or unlikes until the request is acknowledged: a busy node, or one that has only just been resumed, may
    /// refuse for a moment.
    pub(crate) async fn note_acknowledged(&self, book: &Book, port: u16, user: &str, post: u64, liked: bool) {
        let begun = Instant::now();
        while !self.note(book, port, user, post, liked).await {
            assert!(begun.elapsed() < RECOVERY, "no like is acknowledged");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
