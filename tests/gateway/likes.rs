//! Likes from the users' view: included in the reply at once, visible to others a moment later.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{PATIENCE, Server};

fn likers(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|user| user["id"].as_str().expect("an id")).collect()
}

/// Waits for a publication of a type on a channel.
async fn received(client: &mut Client, channel: &str, kind: &str) -> Value {
    loop {
        let publication = client.publication(channel).await;
        if publication["data"]["type"] == kind {
            return publication;
        }
    }
}

/// Waits until the post's channel reports this number of likes.
async fn counts_reach(client: &mut Client, post: u64, likes: u64) -> Value {
    loop {
        let counts = received(client, &format!("post:{post}"), "counts").await["data"].clone();
        assert_eq!((&counts["id"], &counts["comments"]), (&json!(post), &json!(0)), "{counts}");
        if counts["likes"] == likes {
            return counts;
        }
    }
}

#[tokio::test]
async fn likes_are_acknowledged_at_once_and_settled_soon() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let path = format!("/posts/{post}/like");
    let mut bo = Client::connect(&server, "bo").await;
    let mut watcher = Client::connect(&server, "cy").await;
    watcher.subscribe(&format!("post:{post}")).await;

    let liked = bo.rpc("likes.add", &json!({ "post": post })).await;
    assert_eq!(liked, json!({ "state": "accepted", "liked": true, "likes": 1 }));
    // Each count includes the caller's own like, and a repeated like counts once.
    assert_eq!(server.done("dee", "PUT", &path, &Value::Null).await["likes"], 2);
    assert_eq!(bo.rpc("likes.add", &json!({ "post": post })).await["likes"], 2);

    counts_reach(&mut watcher, post, 2).await;
    let settled = received(&mut bo, "notifications:bo", "like.settled").await;
    assert_eq!((&settled["data"]["id"], &settled["data"]["liked"]), (&json!(post), &json!(true)), "{settled}");
    assert!(settled.get("offset").is_none(), "it is not stored in a log: {settled}");
    let page = server.done("ann", "GET", &format!("/posts/{post}/likes"), &Value::Null).await;
    let mut found = likers(&page);
    found.sort_unstable();
    assert_eq!((found, page.get("next")), (vec!["bo", "dee"], None), "{page}");

    let taken_back = server.done("dee", "DELETE", &path, &Value::Null).await;
    assert_eq!(taken_back, json!({ "state": "accepted", "liked": false, "likes": 1 }));
    let counts = counts_reach(&mut watcher, post, 1).await;
    assert_eq!(likers(&server.done("ann", "GET", &format!("/posts/{post}/likes"), &Value::Null).await), ["bo"]);
    // A new liker's count starts from the settled number.
    assert_eq!(server.done("eve", "PUT", &path, &Value::Null).await["likes"], 2);
    let after = counts_reach(&mut watcher, post, 2).await;
    assert!(after["version"].as_u64() > counts["version"].as_u64(), "{counts} then {after}");
}

#[tokio::test]
async fn settled_likes_reach_the_sender_and_the_other_connections_of_the_user() {
    let server = Server::start().await;
    let post = server.post("ann", "one").await;
    let mut connected = Vec::new();
    for user in ["bo", "bo", "cy"] {
        connected.push(Client::connect(&server, user).await);
    }
    let [phone, desk, other] = &mut connected[..] else { panic!("three clients") };
    for (liked, method) in [(true, "likes.add"), (false, "likes.remove")] {
        phone.rpc(method, &json!({ "post": post })).await;
        let settled = desk.publication("notifications:bo").await["data"].take();
        let version = settled["version"].as_u64().expect("a version");
        let likes = u64::from(liked);
        let expected =
            |kind: &str| json!({ "type": kind, "id": post, "liked": liked, "likes": likes, "version": version });
        assert_eq!(settled, expected("like.changed"));
        let mut receipt = expected("like.settled");
        receipt["asks"] = json!(1);
        assert_eq!(phone.publication("notifications:bo").await["data"], receipt);
    }
    // A request over HTTP has no connection: all connections of the user are informed.
    server.done("bo", "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    for device in [phone, desk] {
        let changed = device.publication("notifications:bo").await;
        assert_eq!((&changed["data"]["type"], &changed["data"]["liked"]), (&json!("like.changed"), &json!(true)));
        assert!(changed.get("offset").is_none(), "it is not stored in a log: {changed}");
    }
    assert_eq!(other.pushed().await, [Value::Null; 0], "other users learn the count alone");
}

#[tokio::test]
async fn likes_of_missing_objects_are_rejected() {
    let server = Server::start().await;
    let post = server.post("ann", "soon gone").await;
    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    for (method, path) in [("PUT", "like"), ("DELETE", "like"), ("GET", "likes")] {
        for id in [post, 1] {
            let answer = server.call("bo", method, &format!("/posts/{id}/{path}"), &Value::Null).await;
            assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (404, &json!("not_found")), "{method}");
        }
    }
    let nobody = server.http("PUT", &format!("/api/v1/posts/{post}/like"), &[], "").await;
    assert_eq!(nobody.status.as_u16(), 401);
    let answer = server.call("bo", "PUT", "/posts/x/like", &Value::Null).await;
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (400, &Value::Null), "{answer:?}");
}

