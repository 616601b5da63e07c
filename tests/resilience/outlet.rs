//! The outlet during failures: receivers that are down, processes that are killed, a Redis that lost its data.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::push_process::PushProcess;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};
use crate::webhook::WebhookReceiver;

/// The configuration of a webhook.
fn keys(receiver: &WebhookReceiver) -> Vec<(&'static str, String)> {
    let secret = "a secret of the outlet with 32 characters or more";
    let webhooks = json!([{ "name": "hook", "url": receiver.url(), "secrets": [secret], "types": ["post.created"] }]);
    vec![("outlet.webhooks", webhooks.to_string()), ("outlet.allow_networks", "127.0.0.0/8".into())]
}

fn borrowed<'a>(keys: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    keys.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

/// Writes posts of four users. Returns their ids, in order.
async fn posts(server: &Server, number: usize) -> Vec<u64> {
    let mut posts = Vec::new();
    for n in 0..number {
        posts.push(server.post(&format!("user-{}", n % 4), &format!("post {n}")).await);
    }
    posts
}

/// Fails unless the accepted events are these posts, those of each user in order. Returns how many came twice.
fn check(accepted: &[Value], posts: &[u64]) -> usize {
    let (mut seen, mut last) = (HashSet::new(), BTreeMap::new());
    let mut repeated = 0;
    for event in accepted {
        let post = event["post"].as_u64().expect("a post");
        if !seen.insert(post) {
            repeated += 1;
            continue;
        }
        let user = event["user"].as_str().expect("a user").to_owned();
        let before = last.insert(user.clone(), post);
        assert!(before.is_none_or(|before| before < post), "{user}: {post} after {before:?}");
    }
    let missing: Vec<&u64> = posts.iter().filter(|post| !seen.contains(post)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    repeated
}

fn distinct(accepted: &[Value]) -> usize {
    accepted.iter().filter_map(|event| event["post"].as_u64()).collect::<HashSet<_>>().len()
}

async fn survives_a_receiver_that_is_down(server: &Server, receiver: &mut WebhookReceiver) {
    let is_long = std::env::var("FEEDLINE_CHAOS").is_ok_and(|value| value == "1");
    let down = Duration::from_secs(if is_long { 600 } else { 20 });
    let mut all = posts(server, 20).await;
    receiver.wait(PATIENCE, |accepted| distinct(accepted) == 20).await;
    receiver.stop().await;
    let until = Instant::now() + down;
    while Instant::now() < until {
        all.extend(posts(server, 4).await);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let attempts = receiver.deliveries().len();
    assert_eq!(attempts, 20, "nothing arrives at a receiver that is down");
    receiver.start_again().await;
    all.extend(posts(server, 20).await);
    let accepted = receiver.wait(6 * PATIENCE, |accepted| distinct(accepted) == all.len()).await;
    assert_eq!(check(&accepted, &all), 0, "nothing that was accepted is repeated");
}

#[tokio::test]
async fn a_receiver_that_is_down_misses_nothing_on_sqlite() {
    let mut receiver = WebhookReceiver::start(|_| 200).await;
    let server = Server::start_with(&borrowed(&keys(&receiver))).await;
    survives_a_receiver_that_is_down(&server, &mut receiver).await;
}

#[tokio::test]
async fn a_receiver_that_is_down_misses_nothing_on_postgres() {
    let mut receiver = WebhookReceiver::start(|_| 200).await;
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &borrowed(&keys(&receiver))).await;
    survives_a_receiver_that_is_down(&cluster.nodes[1], &mut receiver).await;
}

#[tokio::test]
async fn a_killed_process_loses_no_event() {
    let receiver = WebhookReceiver::start(|_| 200).await;
    let mut server = Server::start_with(&borrowed(&keys(&receiver))).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend(posts(&server, 40).await);
        server.kill();
        server.start_again().await;
    }
    let accepted = receiver.wait(4 * PATIENCE, |accepted| distinct(accepted) == all.len()).await;
    let repeated = check(&accepted, &all);
    assert!(repeated <= 3 * 100, "{repeated} were delivered and not recorded: at most a batch for each kill");
}

