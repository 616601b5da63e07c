//! Alerts about posts: queued page by page, once for each device.

use std::sync::Arc;

use feedline::ledger::{AlertReader, DeviceSession, Ledger, PostAlertPage, PushLease, PushResult};
use feedline::model::PostId;

use crate::devices::register;
use crate::support::{NOW, conformance, id, publish, users};

conformance! {
    alerts_are_queued_page_by_page
    alerts_are_not_queued_twice
    readers_are_found_with_their_markers
}

type Any = Arc<dyn Ledger>;

const POST: u64 = 7;

/// Queues a page of two users. Returns the last one.
async fn queue(ledger: &dyn Ledger, after: &str) -> Option<String> {
    let (post, author) = (PostId(POST), id("author"));
    let page = PostAlertPage { post, author, after: after.into(), users: 2, due_at: NOW + 10_000 };
    ledger.queue_post_alerts(&page, NOW).await.expect("an answer").map(|last| last.to_string())
}

/// Queues all pages. Returns their last users.
async fn queue_all(ledger: &dyn Ledger) -> Vec<String> {
    let mut pages: Vec<String> = Vec::new();
    while let Some(last) = queue(ledger, pages.last().map_or("", String::as_str)).await {
        pages.push(last);
    }
    pages
}

/// Five users have alerts about the author, one of them without a device; bo has none.
async fn prepared(ledger: &dyn Ledger) {
    users(ledger, &["author", "bo"]).await;
    for name in ["u1", "u2", "u3", "u4", "u5"] {
        users(ledger, &[name]).await;
        ledger.enable_post_alerts(&id(name), &id("author"), NOW, 9).await.expect("an answer");
    }
    for name in ["u1", "u2", "u4", "u5", "bo"] {
        register(ledger, name, "phone", &format!("t-{name}"), DeviceSession::default()).await.expect("a device");
    }
    publish(ledger, POST, "author").await;
}

async fn alerts_are_queued_page_by_page(ledger: Any) {
    prepared(&*ledger).await;
    assert_eq!(queue(&*ledger, "").await.as_deref(), Some("u2"));
    assert_eq!(ledger.push_backlog(NOW + 9_999).await.expect("an answer").due, 0);
    assert_eq!(ledger.push_backlog(NOW + 10_000).await.expect("an answer").due, 2);
    assert_eq!(queue(&*ledger, "u2").await.as_deref(), Some("u4"), "also if one has no device");
    assert_eq!(queue(&*ledger, "u4").await.as_deref(), Some("u5"));
    assert_eq!(queue(&*ledger, "u5").await, None);
    let lease = PushLease { holder: "bridge".into(), until: NOW + 20_000 };
    let pushes = ledger.lease_pushes(NOW + 10_000, &lease, 100).await.expect("pushes");
    assert!(pushes.iter().all(|push| push.key.item == POST && push.kind == "post" && push.device.is_some()));
    let mut users: Vec<&str> = pushes.iter().map(|push| push.key.user.as_str()).collect();
    users.sort_unstable();
    assert_eq!(users, ["u1", "u2", "u4", "u5"]);
}

async fn alerts_are_not_queued_twice(ledger: Any) {
    prepared(&*ledger).await;
    assert_eq!(queue_all(&*ledger).await, ["u2", "u4", "u5"]);
    let lease = PushLease { holder: "bridge".into(), until: NOW + 20_000 };
    let pushes = ledger.lease_pushes(NOW + 10_000, &lease, 2).await.expect("pushes");
    let sent: Vec<_> = pushes.iter().map(|push| push.settled(PushResult::Accepted)).collect();
    assert_eq!(ledger.settle_pushes(&sent, &lease, NOW + 10_001, 0).await.expect("an answer"), 2);
    // The fan-out of the post runs again after a crash.
    assert_eq!(queue_all(&*ledger).await, ["u2", "u4", "u5"]);
    assert_eq!(ledger.push_backlog(NOW + 30_000).await.expect("an answer").due, 2, "the two that were not sent");
}

async fn readers_are_found_with_their_markers(ledger: Any) {
    prepared(&*ledger).await;
    ledger.mark_read(&id("u2"), PostId(5), None).await.expect("an answer");
    ledger.disable_post_alerts(&id("u3"), &id("author")).await.expect("an answer");
    let pairs = [("u1", "author"), ("u2", "author"), ("u3", "author"), ("u1", "bo"), ("bo", "author")];
    let pairs = pairs.map(|(user, author)| (id(user), id(author)));
    let found = ledger.post_alert_readers(&pairs).await.expect("readers");
    let reader = |user, seen| ((id(user), id("author")), AlertReader { since: NOW, seen: PostId(seen) });
    assert_eq!(found, [reader("u1", 0), reader("u2", 5)].into());
    assert!(ledger.post_alert_readers(&[]).await.expect("readers").is_empty());
}
