//! Connections and subscriptions that the server ends: expired tokens, blocked writes, lost logs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::NAMESPACES;
use crate::client::{Client, Heard};
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, signed, token, unix};

/// Seconds after its expiry during which a connection or subscription may still be refreshed.
const GRACE: u64 = 25;

/// The time limit for steps that wait for the grace period to pass.
const LONG: Duration = Duration::from_secs(2 * GRACE + 20);

fn until(expiry: u64) -> String {
    signed(&json!({ "sub": "ann", "exp": expiry }))
}

fn for_channel(channel: &str, expiry: u64) -> Value {
    json!({ "channel": channel, "token": signed(&json!({ "sub": "ann", "channel": channel, "exp": expiry })) })
}

/// One test for all cases, so that the grace period passes once. Refreshed tokens would have expired a second before
/// the unrefreshed ones: once the latter have ended, the former are known to stay.
#[tokio::test]
async fn tokens_expire_unless_refreshed_in_time() {
    // No pings, so that only the expiry wakes the connection.
    let keys = [("namespaces", NAMESPACES), ("client.ping_interval", "1h"), ("client.pong_timeout", "10m")];
    let server = Server::start_with(&keys).await;
    let (first, second) = (unix() + 8, unix() + 9);

    let mut refreshed = Client::open(&server).await;
    refreshed.done(json!({ "connect": { "token": until(first) } })).await;
    let reply = refreshed.done(json!({ "refresh": { "token": until(unix() + 600) } })).await;
    assert_eq!(reply["refresh"]["expires"], true);
    assert!((590..=600).contains(&reply["refresh"]["ttl"].as_u64().unwrap()), "{reply}");
    let mut late = Client::open(&server).await;
    late.done(json!({ "connect": { "token": until(second) } })).await;

    let mut subscriber = Client::connect(&server, "ann").await;
    subscriber.done(json!({ "subscribe": for_channel("shut:refreshed", first) })).await;
    let reply = subscriber.done(json!({ "sub_refresh": for_channel("shut:refreshed", unix() + 600) })).await;
    assert_eq!(reply["sub_refresh"]["expires"], true);
    assert!((590..=600).contains(&reply["sub_refresh"]["ttl"].as_u64().unwrap()), "{reply}");
    subscriber.done(json!({ "subscribe": for_channel("shut:late", second) })).await;

    let closed = async {
        assert_eq!(late.push_within(LONG).await, Some(Heard::Closed(3005, "connection expired".into())));
        assert!(unix() >= second + GRACE, "there was time left to refresh");
    };
    let unsubscribed = async {
        let over = json!({ "channel": "shut:late", "unsubscribe": { "code": 2501, "reason": "subscription expired" } });
        assert_eq!(subscriber.push_within(LONG).await, Some(Heard::Push(over)));
        assert!(unix() >= second + GRACE, "there was time left to refresh");
    };
    // If the server wakes more often, the grace period is the same.
    let pinged = async {
        let keys = [("client.ping_interval", "2s"), ("client.pong_timeout", "1900ms")];
        let server = Server::start_with(&keys).await;
        let mut late = Client::open(&server).await;
        late.done(json!({ "connect": { "token": until(second) } })).await;
        while late.hear().await == Heard::Ping {}
        assert_eq!(late.closed().await, (3005, "connection expired".into()));
        assert!(unix() >= second + GRACE, "there was time left to refresh");
    };
    tokio::join!(closed, unsubscribed, pinged);

    assert_eq!(refreshed.refused(json!({ "ping": {} })).await, 108, "the connection stays");
    for channel in ["shut:late", "shut:refreshed"] {
        server.backend("publish", &json!({ "channel": channel, "data": 1 })).await;
    }
    assert_eq!(subscriber.push().await["channel"], "shut:refreshed", "the other receives nothing");
    // A new subscription with another token is accepted.
    subscriber.done(json!({ "subscribe": for_channel("shut:late", unix() + 600) })).await;
    server.metric_is("feedline_connections", 2.0).await;
}

