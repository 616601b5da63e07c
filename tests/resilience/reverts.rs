//! A like that cannot be settled is reverted on all devices of the user.

use std::time::{Duration, Instant};

use feedline::model::PostId;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{attempt, done, post, until};
use crate::likers::{Backend, Field, RECOVERY};
use crate::server::{Server, token};

/// The notifications of one type that a client recovers after an absence.
async fn recovered(field: &Field, user: &str, position: &Value, kind: &str) -> Vec<Value> {
    let mut device = Client::open(&field.nodes[0]).await;
    let channel = format!("notifications:{user}");
    let from =
        json!({ "recover": true, "offset": position["offset"].as_u64().unwrap_or(0), "epoch": position["epoch"] });
    let connected =
        device.done(json!({ "connect": { "token": token(user), "subs": { channel.clone(): from } } })).await;
    let sub = &connected["connect"]["subs"][&channel];
    assert_eq!(sub["recovered"], true, "{sub}");
    let received = sub["publications"].as_array().cloned().unwrap_or_default();
    received.into_iter().map(|received| received["data"].clone()).filter(|data| data["type"] == kind).collect()
}

async fn check_likes_of_deleted_posts_are_reverted(field: Field) {
    let node = &field.nodes[0];
    let (id, kept) = (post(node, "ann", "soon gone").await, post(node, "ann", "it stays").await);
    let mut online = Client::open(node).await;
    let connected = online.done(json!({ "connect": { "token": token("bo") } })).await;
    let position = connected["connect"]["subs"]["notifications:bo"].clone();
    assert!(position["epoch"].is_string(), "{connected}");
    // No like is settled while the lock is held. Another node deletes the post, and this node does not know of it yet.
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    for post in [id, kept] {
        let answer = online.rpc("likes.add", &json!({ "post": post })).await;
        assert_eq!((&answer["state"], &answer["liked"]), (&json!("accepted"), &json!(true)), "{answer}");
    }
    db.execute("UPDATE posts SET deleted_at = 1, body = NULL WHERE id = ?1", [id.to_string()]).expect("to delete");
    db.execute_batch("COMMIT").expect("to commit");
    let mut received = Vec::new();
    while received.len() < 2 {
        received.push(online.publication("notifications:bo").await);
    }
    let of = |kind: &str| {
        received.iter().find(|received| received["data"]["type"] == kind).unwrap_or_else(|| panic!("{received:?}"))
    };
    let reverted = json!({ "type": "like.reverted", "id": id, "reason": "gone" });
    assert_eq!(of("like.reverted")["data"], reverted);
    assert!(of("like.reverted")["offset"].is_u64(), "it is in the log");
    assert_eq!(of("like.settled")["data"]["id"], kept);
    // A device that was offline also receives the revert, once.
    assert_eq!(recovered(&field, "bo", &position, "like.reverted").await, [reverted]);
    until("it is measured", async || node.metric(r#"feedline_likes_reverted_total{reason="gone"}"#).await == Some(1.0))
        .await;
}

#[tokio::test]
async fn likes_of_deleted_posts_are_reverted_everywhere_on_redis() {
    check_likes_of_deleted_posts_are_reverted(Field::redis(1, &[]).await).await;
}

#[tokio::test]
async fn likes_of_deleted_posts_are_reverted_everywhere_embedded() {
    check_likes_of_deleted_posts_are_reverted(Field::embedded(&[]).await).await;
}

/// A lock that prevents the settling of likes.
enum Hold {
    /// The write lock of the ledger's file, which blocks all other writes, too.
    File(Connection),
    /// A lock on the table of queue positions; other writes proceed.
    Table(tokio_postgres::Client),
}

impl Hold {
    async fn on(field: &Field) -> Self {
        let Some(postgres) = &field.postgres else {
            let db = field.connection();
            db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
            return Self::File(db);
        };
        let client = postgres.client("postgres").await;
        client.batch_execute("BEGIN; LOCK TABLE like_positions").await.expect("the lock");
        Self::Table(client)
    }

    /// Deletes two comments, of which the second has a reply, and releases the lock.
    async fn delete(self, node: &Server, [plain, answered]: [u64; 2]) {
        match self {
            // Writes the deletion as another node would, before this node knows of it.
            Self::File(db) => {
                db.execute("DELETE FROM comments WHERE id = ?1", [plain.to_string()]).expect("to delete");
                let sql = "UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE id = ?1";
                db.execute(sql, [answered.to_string()]).expect("to delete");
                db.execute_batch("COMMIT").expect("to commit");
            }
            Self::Table(client) => {
                for id in [plain, answered] {
                    done(node, "ann", "DELETE", &format!("/comments/{id}")).await;
                }
                client.batch_execute("COMMIT").await.expect("to let go");
            }
        }
    }
}

async fn comment(node: &Server, said: &Value, on: u64) -> u64 {
    let (status, body) = attempt(node, "ann", "POST", &format!("/posts/{on}/comments"), said).await;
    assert_eq!(status, 201, "{body}");
    body["id"].as_u64().expect("an id")
}

async fn check_likes_of_deleted_comments_are_reverted(field: Field) {
    let (first, last) = (&field.nodes[0], field.nodes.last().expect("a node"));
    let on = post(first, "ann", "say something").await;
    let mut comments = [0; 3];
    for id in &mut comments {
        *id = comment(first, &json!({ "text": "something" }), on).await;
    }
    let [plain, answered, kept] = comments;
    comment(first, &json!({ "text": "a reply", "reply_to": answered }), on).await;
    let mut phone = Client::open(first).await;
    let connected = phone.done(json!({ "connect": { "token": token("bo") } })).await;
    let position = connected["connect"]["subs"]["notifications:bo"].clone();
    let mut desk = Client::connect(last, "bo").await;

    let hold = Hold::on(&field).await;
    for id in comments {
        let answer = phone.rpc("likes.add", &json!({ "comment": id })).await;
        assert_eq!((&answer["state"], &answer["liked"]), (&json!("accepted"), &json!(true)), "{answer}");
    }
    hold.delete(last, [plain, answered]).await;

    let number = |data: &Value| data["id"].as_u64().expect("an id");
    let reverted = [plain, answered].map(|id| json!({ "type": "like.reverted", "id": id, "reason": "gone" }));
    let (mut at_phone, mut at_desk) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        at_phone.push(phone.publication("notifications:bo").await["data"].take());
        at_desk.push(desk.publication("notifications:bo").await["data"].take());
    }
    let mut recovered = recovered(&field, "bo", &position, "like.reverted").await;
    for received in [&mut at_phone, &mut at_desk, &mut recovered] {
        received.sort_by_key(number);
    }
    // The phone sent the requests, and the desk shows what was settled.
    for (received, kind) in [(&mut at_phone, "like.settled"), (&mut at_desk, "like.changed")] {
        let settled = received.pop().expect("three");
        assert_eq!((&settled["type"], &settled["id"]), (&json!(kind), &json!(kept)), "{settled}");
    }
    assert_eq!([at_phone, at_desk, recovered], [reverted.to_vec(), reverted.to_vec(), reverted.to_vec()]);
    for device in [&mut phone, &mut desk] {
        assert_eq!(device.pushed().await, [Value::Null; 0], "nobody is notified twice");
    }
}

#[tokio::test]
async fn likes_of_deleted_comments_are_reverted_everywhere_on_redis() {
    check_likes_of_deleted_comments_are_reverted(Field::redis(2, &[]).await).await;
}

#[tokio::test]
async fn likes_of_deleted_comments_are_reverted_everywhere_on_postgres() {
    check_likes_of_deleted_comments_are_reverted(Field::postgres(2, &[]).await).await;
}

#[tokio::test]
async fn likes_of_deleted_comments_are_reverted_everywhere_embedded() {
    check_likes_of_deleted_comments_are_reverted(Field::embedded(&[]).await).await;
}

async fn check_likes_of_blocked_users_are_reverted(mut field: Field) {
    let id = post(&field.nodes[0], "ann", "like me").await;
    done(&field.nodes[0], "bo", "GET", "/users/ann").await;
    let (backend, port) = (Backend::new(), field.nodes[0].port());
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let (status, body) = backend.like(port, "bo", id, true).await.expect("an answer");
    assert_eq!(status, 200, "{body}");
    // A new process settles the like, after the block.
    field.nodes[0].kill();
    db.execute("INSERT INTO restrictions (maker, target, kind, at) VALUES ('ann', 'bo', 'block', 1)", [])
        .expect("a block");
    db.execute_batch("COMMIT").expect("to commit");
    field.nodes[0].start_again().await;
    let mut bo = Client::connect(&field.nodes[0], "bo").await;
    let reverted = json!({ "type": "like.reverted", "id": id, "reason": "hidden" });
    let history = json!({ "history": { "channel": "notifications:bo", "limit": 10 } });
    let begun = Instant::now();
    loop {
        let received = bo.done(history.clone()).await["history"]["publications"].clone();
        if received[0]["data"] == reverted {
            break;
        }
        assert!(begun.elapsed() < RECOVERY, "{received}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(field.ledger.likers(PostId(id), None, 9).await.expect("the rows").items, []);
    let answer = bo.call(json!({ "rpc": { "method": "likes.add", "data": { "post": id } } })).await;
    assert_eq!(answer["error"]["code"], 404, "{answer}");
}

#[tokio::test]
async fn likes_of_blocked_users_are_reverted_on_redis() {
    check_likes_of_blocked_users_are_reverted(Field::redis(1, &[]).await).await;
}

#[tokio::test]
async fn likes_of_blocked_users_are_reverted_embedded() {
    check_likes_of_blocked_users_are_reverted(Field::embedded(&[]).await).await;
}

/// If the process dies before it announces a revert, the next owner of the events announces it.
#[tokio::test]
async fn unannounced_reverts_are_announced_by_the_next_owner() {
    let mut field = Field::embedded(&[]).await;
    let id = post(&field.nodes[0], "ann", "like me").await;
    field.nodes[0].stop().await;
    let db = field.connection();
    let event = json!({ "like_reverted": { "user": "bo", "object": format!("p{id}"), "reason": "gone" } });
    let sql = "INSERT INTO events (at, event, pending) VALUES (1, ?1, 1)";
    db.execute(sql, [event.to_string()]).expect("an event");
    field.nodes[0].start_again().await;
    until("the event is processed", async || {
        db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).expect("a count") == 0
    })
    .await;
    let mut bo = Client::connect(&field.nodes[0], "bo").await;
    let history = bo.done(json!({ "history": { "channel": "notifications:bo", "limit": 10 } })).await;
    let received = history["history"]["publications"].as_array().expect("publications");
    assert_eq!(received.len(), 1, "{history}");
    assert_eq!(received[0]["data"], json!({ "type": "like.reverted", "id": id, "reason": "gone" }));
}
