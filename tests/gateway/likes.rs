//! Likes as their users meet them: at once in the answer, a moment later everywhere.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

fn likers(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|user| user["id"].as_str().expect("an id")).collect()
}

/// Waits for a publication of a type on a channel.
async fn told(client: &mut Client, channel: &str, kind: &str) -> Value {
    loop {
        let publication = client.publication(channel).await;
        if publication["data"]["type"] == kind {
            return publication;
        }
    }
}

/// Waits until the counts on the post's channel say so.
async fn counts_reach(client: &mut Client, post: u64, likes: u64) -> Value {
    loop {
        let counts = told(client, &format!("post:{post}"), "counts").await["data"].clone();
        assert_eq!((&counts["id"], &counts["comments"]), (&json!(post), &json!(0)), "{counts}");
        if counts["likes"] == likes {
            return counts;
        }
    }
}

#[tokio::test]
async fn a_like_lights_up_at_once_and_is_settled_in_a_moment() {
    let server = Server::start().await;
    let post = server.post("ann", "like me").await;
    let path = format!("/posts/{post}/like");
    let mut bo = Client::connect(&server, "bo").await;
    let mut watcher = Client::connect(&server, "cy").await;
    watcher.subscribe(&format!("post:{post}")).await;

    let liked = bo.rpc("likes.add", &json!({ "id": post })).await;
    assert_eq!(liked, json!({ "state": "accepted", "liked": true, "likes": 1 }));
    // Each contains itself, and who likes twice is counted once.
    assert_eq!(server.done("dee", "PUT", &path, &Value::Null).await["likes"], 2);
    assert_eq!(bo.rpc("likes.add", &json!({ "id": post })).await["likes"], 2);

    counts_reach(&mut watcher, post, 2).await;
    let settled = told(&mut bo, "notifications:bo", "like.settled").await;
    assert_eq!((&settled["data"]["id"], &settled["data"]["liked"]), (&json!(post), &json!(true)), "{settled}");
    assert!(settled.get("offset").is_none(), "nobody keeps it: {settled}");
    let page = server.done("ann", "GET", &format!("/posts/{post}/likes"), &Value::Null).await;
    let mut found = likers(&page);
    found.sort_unstable();
    assert_eq!((found, page.get("next")), (vec!["bo", "dee"], None), "{page}");

    let taken_back = server.done("dee", "DELETE", &path, &Value::Null).await;
    assert_eq!(taken_back, json!({ "state": "accepted", "liked": false, "likes": 1 }));
    let counts = counts_reach(&mut watcher, post, 1).await;
    assert_eq!(likers(&server.done("ann", "GET", &format!("/posts/{post}/likes"), &Value::Null).await), ["bo"]);
    // Whoever comes now, and was not there before, counts on from what is settled.
    assert_eq!(server.done("eve", "PUT", &path, &Value::Null).await["likes"], 2);
    let after = counts_reach(&mut watcher, post, 2).await;
    assert!(after["version"].as_u64() > counts["version"].as_u64(), "{counts} then {after}");
}

#[tokio::test]
async fn what_is_not_there_is_not_liked() {
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
async fn the_list_of_likers_is_read_in_pages() {
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
async fn likes_are_measured() {
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
