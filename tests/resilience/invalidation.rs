//! Changes that remove or hide content apply at every node before they are answered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline::broker::{InboxOptions, InboxStore, LedgerRecord, RedisBroker, RedisOptions};
use feedline::model::{Entry, InboxId, PostId, UserId};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::chaos;
use crate::cluster::{Cluster, attempt, done, post, resume, timeline, until};
use crate::proxy::Proxy;
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// The longest delay of an answer by a node that does not confirm, with a margin for a busy machine.
const LONGEST: Duration = Duration::from_secs(3);

/// A change that removes or hides content.
#[derive(Clone, Copy, Debug)]
enum Change {
    Delete,
    Edit,
    Restrict,
    Block,
    Hide,
    Unfollow,
    DeleteComment,
    Filter,
    Remove,
    Unrepost,
    RepostsOff,
    Detach,
    Exclusive,
    UnfollowTopic,
}

const CHANGES: [Change; 14] = [
    Change::Delete,
    Change::Edit,
    Change::Restrict,
    Change::Block,
    Change::Hide,
    Change::Unfollow,
    Change::DeleteComment,
    Change::Filter,
    Change::Remove,
    Change::Unrepost,
    Change::RepostsOff,
    Change::Detach,
    Change::Exclusive,
    Change::UnfollowTopic,
];

/// A post by ann that a user has read at the other node, and a comment on it.
struct Scene {
    change: Change,
    reader: String,
    post: u64,
    comment: Value,
    /// The repost or the quote of the post by bo, or the reader's exclusive list; 0 if the change needs none.
    other: u64,
}

/// Calls an operation that creates an object, and returns its id.
async fn created(node: &Server, user: &str, method: &str, path: &str, body: &Value) -> u64 {
    let (status, body) = attempt(node, user, method, path, body).await;
    assert!(matches!(status, 200 | 201), "{method} {path}: {status} {body}");
    body["id"].as_u64().expect("an id")
}

