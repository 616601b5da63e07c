//! Digests: notifications that are due for a device together are one push. The receiver is a webhook.

use serde_json::{Value, json};

use crate::push_queue::{HELD, open, quiet_now, wait_for_count, with_ledger};
use crate::push_receiver::{GRACE, Receiver, register};

/// The quiet hours end now.
const END_QUIET: &str = "UPDATE push_queue SET due_at = 1 WHERE state = 0;
    UPDATE push_preferences SET preferences = json_remove(preferences, '$.quiet_hours');";

/// The pushes to a device.
fn to<'a>(pushes: &'a [Value], device: &str) -> Vec<&'a Value> {
    pushes.iter().filter(|push| push["device"] == device).collect()
}

#[tokio::test]
async fn notifications_that_quiet_hours_held_are_one_push() {
    let receiver = Receiver::start(&[]).await;
    let (mut server, path, _folder) = with_ledger(&[]).await;
    for user in ["ann", "bo", "dee"] {
        register(&server, user, user, &format!("{}?{user}", receiver.url)).await;
        let preferences = json!({ "quiet_hours": quiet_now(), "private": user == "dee" });
        server.done(user, "PUT", "/push/preferences", &preferences).await;
    }
    for text in ["@ann @bo @dee one", "@ann @bo @dee two", "@ann @dee three", "@ann four"] {
        server.post("cy", text).await;
    }
    let db = open(&path);
    wait_for_count(&db, HELD, 9).await;
    server.kill();
    db.execute_batch(END_QUIET).expect("changes");
    server.start_again().await;
    wait_for_count(&db, "SELECT count(*) FROM push_queue WHERE state = 1 AND holder IS NULL", 9).await;
    let pushes = receiver.received.lock().clone();
    let ann = to(&pushes, "ann");
    assert_eq!(ann.len(), 1, "{pushes:?}");
    assert_eq!((&ann[0]["title"], &ann[0]["badge"]), (&json!("You have 4 new notifications"), &json!(4)));
    assert_eq!((&ann[0]["collapse_key"], &ann[0]["urgency"]), (&json!("digest"), &json!("high")));
    assert_eq!(ann[0]["data"]["type"], "digest");
    let bo = to(&pushes, "bo");
    assert_eq!(bo.len(), 2, "two are no digest: {pushes:?}");
    assert!(bo.iter().all(|push| push["data"]["type"] == "mention"), "{bo:?}");
    let dee = to(&pushes, "dee");
    assert_eq!((dee.len(), &dee[0]["body"]), (1, &json!("You have new notifications")));
    assert_eq!(
        dee[0]["data"].as_object().map(|data| data.keys().collect::<Vec<_>>()),
        Some(vec![&"notification".to_owned()])
    );
    server.kill();
    server.start_again().await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 4, "nothing is repeated");
}

#[tokio::test]
async fn a_digest_is_retried_as_a_whole_and_counts_once() {
    let receiver = Receiver::start(&[503]).await;
    let (mut server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet_now(), "daily_cap": 2 })).await;
    for author in ["bo", "cy", "dee", "eve"] {
        server.post(author, "@ann hello").await;
    }
    let db = open(&path);
    wait_for_count(&db, HELD, 4).await;
    server.kill();
    db.execute_batch(END_QUIET).expect("changes");
    server.start_again().await;
    let pushes = receiver.wait_for(2).await;
    assert_eq!((&pushes[0]["title"], &pushes[0]["id"]), (&pushes[1]["title"], &pushes[1]["id"]), "{pushes:?}");
    assert_eq!(pushes[1]["title"], "You have 4 new notifications");
    wait_for_count(&db, "SELECT count(*) FROM push_queue WHERE state = 1 AND sent_at > 0", 4).await;
    server.post("bo", "@ann the second of two").await;
    let pushes = receiver.wait_for(3).await;
    assert!(pushes[2]["body"].as_str().is_some_and(|body| body.contains("the second of two")), "{pushes:?}");
    server.post("cy", "@ann one too many").await;
    tokio::time::sleep(3 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 3, "the cap");
}

#[tokio::test]
async fn a_deleted_post_leaves_too_few_for_a_digest() {
    let receiver = Receiver::start(&[]).await;
    let (server, _path, _folder) = with_ledger(&[("push.grace", "3s")]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    let mut posts = Vec::new();
    for author in ["bo", "cy", "dee"] {
        posts.push(server.post(author, "@ann hello").await);
    }
    server.done("bo", "DELETE", &format!("/posts/{}", posts[0]), &Value::Null).await;
    receiver.wait_for(2).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(pushes.len(), 2, "too few for a digest: {pushes:?}");
    assert!(pushes.iter().all(|push| push["data"]["type"] == "mention"), "{pushes:?}");
}
