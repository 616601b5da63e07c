//! Streams with commands at another node, while nodes and Redis fail.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Heard, Wire};
use crate::cluster::{Cluster, until};
use crate::server::{PATIENCE, Server, token};
use crate::stream_socket::StreamKind;

const CHAT: (&str, &str) =
    ("namespaces", r#"[{"name":"chat","history_size":500,"history_ttl":"60s","publish":"subscriber"}]"#);

const KINDS: [StreamKind; 3] = [StreamKind::Json, StreamKind::Protobuf, StreamKind::Events];

async fn connect(client: &mut Client, user: &str) -> (String, String) {
    let connected = client.done(json!({ "connect": { "token": token(user) } })).await;
    let text = |name: &str| connected["connect"][name].as_str().expect("a name").to_owned();
    (text("session"), text("node"))
}

/// Sends commands to a node. Returns the status.
async fn emulate(node: &Server, session: &str, of: &str, data: &Value) -> u16 {
    let body = json!({ "session": session, "node": of, "data": data.to_string() }).to_string();
    node.http("POST", "/emulation", &[("content-type", "application/json")], &body).await.status.as_u16()
}

#[tokio::test]
async fn commands_reach_a_stream_at_another_node_in_order() {
    let cluster = Cluster::start_with(3, &[CHAT]).await;
    let [a, b, c] = &cluster.nodes[..] else { panic!("three nodes") };
    for (kind, channel) in KINDS.into_iter().zip(["chat:1", "chat:2", "chat:3"]) {
        let mut client = Client::stream_via(vec![a.port(), b.port()], kind);
        connect(&mut client, "ann").await;
        let mut other = Client::connect_over(c, "bo", Wire::Stream(kind)).await;
        client.subscribe(channel).await;
        other.subscribe(channel).await;
        let mut ids = Vec::new();
        for n in 0..40 {
            ids.push(client.command(json!({ "publish": { "channel": channel, "data": { "n": n } } })).await);
        }
        for id in ids {
            assert!(client.reply(id).await.get("publish").is_some());
        }
        for n in 0..40 {
            assert_eq!(client.publication(channel).await["data"]["n"], n);
            assert_eq!(other.publication(channel).await["data"]["n"], n);
        }
    }
    assert_eq!(b.metric("feedline_emulation_requests_total{outcome=\"forwarded\"}").await, Some(3.0 * 41.0));
    b.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn a_killed_node_is_not_found_and_its_clients_recover_elsewhere() {
    let mut cluster = Cluster::start_with(2, &[CHAT]).await;
    let [a, b] = [0, 1].map(|node| cluster.nodes[node].port());
    let mut client = Client::stream_via(vec![a, b], StreamKind::Json);
    let (session, node) = connect(&mut client, "ann").await;
    let joined = client.subscribe("chat:1").await;
    client.done(json!({ "publish": { "channel": "chat:1", "data": 1 } })).await;
    client.publication("chat:1").await;

    // The node with the stream is killed: its stream ends, and other nodes know nothing of it.
    cluster.nodes[0].kill();
    assert_eq!(client.closed().await.0, 1006);
    let command = json!({ "id": 9, "unsubscribe": { "channel": "chat:1" } });
    let survivor = &cluster.nodes[1];
    until("the node is unknown", async || emulate(survivor, &session, &node, &command).await == 404).await;
    survivor.backend("publish", &json!({ "channel": "chat:1", "data": 2 })).await;
    let mut again = Client::connect_over(survivor, "ann", Wire::Stream(StreamKind::Json)).await;
    let position = json!({ "channel": "chat:1", "recover": true, "offset": 1, "epoch": joined["epoch"] });
    let recovered = again.done(json!({ "subscribe": position })).await["subscribe"].clone();
    assert_eq!((&recovered["recovered"], &recovered["publications"][0]["data"]), (&json!(true), &json!(2)));

    // A new process at the same address has another name, so old sessions do not reach it.
    cluster.nodes[0].start_again().await;
    assert_eq!(emulate(&cluster.nodes[0], &session, &node, &command).await, 404);

    // The node that only passes commands is killed: the stream goes on, and another node passes them.
    let mut client = Client::stream_via(vec![a, a], StreamKind::Events);
    let (session, node) = connect(&mut client, "ann").await;
    let subscribe = json!({ "id": 77, "subscribe": { "channel": "chat:2" } });
    cluster.nodes[1].kill();
    assert_eq!(emulate(&cluster.nodes[0], &session, &node, &subscribe).await, 204);
    assert!(client.reply(77).await.get("subscribe").is_some());
}

#[tokio::test]
async fn a_lost_redis_delays_only_what_needs_it() {
    let mut cluster = Cluster::start_with(2, &[CHAT]).await;
    let a = cluster.nodes[0].port();
    let mut client = Client::stream_via(vec![a, a], StreamKind::Json);
    let (session, node) = connect(&mut client, "ann").await;
    cluster.redis.kill();
    let ping = |id: u32| json!({ "id": id, "ping": {} });
    let [first, second] = &cluster.nodes[..] else { panic!("two nodes") };
    assert_eq!(emulate(first, &session, &node, &ping(51)).await, 204, "its own streams need no Redis");
    assert_eq!(client.reply(51).await["error"]["code"], 108);
    assert_eq!(emulate(second, &session, &node, &ping(52)).await, 500);
    cluster.redis.start_again();
    let [_, second] = &cluster.nodes[..] else { panic!("two nodes") };
    if !is_answered(second, &mut client, &session, &node, 53).await {
        let mut client = Client::stream_via(vec![a, a], StreamKind::Json);
        let (session, node) = connect(&mut client, "ann").await;
        assert!(is_answered(second, &mut client, &session, &node, 54).await, "of a new stream");
    }
}

/// Sends a ping through a node until it is accepted, and waits for the reply. Returns `false` if the stream was closed
/// before: the logs of its channels have new epochs after the restart of Redis.
async fn is_answered(through: &Server, client: &mut Client, session: &str, node: &str, id: u32) -> bool {
    let ping = json!({ "id": id, "ping": {} });
    let until = Instant::now() + PATIENCE;
    loop {
        match emulate(through, session, node, &ping).await {
            204 => break,
            404 => {
                assert_eq!(client.closed().await.0, 3010);
                return false;
            }
            status => assert!(Instant::now() < until, "{status} for a command"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    loop {
        match client.hear().await {
            Heard::Reply(reply) if reply["id"] == id => return true,
            Heard::Closed(3010, _) => return false,
            Heard::Push(_) | Heard::Ping => {}
            other => panic!("{other:?} instead of a reply to a command that was delivered"),
        }
    }
}