impl Scene {
    /// Writes everything at one node, and reads it at the other to fill the cache.
    async fn set(change: Change, round: usize, [a, b]: [&Server; 2]) -> Self {
        let reader = format!("reader{round}");
        for user in [&*reader, "bo"] {
            done(a, user, "GET", &format!("/users/{user}")).await;
        }
        let post = match change {
            Change::Unfollow => {
                done(a, &reader, "PUT", "/users/ann/follow").await;
                created(a, "ann", "POST", "/posts", &json!({ "text": "old", "visibility": "followers" })).await
            }
            Change::Exclusive => {
                done(a, &reader, "PUT", "/users/ann/follow").await;
                post(a, "ann", "old").await
            }
            Change::UnfollowTopic => {
                done(a, &reader, "PUT", "/topics/news/follow").await;
                post(a, "ann", "old #news").await
            }
            _ => post(a, "ann", "old").await,
        };
        let comments = format!("/posts/{post}/comments");
        let (_, comment) = attempt(a, "ann", "POST", &comments, &json!({ "text": "a comment" })).await;
        let other = match change {
            Change::Unrepost | Change::RepostsOff => {
                done(a, &reader, "PUT", "/users/bo/follow").await;
                created(a, "bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await
            }
            Change::Detach => created(a, "bo", "POST", "/posts", &json!({ "text": "look", "quote": post })).await,
            Change::Exclusive => {
                created(a, &reader, "POST", "/lists", &json!({ "name": "near", "exclusive": true })).await
            }
            _ => 0,
        };
        let scene = Self { change, reader, post, comment: comment["id"].clone(), other };
        until("the other node shows it", async || scene.shows_old(b).await).await;
        scene
    }

    async fn act(&self, a: &Server) {
        let (status, body) = self.try_to_act(a).await;
        assert!(matches!(status, 200 | 201), "{:?}: {status} {body}\n{}", self.change, a.log());
    }

    async fn try_to_act(&self, a: &Server) -> (u16, Value) {
        let (ann, reader, path) = ("ann", &*self.reader, format!("/posts/{}", self.post));
        let (user, method, path, body) = match self.change {
            Change::Delete => (ann, "DELETE", path, Value::Null),
            Change::Edit => (ann, "PATCH", path, json!({ "text": "new" })),
            Change::Restrict => (ann, "PATCH", path, json!({ "visibility": "followers" })),
            Change::Block => (ann, "PUT", format!("/users/{reader}/block"), Value::Null),
            Change::Hide => (ann, "PUT", format!("/users/{reader}/hide"), Value::Null),
            Change::Unfollow => (reader, "DELETE", "/users/ann/follow".to_owned(), Value::Null),
            Change::DeleteComment => (ann, "DELETE", format!("/comments/{}", self.comment), Value::Null),
            Change::Filter => (reader, "POST", "/filters".to_owned(), json!({ "words": ["old"] })),
            Change::Remove => ("", "PUT", format!("{path}/removal"), json!({ "reason": "a rule" })),
            Change::Unrepost => ("bo", "DELETE", format!("{path}/repost"), Value::Null),
            Change::RepostsOff => (reader, "PUT", "/users/bo/reposts/mute".to_owned(), Value::Null),
            Change::Detach => (ann, "DELETE", format!("/posts/{}/quote", self.other), Value::Null),
            Change::Exclusive => (reader, "PUT", format!("/lists/{}/users/ann", self.other), Value::Null),
            Change::UnfollowTopic => (reader, "DELETE", "/topics/news/follow".to_owned(), Value::Null),
        };
        attempt(a, user, method, &path, &body).await
    }

    /// Whether a node still answers with the old state.
    async fn shows_old(&self, node: &Server) -> bool {
        let reader = &self.reader;
        match self.change {
            Change::DeleteComment => {
                let path = format!("/comments/{}/like", self.comment);
                attempt(node, reader, "PUT", &path, &Value::Null).await.0 == 200
            }
            Change::Filter => {
                let page = done(node, reader, "GET", "/posts/explore?limit=50").await;
                page["items"].as_array().is_some_and(|items| items.iter().any(|item| item["id"] == self.post))
            }
            Change::Detach => {
                let quote = done(node, reader, "GET", &format!("/posts/{}", self.other)).await;
                quote["quote"]["state"] == "shown"
            }
            Change::Unrepost | Change::RepostsOff => timeline(node, reader).await.contains(&self.other),
            Change::Exclusive | Change::UnfollowTopic => timeline(node, reader).await.contains(&self.post),
            _ => {
                let (status, body) = attempt(node, reader, "GET", &format!("/posts/{}", self.post), &Value::Null).await;
                assert!(matches!(status, 200 | 404), "{:?}: {status} {body}", self.change);
                status == 200 && body["text"] == "old"
            }
        }
    }

    async fn is_gone(&self, round: usize, node: &Server) {
        for read in 0..3 {
            assert!(!self.shows_old(node).await, "round {round}, read {read}: {:?} is not in force", self.change);
        }
    }
}

async fn changes_apply_at_the_other_node_before_the_answer(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(140, 2_100) {
        let scene = Scene::set(CHANGES[round % CHANGES.len()], round, [a, b]).await;
        scene.act(a).await;
        scene.is_gone(round, b).await;
    }
    let (sum, count) = ("feedline_invalidation_wait_seconds_sum", "feedline_invalidation_wait_seconds_count");
    let (sum, count) = (a.metric(sum).await.expect("a sample"), a.metric(count).await.expect("a sample"));
    eprintln!("{count} changes waited {:.2} ms each for the other node", 1_000.0 * sum / count);
}

/// Data that is read while a post changes does not stay in the cache.
async fn concurrent_reads_do_not_restore_stale_data(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(40, 700) {
        let scene = Scene::set([Change::Delete, Change::Edit, Change::Block][round % 3], round, [a, b]).await;
        let over = AtomicBool::new(false);
        let read = async || {
            while !over.load(Ordering::SeqCst) {
                scene.shows_old(b).await;
            }
        };
        let change = async {
            scene.act(a).await;
            scene.is_gone(round, b).await;
            over.store(true, Ordering::SeqCst);
        };
        tokio::join!(read(), read(), read(), change);
    }
}

async fn woken_nodes_do_not_serve_stale_data(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(CHANGES.len(), 140) {
        let scene = Scene::set(CHANGES[round % CHANGES.len()], round, [a, b]).await;
        cluster.pause_without_lock(b).await;
        let begun = Instant::now();
        scene.act(a).await;
        let took = begun.elapsed();
        resume(b);
        scene.is_gone(round, b).await;
        assert!(took < LONGEST, "round {round}: {:?} took {took:?}", scene.change);
    }
}

/// A follow is in force at every node before its answer: the next post reaches the follower, although the node that
/// stores it has just read the author's followers. Every other round, that node is paused during the follow.
async fn new_followers_get_the_next_post_of_every_node(cluster: Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(40, 600) {
        let reader = format!("follower{round}");
        // An inbox that is not built from the ledger later.
        done(a, &reader, "GET", "/timeline").await;
        post(b, "ann", "nobody misses it").await;
        if round % 2 == 1 {
            cluster.pause_without_lock(b).await;
        }
        done(a, &reader, "PUT", "/users/ann/follow").await;
        resume(b);
        let next = post(b, "ann", "the next").await;
        cluster.carried(PATIENCE).await;
        let page = done(a, &reader, "GET", "/timeline").await;
        let newest = page["items"].as_array().and_then(|items| items.first()).map(|item| item["id"].clone());
        assert_eq!(newest, Some(json!(next)), "round {round}: {page}");
    }
}

/// The posts in an inbox.
async fn held(broker: &RedisBroker, user: &str) -> BTreeSet<PostId> {
    let inbox = broker
        .read_inbox(&InboxId::Timeline(UserId::parse(user).expect("an id")))
        .await
        .expect("an answer")
        .expect("an inbox");
    let mut held = BTreeSet::new();
    for (_, entry) in inbox.entries {
        match entry {
            Entry::Post(id) => _ = held.insert(id),
            Entry::Gone(id, _) => _ = held.remove(&id),
            _ => {}
        }
    }
    held
}

/// A timeline build that read the ledger before an unfollow, and writes the inbox after it, leaves no posts of the
/// followee.
async fn unfollows_during_a_timeline_build_remove_the_posts(cluster: Cluster) {
    let mut random = SeededRandom::new(SeededRandom::seed());
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let options = RedisOptions {
        url: cluster.redis.url(),
        timeout: PATIENCE,
        prefix: "feedline".into(),
        inbox: InboxOptions { length: 1_000, idle: PATIENCE },
        probe_every: PATIENCE,
    };
    let broker = RedisBroker::connect(options).await.expect("a broker");
    // Identifies the ledger's incarnation as the nodes do. Logs of another incarnation count as lost.
    let identity = cluster.redis.ask(r#"EVAL "return {ok=redis.call('HGET','feedline:ledger','i')}" 0"#);
    broker.use_incarnation(identity.trim_start_matches('+').split(' ').next().expect("an incarnation"));
    for n in 0..20 {
        post(a, "ann", &format!("post {n}")).await;
    }
    for round in 0..chaos::rounds(60, 600) {
        done(a, "bo", "PUT", "/users/ann/follow").await;
        cluster.carried(PATIENCE).await;
        cluster.redis.ask("DEL feedline:{timeline:bo}:l feedline:{timeline:bo}:m");
        let later = Duration::from_micros(random.below(3_000) as u64);
        let read = async {
            tokio::time::sleep(later).await;
            done(b, "bo", "GET", "/timeline?limit=1").await
        };
        tokio::join!(read, done(a, "bo", "DELETE", "/users/ann/follow"));
        cluster.carried(PATIENCE).await;
        assert_eq!(held(&broker, "bo").await, BTreeSet::new(), "round {round}, {later:?}");
    }
}

/// Defines a test of each case for each ledger.
macro_rules! on_both_ledgers {
    ($($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::cluster::Cluster::start().await).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $case() {
                let redis = crate::redis_server::RedisServer::start();
                super::$case(crate::cluster::Cluster::start_on_postgres(redis, 2, &[]).await).await;
            })*
        }
    };
}

