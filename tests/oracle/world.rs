//! The real servers, stores and sockets, and their failures.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::api::attempt_named;
use crate::model::{USERS, User};
use crate::plan::Moment;
use crate::reader::Reader;
use crate::redis_server::RedisServer;
use crate::requests::Call;
use crate::server::Server;

/// The stores of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// One node with the memory broker and SQLite.
    Embedded,
    /// Two nodes with one Redis and one SQLite.
    RedisAndSqlite,
    /// One node with the memory broker and PostgreSQL.
    Postgres,
    /// Two nodes with one Redis and one PostgreSQL.
    RedisAndPostgres,
}

impl Stores {
    pub(crate) fn nodes(self) -> usize {
        match self {
            Self::Embedded | Self::Postgres => 1,
            Self::RedisAndSqlite | Self::RedisAndPostgres => 2,
        }
    }

    /// How long a killed node's requests may still take effect: PostgreSQL completes a statement after its client is
    /// gone.
    pub(crate) fn aftermath(self) -> Duration {
        match self {
            Self::Embedded | Self::RedisAndSqlite => Duration::ZERO,
            Self::Postgres | Self::RedisAndPostgres => Duration::from_secs(1),
        }
    }
}

/// The size limits of timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// No limit is reached: the messages to a socket describe the whole timeline.
    Wide,
    /// Inboxes overflow and a follow adds only a part of the posts: sockets get no pushes for older posts.
    Narrow,
}

impl Bounds {
    fn keys(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Wide => [("timeline.length", "1000"), ("timeline.follow_merge", "200")],
            Self::Narrow => [("timeline.length", "20"), ("timeline.follow_merge", "5")],
        }
    }
}

/// Small pages, so that a fan-out takes several, and short intervals, so that failures are detected soon.
const KEYS: [(&str, &str); 6] = [
    ("client.recovery_limit", "5000"),
    ("fanout.page", "2"),
    ("fanout.lease", "1s"),
    ("ledger.durability", "normal"),
    ("broker.timeout", "500ms"),
    ("broker.probe_interval", "200ms"),
];

/// A user without relations. A notification that this user has received was recorded after all earlier ones.
pub(crate) const WITNESS: User = "zoe";

/// The servers, stores and sockets under test.
pub(crate) struct World {
    pub(crate) stores: Stores,
    pub(crate) bounds: Bounds,
    pub(crate) nodes: Vec<Server>,
    /// The index of the node that gets the requests.
    pub(crate) home: usize,
    /// Whether another node has made changes that the home node may not have applied.
    pub(crate) is_blurred: bool,
    pub(crate) redis: Option<RedisServer>,
    pub(crate) readers: Vec<Reader>,
    _folder: TempDir,
}

impl World {
    /// `push_limit`: the follower count up to which an author's posts are written to every follower's inbox.
    pub(crate) async fn new(stores: Stores, bounds: Bounds, push_limit: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let ledger = match stores {
            Stores::Embedded | Stores::RedisAndSqlite => {
                format!("sqlite://{}", folder.path().join("ledger.db").display())
            }
            Stores::Postgres | Stores::RedisAndPostgres => {
                let server = crate::postgres_server::shared();
                server.url(&server.migrated().await)
            }
        };
        let redis = (stores.nodes() > 1).then(RedisServer::start);
        let url = redis.as_ref().map(RedisServer::url);
        let mut keys = vec![("ledger.url", ledger.as_str())];
        keys.extend(KEYS);
        keys.extend(bounds.keys());
        keys.push(("fanout.push_limit", push_limit));
        keys.extend(url.as_deref().map(|url| ("broker.url", url)));
        let mut running = Vec::new();
        for _ in 0..stores.nodes() {
            running.push(Server::start_with(&keys).await);
        }
        let readers = USERS.map(Reader::new).into();
        let world =
            Self { stores, bounds, nodes: running, home: 0, is_blurred: false, redis, readers, _folder: folder };
        for user in USERS.into_iter().chain([WITNESS]) {
            crate::api::done(world.home(), user, "GET", &format!("/users/{user}")).await;
        }
        world
    }

    pub(crate) fn home(&self) -> &Server {
        &self.nodes[self.home]
    }

    /// Returns a node other than the home node, if there is one.
    pub(crate) fn elsewhere(&self) -> Option<&Server> {
        self.nodes.iter().rev().find(|node| node.port() != self.home().port())
    }

    /// Sends a request to the home node. Returns the status (0: no response) and the body.
    pub(crate) async fn ask(&self, call: &Call) -> (u16, Value) {
        self.ask_at(self.home, call).await
    }

    /// Sends a request to a node.
    pub(crate) async fn ask_at(&self, node: usize, call: &Call) -> (u16, Value) {
        ask(self.nodes[node].port(), call).await
    }

    /// Kills the home node some time after a request was sent or answered, and restarts it at once. Another node, if
    /// there is one, becomes the home node. Returns the response, if there was one.
    pub(crate) async fn crash(&mut self, call: &Call, moment: Moment, after: Duration) -> (u16, Value) {
        let dead = self.home;
        let asking = ask(self.home().port(), call);
        let node = &mut self.nodes[dead];
        let killing = async {
            tokio::time::sleep(after).await;
            node.kill();
        };
        let answer = match moment {
            Moment::Asked => tokio::join!(asking, killing).0,
            Moment::Answered => {
                let answer = asking.await;
                killing.await;
                answer
            }
        };
        self.home = (dead + 1) % self.nodes.len();
        self.is_blurred = self.nodes.len() > 1;
        self.nodes[dead].start_again().await;
        answer
    }

    /// Deletes all data in Redis. If `closes`, also closes the nodes' subscriptions; otherwise nodes detect the loss by
    /// their own checks.
    pub(crate) fn flush(&self, closes: bool) {
        let Some(redis) = &self.redis else { return };
        assert_eq!(redis.ask("FLUSHALL"), "+OK");
        if closes {
            assert!(redis.ask("CLIENT KILL TYPE pubsub").starts_with(':'));
        }
    }

    /// Restarts Redis without its data.
    pub(crate) fn restart_redis(&mut self) {
        if let Some(redis) = &mut self.redis {
            redis.kill();
            redis.start_again();
        }
    }

    /// Deletes a user's inbox, as the server does after a long absence.
    pub(crate) fn let_inbox_go(&self, user: User) {
        if let Some(redis) = &self.redis {
            let keys = ["l", "m"].map(|what| format!("feedline:{{timeline:{user}}}:{what}")).join(" ");
            assert!(redis.ask(&format!("DEL {keys}")).starts_with(':'));
        }
    }

    /// Lets connected readers begin anew: what is shown again to them is on pages only.
    pub(crate) async fn reload_readers(&self, users: &[User]) {
        let readers = || users.iter().map(|user| self.reader(user));
        for reader in readers().filter(|reader| reader.is_going()) {
            let port = reader.port();
            reader.go(None);
            tokio::time::sleep(Duration::from_millis(50)).await;
            reader.look(|view| view.forget());
            reader.go(port);
        }
        // Those who are away have what was told them before.
        readers().filter(|reader| !reader.is_going()).for_each(|reader| reader.look(|view| view.forget()));
    }

    pub(crate) fn reader(&self, user: User) -> &Reader {
        self.readers.iter().find(|reader| reader.user == user).expect("every user has one")
    }
}

async fn ask(port: u16, call: &Call) -> (u16, Value) {
    let Call { user, method, path, body, key } = call;
    attempt_named(port, user, key.as_deref(), method, path, body).await
}
