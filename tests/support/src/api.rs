//! Calls the feed's HTTP operations for users, as a backend does.

use serde_json::Value;

use crate::server::{API_KEY, Server};

/// Calls an HTTP operation for a user; for the backend itself, if the name is empty. Returns the status (0: no
/// response) and the body.
pub async fn attempt(node: &Server, user: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    attempt_named(node.port(), user, None, method, path, body).await
}

/// Like [`attempt`], with an optional idempotency key and the port of the node.
pub async fn attempt_named(
    port: u16,
    user: &str,
    key: Option<&str>,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let mut headers = vec![("x-api-key", API_KEY)];
    headers.extend((!user.is_empty()).then_some(("x-user", user)));
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = Server::http_at(port, method, &format!("/api/v1{path}"), &headers, body).await;
    answer.map_or((0, Value::Null), |answer| (answer.status.as_u16(), answer.body))
}

/// Calls an HTTP operation that must succeed. Returns the body.
pub async fn done(node: &Server, user: &str, method: &str, path: &str) -> Value {
    let (status, body) = attempt(node, user, method, path, &Value::Null).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {body}\n{}", node.log());
    body
}

/// The post ids of the first page of a user's timeline, newest first.
pub async fn timeline(node: &Server, user: &str) -> Vec<u64> {
    let page = done(node, user, "GET", "/timeline?limit=100").await;
    page["items"].as_array().expect("items").iter().filter_map(|post| post["id"].as_u64()).collect()
}

/// Parses a log entry from a socket or from `timeline.updates` into its offset, its type and the id of its post; 0 if
/// it concerns all posts of an author.
pub fn entry(publication: &Value) -> (u64, String, u64) {
    let data = &publication["data"];
    let of_author = data["author"].is_string().then_some(0);
    let post = data["post"]["id"].as_u64().or(data["repost"].as_u64()).or(data["id"].as_u64()).or(of_author);
    let kind = data["type"].as_str().expect("a type").to_owned();
    (publication["offset"].as_u64().expect("an offset"), kind, post.expect("a post"))
}

/// Reads all pages of a list.
pub async fn everything(node: &Server, user: &str, path: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = done(node, user, "GET", &format!("{path}{cursor}")).await;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}
