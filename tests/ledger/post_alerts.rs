//! Alerts about posts: queued page by page, once for each user.

use std::sync::Arc;

use feedline::ledger::{
    DeviceSession, Ledger, PostAlertJob, PostAlertPage, PostAlertProgress, PostAlertReader, PushLease,
};
use feedline::model::PostId;

use crate::devices::register;
use crate::support::{NOW, conformance, delete, id, publish, users};

conformance! {
    alerts_are_queued_page_by_page
    a_job_is_continued_where_it_was_left
    alerts_about_deleted_posts_are_not_queued
    a_job_is_not_repeated
    readers_are_found_with_their_markers
}

type Any = Arc<dyn Ledger>;

const POST: u64 = 7;

fn lease(holder: &str, until: u64) -> PushLease {
    PushLease { holder: holder.into(), until }
}

/// A page of two users; the lease ends a second later with each page.
async fn queue(ledger: &dyn Ledger, holder: &str, until: u64) -> PostAlertProgress {
    let lease = lease(holder, until);
    let page =
        PostAlertPage { post: PostId(POST), lease, renewed_until: until + 1_000, due_at: NOW + 10_000, users: 2 };
    ledger.queue_post_alerts(&page, NOW).await.expect("an answer")
}

/// The users whose pushes wait, in order; each has a phone.
async fn queued(ledger: &dyn Ledger) -> Vec<String> {
    let pushes = ledger.lease_pushes(NOW + 10_000, &lease("bridge", NOW + 20_000), 100).await.expect("pushes");
    assert!(pushes.iter().all(|push| push.key.item == POST && push.kind == "post" && push.device.is_some()));
    let mut users: Vec<String> = pushes.iter().map(|push| push.key.user.to_string()).collect();
    users.sort_unstable();
    users
}

/// Five users have alerts about the author, one of them without a device; bo has none. There is a job.
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
    ledger.start_post_alerts(PostId(POST), NOW).await.expect("an answer");
}

async fn alerts_are_queued_page_by_page(ledger: Any) {
    prepared(&*ledger).await;
    assert!(ledger.lease_post_alerts(NOW - 1, &lease("a", NOW), 9).await.expect("jobs").is_empty());
    let jobs = ledger.lease_post_alerts(NOW, &lease("a", NOW + 1_000), 9).await.expect("jobs");
    assert_eq!(jobs, [PostAlertJob { post: PostId(POST), created_at: NOW }]);
    assert_eq!(queue(&*ledger, "a", NOW + 1_000).await, PostAlertProgress::More);
    assert_eq!(ledger.push_backlog(NOW + 10_000).await.expect("an answer").pushes, 2);
    assert_eq!(queue(&*ledger, "a", NOW + 2_000).await, PostAlertProgress::More);
    assert_eq!(queue(&*ledger, "a", NOW + 3_000).await, PostAlertProgress::More);
    assert_eq!(queue(&*ledger, "a", NOW + 4_000).await, PostAlertProgress::Done);
    assert_eq!(queued(&*ledger).await, ["u1", "u2", "u4", "u5"]);
    assert_eq!(queue(&*ledger, "a", NOW + 5_000).await, PostAlertProgress::Lost, "it is done");
}

async fn a_job_is_continued_where_it_was_left(ledger: Any) {
    prepared(&*ledger).await;
    ledger.lease_post_alerts(NOW, &lease("a", NOW + 1_000), 9).await.expect("jobs");
    assert_eq!(queue(&*ledger, "a", NOW + 1_000).await, PostAlertProgress::More);
    assert!(ledger.lease_post_alerts(NOW + 1_999, &lease("b", NOW + 9_000), 9).await.expect("jobs").is_empty());
    // The process died; its lease was renewed with the page.
    assert_eq!(ledger.lease_post_alerts(NOW + 2_000, &lease("b", NOW + 9_000), 9).await.expect("jobs").len(), 1);
    assert_eq!(queue(&*ledger, "a", NOW + 2_000).await, PostAlertProgress::Lost, "it comes back");
    assert_eq!(ledger.push_backlog(NOW + 10_000).await.expect("an answer").pushes, 2);
    for until in [9_000, 10_000] {
        assert_eq!(queue(&*ledger, "b", NOW + until).await, PostAlertProgress::More);
    }
    assert_eq!(queue(&*ledger, "b", NOW + 11_000).await, PostAlertProgress::Done);
    assert_eq!(queued(&*ledger).await, ["u1", "u2", "u4", "u5"]);
}

async fn alerts_about_deleted_posts_are_not_queued(ledger: Any) {
    prepared(&*ledger).await;
    ledger.lease_post_alerts(NOW, &lease("a", NOW + 1_000), 9).await.expect("jobs");
    delete(&*ledger, POST, "author").await;
    assert_eq!(queue(&*ledger, "a", NOW + 1_000).await, PostAlertProgress::Done);
    assert!(queued(&*ledger).await.is_empty());
}

async fn a_job_is_not_repeated(ledger: Any) {
    prepared(&*ledger).await;
    ledger.lease_post_alerts(NOW, &lease("a", NOW + 1_000), 9).await.expect("jobs");
    let mut until = NOW + 1_000;
    while queue(&*ledger, "a", until).await == PostAlertProgress::More {
        until += 1_000;
    }
    // The fan-out of the post runs again after a crash.
    let later = NOW + 60_000;
    ledger.start_post_alerts(PostId(POST), later).await.expect("an answer");
    assert!(ledger.lease_post_alerts(later, &lease("b", later + 1), 9).await.expect("jobs").is_empty());
    let tomorrow = NOW + 86_400_000;
    ledger.forget_pushes(tomorrow, 9).await.expect("an answer");
    ledger.start_post_alerts(PostId(POST), tomorrow).await.expect("an answer");
    let jobs = ledger.lease_post_alerts(tomorrow, &lease("b", tomorrow + 1), 9).await.expect("jobs");
    assert_eq!(jobs.len(), 1, "it was forgotten");
}

async fn readers_are_found_with_their_markers(ledger: Any) {
    prepared(&*ledger).await;
    ledger.mark_read(&id("u2"), PostId(5), None).await.expect("an answer");
    ledger.disable_post_alerts(&id("u3"), &id("author")).await.expect("an answer");
    let pairs = [("u1", "author"), ("u2", "author"), ("u3", "author"), ("u1", "bo"), ("bo", "author")];
    let pairs = pairs.map(|(user, author)| (id(user), id(author)));
    let mut found = ledger.post_alert_readers(&pairs).await.expect("readers");
    found.sort_by(|a, b| a.user.cmp(&b.user));
    let reader = |user, seen| PostAlertReader { user: id(user), author: id("author"), seen: PostId(seen) };
    assert_eq!(found, [reader("u1", 0), reader("u2", 5)]);
    assert!(ledger.post_alert_readers(&[]).await.expect("readers").is_empty());
}
