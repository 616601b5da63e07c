//! Users who took a notification live get no push of it: which sockets count, and for how long.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Client, Heard, Pongs};
use crate::push_receiver::{GRACE, Receiver, register, server, server_with};
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, token};

/// Reads and answers pings until it is aborted.
fn reading(mut client: Client) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            client.hear().await;
        }
    })
}

/// Waits until ann has this number of notifications.
async fn notified(server: &Server, number: usize) {
    let begun = Instant::now();
    let page = async || server.done("ann", "GET", "/notifications", &Value::Null).await;
    while page().await["items"].as_array().map_or(0, Vec::len) < number {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Ann connects, takes the next notification, and leaves once the ping behind it is answered.
async fn take_one_and_leave(server: &Server, cause: impl AsyncFnOnce()) {
    let mut client = Client::connect(server, "ann").await;
    cause().await;
    let begun = Instant::now();
    let mut has_notification = false;
    loop {
        assert!(begun.elapsed() < PATIENCE, "a ping is expected behind the notification");
        match client.hear().await {
            Heard::Push(push) => has_notification |= push["channel"] == "notifications:ann",
            Heard::Ping if has_notification => break,
            _ => {}
        }
    }
    assert!(begun.elapsed() < Duration::from_millis(1_200), "long before the push is due: {:?}", begun.elapsed());
    // The pong arrives before the connection ends.
    client.rpc("notifications.list", &json!({})).await;
}

#[tokio::test]
async fn a_socket_without_the_channel_does_not_count() {
    let (server, receiver) = (server_with(&[("client.feed_channels", "false")]).await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let reading = reading(Client::connect(&server, "ann").await);
    server.post("bo", "@ann not in any channel of hers").await;
    receiver.wait_for(1).await;
    reading.abort();
}

#[tokio::test]
async fn a_socket_that_opens_later_does_not_count() {
    let (server, receiver) = (server_with(&[("push.grace", "3s")]).await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    // An alert about a post, too.
    server.post("cy", "the first post").await;
    server.follow("ann", "cy").await;
    server.done("ann", "PUT", "/users/cy/notify", &Value::Null).await;
    server.post("cy", "an alert").await;
    server.post("bo", "@ann before she came").await;
    notified(&server, 1).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let reading = reading(Client::connect(&server, "ann").await);
    let pushes = receiver.wait_for(2).await;
    let kinds: Vec<&str> = pushes.iter().filter_map(|push| push["data"]["type"].as_str()).collect();
    assert!(kinds.contains(&"mention") && kinds.contains(&"post"), "{pushes:?}");
    reading.abort();
}

#[tokio::test]
async fn a_notification_counts_as_taken_after_its_reader_left() {
    let (server, receiver) = (server_with(&[("push.grace", "2s")]).await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    let post = server.post("ann", "mine").await;
    let like = async |by: &str| drop(server.done(by, "PUT", &format!("/posts/{post}/like"), &Value::Null).await);
    take_one_and_leave(&server, async || {
        server.post("bo", "@ann taken live").await;
    })
    .await;
    take_one_and_leave(&server, async || like("bo").await).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(receiver.received.lock().is_empty(), "{:?}", receiver.received.lock());
    // The group grew after she had left: its present state was not taken.
    take_one_and_leave(&server, async || like("cy").await).await;
    like("dee").await;
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes[0]["data"]["type"], "like");
    server.post("cy", "@ann not taken").await;
    let pushes = receiver.wait_for(2).await;
    assert!(pushes[1]["body"].as_str().is_some_and(|body| body.contains("not taken")), "{pushes:?}");
}

#[tokio::test]
async fn a_notification_taken_at_one_node_is_not_pushed_by_another() {
    let (redis, receiver) = (RedisServer::start(), Receiver::start(&[]).await);
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = format!("sqlite://{}", folder.path().join("ledger.db").display());
    let url = redis.url();
    let keys = [("push.grace", "1500ms"), ("broker.url", url.as_str()), ("ledger.url", ledger.as_str())];
    let one = server_with(&keys).await;
    let _two = server_with(&keys).await;
    register(&one, "ann", "hook", &receiver.url).await;
    // Each node sends some of the pushes that are due.
    for number in 0..6 {
        let author = format!("user{number}");
        take_one_and_leave(&one, async || {
            one.post(&author, "@ann taken live").await;
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(receiver.received.lock().is_empty(), "{:?}", receiver.received.lock());
    one.post("bo", "@ann not taken").await;
    receiver.wait_for(1).await;
}

#[tokio::test]
async fn a_dead_socket_delays_nobody() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    for user in ["ann", "bo"] {
        register(&server, user, "hook", &format!("{}?{user}", receiver.url)).await;
    }
    server.post("cy", "the first post").await;
    server.follow("ann", "cy").await;
    server.done("ann", "PUT", "/users/cy/notify", &Value::Null).await;
    let mut dead = Client::open(&server).await;
    dead.pongs = Pongs::Withheld;
    dead.done(json!({ "connect": { "token": token("ann") } })).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    // Due together: an alert that waits for the socket, and mentions that do not.
    server.post("cy", "an alert").await;
    server.post("dee", "@ann and @bo").await;
    let begun = Instant::now();
    let pushes = receiver.wait_for(2).await;
    let took = begun.elapsed();
    assert!(took < GRACE + Duration::from_millis(1_300), "{took:?}");
    assert!(pushes.iter().all(|push| push["data"]["type"] == "mention"), "{pushes:?}");
    let pushes = receiver.wait_for(3).await;
    let took = begun.elapsed();
    assert!(took < GRACE + Duration::from_secs(3), "{took:?}");
    assert_eq!(pushes[2]["data"]["type"], "post");
}
