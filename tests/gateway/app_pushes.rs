//! Pushes of the application's own notifications: the rules of the bridge apply to them as to those of the feed. The
//! receiver is a webhook.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app_notifications::{has, send};
use crate::moderation::suspend;
use crate::push_queue::{HELD, open, quiet_now, wait_for_count, with_ledger};
use crate::push_receiver::{CLEAR_DELAY, GRACE, Receiver, register, register_as, server, server_with};
use crate::server::{Server, until};

async fn choose(server: &Server, user: &str, preferences: &Value) {
    server.done(user, "PUT", "/push/preferences", preferences).await;
}

async fn mark_read(server: &Server, user: &str, marking: &Value) -> Value {
    server.done(user, "PUT", "/notifications/read", marking).await
}

/// The device and the title of each push, sorted.
fn shown(pushes: &[Value]) -> Vec<(&str, &str)> {
    let mut shown: Vec<(&str, &str)> = pushes
        .iter()
        .map(|push| (push["device"].as_str().unwrap_or_default(), push["title"].as_str().unwrap_or_default()))
        .collect();
    shown.sort_unstable();
    shown
}

#[tokio::test]
async fn quiet_hours_hold_pushes_of_the_application() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    choose(&server, "ann", &json!({ "quiet_hours": quiet_now() })).await;
    send(&server, &["ann"], "failed", json!({ "key": "main" })).await;
    let db = open(&path);
    wait_for_count(&db, HELD, 1).await;
    // The same key is the same push, with the last text.
    send(&server, &["ann"], "mended", json!({ "key": "main" })).await;
    has(&server, "ann", &["mended"]).await;
    tokio::time::sleep(2 * GRACE).await;
    wait_for_count(&db, HELD, 1).await;
    assert!(receiver.received.lock().is_empty(), "in quiet hours: {:?}", receiver.received.lock());
    choose(&server, "ann", &json!({})).await;
    let push = receiver.wait_for(1).await.remove(0);
    assert_eq!((&push["title"], &push["data"]["type"]), (&json!("mended"), &json!("app.build")), "{push}");
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.received.lock().len(), 1, "{:?}", receiver.received.lock());
}

#[tokio::test]
async fn quiet_hours_without_a_zone_are_in_that_of_each_device() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    for (device, zone) in [("here", "UTC"), ("far-away", "Asia/Tokyo")] {
        let endpoint = format!("{}?{device}", receiver.url);
        let members = json!({ "platform": "webhook", "endpoint": endpoint, "time_zone": zone });
        register_as(&server, "ann", device, &members).await;
    }
    let quiet = quiet_now();
    let without_zone = json!({ "from": quiet["from"], "to": quiet["to"] });
    choose(&server, "ann", &json!({ "quiet_hours": without_zone })).await;
    send(&server, &["ann"], "failed", json!({})).await;
    wait_for_count(&open(&path), HELD, 1).await;
    receiver.wait_for(1).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(shown(&pushes), [("far-away", "failed")], "{pushes:?}");
}

#[tokio::test]
async fn three_that_are_due_together_are_one_push() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    let users = ["ann", "bo", "cy", "dee"];
    for user in users {
        register(&server, user, user, &format!("{}?{user}", receiver.url)).await;
        choose(&server, user, &json!({ "quiet_hours": quiet_now() })).await;
    }
    send(&server, &users, "one", json!({})).await;
    send(&server, &users, "two", json!({ "kind": "app.deploy" })).await;
    send(&server, &["ann", "cy"], "three", json!({})).await;
    send(&server, &["ann"], "four", json!({})).await;
    // It is not pushed, so it makes no digest of the two.
    send(&server, &["bo"], "quietly", json!({ "push": false })).await;
    // A digest is of the feed's kinds, too.
    server.post("eve", "@dee look").await;
    wait_for_count(&open(&path), HELD, 12).await;
    // One that was read leaves too few for a digest.
    let one = has(&server, "cy", &["three", "two", "one"]).await[2]["id"].clone();
    assert_eq!(mark_read(&server, "cy", &json!({ "id": one })).await["unread"], 2);
    for user in users {
        choose(&server, user, &json!({})).await;
    }
    receiver.wait_for(6).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    let expected = [
        ("ann", "You have 4 new notifications"),
        ("bo", "one"),
        ("bo", "two"),
        ("cy", "three"),
        ("cy", "two"),
        ("dee", "You have 3 new notifications"),
    ];
    assert_eq!(shown(&pushes), expected, "{pushes:?}");
    for (user, badge, urgency) in [("ann", 4, "normal"), ("dee", 3, "high")] {
        let digest = pushes.iter().find(|push| push["device"] == user).expect("a digest");
        assert_eq!((&digest["badge"], &digest["urgency"]), (&json!(badge), &json!(urgency)), "{digest}");
        assert_eq!((&digest["data"]["type"], &digest["collapse_key"]), (&json!("digest"), &json!("digest")));
    }
}

