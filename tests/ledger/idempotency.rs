//! Conformance tests of idempotent writes and their stored replies. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{BeginOutcome, EventConsumer, IdempotentWrite, Ledger, LedgerError, WriteLease};
use feedline::model::{DomainEvent, PostId, UserId};
use futures::future::join_all;

use crate::support::{NOW, backlog, conformance, id, post, publish, store, users};

conformance! {
    one_caller_executes_and_all_get_the_answer
    keys_are_scoped_to_user_and_write
    expired_attempts_pass_to_the_next_caller_with_the_same_id
    writes_that_create_nothing_reserve_no_id
    attempts_are_renewed_and_released
    one_of_many_concurrent_callers_executes
    old_keys_are_removed_in_steps
    posts_are_created_once
    events_are_appended_once
}

type Any = Arc<dyn Ledger>;

fn write(user: &str, key: &str) -> IdempotentWrite {
    IdempotentWrite { user: id(user), key: key.into(), operation: "posts.create", input: [7; 32] }
}

/// A lease of ten seconds that begins this many milliseconds after [`NOW`]; keys are kept for a minute.
fn turn(after: u64) -> WriteLease {
    WriteLease { now: NOW + after, until: NOW + after + 10_000, since: (NOW + after).saturating_sub(60_000) }
}

async fn begin(ledger: &dyn Ledger, write: &IdempotentWrite, reserved: u64, after: u64) -> BeginOutcome {
    ledger.begin(write, Some(PostId(reserved)), turn(after)).await.expect("an answer")
}

async fn one_caller_executes_and_all_get_the_answer(ledger: Any) {
    let ann = write("ann", "k");
    assert_eq!(ledger.recall(&ann, 0).await.unwrap(), None);
    assert_eq!(begin(&*ledger, &ann, 1, 0).await, BeginOutcome::Fresh);
    assert_eq!(begin(&*ledger, &ann, 2, 9_999).await, BeginOutcome::Running);
    assert_eq!(ledger.recall(&ann, 0).await.unwrap(), None, "not answered yet");
    let answer = [0, 255, b'{', b'"'];
    ledger.finish(&ann.user, "k", &answer).await.unwrap();
    ledger.finish(&ann.user, "k", b"another").await.unwrap();
    for after in [1, 10_000, 50_000] {
        assert_eq!(begin(&*ledger, &ann, 3, after).await, BeginOutcome::Answered(answer.to_vec().into()));
    }
    assert_eq!(ledger.recall(&ann, NOW).await.unwrap().as_deref(), Some(&answer[..]));
    assert_eq!(ledger.recall(&ann, NOW + 1).await.unwrap(), None, "too old");
    ledger.finish(&id("nobody"), "k", b"x").await.unwrap();
    assert_eq!(begin(&*ledger, &write("nobody", "k"), 4, 0).await, BeginOutcome::Fresh, "an answer alone makes no row");
}

async fn keys_are_scoped_to_user_and_write(ledger: Any) {
    let first = write("ann", "k");
    assert_eq!(begin(&*ledger, &first, 1, 0).await, BeginOutcome::Fresh);
    for other in [write("bo", "k"), write("ann", "K"), write("ann", "k ")] {
        assert_eq!(begin(&*ledger, &other, 2, 0).await, BeginOutcome::Fresh, "{other:?}");
    }
    let reused = [
        IdempotentWrite { operation: "users.follow", ..first.clone() },
        IdempotentWrite { input: [8; 32], ..first.clone() },
    ];
    for answered in [false, true] {
        for other in &reused {
            // While the first write runs, after its lease has expired, and after it is answered.
            for after in [1, 20_000] {
                assert_eq!(begin(&*ledger, other, 3, after).await, BeginOutcome::Reused, "{answered} {other:?}");
            }
            assert_eq!(ledger.recall(other, 0).await.unwrap(), None);
        }
        ledger.finish(&first.user, "k", b"done").await.unwrap();
    }
}

async fn expired_attempts_pass_to_the_next_caller_with_the_same_id(ledger: Any) {
    let ann = write("ann", "k");
    assert_eq!(begin(&*ledger, &ann, 1, 0).await, BeginOutcome::Fresh);
    assert_eq!(begin(&*ledger, &ann, 2, 10_000).await, BeginOutcome::Again(Some(PostId(1))));
    assert_eq!(begin(&*ledger, &ann, 3, 19_999).await, BeginOutcome::Running, "it has its own lease");
    assert_eq!(begin(&*ledger, &ann, 4, 20_000).await, BeginOutcome::Again(Some(PostId(1))));
    ledger.finish(&ann.user, "k", b"done").await.unwrap();
    assert_eq!(begin(&*ledger, &ann, 5, 20_000).await, BeginOutcome::Answered("done".into()));
}

async fn writes_that_create_nothing_reserve_no_id(ledger: Any) {
    let ann = write("ann", "k");
    assert_eq!(ledger.begin(&ann, None, turn(0)).await.unwrap(), BeginOutcome::Fresh);
    assert_eq!(ledger.begin(&ann, None, turn(10_000)).await.unwrap(), BeginOutcome::Again(None));
}

