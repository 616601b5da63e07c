//! Jobs and likes that always fail are quarantined, and those behind them proceed. An outage quarantines nothing.

use std::time::{Duration, Instant};

use feedline::feed::now;
use feedline::ledger::{EVENT, JOB, LIKE, Quarantined, RetryOutcome};
use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{attempt, done, post, timeline, until};
use crate::likers::{Field, PULLED, RECOVERY};
use crate::server::token;

impl Field {
    /// Makes inserts fail if the new row matches a condition.
    async fn poison(&self, table: &str, condition: &str) {
        match &self.postgres {
            None => {
                let sql = format!(
                    "CREATE TRIGGER poison BEFORE INSERT ON {table} WHEN {condition} \
                     BEGIN SELECT RAISE(ABORT, 'poison'); END"
                );
                self.connection().execute_batch(&sql).expect(&sql);
            }
            Some(server) => {
                let sql = format!(
                    "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN IF {condition} THEN RAISE 'poison'; END IF; RETURN NEW; END $$; \
                     CREATE TRIGGER poison BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION poison()"
                );
                server.ask("postgres", &sql).await;
            }
        }
    }

    async fn remove_fault(&self, table: &str) {
        match &self.postgres {
            None => self.connection().execute_batch("DROP TRIGGER poison").expect("to drop it"),
            Some(server) => server.ask("postgres", &format!("DROP TRIGGER poison ON {table}")).await,
        }
    }

