//! Muted conversations: no notifications of what happens under a post.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

async fn say(server: &Server, user: &str, post: u64, body: Value) -> u64 {
    server.done(user, "POST", &format!("/posts/{post}/comments"), &body).await["id"].as_u64().expect("an id")
}

/// Publishes a post that mentions the user, and waits until the user is notified: later events are processed then.
/// Returns the notifications that arrived before.
async fn notified(server: &Server, client: &mut Client, user: &str) -> Vec<Value> {
    let post = server.post("herald", &format!("@{user}")).await;
    let mut before = Vec::new();
    loop {
        let data = client.publication(&format!("notifications:{user}")).await["data"].clone();
        if data["notification"]["object"]["id"] == post {
            return before;
        }
        if data["type"] == "notification" {
            before.push(data["notification"].clone());
        }
    }
}

/// Everything that can notify ann under a post with a comment of hers.
async fn act(server: &Server, post: u64, comment: u64) {
    say(server, "bo", post, json!({ "text": "a comment" })).await;
    say(server, "bo", post, json!({ "text": "a reply", "reply_to": comment })).await;
    say(server, "cy", post, json!({ "text": "a mention of @ann" })).await;
    server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    server.done("bo", "DELETE", &format!("/posts/{post}/repost"), &Value::Null).await;
    server.done("cy", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    server.done("bo", "POST", "/posts", &json!({ "text": "look", "quote": post })).await;
    for path in [format!("/posts/{post}/like"), format!("/comments/{comment}/like")] {
        server.done("bo", "PUT", &path, &Value::Null).await;
        server.done("bo", "DELETE", &path, &Value::Null).await;
        server.done("cy", "PUT", &path, &Value::Null).await;
    }
}

/// Waits until the likes of a post and of the comment on it are settled and their events are processed.
async fn likes_settled(server: &Server, post: u64, comment: u64) {
    let likes = async || {
        let shown = server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await;
        let said = server.done("ann", "GET", &format!("/posts/{post}/comments"), &Value::Null).await;
        let said = said["items"].as_array().expect("items").iter().find(|item| item["id"] == comment);
        (shown["likes"].clone(), said.expect("the comment")["likes"].clone())
    };
    let settled = async || {
        while likes().await != (json!(1), json!(1)) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::server::PATIENCE, settled()).await.expect("likes settle");
    // A like of another post is processed after those of this one.
    let other = server.post("zoe", "liked later").await;
    let mut zoe = Client::connect(server, "zoe").await;
    server.done("bo", "PUT", &format!("/posts/{other}/like"), &Value::Null).await;
    while zoe.publication("notifications:zoe").await["data"]["notification"]["kind"] != "like" {}
}

#[tokio::test]
async fn muted_conversations_do_not_notify() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    // Under her own post and under a post of another user.
    for author in ["ann", "dee"] {
        let post = server.post(author, "a post").await;
        let comment = say(&server, "ann", post, json!({ "text": "mine" })).await;
        let path = format!("/posts/{post}/mute");
        for _ in 0..2 {
            assert_eq!(server.done("ann", "PUT", &path, &Value::Null).await, json!({}));
        }
        act(&server, post, comment).await;
        likes_settled(&server, post, comment).await;
        let received = notified(&server, &mut ann, "ann").await;
        assert!(received.is_empty(), "{author}: {received:?}");
        // A mention in the post itself is not under it.
        server.done(author, "PATCH", &format!("/posts/{post}"), &json!({ "text": "now with @ann" })).await;
        let received = notified(&server, &mut ann, "ann").await;
        assert_eq!(received.len(), usize::from(author != "ann"), "{received:?}");
        for _ in 0..2 {
            assert_eq!(server.done("ann", "DELETE", &path, &Value::Null).await, json!({}));
        }
        say(&server, "cy", post, json!({ "text": "a reply", "reply_to": comment })).await;
        let received = notified(&server, &mut ann, "ann").await;
        assert_eq!(received.len(), 1, "{author}: {received:?}");
        assert_eq!(received[0]["kind"], "reply");
        assert_eq!(received[0]["people"][0]["id"], "cy", "what happened meanwhile does not come back");
    }
}

#[tokio::test]
async fn mutes_keep_existing_notifications_and_concern_one_user() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut dee = Client::connect(&server, "dee").await;
    let post = server.post("dee", "a post").await;
    let comment = say(&server, "ann", post, json!({ "text": "mine" })).await;
    say(&server, "bo", post, json!({ "text": "before", "reply_to": comment })).await;
    assert_eq!(notified(&server, &mut ann, "ann").await.len(), 1);
    notified(&server, &mut dee, "dee").await;
    server.done("ann", "PUT", &format!("/posts/{post}/mute"), &Value::Null).await;
    say(&server, "cy", post, json!({ "text": "after", "reply_to": comment })).await;
    assert!(notified(&server, &mut ann, "ann").await.is_empty());
    assert_eq!(notified(&server, &mut dee, "dee").await.len(), 1, "others are notified");
    let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
    let kinds: Vec<&str> = page["items"].as_array().unwrap().iter().filter_map(|item| item["kind"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "reply").count(), 1, "{page}");
}

#[tokio::test]
async fn posts_show_their_reader_that_they_are_muted() {
    let server = Server::start().await;
    let post = server.post("bo", "a post #t").await;
    let mut ann = Client::connect(&server, "ann").await;
    assert_eq!(ann.rpc("conversations.mute", &json!({ "id": post })).await, json!({}));
    for (reader, expected) in [("ann", json!(true)), ("bo", Value::Null)] {
        for path in [format!("/posts/{post}"), "/topics/t/posts".into(), "/users/bo/posts".into()] {
            let page = server.done(reader, "GET", &path, &Value::Null).await;
            let shown = page["items"].get(0).unwrap_or(&page);
            assert_eq!((&shown["liked"], &shown["muted"]), (&json!(false), &expected), "{reader} {path}");
        }
    }
    ann.rpc("conversations.unmute", &json!({ "id": post })).await;
    assert_eq!(server.done("ann", "GET", &format!("/posts/{post}"), &Value::Null).await.get("muted"), None);
    // Only posts that the user may see.
    let private = json!({ "text": "for cy", "visibility": { "only_to": ["cy"] } });
    let private = server.done("bo", "POST", "/posts", &private).await["id"].clone();
    for id in [private, json!(1)] {
        for method in ["PUT", "DELETE"] {
            assert_eq!(server.call("ann", method, &format!("/posts/{id}/mute"), &Value::Null).await.status, 404);
        }
    }
    let path = format!("/api/v1/posts/{post}/mute");
    assert_eq!(server.http("PUT", &path, &[], "").await.status, 401);
}
