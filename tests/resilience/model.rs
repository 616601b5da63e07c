//! Random histories against a model: every reader's view must match the model.
//!
//! A run is a sequence of steps that a seed reproduces, as far as timing permits. An acknowledged operation has taken
//! effect; a failed one may have. At quiet points all failures are repaired, the outcome of failed operations is looked
//! up in the ledger, and every reader must arrive at the model's timeline from received messages alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::api::{done, everything};
use crate::chaos;
use crate::cluster::{Cluster, LEASE, pause, position, resume, try_log_since};
use crate::model_operations::{Operation, USERS, text, user};
use crate::random::SeededRandom;
use crate::reader::Reader;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The number of quiet points after a loss of Redis by which every node has compared its positions with the new logs.
const MAX_TIMES_LATE: u32 = 2;

/// The longest time until a reader is up to date after all failures are repaired.
const SETTLING: Duration = Duration::from_secs(10);

/// The stores of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Memory,
    Redis,
    /// Two nodes on Redis and PostgreSQL.
    Postgres,
    /// Like `Memory` and `Redis`, with pull fan-out for authors with more than one follower.
    MemoryPulled,
    RedisPulled,
}

impl On {
    /// Additional configuration of the nodes.
    fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Memory | Self::Redis | Self::Postgres => &[],
            Self::MemoryPulled | Self::RedisPulled => &[("fanout.push_limit", "1")],
        }
    }
}

/// The current disruption, and the number of steps that it lasts.
#[derive(Debug)]
enum Disruption {
    Nothing,
    Killed { node: usize, steps: usize },
    Still { node: usize, steps: usize },
    RedisGone { keeps: bool, steps: usize },
    RedisPaused { steps: usize },
}

struct World {
    random: SeededRandom,
    on: On,
    nodes: Vec<Server>,
    /// The cluster without its nodes; `None` for a single node.
    cluster: Option<Cluster>,
    readers: Vec<Reader>,
    follows: BTreeSet<(&'static str, &'static str)>,
    /// The author of each existing post, by id.
    posts: BTreeMap<u64, &'static str>,
    /// Failed operations that may have taken effect.
    unsure_posts: BTreeSet<String>,
    unsure_deletes: BTreeSet<u64>,
    unsure_follows: BTreeSet<(&'static str, &'static str)>,
    written: usize,
    trouble: Disruption,
    /// Close codes that events since the last quiet point may cause.
    may_close: BTreeSet<u16>,
    /// The number of quiet points for which close code 3010 has stayed allowed.
    times_late: u32,
    story: Vec<String>,
}

impl World {
    async fn new(seed: u64, on: On) -> Self {
        let (nodes, cluster) = match on {
            On::Memory | On::MemoryPulled => {
                let keys = [&[("client.recovery_limit", "5000"), ("fanout.lease", "1s")], on.keys()].concat();
                (vec![Server::start_with(&keys).await], None)
            }
            On::Redis | On::RedisPulled => {
                let redis = RedisServer::start_appending();
                let url = redis.url();
                let mut cluster = Cluster::start_on(redis, &url, 2, on.keys()).await;
                (std::mem::take(&mut cluster.nodes), Some(cluster))
            }
            On::Postgres => {
                let mut cluster = Cluster::start_on_postgres(RedisServer::start_appending(), 2, on.keys()).await;
                (std::mem::take(&mut cluster.nodes), Some(cluster))
            }
        };
        for user in USERS {
            done(&nodes[0], user, "GET", &format!("/users/{user}")).await;
        }
        Self {
            random: SeededRandom::new(seed),
            on,
            nodes,
            cluster,
            readers: USERS.map(Reader::new).into(),
            follows: BTreeSet::new(),
            posts: BTreeMap::new(),
            unsure_posts: BTreeSet::new(),
            unsure_deletes: BTreeSet::new(),
            unsure_follows: BTreeSet::new(),
            written: 0,
            trouble: Disruption::Nothing,
            may_close: BTreeSet::new(),
            times_late: 0,
            story: Vec::new(),
        }
    }

    /// The index of a node that answers.
    fn node(&mut self) -> usize {
        match self.trouble {
            Disruption::Killed { node, .. } | Disruption::Still { node, .. } if self.nodes.len() > 1 => 1 - node,
            _ => self.random.below(self.nodes.len()),
        }
    }