    /// Waits until an item is set aside for this reason, with this content. The only item that fails is tried longest.
    async fn set_aside(&self, kind: &str, reason: &str, content: &str) -> Quarantined {
        let begun = Instant::now();
        loop {
            let items = self.ledger.quarantined(Some(kind), 0, 99).await.expect("a list");
            let is_wanted = |item: &Quarantined| item.reason.contains(reason) && item.content.contains(content);
            if let Some(item) = items.iter().find(|item| is_wanted(item)) {
                return item.clone();
            }
            assert!(begun.elapsed() < RECOVERY, "{kind} {content} is not set aside: {items:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The quarantine: kind, content and reason of each entry.
    async fn quarantined(&self) -> Vec<(String, String, String)> {
        let all = self.ledger.quarantined(None, 0, 99).await.expect("a list");
        all.into_iter().map(|entry| (entry.kind, entry.content, entry.reason)).collect()
    }
}

async fn check_failing_jobs_are_quarantined(mut field: Field) {
    for fan in ["fan", "fan2"] {
        field.nodes[0].follow(fan, "bo").await;
        assert!(timeline(&field.nodes[0], fan).await.is_empty());
    }
    if let Some(redis) = &mut field.redis {
        // The outage lasts longer than a failing job is retried.
        redis.kill();
        attempt(&field.nodes[0], "bo", "POST", "/posts", &json!({ "text": "during an outage" })).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        redis.start_again();
        let is_up = async || attempt(&field.nodes[0], "fan", "GET", "/timeline", &Value::Null).await.0 == 200;
        until("Redis is back", is_up).await;
        until("everything is carried", async || field.backlog().await == 0).await;
        assert_eq!(field.quarantined().await, [], "an outage sets nothing aside");
    }
    let node = &field.nodes[0];
    let before = timeline(node, "fan").await;
    let condition = "EXISTS (SELECT 1 FROM posts WHERE id = NEW.post AND body LIKE '%spoilt%')";
    field.poison("pulled", condition).await;
    let spoilt = post(node, "bo", "spoilt").await;
    let good = post(node, "bo", "good").await;
    until("the post behind it arrives", async || timeline(node, "fan").await.first() == Some(&good)).await;
    assert_eq!(timeline(node, "fan").await[1..], before);
    node.metric_is("feedline_quarantine", 1.0).await;
    let all = field.quarantined().await;
    let [(kind, content, reason)] = &all[..] else { panic!("{all:?}") };
    assert!(kind == JOB && content.contains(&spoilt.to_string()) && reason.contains("poison"), "{all:?}");
    field.remove_fault("pulled").await;
    let name = &field.ledger.quarantined(Some(JOB), 0, 1).await.expect("a list")[0].name;
    let retried = field.ledger.retry_quarantined(JOB, name, now()).await.expect("an answer");
    assert_eq!(retried, RetryOutcome::Returned);
    until("it arrives once it is released", async || timeline(node, "fan").await.starts_with(&[good, spoilt])).await;
    node.metric_is("feedline_quarantine", 0.0).await;
}

#[tokio::test]
async fn failing_jobs_are_quarantined_embedded() {
    check_failing_jobs_are_quarantined(Field::embedded(&PULLED).await).await;
}

#[tokio::test]
async fn failing_jobs_are_quarantined_on_postgres() {
    check_failing_jobs_are_quarantined(Field::postgres(1, &PULLED).await).await;
}

async fn check_failing_likes_are_reverted(field: Field) {
    let node = &field.nodes[0];
    let id = post(node, "ann", "liked").await;
    let condition = match &field.postgres {
        None => "NEW.user IN ('mal', 'mel')",
        Some(server) => {
            // Unlike rows, a sequence keeps the numbers that a failed transaction took.
            server.ask("postgres", "CREATE SEQUENCE tries; GRANT ALL ON SEQUENCE tries TO app").await;
            "NEW.owner = 'mal' OR (NEW.owner = 'mel' AND nextval('tries') > 0)"
        }
    };
    field.poison("likes", condition).await;
    // Invalid entries in every partition of the queue.
    if let Some(redis) = &field.redis {
        for partition in 0..8 {
            redis.ask(&format!("XADD feedline:{{likes}}:q:{partition} * b nonsense"));
            redis.ask(&format!("XADD feedline:{{likes}}:q:{partition} * what ever"));
        }
    }
    let mut mal = Client::open(node).await;
    mal.done(json!({ "connect": { "token": token("mal") } })).await;
    for n in 0..20 {
        let user = if n == 7 { "mal".to_owned() } else { format!("liker-{n}") };
        let (status, body) = attempt(node, &user, "PUT", &format!("/posts/{id}/like"), &Value::Null).await;
        assert!((200..300).contains(&status), "{body}");
    }
    let received = mal.publication("notifications:mal").await;
    assert_eq!(received["data"], json!({ "type": "like.reverted", "id": id, "reason": "failed" }));
    until("the others are settled", async || {
        let shown = done(node, "ann", "GET", &format!("/posts/{id}")).await;
        let listed = done(node, "ann", "GET", &format!("/posts/{id}/likes?limit=100")).await;
        shown["likes"] == 19 && listed["items"].as_array().is_some_and(|items| items.len() == 19)
    })
    .await;
    let all = field.quarantined().await;
    assert!(all.iter().all(|(kind, ..)| kind == LIKE), "{all:?}");
    let poisoned: Vec<_> = all.iter().filter(|(.., reason)| reason.contains("poison")).collect();
    assert!(poisoned.len() == 1 && poisoned[0].1.ends_with(" mal"), "{all:?}");
    let strange = if field.redis.is_some() { 16 } else { 0 };
    node.metric_is("feedline_quarantine", f64::from(strange + 1)).await;
    node.metric_is(r#"feedline_likes_reverted_total{reason="failed"}"#, 1.0).await;
    let failed = field.set_aside(LIKE, "poison", " mal").await;
    assert!(failed.attempts >= 5, "{failed:?}");
    // The next one is tried as often: the failures of one item do not count against another.
    let (status, body) = attempt(node, "mel", "PUT", &format!("/posts/{id}/like"), &Value::Null).await;
    assert!((200..300).contains(&status), "{body}");
    let second = field.set_aside(LIKE, "poison", " mel").await;
    assert!(second.attempts >= 5, "{second:?}");
    if let Some(server) = &field.postgres {
        let row = server.client("postgres").await.query_one("SELECT last_value FROM tries", &[]).await;
        assert_eq!(row.expect("the number of tries").get::<_, i64>(0), i64::from(second.attempts));
    }
    // A running node puts it back on request.
    field.remove_fault("likes").await;
    let retried = field.ledger.retry_quarantined(LIKE, &failed.name, now()).await.expect("an answer");
    assert_eq!(retried, RetryOutcome::Requested);
    until("it settles", async || done(node, "ann", "GET", &format!("/posts/{id}")).await["likes"] == 20).await;
}

#[tokio::test]
async fn failing_likes_are_reverted_embedded() {
    check_failing_likes_are_reverted(Field::embedded(&[]).await).await;
}

#[tokio::test]
async fn failing_likes_are_reverted_on_postgres() {
    check_failing_likes_are_reverted(Field::postgres(1, &[]).await).await;
}

/// The broker rejects a job because the key of a topic's log has another type in Redis.
#[tokio::test]
async fn jobs_rejected_by_the_broker_are_quarantined() {
    let field = Field::redis(1, &[("fanout.lease", "1s")]).await;
    let (node, redis) = (&field.nodes[0], field.redis.as_ref().expect("Redis"));
    node.follow("fan", "bo").await;
    assert!(timeline(node, "fan").await.is_empty());
    for key in ["l", "m"] {
        redis.ask(&format!("SET feedline:{{topic:bad}}:{key} spoilt"));
    }
    let spoilt = post(node, "bo", "about #bad").await;
    let good = post(node, "bo", "about nothing").await;
    until("the post behind it arrives", async || timeline(node, "fan").await == [good]).await;
    node.metric_is("feedline_quarantine", 1.0).await;
    let all = field.quarantined().await;
    assert!(all[0].1.contains(&spoilt.to_string()) && all[0].2.contains("WRONGTYPE"), "{all:?}");
}

/// The message that a like is reverted cannot be published: the log of the user's notifications has another type in
/// Redis. An operator repairs it, and retries.
#[tokio::test]
async fn retried_reverts_reach_their_users() {
    let field = Field::redis(1, &[]).await;
    let (node, redis) = (&field.nodes[0], field.redis.as_ref().expect("Redis"));
    let id = post(node, "ann", "liked").await;
    done(node, "bo", "GET", &format!("/posts/{id}")).await;
    let keys = ["l", "m"].map(|key| format!("feedline:{{notifications:bo}}:{key}"));
    for key in &keys {
        assert_eq!(redis.ask(&format!("SET {key} spoilt")), "+OK");
    }
    // Another node deletes the post before the like is settled.
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let (status, body) = attempt(node, "bo", "PUT", &format!("/posts/{id}/like"), &Value::Null).await;
    assert!((200..300).contains(&status), "{body}");
    db.execute("UPDATE posts SET deleted_at = 1, body = NULL WHERE id = ?1", [id.to_string()]).expect("to delete");
    db.execute_batch("COMMIT").expect("to commit");
    let failed = field.set_aside(EVENT, "WRONGTYPE", &format!("p{id}")).await;
    assert!(failed.attempts >= 5, "{failed:?}");
    assert_eq!(redis.ask(&format!("DEL {}", keys.join(" "))), ":2");
    let mut bo = Client::connect(node, "bo").await;
    assert_eq!(bo.pushed().await, [Value::Null; 0]);
    let retried = node.command(&["quarantine", "retry", EVENT, &failed.name]);
    assert!(retried.status.success(), "{retried:?}");
    let received = bo.publication("notifications:bo").await;
    assert_eq!(received["data"], json!({ "type": "like.reverted", "id": id, "reason": "gone" }));
    node.metric_is("feedline_quarantine", 0.0).await;
    assert_eq!(bo.pushed().await, [Value::Null; 0], "it comes once");
}

/// Nobody is notified of an event that always fails, until an operator retries it. The events behind it go on.
async fn check_failing_events_are_quarantined(field: Field) {
    let node = &field.nodes[0];
    for user in ["mal", "cy"] {
        done(node, user, "GET", "/timeline").await;
    }
    let owner = if field.postgres.is_some() { "owner" } else { "user" };
    field.poison("notifications", &format!("NEW.{owner} = 'mal'")).await;
    post(node, "bo", "@mal hello").await;
    let notified = async |user: &str, number: usize| {
        let listed = done(node, user, "GET", "/notifications?limit=100").await;
        listed["items"].as_array().is_some_and(|items| items.len() == number)
    };
    let mut others = 0;
    until("the event is quarantined while others succeed", async || {
        others += 1;
        post(node, "bo", "@cy hello").await;
        until("the others are notified", async || notified("cy", others).await).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        node.metric("feedline_quarantine").await == Some(1.0)
    })
    .await;
    assert!(notified("mal", 0).await);
    let items = field.ledger.quarantined(None, 0, 9).await.expect("a list");
    assert!(items[0].kind == EVENT && items[0].reason.contains("poison") && items[0].attempts >= 5, "{items:?}");
    assert!(items[0].name.starts_with("notifications/"), "{items:?}");
    field.remove_fault("notifications").await;
    let retried = field.ledger.retry_quarantined(EVENT, &items[0].name, now()).await.expect("an answer");
    assert_eq!(retried, RetryOutcome::Returned);
    until("the user is notified after the retry", async || notified("mal", 1).await).await;
}

#[tokio::test]
async fn failing_events_are_quarantined_embedded() {
    check_failing_events_are_quarantined(Field::embedded(&[]).await).await;
}

#[tokio::test]
async fn failing_events_are_quarantined_on_postgres() {
    check_failing_events_are_quarantined(Field::postgres(1, &[]).await).await;
}