#[tokio::test]
async fn refreshes_with_other_channels_reconnect() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let claims =
        json!({ "sub": "ann", "exp": unix() + 60, "channels": ["chat:1", "chat:2"], "subs": { "chat:3": {} } });
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        json!({ "refresh": { "token": signed(&claims) } })
    };
    let same = [
        with("exp", json!(unix() + 600)),
        with("channels", json!(["chat:2", "chat:1", "timeline:ann"])),
        with("channels", json!(["chat:1", "chat:2", "chat:3"])),
    ];
    let other = [
        with("channels", json!(["chat:1"])),
        with("channels", json!(["chat:1", "chat:2", "chat:4"])),
        with("subs", json!({ "chat:4": {} })),
        with("subs", json!({})),
    ];
    for other in other {
        let mut ann = Client::open(&server).await;
        ann.done(json!({ "connect": { "token": signed(&claims) } })).await;
        // Channels that the client itself unsubscribed from are ignored.
        ann.done(json!({ "unsubscribe": { "channel": "chat:2" } })).await;
        for same in &same {
            ann.done(same.clone()).await;
        }
        ann.command(other.clone()).await;
        assert_eq!(ann.closed().await, (3010, "insufficient state".into()), "{other}");
    }
}

#[tokio::test]
async fn lost_logs_end_their_subscriptions() {
    let redis = RedisServer::start();
    let keys = [("namespaces", NAMESPACES), ("broker.url", &redis.url())];
    let server = Server::start_with(&keys).await;
    let publish = async |data: u64| server.backend("publish", &json!({ "channel": "chat:1", "data": data })).await;
    publish(1).await;
    let claims = json!({ "sub": "ann", "channels": ["chat:1"] });
    let mut put_there = Client::open(&server).await;
    put_there.done(json!({ "connect": { "token": signed(&claims) } })).await;
    let mut came = Client::connect(&server, "bo").await;
    let position = came.subscribe("chat:1").await;
    assert_eq!(position["offset"], 1);
    let mut leaves = Client::connect(&server, "cy").await;
    let timeline = leaves.rpc("timeline.read", &json!({})).await["position"].clone();
    drop(leaves);
    assert_eq!(redis.ask("FLUSHALL"), "+OK");
    publish(2).await;
    // A client-side subscription may be renewed; a server-side one requires a new connection.
    assert_eq!(put_there.closed().await, (3010, "insufficient state".into()));
    let over = came.push_of("chat:1", "unsubscribe").await;
    assert_eq!(over, json!({ "code": 2500, "reason": "insufficient state" }));
    let again = json!({ "channel": "chat:1", "recover": true, "offset": 1, "epoch": position["epoch"] });
    let reply = came.done(json!({ "subscribe": again })).await["subscribe"].take();
    assert_eq!((reply.get("recovered"), reply["offset"].as_u64()), (None, Some(1)), "the log has another epoch");
    assert_ne!(reply["epoch"], position["epoch"]);
    publish(3).await;
    assert_eq!(came.publication("chat:1").await["data"], 3);
    // A client that reconnects while the server still knows the old log is not subscribed to that log.
    let (mut back, recovered) = Client::recover(&server, "cy", &timeline).await;
    assert_eq!(recovered.get("recovered"), None, "{recovered}");
    assert_ne!(recovered["epoch"], timeline["epoch"]);
    let id = server.post("cy", "hello").await;
    assert_eq!(back.publication("timeline:cy").await["data"]["post"]["id"], id);
}

#[tokio::test]
async fn stalled_writes_close_the_connection() {
    // The queue has room: only the write takes too long.
    let keys = [
        ("namespaces", NAMESPACES),
        ("client.write_timeout", "500ms"),
        ("client.queue_bytes", "1073741824"),
        ("client.queue_messages", "1000000"),
    ];
    let server = Server::start_with(&keys).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let mut stuck = Client::over(&server, stream).await;
    stuck.done(json!({ "connect": { "token": token("ann") } })).await;
    stuck.subscribe("plain:1").await;
    let mut other = Client::connect(&server, "bo").await;
    other.subscribe("plain:1").await;
    let payload = "x".repeat(200_000);
    let begun = Instant::now();
    let mut published = 0;
    let closed = "feedline_connections_closed_total{code=\"3009\"}";
    while server.metric(closed).await != Some(1.0) {
        assert!(begun.elapsed() < PATIENCE, "not closed after {published} messages");
        let data = json!({ "n": published, "payload": payload });
        server.backend("publish", &json!({ "channel": "plain:1", "data": data })).await;
        assert_eq!(other.publication("plain:1").await["data"]["n"], published, "other clients are not delayed");
        published += 1;
    }
    // Received messages are complete; nothing follows a partly written one.
    let mut next = 0;
    let end = loop {
        match stuck.hear().await {
            Heard::Push(push) => assert_eq!(push["pub"]["data"]["n"], next),
            Heard::Closed(code, _) => break code,
            other => panic!("{other:?}"),
        }
        next += 1;
    };
    assert!(next < published, "all of it got through");
    assert_eq!(end, 1006, "the connection cannot carry a close reason");
    server.metric_is("feedline_connections", 1.0).await;
}
