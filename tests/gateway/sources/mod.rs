//! The features that each source requires: one file per source, one test per feature, named after the source and the
//! feature. This module holds the shared helpers.

mod accounts_and_counts;
mod audiences_and_pages;
mod favourites_and_suggestions;
mod push_and_deletion;
mod topics_inboxes_and_likes;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{PATIENCE, Server};

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

async fn put(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "PUT", path, &Value::Null).await
}

async fn delete(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "DELETE", path, &Value::Null).await
}

/// Publishes a post with this visibility; returns its id.
async fn publish(server: &Server, user: &str, visibility: Value) -> u64 {
    let post = json!({ "text": "a post", "visibility": visibility });
    server.done(user, "POST", "/posts", &post).await["id"].as_u64().expect("an id")
}

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id")).collect()
}

async fn timeline(server: &Server, user: &str) -> Vec<u64> {
    ids(&get(server, user, "/timeline?limit=100").await)
}

/// All items of a list, page by page.
async fn everything(client: &mut Client, method: &str, mut input: Value) -> Vec<u64> {
    let mut all = Vec::new();
    input["limit"] = json!(100);
    loop {
        let page = client.rpc(method, &input).await;
        all.extend(ids(&page));
        match page.get("next") {
            Some(next) => input["cursor"] = next.clone(),
            None => return all,
        }
    }
}

/// Posts many times with a hundred commands in flight; returns the ids, oldest first.
async fn write_many(client: &mut Client, many: usize, text: &str) -> Vec<u64> {
    let mut written = Vec::new();
    while written.len() < many {
        let mut asked = Vec::new();
        for _ in 0..100.min(many - written.len()) {
            let post = json!({ "rpc": { "method": "posts.create", "data": { "text": text } } });
            asked.push(client.command(post).await);
        }
        for id in asked {
            written.push(client.reply(id).await["rpc"]["data"]["id"].as_u64().expect("an id"));
        }
    }
    written
}

/// The next push on the user's timeline: the type, and the post.
async fn received(client: &mut Client, user: &str) -> (String, u64) {
    let data = client.publication(&format!("timeline:{user}")).await["data"].clone();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64()).expect("a post");
    (data["type"].as_str().expect("a type").to_owned(), id)
}

/// Waits until this many likes of a post are settled.
async fn liked(server: &Server, post: u64, many: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = get(server, "ann", &format!("/posts/{post}")).await["likes"].clone();
        if now == many {
            return;
        }
        assert!(Instant::now() < until, "{now} likes, not {many}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until this many fan-out jobs have finished.
async fn carried(server: &Server, many: usize) {
    server.metric_is("feedline_fanout_lag_seconds_count", many as f64).await;
}
