//! What a repost and a quote do not do: pass a limit of rates, alert, or be listed for users who block each other.

use serde_json::{Value, json};

use crate::moderation::suspend;
use crate::push_receiver::{GRACE, Receiver, register, server};
use crate::server::{Server, until};

async fn status(server: &Server, user: &str, method: &str, path: &str, body: &Value) -> u16 {
    server.call(user, method, path, body).await.status.as_u16()
}

async fn ids(server: &Server, user: &str, path: &str) -> Vec<Value> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn reposts_and_quotes_count_as_posts() {
    let server = Server::start_with(&[("rates.posts", "1")]).await;
    let mut posts = Vec::new();
    for author in ["ann", "bo", "cy"] {
        posts.push(server.post(author, "a post").await);
    }
    let [one, two, three] = posts[..] else { panic!("three posts") };
    let repost = |post: u64| format!("/posts/{post}/repost");
    assert_eq!(status(&server, "fan", "PUT", &repost(one), &Value::Null).await, 200);
    let quote = json!({ "text": "look", "quote": two });
    assert_eq!(status(&server, "fan", "POST", "/posts", &quote).await, 201);
    assert_eq!(status(&server, "fan", "PUT", &repost(three), &Value::Null).await, 429);
    assert_eq!(status(&server, "fan", "POST", "/posts", &quote).await, 429);
}

#[tokio::test]
async fn posts_of_limited_users_stay_with_their_followers() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    server.follow("fan", "ann").await;
    server.follow("stranger", "fan").await;
    suspend(&server, "ann", "limited").await;
    let path = format!("/posts/{post}/repost");
    assert_eq!(status(&server, "stranger", "PUT", &path, &Value::Null).await, 403);
    let repost = server.done("fan", "PUT", &path, &Value::Null).await["id"].clone();
    assert_eq!(ids(&server, "fan", "/users/fan/posts").await, [repost]);
    let own = server.post("fan", "by fan").await;
    let first = async || ids(&server, "stranger", "/timeline").await;
    until("the next post is there", async || first().await.contains(&json!(own))).await;
    assert_eq!(first().await, [json!(own)]);
    assert_eq!(ids(&server, "stranger", "/users/fan/posts").await, [json!(own)]);
}

#[tokio::test]
async fn a_repost_is_no_alert() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    let post = server.post("cy", "by cy").await;
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    server.done("bo", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
    tokio::time::sleep(3 * GRACE).await;
    let own = server.post("bo", "by bo").await;
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes[0]["data"]["post"], json!(own.to_string()), "{pushes:?}");
    assert_eq!(receiver.received.lock().len(), 1);
}

#[tokio::test]
async fn lists_of_reposts_and_quotes_omit_blocked_users() {
    let server = Server::start().await;
    let post = server.post("ann", "by ann").await;
    for user in ["bo", "cy"] {
        server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
        server.done(user, "POST", "/posts", &json!({ "text": user, "quote": post })).await;
    }
    let (reposts, quotes) = (format!("/posts/{post}/reposts"), format!("/posts/{post}/quotes"));
    for reader in ["fan", "ann"] {
        assert_eq!(ids(&server, reader, &reposts).await.len(), 2, "{reader}");
        assert_eq!(ids(&server, reader, &quotes).await.len(), 2, "{reader}");
        for (by, of) in [(reader, "bo"), ("bo", reader)] {
            server.done(by, "PUT", &format!("/users/{of}/block"), &Value::Null).await;
            assert_eq!(ids(&server, reader, &reposts).await, [json!("cy")], "{by} blocks {of}");
            assert_eq!(ids(&server, reader, &quotes).await.len(), 1, "{by} blocks {of}");
            let shown = server.done(reader, "GET", &format!("/posts/{post}"), &Value::Null).await;
            assert_eq!((&shown["reposts"], &shown["quotes"]), (&json!(2), &json!(2)), "whoever sees them");
            server.done(by, "DELETE", &format!("/users/{of}/block"), &Value::Null).await;
        }
    }
}