#[tokio::test]
async fn the_daily_cap_counts_pushes_of_all_kinds() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    choose(&server, "ann", &json!({ "quiet_hours": quiet_now(), "daily_cap": 2 })).await;
    for title in ["one", "two", "three"] {
        send(&server, &["ann"], title, json!({})).await;
    }
    let db = open(&path);
    wait_for_count(&db, HELD, 3).await;
    choose(&server, "ann", &json!({ "daily_cap": 2 })).await;
    let pushes = receiver.wait_for(1).await;
    assert_eq!(pushes[0]["title"], "You have 3 new notifications");
    wait_for_count(&db, "SELECT count(*) FROM push_queue WHERE state = 1 AND sent_at > 0", 3).await;
    // The digest counts once.
    send(&server, &["ann"], "the second of two", json!({})).await;
    let pushes = receiver.wait_for(2).await;
    assert_eq!(pushes[1]["title"], "the second of two");
    wait_for_count(&db, "SELECT count(*) FROM push_queue WHERE state = 1 AND sent_at > 0", 4).await;
    send(&server, &["ann"], "one too many", json!({})).await;
    server.post("bo", "@ann another one").await;
    until("all are listed", async || {
        let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
        page["items"].as_array().map(Vec::len) == Some(6)
    })
    .await;
    wait_for_count(&db, "SELECT count(*) FROM push_queue WHERE state = 0", 0).await;
    tokio::time::sleep(GRACE).await;
    assert_eq!(receiver.received.lock().len(), 2, "the cap: {:?}", receiver.received.lock());
}

#[tokio::test]
async fn notifications_that_are_read_first_are_not_pushed() {
    // Longer than the requests take.
    let server = server_with(&[("push.grace", "5s")]).await;
    let receiver = Receiver::start(&[]).await;
    let users = ["ann", "bo", "cy", "dee"];
    for user in users {
        register(&server, user, user, &format!("{}?{user}", receiver.url)).await;
    }
    send(&server, &users, "first", json!({})).await;
    send(&server, &users, "second", json!({})).await;
    let first = has(&server, "ann", &["second", "first"]).await[1]["id"].clone();
    assert_eq!(mark_read(&server, "ann", &json!({ "id": first })).await["unread"], 1);
    for (user, marking) in [("bo", json!({})), ("cy", json!({ "seen": true }))] {
        has(&server, user, &["second", "first"]).await;
        mark_read(&server, user, &marking).await;
    }
    receiver.wait_for(3).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(shown(&pushes), [("ann", "second"), ("dee", "first"), ("dee", "second")], "{pushes:?}");
}

