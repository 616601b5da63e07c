//! Lost notifications of new log entries, and the channels that a node subscribes to.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::cluster::{Cluster, attempt, done, post, until};
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;

/// Receives `many` publications, as (offset, post), in order of arrival. The socket must stay open.
async fn publications(client: &mut Client, many: usize) -> Vec<(u64, u64)> {
    let mut received = Vec::new();
    while received.len() < many {
        match client.hear().await {
            Heard::Push(push) => {
                let publication = &push["pub"];
                let post = publication["data"]["post"]["id"].as_u64().expect("a post");
                received.push((publication["offset"].as_u64().expect("an offset"), post));
            }
            Heard::Ping => {}
            other => panic!("{other:?} after {} of {many}", received.len()),
        }
    }
    received
}

#[tokio::test]
async fn hints_lost_with_their_connection_are_recovered() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut bo = Client::connect(b, "bo").await;
    done(a, "ann", "GET", "/users/ann").await;
    done(b, "bo", "PUT", "/users/ann/follow").await;
    let mut expected = Vec::new();
    for n in 0..30 {
        if n % 4 == 1 {
            assert!(cluster.redis.ask("CLIENT KILL TYPE pubsub").starts_with(':'));
        }
        expected.push(post(a, "ann", "hello").await);
    }
    let posted = Instant::now();
    let received = publications(&mut bo, expected.len()).await;
    // Earlier than the regular comparison of positions.
    assert!(posted.elapsed() < Duration::from_secs(15), "took {:?}", posted.elapsed());
    let first = received[0].0;
    // Posts of one author at one node arrive in order.
    let wanted: Vec<_> = (first..).zip(expected).collect();
    assert_eq!(received, wanted);
}

/// The node that a reader leaves is still named as the only one that hears the inbox, and hears it for a while.
#[tokio::test]
async fn readers_that_move_between_nodes_miss_no_post() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut bo = Client::connect(a, "bo").await;
    done(a, "ann", "GET", "/users/ann").await;
    done(b, "bo", "PUT", "/users/ann/follow").await;
    let mut position = bo.rpc("timeline.read", &json!({})).await["position"].clone();
    let (mut expected, mut received) = (Vec::new(), Vec::new());
    for (n, node) in [b, a, b, b, a, a, b, a].into_iter().enumerate() {
        for _ in 0..3 {
            expected.push(post(a, "ann", "hello").await);
        }
        // Some posts arrive before the move, the others meanwhile.
        for _ in 0..n % 3 {
            let (offset, id) = publications(&mut bo, 1).await[0];
            position["offset"] = offset.into();
            received.push(id);
        }
        drop(bo);
        let (client, timeline) = Client::recover(node, "bo", &position).await;
        bo = client;
        assert_eq!(timeline["recovered"], true, "{timeline}");
        let missed = timeline["publications"].as_array().map(Vec::as_slice).unwrap_or_default();
        received.extend(missed.iter().filter_map(|missed| missed["data"]["post"]["id"].as_u64()));
        if let Some(last) = missed.last() {
            position["offset"] = last["offset"].clone();
        }
    }
    let moved = Instant::now();
    let rest = expected.len() - received.len();
    received.extend(publications(&mut bo, rest).await.into_iter().map(|(_, id)| id));
    assert_eq!(received, expected);
    // Earlier than the regular comparison of positions.
    assert!(moved.elapsed() < Duration::from_secs(10), "took {:?}", moved.elapsed());
}

#[tokio::test]
async fn silent_connections_are_detected() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let cluster = Cluster::start_on(redis, &proxy.url(), 1, &[]).await;
    let node = &cluster.nodes[0];
    let mut ann = Client::connect(node, "ann").await;
    assert_eq!(proxy.silence(), 1);
    let id = post(node, "ann", "does anybody hear").await;
    let posted = Instant::now();
    assert_eq!(publications(&mut ann, 1).await[0].1, id);
    // Two unanswered probes, one every 200 ms, and a reconnect: much earlier than the regular comparison of positions.
    assert!(posted.elapsed() < Duration::from_secs(10), "took {:?}", posted.elapsed());
    let next = post(node, "ann", "and now").await;
    assert_eq!(publications(&mut ann, 1).await[0].1, next);
}

#[tokio::test]
async fn missed_deletions_are_not_served_from_the_cache() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let cluster = Cluster::start_on(redis, &proxy.url(), 2, &[]).await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let id = post(a, "ann", "for a moment only").await;
    let path = format!("/posts/{id}");
    assert_eq!(done(b, "bo", "GET", &path).await["id"], id);
    assert_eq!(proxy.silence(), 2);
    done(a, "ann", "DELETE", &path).await;
    let deleted = Instant::now();
    until("the other node does not know the post any more", async || {
        attempt(b, "bo", "GET", &path, &Value::Null).await.0 == 404
    })
    .await;
    assert!(deleted.elapsed() < Duration::from_secs(10), "took {:?}", deleted.elapsed());
}

#[tokio::test]
async fn nodes_listen_to_channels_with_local_readers() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let listeners = async |channel: &str| {
        let url = cluster.redis.url();
        let client = redis::Client::open(url).expect("a url");
        let mut asking = client.get_multiplexed_async_connection().await.expect("redis");
        let pattern = format!("*{channel}*");
        let names: Vec<String> =
            redis::cmd("PUBSUB").arg("CHANNELS").arg(pattern).query_async(&mut asking).await.expect("channels");
        let Some(name) = names.first() else { return 0 };
        let (_, many): (String, u64) =
            redis::cmd("PUBSUB").arg("NUMSUB").arg(name).query_async(&mut asking).await.expect("a number");
        many
    };
    assert_eq!(listeners("topic:rust").await, 0);
    let mut first = Client::connect(a, "ann").await;
    first.subscribe("topic:rust").await;
    assert_eq!(listeners("topic:rust").await, 1);
    let mut second = Client::connect(a, "bo").await;
    second.subscribe("topic:rust").await;
    assert_eq!(listeners("topic:rust").await, 1, "one for all readers of a node");
    let mut third = Client::connect(b, "cy").await;
    third.subscribe("topic:rust").await;
    assert_eq!(listeners("topic:rust").await, 2);
    assert_eq!(listeners("timeline:cy").await, 1);

    // The node keeps its subscription for a while after the last reader has left, and then ends it.
    drop(third);
    first.done(json!({ "unsubscribe": { "channel": "topic:rust" } })).await;
    until("only the node with a reader listens", async || listeners("topic:rust").await == 1).await;
    until("nobody listens to the timeline", async || listeners("timeline:cy").await == 0).await;
    drop(second);
    drop(first);
    until("nobody listens", async || listeners("topic:rust").await == 0).await;
}