#[tokio::test]
async fn likers_are_listed_in_pages() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let mut watcher = Client::connect(&server, "ann").await;
    watcher.subscribe(&format!("post:{post}")).await;
    let names: Vec<String> = (0..7).map(|n| format!("u{n}")).collect();
    for (name, count) in names.iter().zip(1_u64..) {
        server.done(name, "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
        counts_reach(&mut watcher, post, count).await;
    }
    let (mut found, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = watcher.rpc("likes.list", &json!({ "id": post, "limit": 3, "cursor": cursor })).await;
        found.extend(likers(&page).into_iter().map(str::to_owned));
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(found, names.iter().rev().cloned().collect::<Vec<_>>());
}

#[tokio::test]
async fn liker_pages_omit_hidden_users_and_are_full() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let mut watcher = Client::connect(&server, "ann").await;
    watcher.subscribe(&format!("post:{post}")).await;
    for (name, count) in ["one", "bo", "two", "cy", "three"].into_iter().zip(1_u64..) {
        server.done(name, "GET", "/users/ann", &Value::Null).await;
        server.done(name, "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
        counts_reach(&mut watcher, post, count).await;
    }
    for blocked in ["bo", "cy"] {
        server.done("one", "PUT", &format!("/users/{blocked}/block"), &Value::Null).await;
    }
    let path = format!("/posts/{post}/likes?limit=2");
    let first = server.done("one", "GET", &path, &Value::Null).await;
    assert_eq!(likers(&first), ["three", "two"]);
    let next = format!("{path}&cursor={}", first["next"].as_str().expect("more"));
    let rest = server.done("one", "GET", &next, &Value::Null).await;
    assert_eq!((likers(&rest), rest.get("next")), (vec!["one"], None));
    assert_eq!(likers(&server.done("two", "GET", &path, &Value::Null).await), ["three", "cy"]);
}

#[tokio::test]
async fn pages_include_own_like_and_like_count() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let mut watcher = Client::connect(&server, "ann").await;
    watcher.subscribe(&format!("post:{post}")).await;
    server.done("bo", "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    counts_reach(&mut watcher, post, 1).await;
    for (reader, liked) in [("bo", true), ("ann", false)] {
        let shown = server.done(reader, "GET", &format!("/posts/{post}"), &Value::Null).await;
        assert_eq!((&shown["likes"], &shown["liked"]), (&json!(1), &json!(liked)), "{reader}: {shown}");
    }
}

/// Waits for a list of notifications.
async fn notified(server: &Server, user: &str, so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let page = server.done(user, "GET", "/notifications", &Value::Null).await;
        let items = page["items"].as_array().expect("items").clone();
        if so(&items) {
            return items;
        }
        assert!(Instant::now() < until, "it stays {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn likes_are_grouped_in_one_notification() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let path = format!("/posts/{post}/like");
    server.done("ann", "PUT", &path, &Value::Null).await;
    for user in ["bo", "cy", "dee"] {
        server.done(user, "GET", "/users/ann", &Value::Null).await;
        server.done(user, "PUT", &path, &Value::Null).await;
    }
    let likes = notified(&server, "ann", |items| items.first().is_some_and(|item| item["count"] == 3)).await;
    assert_eq!((likes.len(), &likes[0]["kind"]), (1, &json!("like")), "{likes:?}");
    assert_eq!(likes[0]["object"]["id"], post, "{likes:?}");
}

#[tokio::test]
async fn comments_can_be_liked() {
    let server = Server::start().await;
    let post = server.post("ann", "say something").await;
    let said = server.done("bo", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "something" })).await;
    let comment = said["id"].as_u64().expect("an id");
    let path = format!("/comments/{comment}/like");
    let liked = server.done("cy", "PUT", &path, &Value::Null).await;
    assert_eq!(liked, json!({ "state": "accepted", "liked": true, "likes": 1 }));
    let mut dee = Client::connect(&server, "dee").await;
    assert_eq!(dee.rpc("likes.add", &json!({ "comment": comment })).await["likes"], 2);
    let likes = notified(&server, "bo", |items| items.first().is_some_and(|item| item["count"] == 2)).await;
    assert_eq!((&likes[0]["kind"], &likes[0]["object"]["id"]), (&json!("like"), &json!(comment)), "{likes:?}");
    server.done("cy", "DELETE", &path, &Value::Null).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let page = server.done("ann", "GET", &format!("/posts/{post}/comments"), &Value::Null).await;
        if page["items"][0]["likes"] == 1 {
            break;
        }
        assert!(Instant::now() < until, "it stays {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Neither missing comments nor comments of users who block the caller can be liked.
    server.done("eve", "GET", "/users/bo", &Value::Null).await;
    server.done("bo", "PUT", "/users/eve/block", &Value::Null).await;
    for (user, id) in [("eve", comment), ("cy", post)] {
        let answer = server.call(user, "PUT", &format!("/comments/{id}/like"), &Value::Null).await;
        assert_eq!(answer.status.as_u16(), 404, "{user}: {answer:?}");
    }
}

#[tokio::test]
async fn like_metrics_are_reported() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    for (user, method) in [("bo", "PUT"), ("cy", "PUT"), ("cy", "DELETE")] {
        server.done(user, method, &format!("/posts/{post}/like"), &Value::Null).await;
    }
    server.metric_is("feedline_likes_queued_total", 3.0).await;
    server.metric_is("feedline_likes_batch_sum", 3.0).await;
    server.metric_is("feedline_likes_queue", 0.0).await;
    assert!(server.metric("feedline_likes_settle_seconds_count").await >= Some(1.0));
    assert_eq!(server.metric("feedline_likes_oldest_seconds").await, Some(0.0));
}