    fn user(&mut self) -> &'static str {
        USERS[self.random.below(USERS.len())]
    }

    async fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.operate(1).await,
            45..60 => self.operate(6).await,
            60..85 => self.come_or_go(),
            85..94 => self.disturb().await,
            94..97 => tokio::time::sleep(Duration::from_millis(self.random.below(200) as u64)).await,
            _ => self.quiet().await,
        }
        self.pass().await;
    }

    /// Runs `many` operations at the same time.
    async fn operate(&mut self, many: usize) {
        let mut operations: Vec<(usize, Operation)> = Vec::new();
        for _ in 0..many {
            let node = self.node();
            if let Some(operation) = self.choose()
                && !operations.iter().any(|(_, other)| *other == operation)
            {
                operations.push((node, operation));
            }
        }
        let asked = operations.iter().map(|(node, operation)| operation.ask(&self.nodes[*node]));
        let answers = futures::future::join_all(asked).await;
        for ((node, operation), (status, body)) in operations.into_iter().zip(answers) {
            self.story.push(format!("{operation:?} at {node}: {status} {}", body["id"]));
            assert!(matches!(status, 0 | 200..300 | 404 | 429 | 503), "{operation:?}: {status} {body}");
            self.note(operation, status, &body);
        }
    }

    fn choose(&mut self) -> Option<Operation> {
        match self.random.below(10) {
            0..6 => {
                self.written += 1;
                Some(Operation::Write(self.user(), self.written))
            }
            6 => {
                let posts: Vec<_> = self.posts.iter().map(|(id, author)| (*id, *author)).collect();
                (!posts.is_empty()).then(|| *self.random.pick(&posts)).map(|(id, author)| Operation::Delete(author, id))
            }
            _ => {
                let (reader, author) = (self.user(), self.user());
                let changed = Operation::Edge { reader, author, follows: !self.follows.contains(&(reader, author)) };
                (reader != author).then_some(changed)
            }
        }
    }

    /// Records the result of an operation: an acknowledged one has taken effect, a failed one may have.
    fn note(&mut self, operation: Operation, status: u16, body: &Value) {
        match (operation, status) {
            (Operation::Write(author, _), 201) => {
                self.posts.insert(body["id"].as_u64().expect("an id"), author);
            }
            (Operation::Write(author, number), _) => _ = self.unsure_posts.insert(text(author, number)),
            (Operation::Delete(_, id), 200 | 404) => {
                // If an earlier deletion failed, the post may not exist.
                let was_unsure = self.unsure_deletes.remove(&id);
                assert!(status == 200 || was_unsure, "{id} was there");
                self.posts.remove(&id);
            }
            (Operation::Delete(_, id), _) => _ = self.unsure_deletes.insert(id),
            (Operation::Edge { reader, author, follows }, 200) => {
                let edge = (reader, author);
                self.unsure_follows.remove(&edge);
                _ = if follows { self.follows.insert(edge) } else { self.follows.remove(&edge) };
            }
            (Operation::Edge { reader, author, .. }, _) => _ = self.unsure_follows.insert((reader, author)),
        }
    }

    fn come_or_go(&mut self) {
        let reader = self.random.below(self.readers.len());
        let node = self.node();
        let leaves = self.readers[reader].is_going() && self.random.below(3) == 0;
        let port = (!leaves).then(|| self.nodes[node].port());
        self.story.push(format!("{} goes to {:?}", self.readers[reader].user, port.map(|_| node)));
        self.readers[reader].go(port);
    }

    async fn disturb(&mut self) {
        if !matches!(self.trouble, Disruption::Nothing) {
            return;
        }
        let steps = 1 + self.random.below(12);
        let node = self.random.below(self.nodes.len());
        // A single node has only two kinds of disruption; use them less often, so that other steps run as well.
        let kind = match self.on {
            On::Redis | On::Postgres | On::RedisPulled => self.random.below(6),
            On::Memory | On::MemoryPulled if self.random.below(3) > 0 => return,
            On::Memory | On::MemoryPulled => self.random.below(2),
        };
        self.trouble = match kind {
            0 => Disruption::Killed { node, steps },
            1 => {
                self.story.push(format!("node {node} is stopped and started"));
                self.may_close.extend([3001, 1006]);
                assert!(self.nodes[node].stop().await.success());
                self.nodes[node].start_again().await;
                Disruption::Nothing
            }
            2 => Disruption::Still { node, steps },
            3 => Disruption::RedisGone { keeps: true, steps },
            4 => Disruption::RedisGone { keeps: false, steps },
            _ => Disruption::RedisPaused { steps },
        };
        self.story.push(format!("{:?}", self.trouble));
        let redis = self.cluster.as_mut().map(|cluster| &mut cluster.redis);
        match (&self.trouble, redis) {
            (Disruption::Killed { node, .. }, _) => {
                self.may_close.insert(1006);
                self.nodes[*node].kill();
                if self.nodes.len() == 1 {
                    // No other node can answer requests.
                    self.repair_network().await;
                }
            }
            (Disruption::Still { node, .. }, _) => pause(&self.nodes[*node]),
            (Disruption::RedisGone { .. }, Some(redis)) => {
                // After a restart of Redis, a log may lack its end. It gets a new epoch even if its data was kept.
                self.may_close.insert(3010);
                self.times_late = 0;
                redis.kill();
            }
            (Disruption::RedisPaused { .. }, Some(redis)) => redis.pause(),
            _ => {}
        }
    }

    /// Counts down the current disruption, and ends it after its last step.
    async fn pass(&mut self) {
        match &mut self.trouble {
            Disruption::Nothing => {}
            Disruption::Killed { steps, .. }
            | Disruption::Still { steps, .. }
            | Disruption::RedisGone { steps, .. }
            | Disruption::RedisPaused { steps } => {
                *steps -= 1;
                if *steps == 0 {
                    // The pause may be long enough for detection, or not.
                    let longest = if chaos::is_asked_for() { 7_000 } else { 1_500 };
                    tokio::time::sleep(Duration::from_millis(*self.random.pick(&[0, 0, 300, longest]))).await;
                    self.repair_network().await;
                }
            }
        }
    }

    async fn repair_network(&mut self) {
        let trouble = std::mem::replace(&mut self.trouble, Disruption::Nothing);
        if !matches!(trouble, Disruption::Nothing) {
            self.story.push("it is healed".to_owned());
        }
        let redis = self.cluster.as_mut().map(|cluster| &mut cluster.redis);
        match (trouble, redis) {
            (Disruption::Killed { node, .. }, _) => self.nodes[node].start_again().await,
            (Disruption::Still { node, .. }, _) => resume(&self.nodes[node]),
            (Disruption::RedisGone { keeps, .. }, Some(redis)) => {
                if !keeps {
                    redis.forget();
                }
                redis.start_again();
            }
            (Disruption::RedisPaused { .. }, Some(redis)) => redis.resume(),
            _ => {}
        }
    }

    /// Repairs all failures, and checks that every connected reader sees the expected posts.
    async fn quiet(&mut self) {
        self.repair_network().await;
        self.story.push("quiet".to_owned());
        for node in &self.nodes {
            node.ready().await;
        }
        self.settle_posts().await;
        self.settle_follows().await;
        for reader in self.readers.iter().filter(|reader| reader.is_going()) {
            let seen = reader.sees(&self.expected(&reader.user), SETTLING + LEASE).await;
            let wrong = reader.look(|view| std::mem::take(&mut view.wrong));
            assert!(wrong.is_empty(), "{}: {wrong:?}", reader.user);
            // No log is trimmed in this test.
            let unrecovered = reader.look(|view| std::mem::take(&mut view.unrecovered));
            assert!(unrecovered.is_empty(), "{} was not recovered in the same epoch: {unrecovered:?}", reader.user);
            if let Err(instead) = seen {
                panic!("{instead}");
            }
        }
        for reader in &self.readers {
            let closes = reader.look(|view| std::mem::take(&mut view.closes));
            let unasked: Vec<_> = closes.iter().filter(|code| !self.may_close.contains(code)).collect();
            assert!(unasked.is_empty(), "{} was closed with {unasked:?}, not one of {:?}", reader.user, self.may_close);
        }
        // A reader that connects before a node has compared its positions with a new Redis gets a position of the old
        // log. On a busy machine, the comparison may end after the next quiet point.
        let is_late = self.may_close.contains(&3010) && self.times_late < MAX_TIMES_LATE;
        self.may_close.clear();
        self.may_close.extend(is_late.then_some(3010));
        self.times_late = if is_late { self.times_late + 1 } else { 0 };
    }

    fn expected(&self, reader: &str) -> BTreeSet<u64> {
        let shows =
            |author: &'static str| author == reader || self.follows.iter().any(|edge| *edge == (user(reader), author));
        self.posts.iter().filter(|(_, author)| shows(author)).map(|(id, _)| *id).collect()
    }

    /// Looks up failed posts and deletions in the ledger. Acknowledged posts must be stored.
    async fn settle_posts(&mut self) {
        let mut stored: BTreeMap<u64, &'static str> = BTreeMap::new();
        for author in USERS {
            for item in everything(&self.nodes[0], author, &format!("/users/{author}/posts?limit=50")).await {
                let (id, text) = (item["id"].as_u64().expect("an id"), item["text"].as_str().expect("a text"));
                let known = self.posts.contains_key(&id) || self.unsure_posts.remove(text);
                assert!(known, "{item} was never written, or is there twice");
                stored.insert(id, author);
            }
        }
        for (id, author) in &self.posts {
            let is_there = stored.contains_key(id) || self.unsure_deletes.contains(id);
            assert!(is_there, "post {id} of {author} was acknowledged and is lost");
        }
        self.posts = stored;
        self.unsure_posts.clear();
        self.unsure_deletes.clear();
    }

    async fn settle_follows(&mut self) {
        let mut stored = BTreeSet::new();
        for follower in USERS {
            for item in everything(&self.nodes[0], follower, &format!("/users/{follower}/following?limit=50")).await {
                stored.insert((follower, user(item["id"].as_str().expect("an id"))));
            }
        }
        let differ: Vec<_> = stored.symmetric_difference(&self.follows).collect();
        let unasked: Vec<_> = differ.iter().filter(|edge| !self.unsure_follows.contains(edge)).collect();
        assert!(unasked.is_empty(), "acknowledged, and not so: {unasked:?}");
        self.follows = stored;
        self.unsure_follows.clear();
    }

    /// Checks the logs: no post twice, no offset missing.
    async fn check_logs(&mut self) {
        for reader in USERS {
            let mut position = position(&self.nodes[0], reader).await;
            // The first offsets are unused if a post arrived while the timeline was built.
            let mut first = 0;
            let log = loop {
                position["offset"] = first.into();
                match try_log_since(&self.nodes[0], reader, &position).await {
                    Some(log) => break log,
                    None => first += 1,
                }
                assert!(first < 1_000, "the log of {reader} does not reach back to an offset");
            };
            let mut held = BTreeSet::new();
            for (at, (offset, kind, post)) in (first + 1..).zip(&log) {
                assert_eq!(*offset, at, "{reader}: {log:?}");
                let new = if kind == "post" { held.insert(*post) } else { held.remove(post) || kind == "gone" };
                assert!(new, "{reader}: post {post} twice: {log:?}");
            }
        }
    }
}

