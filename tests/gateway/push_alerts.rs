//! Alerts about posts of authors whom users asked to hear about. The receiver is a webhook.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::push_receiver::{GRACE, Receiver, register, server, server_with};
use crate::server::{PATIENCE, Server};

async fn notify(server: &Server, user: &str, author: &str) {
    server.done(user, "PUT", &format!("/users/{author}/notify"), &Value::Null).await;
}

/// A server on which ann asked to hear about bo's posts, and has a device.
async fn prepared() -> (Server, Receiver) {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    server.post("bo", "the first post").await;
    register(&server, "ann", "hook", &receiver.url).await;
    notify(&server, "ann", "bo").await;
    (server, receiver)
}

#[tokio::test]
async fn earlier_posts_are_not_pushed() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    for n in 0..20 {
        // Its fan-out may end after ann has asked.
        server.post(&format!("author{n}"), "before").await;
        notify(&server, "ann", &format!("author{n}")).await;
    }
    tokio::time::sleep(3 * GRACE).await;
    let received = receiver.received.lock().clone();
    assert!(received.is_empty(), "{received:?}");
}

#[tokio::test]
async fn posts_are_pushed_to_users_who_asked() {
    let (server, receiver) = prepared().await;
    register(&server, "cy", "hook", &receiver.url.replace("/hook", "/cy")).await;
    server.follow("cy", "bo").await;
    let begun = Instant::now();
    let post = server.post("bo", "look at this").await;
    let push = receiver.wait_for(1).await.remove(0);
    assert!(begun.elapsed() >= GRACE, "after {:?}", begun.elapsed());
    assert_eq!(push["title"], "New post by bo");
    assert_eq!(push["body"], "look at this");
    assert_eq!((&push["badge"], &push["thread"]), (&json!(0), &json!(format!("post-{post}"))));
    assert_eq!(push["data"], json!({ "type": "post", "post": post.to_string() }));
    server.post("dee", "by somebody else").await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 1, "a follow is no request");
}

#[tokio::test]
async fn posts_of_pulled_authors_are_pushed() {
    let receiver = Receiver::start(&[]).await;
    let server = server_with(&[("fanout.push_limit", "1")]).await;
    server.post("bo", "the first post").await;
    for follower in ["ann", "cy", "dee"] {
        server.follow(follower, "bo").await;
    }
    register(&server, "ann", "hook", &receiver.url).await;
    notify(&server, "ann", "bo").await;
    let post = server.post("bo", "pulled").await;
    let push = receiver.wait_for(1).await.remove(0);
    assert_eq!(push["data"]["post"], json!(post.to_string()));
}

#[tokio::test]
async fn the_first_alert_for_an_author_counts_at_once() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    // By the third post, the server remembers that nobody has alerts for bo's posts.
    for _ in 0..3 {
        server.post("bo", "nobody asked").await;
    }
    register(&server, "ann", "hook", &receiver.url).await;
    notify(&server, "ann", "bo").await;
    server.post("bo", "somebody asked").await;
    assert_eq!(receiver.wait_for(1).await[0]["body"], "somebody asked");
}

/// Bo posts; then something changes before the grace period ends, so that nothing is pushed.
async fn not_pushed(change: impl AsyncFnOnce(&Server, u64)) {
    let (server, receiver) = prepared().await;
    let post = server.post("bo", "never").await;
    change(&server, post).await;
    tokio::time::sleep(3 * GRACE).await;
    let received = receiver.received.lock().clone();
    assert!(received.is_empty(), "{post}: {received:?}");
}

