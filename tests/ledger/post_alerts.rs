//! Alerts about posts: queued page by page, once for each user.

use std::sync::Arc;

use feedline::ledger::{DeviceSession, Fence, Ledger, PostAlertJob, PostAlertPage, PushLease};
use feedline::model::PostId;

use crate::devices::register;
use crate::support::{NOW, conformance, delete, hand_over, id, own, publish, users};

conformance! {
    alerts_are_queued_page_by_page
    a_job_is_continued_where_it_was_left
    alerts_about_deleted_posts_are_not_queued
    a_job_is_not_repeated
    readers_are_found_with_their_markers
}

type Any = Arc<dyn Ledger>;

const POST: u64 = 7;

/// The partition of these jobs.
const PARTITION: &str = "post_alerts";

/// Queues a page of two users. Returns whether there was a job of this owner.
async fn queue(ledger: &dyn Ledger, owner: &Fence) -> bool {
    let page = PostAlertPage { post: PostId(POST), due_at: NOW + 10_000, users: 2 };
    ledger.queue_post_alerts(owner, &page, NOW).await.expect("an answer")
}

async fn jobs(ledger: &dyn Ledger) -> Vec<PostAlertJob> {
    ledger.post_alert_jobs(9).await.expect("jobs")
}

/// The users whose pushes wait, in order; each has a phone.
async fn queued(ledger: &dyn Ledger) -> Vec<String> {
    let lease = PushLease { holder: "bridge".into(), until: NOW + 20_000 };
    let pushes = ledger.lease_pushes(NOW + 10_000, &lease, 100).await.expect("pushes");
    assert!(pushes.iter().all(|push| push.key.item == POST && push.kind == "post" && push.device.is_some()));
    let mut users: Vec<String> = pushes.iter().map(|push| push.key.user.to_string()).collect();
    users.sort_unstable();
    users
}

/// Five users have alerts about the author, one of them without a device; bo has none. There is a job.
/// Process `a` owns the partition.
async fn prepared(ledger: &dyn Ledger) -> Fence {
    users(ledger, &["author", "bo"]).await;
    for name in ["u1", "u2", "u3", "u4", "u5"] {
        users(ledger, &[name]).await;
        ledger.enable_post_alerts(&id(name), &id("author"), NOW, 9).await.expect("an answer");
    }
    for name in ["u1", "u2", "u4", "u5", "bo"] {
        register(ledger, name, "phone", &format!("t-{name}"), DeviceSession::default()).await.expect("a device");
    }
    publish(ledger, POST, "author").await;
    ledger.start_post_alerts(PostId(POST), NOW).await.expect("an answer");
    own(ledger, "a", PARTITION).await.expect("the partition")
}

async fn alerts_are_queued_page_by_page(ledger: Any) {
    let owner = prepared(&*ledger).await;
    assert_eq!(jobs(&*ledger).await, [PostAlertJob { post: PostId(POST), created_at: NOW }]);
    assert!(queue(&*ledger, &owner).await);
    assert_eq!(ledger.push_backlog(NOW + 10_000).await.expect("an answer").due, 2);
    assert!(queue(&*ledger, &owner).await);
    assert!(queue(&*ledger, &owner).await);
    assert!(!jobs(&*ledger).await.is_empty() && queue(&*ledger, &owner).await);
    assert_eq!(jobs(&*ledger).await, []);
    assert_eq!(queued(&*ledger).await, ["u1", "u2", "u4", "u5"]);
    assert!(!queue(&*ledger, &owner).await, "it is done");
}

async fn a_job_is_continued_where_it_was_left(ledger: Any) {
    let former = prepared(&*ledger).await;
    assert!(queue(&*ledger, &former).await);
    // The process was paused past its lease. It comes back.
    let owner = hand_over(&*ledger, "a", "b", PARTITION).await;
    assert_eq!(jobs(&*ledger).await.len(), 1);
    assert!(!queue(&*ledger, &former).await);
    assert_eq!(ledger.push_backlog(NOW + 10_000).await.expect("an answer").due, 2);
    for _ in 0..2 {
        assert!(queue(&*ledger, &owner).await);
    }
    assert!(!queue(&*ledger, &former).await);
    assert!(!jobs(&*ledger).await.is_empty() && queue(&*ledger, &owner).await);
    assert_eq!(jobs(&*ledger).await, []);
    assert_eq!(queued(&*ledger).await, ["u1", "u2", "u4", "u5"]);
}

async fn alerts_about_deleted_posts_are_not_queued(ledger: Any) {
    let owner = prepared(&*ledger).await;
    delete(&*ledger, POST, "author").await;
    assert!(!jobs(&*ledger).await.is_empty() && queue(&*ledger, &owner).await);
    assert_eq!(jobs(&*ledger).await, []);
    assert!(queued(&*ledger).await.is_empty());
}

async fn a_job_is_not_repeated(ledger: Any) {
    let owner = prepared(&*ledger).await;
    while queue(&*ledger, &owner).await {}
    // The fan-out of the post runs again after a crash.
    ledger.start_post_alerts(PostId(POST), NOW + 60_000).await.expect("an answer");
    assert_eq!(jobs(&*ledger).await, []);
    let tomorrow = NOW + 86_400_000;
    ledger.forget_pushes(tomorrow, 9).await.expect("an answer");
    ledger.start_post_alerts(PostId(POST), tomorrow).await.expect("an answer");
    assert_eq!(jobs(&*ledger).await.len(), 1, "it was forgotten");
}

async fn readers_are_found_with_their_markers(ledger: Any) {
    prepared(&*ledger).await;
    ledger.mark_read(&id("u2"), PostId(5), None).await.expect("an answer");
    ledger.disable_post_alerts(&id("u3"), &id("author")).await.expect("an answer");
    let pairs = [("u1", "author"), ("u2", "author"), ("u3", "author"), ("u1", "bo"), ("bo", "author")];
    let pairs = pairs.map(|(user, author)| (id(user), id(author)));
    let found = ledger.post_alert_readers(&pairs).await.expect("readers");
    let reader = |user, seen| ((id(user), id("author")), PostId(seen));
    assert_eq!(found, [reader("u1", 0), reader("u2", 5)].into());
    assert!(ledger.post_alert_readers(&[]).await.expect("readers").is_empty());
}
