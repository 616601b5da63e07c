//! A backlog of fan-out jobs shrinks steadily while nodes are paused. Each job is done once, and the jobs of one author
//! are done in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use feedline::model::{Post, PostId, UserId};
use serde_json::Value;

use crate::chaos;
use crate::client::Client;
use crate::cluster::{Cluster, LEASE, done, pause, position, post, resume};
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;
use crate::server::PATIENCE;

/// The number of authors.
pub(crate) const AUTHORS: usize = 20;
const READERS: usize = 8;

/// The longest time without progress while a node is paused: the pause, plus the expiry of its leases.
const STALL: Duration = Duration::from_secs(10);

/// The id of an author.
pub(crate) fn author(n: usize) -> String {
    format!("a{n:02}")
}

/// The id of a reader.
pub(crate) fn reader(n: usize) -> String {
    format!("r{n}")
}

/// Creates `many` posts, by all authors in turn.
pub(crate) fn posts(many: usize) -> Vec<Post> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let now = u64::try_from(since.as_millis()).expect("a time");
    let post = |n: usize| {
        let created_at = now - (many - n) as u64;
        let id = PostId::from_parts(created_at, PostId::IMPORT_NODE, 0);
        let author = UserId::parse(&author(n % AUTHORS)).expect("an id");
        Post { text: format!("post {n}"), created_at, ..Post::blank(id, author) }
    };
    (0..many).map(post).collect()
}

/// The posts in an inbox, in the order of insertion.
pub(crate) fn written(cluster: &Cluster, reader: &str) -> Vec<u64> {
    let log = cluster.redis.ask_all(&format!("XRANGE feedline:{{timeline:{reader}}}:l - +"));
    let lines: Vec<&str> = log.lines().collect();
    let at = |n: usize| lines.get(n + 2).and_then(|id| id.parse().ok()).expect("a post");
    lines.iter().enumerate().filter(|(_, line)| **line == "p").map(|(n, _)| at(n)).collect()
}

/// Checks that every reader has every post once, and the posts of each author in order.
fn everything_arrived_once(cluster: &Cluster, posts: &[Post]) {
    let authors: BTreeMap<u64, &UserId> = posts.iter().map(|post| (post.id.0, &post.author)).collect();
    for reader in (0..READERS).map(reader) {
        let log = written(cluster, &reader);
        let once: BTreeSet<u64> = log.iter().copied().collect();
        assert_eq!((log.len(), once.len()), (posts.len(), posts.len()), "{reader} has posts twice, or not at all");
        let mut last: BTreeMap<&UserId, u64> = BTreeMap::new();
        for id in log {
            let before = last.insert(authors[&id], id);
            assert!(before.is_none_or(|before| before < id), "{reader}: {id} of {:?} after {before:?}", authors[&id]);
        }
    }
}

/// Starts two nodes with a backlog, and pauses one of them repeatedly for longer than its leases.
async fn drain_jobs(mut cluster: Cluster, many: usize) {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let edges: Vec<_> = (0..READERS).flat_map(|n| (0..AUTHORS).map(move |m| (reader(n), author(m)))).collect();
    cluster.load(&edges).await;
    for n in 0..READERS {
        position(&cluster.nodes[0], &reader(n)).await;
    }
    cluster.nodes.iter_mut().for_each(crate::server::Server::kill);
    let posts = posts(many);
    // Writes one post per author at a time, so that the jobs of an author have the order of the posts.
    cluster.write_unclaimed(&posts, AUTHORS).await;
    for node in &mut cluster.nodes {
        node.start_again().await;
    }
    let (begun, mut least, mut since) = (Instant::now(), cluster.backlog().await, Instant::now());
    let mut pauses = 0;
    while least > 0 {
        let still = &cluster.nodes[random.below(2)];
        pause(still);
        pauses += 1;
        tokio::time::sleep(LEASE + Duration::from_millis(random.below(700) as u64)).await;
        resume(still);
        tokio::time::sleep(Duration::from_millis(200 + random.below(1_500) as u64)).await;
        let backlog = cluster.backlog().await;
        assert!(backlog <= least, "seed {seed}: the backlog grew from {least} to {backlog}");
        if backlog < least {
            (least, since) = (backlog, Instant::now());
        }
        assert!(since.elapsed() < STALL, "seed {seed}: {backlog} of {many} jobs are left, and it does not go on");
    }
    eprintln!("{many} jobs in {:?}, {pauses} pauses", begun.elapsed());
    everything_arrived_once(&cluster, &posts);
    let mut counted = 0.0;
    for node in &cluster.nodes {
        counted += node.metric("feedline_fanout_lag_seconds_count").await.unwrap_or_default();
    }
    assert!((counted - many as f64).abs() < 0.5, "seed {seed}: {many} jobs were done {counted} times");
}