#[tokio::test]
async fn alerts_are_withdrawn() {
    let ann = async |server: &Server, method, path, body: Value| drop(server.done("ann", method, path, &body).await);
    tokio::join!(
        not_pushed(async |server, _| ann(server, "DELETE", "/users/bo/notify", Value::Null).await),
        not_pushed(async |server, post| {
            server.done("bo", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
        }),
        not_pushed(async |server, post| {
            let hidden = json!({ "visibility": { "not_to": ["ann"] } });
            server.done("bo", "PATCH", &format!("/posts/{post}"), &hidden).await;
        }),
        not_pushed(async |server, _| ann(server, "PUT", "/users/bo/mute", Value::Null).await),
        not_pushed(async |server, _| ann(server, "PUT", "/users/bo/block", Value::Null).await),
        not_pushed(async |server, _| drop(server.done("bo", "PUT", "/users/ann/hide", &Value::Null).await)),
        not_pushed(async |server, post| ann(server, "PUT", "/timeline/read", json!({ "id": post })).await),
        not_pushed(async |server, _| {
            ann(server, "PUT", "/push/preferences", json!({ "kinds": { "post": false } })).await;
        }),
        not_pushed(async |server, _| ann(server, "DELETE", "/devices/hook", Value::Null).await),
        not_pushed(async |server, _| drop(server.backend("block_user", &json!({ "user": "ann" })).await)),
    );
}

#[tokio::test]
async fn mentioned_users_get_one_push() {
    let (server, receiver) = prepared().await;
    server.post("bo", "@ann look").await;
    let pushes = receiver.wait_for(1).await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 1, "{pushes:?}");
    assert_eq!(pushes[0]["data"]["type"], "mention");
}

#[tokio::test]
async fn private_alerts_tell_nothing() {
    let (server, receiver) = prepared().await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "private": true })).await;
    let post = server.post("bo", "a secret").await;
    let push = receiver.wait_for(1).await.remove(0);
    assert_eq!(push["data"], json!({ "post": post.to_string() }));
    assert!(!push.to_string().contains("secret") && !push["title"].to_string().contains("bo"), "{push}");
}

#[tokio::test]
async fn users_who_have_the_post_live_get_no_alert() {
    let (server, receiver) = prepared().await;
    let mut client = Client::connect(&server, "ann").await;
    let reading = tokio::spawn(async move {
        loop {
            client.hear().await;
        }
    });
    // Her timeline does not have the posts of users whom she does not follow.
    server.post("bo", "not in her timeline").await;
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes[0]["body"], "not in her timeline");
    server.follow("ann", "bo").await;
    server.post("bo", "taken live").await;
    tokio::time::sleep(3 * GRACE + Duration::from_secs(1)).await;
    assert_eq!(receiver.received.lock().len(), 1, "her socket answered");
    reading.abort();
}

#[tokio::test]
async fn a_killed_server_sends_each_alert_once() {
    let receiver = Receiver::start(&[]).await;
    let mut server = server_with(&[("push.grace", "2s")]).await;
    server.post("bo", "the first post").await;
    for number in 0..20 {
        let user = format!("user{number}");
        let endpoint = format!("{}/{number}", receiver.url);
        register(&server, &user, "hook", &endpoint).await;
        notify(&server, &user, "bo").await;
    }
    server.post("bo", "to be kept").await;
    server.kill();
    server.start_again().await;
    receiver.wait_for(20).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pushes = receiver.received.lock().clone();
    let ids: std::collections::HashSet<String> = pushes.iter().map(|push| push["id"].to_string()).collect();
    assert_eq!((pushes.len(), ids.len()), (20, 20));
}

#[tokio::test]
async fn authors_without_alerts_cost_nothing() {
    let mut costs = Vec::new();
    for enabled in ["false", "true"] {
        let server = server_with(&[("push.enabled", enabled)]).await;
        server.post("bo", "the first post").await;
        let calls = async || server.metric("feedline_ledger_round_trips_total").await;
        // Background work makes calls of its own, so the smallest of several differences counts.
        let mut least = f64::MAX;
        for _ in 0..10 {
            let before = calls().await.unwrap_or_default();
            let begun = Instant::now();
            server.post("bo", "another").await;
            tokio::time::sleep(Duration::from_millis(40)).await;
            assert!(begun.elapsed() < PATIENCE);
            least = least.min(calls().await.unwrap_or_default() - before);
        }
        costs.push(least);
    }
    assert_eq!(costs[0], costs[1], "{costs:?}");
}
