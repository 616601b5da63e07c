//! A like that cannot be settled is taken back on every device.

use std::time::{Duration, Instant};

use feedline::model::PostId;
use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{done, post, until};
use crate::likers::{Backend, Field, RECOVERY};
use crate::server::token;

/// The publications of a type on somebody's notifications, as a client that was away recovers them.
async fn recovered(field: &Field, user: &str, position: &Value, kind: &str) -> Vec<Value> {
    let mut device = Client::open(&field.nodes[0]).await;
    let channel = format!("notifications:{user}");
    let from =
        json!({ "recover": true, "offset": position["offset"].as_u64().unwrap_or(0), "epoch": position["epoch"] });
    let connected =
        device.done(json!({ "connect": { "token": token(user), "subs": { channel.clone(): from } } })).await;
    let sub = &connected["connect"]["subs"][&channel];
    assert_eq!(sub["recovered"], true, "{sub}");
    let told = sub["publications"].as_array().cloned().unwrap_or_default();
    told.into_iter().map(|told| told["data"].clone()).filter(|data| data["type"] == kind).collect()
}

async fn a_like_of_what_is_gone_is_taken_back_everywhere(field: Field) {
    let node = &field.nodes[0];
    let (id, kept) = (post(node, "ann", "soon gone").await, post(node, "ann", "it stays").await);
    let mut online = Client::open(node).await;
    let connected = online.done(json!({ "connect": { "token": token("bo") } })).await;
    let position = connected["connect"]["subs"]["notifications:bo"].clone();
    assert!(position["epoch"].is_string(), "{connected}");
    // Nothing is settled while the lock is held; and the post goes, at a node of which this one did not hear yet.
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    for post in [id, kept] {
        let answer = online.rpc("likes.add", &json!({ "id": post })).await;
        assert_eq!((&answer["state"], &answer["liked"]), (&json!("accepted"), &json!(true)), "{answer}");
    }
    db.execute("UPDATE posts SET deleted_at = 1, body = NULL WHERE id = ?1", [id.to_string()]).expect("to delete");
    db.execute_batch("COMMIT").expect("to commit");
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(online.publication("notifications:bo").await);
    }
    let of = |kind: &str| told.iter().find(|told| told["data"]["type"] == kind).unwrap_or_else(|| panic!("{told:?}"));
    let reverted = json!({ "type": "like.reverted", "id": id, "reason": "gone" });
    assert_eq!(of("like.reverted")["data"], reverted);
    assert!(of("like.reverted")["offset"].is_u64(), "it is in the log");
    assert_eq!(of("like.settled")["data"]["id"], kept);
    // A device that was away takes it back too, once.
    assert_eq!(recovered(&field, "bo", &position, "like.reverted").await, [reverted]);
    until("it is measured", async || node.metric(r#"feedline_likes_reverted_total{reason="gone"}"#).await == Some(1.0))
        .await;
}

#[tokio::test]
async fn a_like_of_what_is_gone_is_taken_back_everywhere_on_redis() {
    a_like_of_what_is_gone_is_taken_back_everywhere(Field::redis(1, &[]).await).await;
}

#[tokio::test]
async fn a_like_of_what_is_gone_is_taken_back_everywhere_embedded() {
    a_like_of_what_is_gone_is_taken_back_everywhere(Field::embedded(&[]).await).await;
}

async fn a_like_of_somebody_blocked_meanwhile_is_taken_back(mut field: Field) {
    let id = post(&field.nodes[0], "ann", "like me").await;
    done(&field.nodes[0], "bo", "GET", "/users/ann").await;
    let (backend, port) = (Backend::new(), field.nodes[0].port());
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let (status, body) = backend.like(port, "bo", id, true).await.expect("an answer");
    assert_eq!(status, 200, "{body}");
    // Another process settles it, after the block.
    field.nodes[0].kill();
    db.execute("INSERT INTO barriers (maker, whom, kind, at) VALUES ('ann', 'bo', 'block', 1)", []).expect("a block");
    db.execute_batch("COMMIT").expect("to commit");
    field.nodes[0].start_again().await;
    let mut bo = Client::connect(&field.nodes[0], "bo").await;
    let reverted = json!({ "type": "like.reverted", "id": id, "reason": "hidden" });
    let history = json!({ "history": { "channel": "notifications:bo", "limit": 10 } });
    let begun = Instant::now();
    loop {
        let told = bo.done(history.clone()).await["history"]["publications"].clone();
        if told[0]["data"] == reverted {
            break;
        }
        assert!(begun.elapsed() < RECOVERY, "{told}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(field.ledger.likers(PostId(id), None, 9).await.expect("the rows").items, []);
    let answer = bo.call(json!({ "rpc": { "method": "likes.add", "data": { "id": id } } })).await;
    assert_eq!(answer["error"]["code"], 404, "{answer}");
}

#[tokio::test]
async fn a_like_of_somebody_blocked_meanwhile_is_taken_back_on_redis() {
    a_like_of_somebody_blocked_meanwhile_is_taken_back(Field::redis(1, &[]).await).await;
}

#[tokio::test]
async fn a_like_of_somebody_blocked_meanwhile_is_taken_back_embedded() {
    a_like_of_somebody_blocked_meanwhile_is_taken_back(Field::embedded(&[]).await).await;
}

/// Whoever settled the revert dies before it is told: the next one tells it.
#[tokio::test]
async fn a_revert_that_was_settled_and_not_told_is_told_by_the_next() {
    let mut field = Field::embedded(&[]).await;
    let id = post(&field.nodes[0], "ann", "like me").await;
    field.nodes[0].stop().await;
    let db = field.connection();
    let sql = "INSERT INTO like_reverts (partition, user, object, reason) VALUES (0, 'bo', ?1, 'gone')";
    db.execute(sql, [format!("p{id}")]).expect("a note");
    field.nodes[0].start_again().await;
    until("the note is gone", async || {
        db.query_row("SELECT count(*) FROM like_reverts", [], |row| row.get::<_, i64>(0)).expect("a count") == 0
    })
    .await;
    let mut bo = Client::connect(&field.nodes[0], "bo").await;
    let history = bo.done(json!({ "history": { "channel": "notifications:bo", "limit": 10 } })).await;
    let told = history["history"]["publications"].as_array().expect("publications");
    assert_eq!(told.len(), 1, "{history}");
    assert_eq!(told[0]["data"], json!({ "type": "like.reverted", "id": id, "reason": "gone" }));
}
