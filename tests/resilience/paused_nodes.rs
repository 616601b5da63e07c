//! A node that was paused or missed a notification answers from the log, and not from its cached position.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chaos;
use crate::client::Client;
use crate::cluster::{Cluster, done, pause, post, resume, until};
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// Subscribes with a recovery from the client's position. Returns the result.
async fn recover_topic(client: &mut Client, from: &Value) -> Value {
    // Replies omit an offset of 0.
    let (offset, epoch) = (from["offset"].as_u64().unwrap_or(0), &from["epoch"]);
    let subscribe = json!({ "channel": "topic:t", "recover": true, "offset": offset, "epoch": epoch });
    client.done(json!({ "subscribe": subscribe })).await["subscribe"].clone()
}

/// The posts of a recovery, which must have succeeded.
fn recovered(result: &Value, what: &str) -> Vec<u64> {
    assert_eq!(result["recovered"], true, "{what}: {result}");
    let received = result["publications"].as_array().map(Vec::as_slice).unwrap_or_default();
    received.iter().filter_map(|received| received["data"]["post"]["id"].as_u64()).collect()
}

/// The client's position after a recovery and further pushes, until all `posts` have arrived.
async fn move_on(client: &mut Client, channel: &str, result: &Value, posts: &[u64], what: &str) -> Value {
    let mut received = recovered(result, what);
    let last = result["publications"].as_array().and_then(|all| all.last());
    let mut offset = last.map_or(&result["offset"], |last| &last["offset"]).clone();
    while received.len() < posts.len() {
        let publication = client.publication(channel).await;
        received.extend(publication["data"]["post"]["id"].as_u64());
        offset = publication["offset"].clone();
    }
    assert_eq!(received, posts, "{what}, {channel}");
    json!({ "offset": offset, "epoch": result["epoch"] })
}

/// bo is connected to both nodes, so that each has rooms for his timeline and a topic.
struct Scene {
    _there: Client,
    _here: Client,
    timeline: Value,
    topic: Value,
}

impl Scene {
    async fn set([here, there]: [&Server; 2]) -> Self {
        done(here, "ann", "GET", "/users/ann").await;
        done(here, "bo", "PUT", "/users/ann/follow").await;
        let (mut at_here, mut at_there) = (Client::connect(here, "bo").await, Client::connect(there, "bo").await);
        let timeline = at_here.rpc("timeline.read", &json!({})).await["position"].clone();
        at_there.subscribe("topic:t").await;
        let topic = at_here.subscribe("topic:t").await;
        Self { _there: at_there, _here: at_here, timeline, topic }
    }

    /// The client reads new posts here, while the other node is behind.
    async fn read_on(&mut self, cluster: &Cluster, here: &Server, posts: &[u64], what: &str) {
        cluster.carried(PATIENCE).await;
        let (mut client, timeline) = Client::recover(here, "bo", &self.timeline).await;
        self.timeline = move_on(&mut client, "timeline:bo", &timeline, posts, what).await;
        let topic = recover_topic(&mut client, &self.topic).await;
        self.topic = move_on(&mut client, "topic:t", &topic, posts, what).await;
    }

    /// The client moves to the other node, which is behind the client's position. The client must miss no posts.
    async fn go(&mut self, there: &Server, what: &str) -> Client {
        let (mut client, timeline) = Client::recover(there, "bo", &self.timeline).await;
        assert_eq!(recovered(&timeline, what), [0; 0], "{what}");
        let topic = recover_topic(&mut client, &self.topic).await;
        assert_eq!(recovered(&topic, what), [0; 0], "{what}");
        client
    }
}

async fn clients_ahead_of_a_paused_node_miss_nothing(cluster: Cluster) {
    let [here, there] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut scene = Scene::set([here, there]).await;
    for round in 0..chaos::rounds(6, 60) {
        let what = format!("round {round}");
        pause(there);
        let mut posts = Vec::new();
        for n in 0..5 {
            posts.push(post(here, "ann", &format!("{n} #t")).await);
        }
        scene.read_on(&cluster, here, &posts, &what).await;
        resume(there);
        let mut client = scene.go(there, &what).await;
        // From then on it receives all new posts.
        let next = post(here, "ann", "next #t").await;
        for channel in ["timeline:bo", "topic:t"] {
            assert_eq!(client.publication(channel).await["data"]["post"]["id"], next, "{what}, {channel}");
        }
        scene.read_on(&cluster, here, &[next], &what).await;
    }
}

mod on_sqlite {
    #[tokio::test]
    async fn clients_ahead_of_a_paused_node_miss_nothing() {
        super::clients_ahead_of_a_paused_node_miss_nothing(crate::cluster::Cluster::start().await).await;
    }
}

mod on_postgres {
    #[tokio::test]
    async fn clients_ahead_of_a_paused_node_miss_nothing() {
        let redis = crate::redis_server::RedisServer::start();
        let cluster = crate::cluster::Cluster::start_on_postgres(redis, 2, &[]).await;
        super::clients_ahead_of_a_paused_node_miss_nothing(cluster).await;
    }
}

#[tokio::test]
async fn clients_ahead_of_an_isolated_node_miss_nothing() {
    let redis = RedisServer::start();
    let (proxy, url) = (Proxy::start(redis.port()).await, redis.url());
    // The node would detect the missed notifications by its own probes, but later.
    let mut cluster = Cluster::start_on(redis, &url, 1, &[("broker.probe_interval", "5s")]).await;
    cluster.join(&proxy.url()).await;
    let [here, there] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut scene = Scene::set([here, there]).await;
    assert_eq!(proxy.silence(), 1);
    for round in 0..5 {
        let what = format!("round {round}");
        let posts = [post(here, "ann", "one #t").await, post(here, "ann", "two #t").await];
        scene.read_on(&cluster, here, &posts, &what).await;
        scene.go(there, &what).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn new_epochs_are_detected_by_isolated_nodes() {
    let redis = RedisServer::start();
    let (proxy, url) = (Proxy::start(redis.port()).await, redis.url());
    let mut cluster = Cluster::start_on(redis, &url, 1, &[("broker.probe_interval", "5s")]).await;
    cluster.join(&proxy.url()).await;
    let [here, there] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut scene = Scene::set([here, there]).await;
    assert_eq!(proxy.silence(), 1);
    cluster.redis.ask("FLUSHALL");
    // The client starts in the new epoch here, and continues at the other node.
    let page = done(here, "bo", "GET", "/timeline").await;
    scene.timeline = page["position"].clone();
    let mut client = Client::connect(here, "cy").await;
    let topic = cluster.redis.ask("EXISTS feedline:{topic:t}:m");
    assert_eq!(topic, ":0");
    let posts = [post(here, "ann", "after #t").await];
    cluster.carried(PATIENCE).await;
    scene.topic = client.subscribe("topic:t").await;
    let (mut bo, timeline) = Client::recover(here, "bo", &scene.timeline).await;
    scene.timeline = move_on(&mut bo, "timeline:bo", &timeline, &posts, "here").await;
    scene.go(there, "there").await;
}

#[tokio::test]
async fn a_node_logs_that_it_was_paused() {
    let node = Server::start().await;
    pause(&node);
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    resume(&node);
    until("the pause is logged", async || node.log().contains("this node was paused")).await;
    let log = node.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("this node was paused")).collect();
    assert!(lines.len() == 1 && lines[0].contains("seconds=6"), "{log}");
}