#[tokio::test]
async fn notifications_that_are_read_in_quiet_hours_are_not_pushed_afterwards() {
    let receiver = Receiver::start(&[]).await;
    let (server, path, _folder) = with_ledger(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    choose(&server, "ann", &json!({ "quiet_hours": quiet_now() })).await;
    send(&server, &["ann"], "read at night", json!({})).await;
    let db = open(&path);
    wait_for_count(&db, HELD, 1).await;
    mark_read(&server, "ann", &json!({})).await;
    send(&server, &["ann"], "not read", json!({})).await;
    wait_for_count(&db, HELD, 2).await;
    choose(&server, "ann", &json!({})).await;
    receiver.wait_for(1).await;
    // Nothing is withdrawn either: the device has not shown it.
    tokio::time::sleep(CLEAR_DELAY).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(shown(&pushes), [("hook", "not read")], "{pushes:?}");
    assert_eq!(pushes[0]["badge"], 1, "{pushes:?}");
}

#[tokio::test]
async fn notifications_that_are_read_during_another_push_are_not_pushed() {
    // Longer than the requests take.
    let receiver = Receiver::start_slow(&[], Duration::from_secs(5)).await;
    let server = server_with(&[("push.concurrency", "1")]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    send(&server, &["ann"], "one of two", json!({})).await;
    send(&server, &["ann"], "one of two", json!({})).await;
    has(&server, "ann", &["one of two", "one of two"]).await;
    receiver.wait_for(1).await;
    mark_read(&server, "ann", &json!({})).await;
    assert_eq!(receiver.wait_for(2).await[1]["push"], "clear", "the one that was sent is withdrawn");
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(receiver.alerts().len(), 1, "{:?}", receiver.alerts());
}

#[tokio::test]
async fn notifications_that_are_read_after_their_push_are_cleared() {
    let server = server().await;
    let receiver = Receiver::start(&[]).await;
    for user in ["ann", "bo"] {
        register(&server, user, user, &format!("{}?{user}", receiver.url)).await;
    }
    let mut alerts = Vec::new();
    for title in ["one", "two"] {
        send(&server, &["ann"], title, json!({})).await;
        alerts = receiver.wait_for(alerts.len() + 1).await;
    }
    assert_eq!(shown(&alerts), [("ann", "one"), ("ann", "two")]);
    tokio::time::sleep(GRACE).await;
    // Neither quiet hours nor the cap hold a clear.
    choose(&server, "ann", &json!({ "quiet_hours": quiet_now(), "daily_cap": 1 })).await;
    let first: Option<u64> = alerts[0]["data"]["notification"].as_str().and_then(|id| id.parse().ok());
    assert_eq!(mark_read(&server, "ann", &json!({ "id": first })).await["unread"], 1);
    let clear = receiver.wait_for(3).await.remove(2);
    let second = &alerts[1]["data"]["notification"];
    assert_eq!((&clear["push"], &clear["device"], &clear["badge"]), (&json!("clear"), &json!("ann"), &json!(1)));
    assert_eq!((&clear["data"]["unread"], &clear["data"]["upto"]), (second, second), "{clear}");
    // A notification that was not pushed is not cleared.
    send(&server, &["bo"], "quietly", json!({ "push": false })).await;
    has(&server, "bo", &["quietly"]).await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!(mark_read(&server, "bo", &json!({})).await["unread"], 0);
    tokio::time::sleep(CLEAR_DELAY).await;
    assert_eq!(receiver.received.lock().len(), 3, "{:?}", receiver.received.lock());
}

#[tokio::test]
async fn notifications_without_a_push_are_listed_and_not_pushed() {
    let server = server().await;
    let receiver = Receiver::start(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    send(&server, &["ann"], "quietly", json!({ "push": false })).await;
    send(&server, &["ann"], "failed", json!({ "key": "main", "push": true })).await;
    let alert = receiver.wait_for(1).await.remove(0);
    assert_eq!((&alert["title"], &alert["badge"]), (&json!("failed"), &json!(2)), "{alert}");
    // The last one of a key decides.
    send(&server, &["ann"], "still failing", json!({ "key": "main", "push": false })).await;
    has(&server, "ann", &["still failing", "quietly"]).await;
    tokio::time::sleep(2 * GRACE).await;
    send(&server, &["ann"], "mended", json!({ "key": "main" })).await;
    let pushes = receiver.wait_for(2).await;
    assert_eq!(pushes[1]["collapse_key"], alert["collapse_key"], "it replaces the former push on the device");
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(shown(&pushes), [("hook", "failed"), ("hook", "mended")], "{pushes:?}");
}

#[tokio::test]
async fn changes_before_a_push_stop_it() {
    // Longer than the requests take.
    let server = server_with(&[("push.grace", "8s")]).await;
    let receiver = Receiver::start(&[]).await;
    let of_sam = ["blocks", "mutes", "hidden", "no-builds", "no-kinds", "no-device", "signed-out", "unchanged"];
    for user in of_sam.into_iter().chain(["of-tim"]) {
        register(&server, user, user, &format!("{}?{user}", receiver.url)).await;
    }
    for from in ["sam", "tim"] {
        server.done(from, "GET", "/timeline", &Value::Null).await;
    }
    send(&server, &of_sam, "hello", json!({ "from": "sam" })).await;
    send(&server, &["of-tim"], "hello", json!({ "from": "tim" })).await;
    for user in of_sam.into_iter().chain(["of-tim"]) {
        has(&server, user, &["hello"]).await;
    }
    server.done("blocks", "PUT", "/users/sam/block", &Value::Null).await;
    server.done("mutes", "PUT", "/users/sam/mute", &Value::Null).await;
    server.done("sam", "PUT", "/users/hidden/hide", &Value::Null).await;
    choose(&server, "no-builds", &json!({ "kinds": { "app.build": false } })).await;
    choose(&server, "no-kinds", &json!({ "kinds": { "app.*": false } })).await;
    server.done("no-device", "DELETE", "/devices/no-device", &Value::Null).await;
    server.backend("block_user", &json!({ "user": "signed-out" })).await;
    suspend(&server, "tim", "suspended").await;
    receiver.wait_for(1).await;
    tokio::time::sleep(2 * GRACE).await;
    let pushes = receiver.received.lock().clone();
    assert_eq!(shown(&pushes), [("unchanged", "hello")], "{pushes:?}");
}