const KEYS: [(&str, &str); 1] = [("timeline.length", "100000")];

#[tokio::test]
async fn backlogs_shrink_while_nodes_are_paused_on_sqlite() {
    drain_jobs(Cluster::start_with(2, &KEYS).await, chaos::rounds(1_000, 20_000)).await;
}

#[tokio::test]
async fn backlogs_shrink_while_nodes_are_paused_on_postgres() {
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &KEYS).await;
    drain_jobs(cluster, chaos::rounds(1_000, 20_000)).await;
}

/// Posts of one author arrive in order and without delay, regardless of the nodes that accepted them.
#[tokio::test]
async fn posts_written_at_two_nodes_arrive_in_order() {
    let cluster = Cluster::start().await;
    let edges: Vec<_> = (0..READERS).map(|n| (reader(n), "ann".to_owned())).collect();
    cluster.load(&edges).await;
    for n in 0..READERS {
        position(&cluster.nodes[0], &reader(n)).await;
    }
    let (begun, mut ids) = (Instant::now(), Vec::new());
    for n in 0..60 {
        ids.push(post(&cluster.nodes[n % 2], "ann", "one after the other").await);
    }
    let wrote = begun.elapsed();
    let carried = cluster.carried(PATIENCE).await;
    assert!(carried < Duration::from_millis(900), "{carried:?} after the last of 60 posts, which took {wrote:?}");
    for n in 0..READERS {
        assert_eq!(written(&cluster, &reader(n)), ids, "{}", reader(n));
    }
    let page: Value = done(&cluster.nodes[0], &reader(0), "GET", "/timeline?limit=60").await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(60));
}

/// A backlog of one author's posts to many readers does not delay another author's posts.
#[tokio::test]
async fn backlogs_of_one_author_do_not_delay_others() {
    const FANS: usize = 400;
    let mut cluster = Cluster::start_with(1, &[]).await;
    let mut edges: Vec<_> = (0..FANS).map(|n| (format!("f{n:03}"), author(0))).collect();
    edges.push(("fan".to_owned(), "small".to_owned()));
    cluster.load(&edges).await;
    for (fan, _) in &edges {
        position(&cluster.nodes[0], fan).await;
    }
    // The jobs are in the ledger before the node starts, so that the backlog does not depend on the machine's speed.
    cluster.nodes[0].kill();
    let burst: Vec<_> = posts(2_000 * AUTHORS).into_iter().step_by(AUTHORS).collect();
    cluster.write_unclaimed(&burst, 1).await;
    cluster.nodes[0].start_again().await;
    let node = &cluster.nodes[0];
    let mut fan = Client::connect(node, "fan").await;
    let (mut waited, mut left) = (Vec::new(), u64::MAX);
    for n in 0..6 {
        let begun = Instant::now();
        let id = post(node, "small", &format!("{n}")).await;
        while fan.publication("timeline:fan").await["data"]["post"]["id"] != id {}
        waited.push(begun.elapsed());
        left = cluster.backlog().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(left > 0, "the backlog ended before the last post: {waited:?}");
    let slowest = waited.iter().max().expect("six posts");
    assert!(*slowest < Duration::from_secs(1), "behind {left} jobs: {waited:?}");
}
