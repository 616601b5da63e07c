//! Notifications are neither lost nor duplicated by crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server, until};

const FANS: usize = 12;
const POSTS: usize = 120;

/// Creates a post that mentions all fans. Returns its id if it was acknowledged.
async fn post(server: &Server, n: usize) -> Option<u64> {
    let text: Vec<String> = (0..FANS).map(|fan| format!("@fan-{fan}")).collect();
    let body = json!({ "text": text.join(" "), "idempotency_key": format!("post {n}") });
    let path = "/api/v1/posts";
    let headers =
        [("authorization", &*format!("Bearer {}", crate::server::token("ann"))), ("content-type", "application/json")];
    let answer = server.try_http("POST", path, &headers, body.to_string()).await?;
    (answer.status == 201).then(|| answer.body["id"].as_u64().expect("an id"))
}

/// All mentions of a fan: the number of entries of each post.
async fn mentions(server: &Server, fan: usize) -> BTreeMap<u64, u64> {
    let (mut found, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/notifications?limit=100{cursor}");
        let page = server.done(&format!("fan-{fan}"), "GET", &path, &Value::Null).await;
        for item in page["items"].as_array().expect("items") {
            assert_eq!((&item["kind"], &item["count"]), (&json!("mention"), &json!(1)), "{item}");
            *found.entry(item["object"]["id"].as_u64().expect("a post")).or_default() += 1;
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Waits until every fan is notified of every post, once.
async fn all_are_notified(server: &Server, posts: &[u64]) {
    let until = Instant::now() + 2 * PATIENCE;
    for fan in 0..FANS {
        loop {
            let found = mentions(server, fan).await;
            assert!(found.values().all(|times| *times == 1), "fan-{fan} has some twice: {found:?}");
            if posts.iter().all(|post| found.contains_key(post)) {
                break;
            }
            let missing: Vec<_> = posts.iter().filter(|post| !found.contains_key(post)).collect();
            assert!(Instant::now() < until, "fan-{fan} lacks {missing:?}\n{}", server.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn fans(server: &Server) {
    for fan in 0..FANS {
        server.done(&format!("fan-{fan}"), "GET", &format!("/users/fan-{fan}"), &Value::Null).await;
    }
}

#[tokio::test]
async fn mentions_notify_exactly_once_when_a_single_process_is_killed() {
    let mut server = Server::start().await;
    fans(&server).await;
    let mut posts = Vec::new();
    for n in 0..POSTS {
        if let Some(id) = post(&server, n).await {
            posts.push(id);
        }
        if n % 30 == 29 {
            // Many events have not been processed yet.
            server.kill();
            server.start_again().await;
        }
    }
    assert!(posts.len() >= POSTS / 2, "{} posts", posts.len());
    all_are_notified(&server, &posts).await;
    server.metric_is("feedline_events_pending", 0.0).await;
}

#[tokio::test]
async fn mentions_notify_exactly_once_when_nodes_are_killed() {
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await;
    fans(&cluster.nodes[0]).await;
    let mut posts = Vec::new();
    for n in 0..POSTS {
        if let Some(id) = post(&cluster.nodes[n % 2], n).await {
            posts.push(id);
        }
        if n % 40 == 39 {
            // Either node may hold the lease, which then expires.
            let node = n / 40 % 2;
            cluster.nodes[node].kill();
            cluster.nodes[node].start_again().await;
        }
    }
    assert!(posts.len() >= POSTS / 2, "{} posts", posts.len());
    all_are_notified(&cluster.nodes[1], &posts).await;
}

/// Notifies all fans on behalf of nobody. Returns whether it was answered.
async fn send(server: &Server, n: usize) -> bool {
    let to: Vec<String> = (0..FANS).map(|fan| format!("fan-{fan}")).collect();
    let mut body = json!({ "to": to, "kind": "app.test", "title": format!("title {n}"), "body": "" });
    if n.is_multiple_of(2) {
        body["key"] = format!("key {n}").into();
        body["from"] = "fan-0".into();
    }
    let key = format!("send {n}");
    let headers = [("x-api-key", API_KEY), ("idempotency-key", &*key), ("content-type", "application/json")];
    let answer = server.try_http("POST", "/api/v1/notifications", &headers, body.to_string()).await;
    answer.is_some_and(|answer| answer.status == 202 && answer.body["accepted"] == FANS)
}

/// Sends again what was not answered, and waits until every fan has each title once.
async fn all_titles_arrive(server: &Server, unanswered: Vec<usize>, many: usize) {
    for n in unanswered {
        until("it is answered", async || send(server, n).await).await;
    }
    let expected: BTreeSet<String> = (0..many).map(|n| format!("title {n}")).collect();
    for fan in 0..FANS {
        until("a fan has every title", async || {
            let page = server.done(&format!("fan-{fan}"), "GET", "/notifications?limit=100", &Value::Null).await;
            let items = page["items"].as_array().expect("items");
            let title = |item: &Value| item["title"].as_str().expect("a title").to_owned();
            let titles: BTreeSet<String> = items.iter().map(title).collect();
            assert_eq!(titles.len(), items.len(), "fan-{fan} has some twice");
            titles == expected
        })
        .await;
    }
}

#[tokio::test]
async fn the_application_notifies_exactly_once_when_a_process_is_killed() {
    const REQUESTS: usize = 60;
    let mut server = Server::start().await;
    fans(&server).await;
    let mut unanswered = Vec::new();
    for n in 0..REQUESTS {
        if n % 15 == 14 {
            // It may be killed before, while or after it stores the request.
            let (answered, ()) = tokio::join!(send(&server, n), async {
                tokio::time::sleep(Duration::from_millis(2 * n as u64 / 15)).await;
                server.signal("-KILL");
            });
            unanswered.extend((!answered).then_some(n));
            server.kill();
            server.start_again().await;
        } else if !send(&server, n).await {
            unanswered.push(n);
        }
    }
    all_titles_arrive(&server, unanswered, REQUESTS).await;
}

#[tokio::test]
async fn the_application_notifies_exactly_once_when_nodes_are_killed() {
    const REQUESTS: usize = 60;
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await;
    fans(&cluster.nodes[0]).await;
    let mut unanswered = Vec::new();
    for n in 0..REQUESTS {
        if !send(&cluster.nodes[n % 2], n).await {
            unanswered.push(n);
        }
        if n % 20 == 19 {
            let node = n / 20 % 2;
            cluster.nodes[node].kill();
            cluster.nodes[node].start_again().await;
        }
    }
    all_titles_arrive(&cluster.nodes[1], unanswered, REQUESTS).await;
}

/// The author is notified of all likes that were in the ledger when the process was killed.
async fn check_likes_notify(server: &mut Server) {
    let id = post(server, 0).await.expect("a post");
    let mut likers = 0;
    for _ in 0..3 {
        // The first like notifies at once. The second is grouped with those of the following half second.
        for _ in 0..2 {
            let user = format!("liker-{likers}");
            server.done(&user, "PUT", &format!("/posts/{id}/like"), &Value::Null).await;
            likers += 1;
            let until = Instant::now() + PATIENCE;
            loop {
                let listed = server.done("ann", "GET", &format!("/posts/{id}/likes"), &Value::Null).await;
                if listed["items"].as_array().map(Vec::len) == Some(likers) {
                    break;
                }
                assert!(Instant::now() < until, "it is not settled: {listed}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        server.kill();
        server.start_again().await;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
        if page["items"][0]["count"] == likers {
            assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
            break;
        }
        assert!(Instant::now() < until, "{likers} like it: {page}\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.metric_is("feedline_like_events_pending", 0.0).await;
}

#[tokio::test]
async fn likes_notify_when_a_single_process_is_killed() {
    check_likes_notify(&mut Server::start().await).await;
}

#[tokio::test]
async fn likes_notify_when_a_node_is_killed() {
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 1, &[]).await;
    check_likes_notify(&mut cluster.nodes[0]).await;
}
