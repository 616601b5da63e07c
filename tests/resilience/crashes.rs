//! Nodes that crash or are paused during a fan-out.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::Value;

use crate::chaos;
use crate::cluster::{Cluster, LEASE, done, log_since, position, post, resume};
use crate::proxy::Proxy;
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// Enough followers that a fan-out takes a while, in pages of [`PAGE`].
const FOLLOWERS: usize = 400;
const PAGE: &str = "8";

/// Followers `f0000`, `f0002`, …: the names between them are free for later followers.
fn follower(n: usize) -> String {
    format!("f{:04}", 2 * n)
}

/// Starts a cluster whose author has many followers, each with a timeline.
async fn famous() -> Cluster {
    with_a_famous_author(Cluster::start_with(2, &[("fanout.page", PAGE)]).await).await
}

/// Like [`famous`], on PostgreSQL.
async fn famous_on_postgres() -> Cluster {
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[("fanout.page", PAGE)]).await;
    with_a_famous_author(cluster).await
}

async fn with_a_famous_author(cluster: Cluster) -> Cluster {
    let edges: Vec<_> = (0..FOLLOWERS).map(|n| (follower(n), "ann".to_owned())).collect();
    cluster.load(&edges).await;
    cluster
}

/// The current positions of the users' timelines.
pub(crate) async fn positions(node: &Server, users: &[String]) -> Vec<Value> {
    stream::iter(users).map(|user| position(node, user)).buffered(8).collect().await
}

/// Checks that each user has the post once in the log since their position, and once on their page.
async fn assert_each_has_it_once(node: &Server, users: &[String], since: &[Value], id: u64, seed: u64) {
    let each = stream::iter(users.iter().zip(since)).map(|(user, since)| async move {
        let received = log_since(node, user, since).await;
        let arrived = received.iter().filter(|(_, kind, post)| kind == "post" && *post == id).count();
        let page = done(node, user, "GET", "/timeline?limit=20").await;
        let read = page["items"].as_array().expect("items").iter().filter(|item| item["id"] == id).count();
        ((arrived, read) != (1, 1)).then(|| format!("{user}: {arrived} times in the log, {read} on the page"))
    });
    let wrong: Vec<String> = each.buffer_unordered(8).filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "seed {seed}, post {id}: {} of {}: {wrong:?}", wrong.len(), users.len());
}

/// Some users follow and others unfollow between two pages of the first node, so that the other node's pages begin at
/// other users.
async fn come_and_go(node: &Server, random: &mut SeededRandom, users: &mut Vec<String>, since: &mut Vec<Value>) {
    for _ in 0..3 {
        let at = random.below(users.len());
        done(node, &users[at], "DELETE", "/users/ann/follow").await;
        users.remove(at);
        since.remove(at);
        let new = format!("f{:04}", 2 * random.below(FOLLOWERS) + 1);
        if !users.contains(&new) {
            let begin = position(node, &new).await;
            done(node, &new, "PUT", "/users/ann/follow").await;
            users.push(new);
            since.push(begin);
        }
    }
}

#[tokio::test]
async fn posts_of_a_killed_node_reach_each_follower_once() {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let mut cluster = famous().await;
    let mut users: Vec<String> = (0..FOLLOWERS).map(follower).collect();
    for round in 0..SeededRandom::rounds(2) {
        // All four pairs of a node and a way within four rounds.
        let dying = (round + round / 2) % 2;
        let other = 1 - dying;
        let mut since = positions(&cluster.nodes[other], &users).await;
        let id = post(&cluster.nodes[dying], "ann", "is it there").await;
        tokio::time::sleep(Duration::from_micros(random.below(60_000) as u64)).await;
        cluster.nodes[dying].kill();
        come_and_go(&cluster.nodes[other], &mut random, &mut users, &mut since).await;
        // Either the surviving node takes over the job, or the killed node after its restart.
        if round % 2 == 0 {
            let taken_over = cluster.carried(LEASE + Duration::from_secs(5)).await;
            eprintln!("round {round}: carried {taken_over:?} after the crash");
        }
        cluster.nodes[dying].start_again().await;
        cluster.carried(LEASE + Duration::from_secs(5)).await;
        assert_each_has_it_once(&cluster.nodes[other], &users, &since, id, seed).await;
    }
}

#[tokio::test]
async fn nodes_paused_past_their_lease_repeat_nothing() {
    workers_paused_past_their_lease_repeat_nothing(famous().await).await;
}

#[tokio::test]
async fn nodes_paused_past_their_lease_repeat_nothing_on_postgres() {
    workers_paused_past_their_lease_repeat_nothing(famous_on_postgres().await).await;
}

async fn workers_paused_past_their_lease_repeat_nothing(cluster: Cluster) {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let mut users: Vec<String> = (0..FOLLOWERS).map(follower).collect();
    for round in 0..SeededRandom::rounds(chaos::rounds(2, 30)) {
        let (still, other) = (&cluster.nodes[round % 2], &cluster.nodes[1 - round % 2]);
        let mut since = positions(other, &users).await;
        let id = post(still, "ann", "is it there").await;
        tokio::time::sleep(Duration::from_micros(random.below(40_000) as u64)).await;
        cluster.pause_without_lock(still).await;
        come_and_go(other, &mut random, &mut users, &mut since).await;
        cluster.carried(LEASE + Duration::from_secs(5)).await;
        resume(still);
        // The author's next post is in the same queue: once it is delivered, the first post is delivered, too.
        post(still, "ann", "after it").await;
        cluster.carried(PATIENCE).await;
        assert_each_has_it_once(other, &users, &since, id, seed).await;
    }
}

#[tokio::test]
async fn posts_in_fan_out_are_removed_for_users_who_unfollow() {
    let mut cluster = famous().await;
    let proxy = Proxy::start(cluster.redis.port()).await;
    cluster.join(&proxy.url()).await;
    let [_, other, slow] = &cluster.nodes[..] else { panic!("three nodes") };
    for round in 0..4 {
        // One user per page.
        let users: Vec<String> = (0..FOLLOWERS).filter(|n| n % 8 == round).map(follower).collect();
        let since = positions(other, &users).await;
        let id = post(slow, "ann", "who is it for").await;
        // Some pages were read and are on their way to Redis. They arrive after their users have unfollowed.
        proxy.hold(true);
        stream::iter(&users)
            .for_each_concurrent(8, async |user| _ = done(other, user, "DELETE", "/users/ann/follow").await)
            .await;
        proxy.hold(false);
        cluster.carried(PATIENCE).await;
        for (user, since) in users.iter().zip(&since) {
            let log = log_since(other, user, since).await;
            let about: Vec<_> = log.iter().filter(|(_, _, post)| *post == id).collect();
            // Each insertion has a matching removal, and both are reported as `gone`.
            let gone = about.iter().all(|(_, kind, _)| kind == "gone");
            assert!(gone && about.len() % 2 == 0, "{user}: {log:?}");
        }
    }
}