/// Prints the seed and the history when a run fails.
struct Witness<'a>(u64, On, &'a mut World);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed, on, world) = self;
            eprintln!("{:#?}\nFEEDLINE_SEED={seed} repeats it ({on:?})", world.story);
        }
    }
}

async fn run(on: On, steps: usize) {
    let seed = SeededRandom::seed();
    for seed in (0..SeededRandom::rounds(chaos::rounds(2, 12)) as u64).map(|round| seed.wrapping_add(round)) {
        let mut world = World::new(seed, on).await;
        let witness = Witness(seed, on, &mut world);
        for _ in 0..steps {
            witness.2.step().await;
        }
        for at in 0..USERS.len() {
            let port = witness.2.nodes[at % witness.2.nodes.len()].port();
            if !witness.2.readers[at].is_going() {
                witness.2.readers[at].go(Some(port));
            }
        }
        witness.2.quiet().await;
        witness.2.check_logs().await;
        let (recovered, anew) = witness.2.readers.iter().fold((0, 0), |(recovered, anew), reader| {
            reader.look(|view| (recovered + view.recovered, anew + view.anew))
        });
        eprintln!("{on:?}, seed {seed}: {recovered} recoveries, {anew} new beginnings");
        drop(witness);
    }
}

#[tokio::test]
async fn readers_of_one_node_match_the_model() {
    run(On::Memory, 120).await;
}

#[tokio::test]
async fn readers_of_two_nodes_match_the_model() {
    run(On::Redis, 100).await;
}

#[tokio::test]
async fn readers_of_two_nodes_on_postgres_match_the_model() {
    run(On::Postgres, 100).await;
}

#[tokio::test]
async fn readers_of_one_node_match_the_model_of_pulled_authors() {
    run(On::MemoryPulled, 120).await;
}

#[tokio::test]
async fn readers_of_two_nodes_match_the_model_of_pulled_authors() {
    run(On::RedisPulled, 100).await;
}