async fn attempts_are_renewed_and_released(ledger: Any) {
    let ann = write("ann", "k");
    assert_eq!(begin(&*ledger, &ann, 1, 0).await, BeginOutcome::Fresh);
    let move_write_lease = async |from, to| ledger.move_write_lease(&id("ann"), "k", from, to).await.unwrap();
    move_write_lease(NOW + 10_000, NOW + 15_000).await;
    assert_eq!(begin(&*ledger, &ann, 2, 12_000).await, BeginOutcome::Running);
    move_write_lease(NOW + 10_000, 0).await;
    assert_eq!(begin(&*ledger, &ann, 2, 12_000).await, BeginOutcome::Running, "the first lease has expired");
    move_write_lease(NOW + 15_000, 0).await;
    assert_eq!(begin(&*ledger, &ann, 3, 12_000).await, BeginOutcome::Again(Some(PostId(1))));
    ledger.move_write_lease(&id("nobody"), "k", 0, 1).await.unwrap();
}

async fn one_of_many_concurrent_callers_executes(ledger: Any) {
    let ann = write("ann", "k");
    let begun = join_all((0..50).map(|n| begin(&*ledger, &ann, n, 0))).await;
    assert_eq!(begun.iter().filter(|begun| **begun == BeginOutcome::Fresh).count(), 1);
    assert_eq!(begun.iter().filter(|begun| **begun == BeginOutcome::Running).count(), 49);
}

async fn old_keys_are_removed_in_steps(ledger: Any) {
    for n in 0..5 {
        let write = write("ann", &format!("k{n}"));
        assert_eq!(begin(&*ledger, &write, n, n * 1_000).await, BeginOutcome::Fresh);
        ledger.finish(&write.user, &write.key, b"done").await.unwrap();
    }
    // The first key has expired, though its row still exists.
    assert_eq!(begin(&*ledger, &write("ann", "k0"), 9, 60_001).await, BeginOutcome::Fresh);
    assert_eq!(
        begin(&*ledger, &write("ann", "k0"), 9, 70_001).await,
        BeginOutcome::Again(Some(PostId(9))),
        "with a new id"
    );
    assert_eq!(begin(&*ledger, &write("ann", "k1"), 9, 61_000).await, BeginOutcome::Answered("done".into()));

    assert_eq!(ledger.delete_old_keys(NOW + 4_000, 2).await.unwrap(), 2);
    assert_eq!(ledger.recall(&write("ann", "k2"), 0).await.unwrap(), None, "the oldest first");
    assert!(ledger.recall(&write("ann", "k3"), 0).await.unwrap().is_some());
    assert_eq!(ledger.delete_old_keys(NOW + 4_000, 2).await.unwrap(), 1);
    assert_eq!(ledger.delete_old_keys(NOW + 4_000, 2).await.unwrap(), 0);
    assert!(ledger.recall(&write("ann", "k4"), 0).await.unwrap().is_some(), "the limit itself is excluded");
}

async fn posts_are_created_once(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, 1, "ann").await;
    let again = ledger.create_post(&post(1, "ann", &[]), None).await.unwrap();
    assert_eq!(again, None);
    let mut other = post(1, "ann", &["t"]);
    other.text = "something else".into();
    assert!(
        matches!(store(&*ledger, other).await, Err(LedgerError::Failed(_))),
        "a different post is rejected, not ignored"
    );
    assert_eq!(ledger.posts(&[PostId(1)]).await.unwrap(), [post(1, "ann", &[])], "it stays unchanged");
    assert_eq!(backlog(&*ledger).await.jobs, 1);
    assert_eq!(ledger.profile(&id("ann"), None, 0).await.unwrap().unwrap().posts, 1);
    assert!(ledger.topic_posts("t", PostId::MAX, 9).await.unwrap().is_empty());
    assert!(matches!(store(&*ledger, post(1, "bo", &[])).await, Err(LedgerError::Failed(_))), "the author differs");
}

async fn events_are_appended_once(ledger: Any) {
    let write = IdempotentWrite { user: UserId::backend(), ..write("ann", "k") };
    assert_eq!(begin(&*ledger, &write, 7, 0).await, BeginOutcome::Fresh);
    let event = DomainEvent::Followed { follower: id("ann"), followee: id("bo") };
    let append = async || {
        let key = (&write.user, &*write.key);
        ledger.append_reserved(key, PostId(7), NOW, &event).await.expect("an answer");
        ledger.pending_events(EventConsumer::Notifications, 9).await.expect("events").len()
    };
    assert_eq!(append().await, 1);
    // Another attempt under way has the same id, and a later one finds that it was used.
    assert_eq!(append().await, 1);
    assert_eq!(begin(&*ledger, &write, 8, 10_000).await, BeginOutcome::Again(None));
}