on_both_ledgers! {
    changes_apply_at_the_other_node_before_the_answer
    concurrent_reads_do_not_restore_stale_data
    woken_nodes_do_not_serve_stale_data
    new_followers_get_the_next_post_of_every_node
    unfollows_during_a_timeline_build_remove_the_posts
}

/// Starts a node with a direct connection to Redis, and one that connects through a proxy.
async fn with_a_proxy() -> (Cluster, Proxy) {
    let redis = RedisServer::start();
    let (proxy, url) = (Proxy::start(redis.port()).await, redis.url());
    let mut cluster = Cluster::start_on(redis, &url, 1, &[]).await;
    cluster.join(&proxy.url()).await;
    (cluster, proxy)
}

#[tokio::test]
async fn isolated_nodes_do_not_serve_stale_data() {
    let (cluster, proxy) = with_a_proxy().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(28, 280) {
        let scene = Scene::set(CHANGES[round % CHANGES.len()], round, [a, b]).await;
        proxy.silence();
        scene.act(a).await;
        scene.is_gone(round, b).await;
    }
}

#[tokio::test]
async fn isolated_nodes_read_the_ledger() {
    let (cluster, proxy) = with_a_proxy().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for (round, change) in CHANGES[..6].iter().enumerate() {
        let scene = Scene::set(*change, round, [a, b]).await;
        proxy.hold(true);
        let begun = Instant::now();
        scene.act(a).await;
        let took = begun.elapsed();
        scene.is_gone(round, b).await;
        assert!(took < LONGEST, "{change:?} took {took:?}");
        proxy.hold(false);
        b.ready().await;
    }
    b.metric_is("feedline_cache_lease", 1.0).await;
}