#[tokio::test]
async fn another_node_takes_over_from_a_killed_one() {
    let receiver = WebhookReceiver::start(|_| 200).await;
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &borrowed(&keys(&receiver))).await;
    let mut all = posts(&cluster.nodes[0], 20).await;
    receiver.wait(PATIENCE, |accepted| distinct(accepted) == 20).await;
    // One of the two owns the webhook. The other one writes and delivers what follows.
    let mut holder = 0;
    for (n, node) in cluster.nodes.iter().enumerate() {
        let name = "feedline_outlet_delivered_total{consumer=\"webhook:hook\"}";
        holder = if node.metric(name).await.unwrap_or(0.0) > 0.0 { n } else { holder };
    }
    cluster.nodes[holder].kill();
    let begun = Instant::now();
    all.extend(posts(&cluster.nodes[1 - holder], 20).await);
    let accepted = receiver.wait(2 * PATIENCE, |accepted| distinct(accepted) == 40).await;
    check(&accepted, &all);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    cluster.nodes[holder].start_again().await;
    all.extend(posts(&cluster.nodes[holder], 20).await);
    let accepted = receiver.wait(2 * PATIENCE, |accepted| distinct(accepted) == 60).await;
    check(&accepted, &all);
}

#[tokio::test]
async fn a_process_for_pushes_alone_sends_webhooks() {
    let works = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&works);
    let receiver = WebhookReceiver::start(move |_| if switch.load(Relaxed) { 200 } else { 409 }).await;
    let mut keys = keys(&receiver);
    keys.push(("outlet.stream", "true".into()));
    let mut cluster = Cluster::start_with(1, &borrowed(&keys)).await;
    let _process = PushProcess::start(&cluster.nodes[0]);
    let mut all = posts(&cluster.nodes[0], 8).await;
    let until = Instant::now() + PATIENCE;
    while receiver.deliveries().len() < 4 {
        assert!(Instant::now() < until, "{:?}", receiver.deliveries());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A process for pushes sends what is in the log of the outlet; it does not append to it.
    stream_has(&cluster.redis, 8).await;
    cluster.nodes[0].kill();
    works.store(true, Relaxed);
    let accepted = receiver.wait(2 * PATIENCE, |accepted| distinct(accepted) == 8).await;
    check(&accepted, &all);
    // It left the other work alone: a node that starts again appends its events to the log.
    cluster.nodes[0].start_again().await;
    all.extend(posts(&cluster.nodes[0], 4).await);
    let accepted = receiver.wait(2 * PATIENCE, |accepted| distinct(accepted) == 12).await;
    check(&accepted, &all);
}

/// Waits until the stream has this many events.
async fn stream_has(redis: &RedisServer, number: usize) {
    let until = Instant::now() + PATIENCE;
    while redis.ask("XLEN feedline:outlet") != format!(":{number}") {
        assert!(Instant::now() < until, "{} of {number}", redis.ask("XLEN feedline:outlet"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_stream_is_filled_again() {
    let cluster = Cluster::start_with(2, &[("outlet.stream", "true")]).await;
    let redis = &cluster.redis;
    posts(&cluster.nodes[0], 12).await;
    stream_has(redis, 12).await;
    let before = redis.ask_all("XRANGE feedline:outlet - +");
    assert!(before.contains("post.created") && before.contains("12-0"), "{before}");
    assert_eq!(redis.ask("XGROUP CREATE feedline:outlet workers 0"), "+OK");
    let refilled = cluster.nodes[0].command(&["outlet", "refill"]);
    assert!(refilled.status.success(), "{refilled:?}");
    stream_has(redis, 12).await;
    assert_eq!(redis.ask_all("XRANGE feedline:outlet - +"), before, "the same events with the same ids");
    posts(&cluster.nodes[1], 3).await;
    stream_has(redis, 15).await;
    // Redis loses the stream.
    assert_eq!(redis.ask("DEL feedline:outlet"), ":1");
    stream_has(redis, 15).await;
}
