//! A store that answers and refuses to work counts against no item: all of it waits, and arrives once it is over.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{attempt, done, post, until};
use crate::likers::Field;
use crate::server::{PATIENCE, Server};

/// Longer than an item that fails alone is retried before it is set aside.
const LASTING: Duration = Duration::from_secs(18);

/// Leases end soon, and posts of authors with more than one follower are pulled: their jobs write to the ledger.
const KEYS: [(&str, &str); 2] = [("fanout.push_limit", "1"), ("fanout.lease", "1s")];

async fn timeline(node: &Server, user: &str) -> Vec<u64> {
    let page = done(node, user, "GET", "/timeline?limit=100").await;
    page["items"].as_array().expect("items").iter().filter_map(|post| post["id"].as_u64()).collect()
}

/// What the node says about its stores and its work.
async fn health(node: &Server) -> Value {
    let answer = node.http("GET", "/ready", &[], "").await;
    assert_eq!(answer.status, 200, "a node that waits for a store stays in the load balancer: {}", answer.body);
    answer.body
}

/// Waits until the node says why a kind of work, or a store, waits.
async fn waits(node: &Server, group: &str, member: &str, why: &str) {
    let begun = Instant::now();
    loop {
        let health = health(node).await;
        if health[group][member].as_str().is_some_and(|text| text.contains(why)) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "not {why:?}: {health}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Field {
    async fn is_not_in_quarantine(&self) {
        let all = self.ledger.quarantined(None, 0, 99).await.expect("a list");
        assert_eq!(all, [], "a refusal counts against nothing");
    }

    /// All posts arrived, and all likes are settled.
    async fn catches_up(&self, posts: &[u64], likes: usize) {
        let node = &self.nodes[0];
        let mut expected = posts.to_vec();
        expected.reverse();
        until("all posts arrive", async || timeline(node, "fan").await == expected).await;
        let path = format!("/posts/{}", posts[0]);
        until("all likes are settled", async || {
            let listed = done(node, "ann", "GET", &format!("{path}/likes?limit=100")).await;
            listed["items"].as_array().is_some_and(|items| items.len() == likes)
        })
        .await;
        self.is_not_in_quarantine().await;
        let is_well = async || {
            let health = health(node).await;
            let all = ["stores", "work"].map(|group| health[group].as_object().expect("members").clone());
            all.iter().flatten().all(|(_, state)| state == "ok")
        };
        until("the node says that all goes on", is_well).await;
        node.metric_is("feedline_quarantine", 0.0).await;
    }
}

#[tokio::test]
async fn a_right_taken_from_the_redis_user_sets_nothing_aside() {
    let field = Field::redis(1, &[("fanout.lease", "1s")]).await;
    let (node, redis) = (&field.nodes[0], field.redis.as_ref().expect("Redis"));
    node.follow("fan", "bo").await;
    assert!(timeline(node, "fan").await.is_empty());
    let mut posts = vec![post(node, "bo", "before").await];
    until("it arrives", async || timeline(node, "fan").await == posts).await;
    assert_eq!(redis.ask("ACL SETUSER default -xadd"), "+OK");
    for n in 0..3 {
        posts.push(post(node, "bo", &format!("meanwhile {n}")).await);
    }
    let (status, body) = attempt(node, "fan", "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{body}");
    waits(node, "work", "jobs", "no permission").await;
    assert_eq!(health(node).await["stores"], json!({ "ledger": "ok", "broker": "ok" }), "a small write works");
    tokio::time::sleep(LASTING).await;
    field.is_not_in_quarantine().await;
    assert_eq!(redis.ask("ACL SETUSER default +@all"), "+OK");
    until("likes are taken again", async || {
        attempt(node, "fan", "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await.0 < 300
    })
    .await;
    field.catches_up(&posts, 1).await;
}

#[tokio::test]
async fn a_read_only_database_sets_nothing_aside() {
    let field = Field::postgres(1, &KEYS).await;
    let (node, postgres) = (&field.nodes[0], field.postgres.as_ref().expect("PostgreSQL"));
    for fan in ["fan", "fan2"] {
        node.follow(fan, "bo").await;
    }
    assert!(timeline(node, "fan").await.is_empty());
    let posts = [post(node, "bo", "before").await];
    until("it arrives", async || timeline(node, "fan").await == posts).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'feedline'";
    postgres.ask("template1", "ALTER DATABASE postgres SET default_transaction_read_only = on").await;
    postgres.ask("template1", end).await;
    waits(node, "stores", "ledger", "read only").await;
    assert_eq!(node.http("GET", "/health/stores", &[], "").await.status, 503);
    let (status, body) = attempt(node, "bo", "POST", "/posts", &json!({ "text": "meanwhile" })).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{body}");
    // Of `fan2` meanwhile, and of `fan` at the end.
    let mut likes = 2;
    for n in 0..5 {
        let (status, body) =
            attempt(node, &format!("liker-{n}"), "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await;
        // A new user needs the ledger.
        assert!(status < 300 || status == 503, "{body}");
        likes += usize::from(status < 300);
    }
    let (status, body) = attempt(node, "fan2", "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await;
    assert!(status < 300, "known users like meanwhile: {body}");
    waits(node, "work", "likes", "read only").await;
    tokio::time::sleep(LASTING).await;
    postgres.ask("template1", "ALTER DATABASE postgres RESET default_transaction_read_only").await;
    postgres.ask("template1", end).await;
    until("writes are taken again", async || {
        attempt(node, "fan", "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await.0 < 300
    })
    .await;
    node.ready().await;
    field.answers().await;
    field.catches_up(&posts, likes).await;
}

impl Field {
    async fn run(&self, sql: &str) {
        match &self.postgres {
            None => self.connection().execute_batch(sql).expect(sql),
            Some(server) => server.ask("postgres", sql).await,
        }
    }
}

/// Somebody renames tables that the fan-out and the settling of likes need, and renames them back later.
async fn check_a_missing_table_sets_nothing_aside(field: Field) {
    let node = &field.nodes[0];
    for fan in ["fan", "fan2"] {
        node.follow(fan, "bo").await;
    }
    assert!(timeline(node, "fan").await.is_empty());
    let mut posts = vec![post(node, "bo", "before").await];
    until("it arrives", async || timeline(node, "fan").await == posts).await;
    field.run("ALTER TABLE pulled RENAME TO pulled_gone; ALTER TABLE likes RENAME TO likes_gone").await;
    for n in 0..2 {
        posts.push(post(node, "bo", &format!("meanwhile {n}")).await);
    }
    let (status, body) = attempt(node, "fan2", "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await;
    assert!(status < 300, "{body}");
    waits(node, "work", "jobs", "schema damaged").await;
    waits(node, "work", "likes", "schema damaged").await;
    tokio::time::sleep(LASTING).await;
    field.is_not_in_quarantine().await;
    field.run("ALTER TABLE pulled_gone RENAME TO pulled; ALTER TABLE likes_gone RENAME TO likes").await;
    field.catches_up(&posts, 1).await;
}

#[tokio::test]
async fn a_missing_table_sets_nothing_aside_embedded() {
    check_a_missing_table_sets_nothing_aside(Field::embedded(&KEYS).await).await;
}

#[tokio::test]
async fn a_missing_table_sets_nothing_aside_on_postgres() {
    check_a_missing_table_sets_nothing_aside(Field::postgres(1, &KEYS).await).await;
}