/// Two nodes, of which Redis takes no scripts of the second one, whose changes are therefore stored but not announced.
/// Returns the changes, after some of which the first node serves the former state.
async fn with_unannounced_changes() -> (Cluster, Vec<Scene>) {
    let redis = RedisServer::start();
    let (port, url) = (redis.port(), redis.url());
    let mut cluster = Cluster::start_on(redis, &url, 1, &[]).await;
    cluster.redis.ask("ACL SETUSER second on >secret ~* &* +@all");
    cluster.join(&format!("redis://second:secret@127.0.0.1:{port}")).await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    done(b, "ann", "GET", "/users/ann").await;
    // A member of an exclusive list leaves the timeline with the repeat of the call, which has no job.
    let changes = CHANGES.into_iter().filter(|change| !matches!(change, Change::Exclusive));
    let scenes =
        join_all(changes.enumerate().map(async |(round, change)| Scene::set(change, round, [b, a]).await)).await;
    cluster.redis.ask("ACL SETUSER second -evalsha");
    let answers = join_all(scenes.iter().map(|scene| scene.try_to_act(b))).await;
    assert!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    let mut is_stale = false;
    for scene in &scenes {
        is_stale |= scene.shows_old(a).await;
    }
    assert!(is_stale, "all changes were announced");
    (cluster, scenes)
}

/// Waits until all changes are in force.
async fn all_are_gone(scenes: &[Scene], node: &Server, patience: Duration) {
    let until = Instant::now() + patience;
    for scene in scenes {
        while scene.shows_old(node).await {
            assert!(Instant::now() < until, "{:?} is not in force after {patience:?}", scene.change);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn changes_are_announced_when_redis_takes_them_again() {
    let (cluster, scenes) = with_unannounced_changes().await;
    cluster.redis.ask("ACL SETUSER second +@all");
    all_are_gone(&scenes, &cluster.nodes[0], Duration::from_secs(10)).await;
}

#[tokio::test]
async fn changes_of_a_node_that_stops_are_found() {
    let (mut cluster, scenes) = with_unannounced_changes().await;
    assert!(cluster.nodes[1].stop().await.success());
    all_are_gone(&scenes, &cluster.nodes[0], Duration::from_secs(40)).await;
}

#[tokio::test]
async fn changes_of_a_killed_node_are_found() {
    let (mut cluster, scenes) = with_unannounced_changes().await;
    cluster.nodes[1].kill();
    all_are_gone(&scenes, &cluster.nodes[0], Duration::from_secs(40)).await;
}
