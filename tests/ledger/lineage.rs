//! The lineage of a ledger: its incarnation, and the numbers that it has assigned.

use std::sync::Arc;

use feedline::ledger::{JOBS, Ledger, Lineage, NUMBERS_SKIPPED, NotificationEvent, PULLED};
use feedline::model::{Entry, NotificationKind, PostId};

use crate::support::{NOW, conformance, id, publish, users};

conformance! {
    commit_numbers_only_grow
    new_incarnations_start_once_above_all_numbers
    new_incarnations_reuse_no_notification_id
}

type Any = Arc<dyn Ledger>;

async fn lineage(ledger: &dyn Ledger) -> Lineage {
    ledger.lineage().await.expect("a lineage")
}

async fn commit_numbers_only_grow(ledger: Any) {
    let fresh = lineage(&*ledger).await;
    assert!(fresh.incarnation.len() >= 8, "{fresh:?}");
    assert_eq!([JOBS, PULLED].map(|kind| fresh.number(kind)), [0; 2]);
    users(&*ledger, &["ann"]).await;
    let job = publish(&*ledger, 1, "ann").await;
    let mark = ledger.pull(job.id, &id("ann"), &Entry::Post(PostId(1)), false, NOW).await.unwrap();
    ledger.remove_job(job.id, &[]).await.unwrap();
    ledger.forget_pulled(NOW + 1, 9).await.unwrap();
    let later = lineage(&*ledger).await;
    assert_eq!(later.number(JOBS), job.id.0, "also when it is done");
    assert_eq!(later.number(PULLED), mark, "also when it is dropped");
    assert_eq!(later.identity(), fresh.identity());
}

async fn new_incarnations_start_once_above_all_numbers(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let job = publish(&*ledger, 1, "ann").await;
    let before = lineage(&*ledger).await;
    let known = [(JOBS, 500), (PULLED, 70)];
    assert!(!ledger.begin_incarnation("another", "new", &known).await.unwrap());
    assert_eq!(lineage(&*ledger).await, before, "nothing changed");
    assert!(ledger.begin_incarnation(&before.incarnation, "new", &known).await.unwrap());
    assert!(!ledger.begin_incarnation(&before.incarnation, "newer", &known).await.unwrap(), "somebody was first");
    let after = lineage(&*ledger).await;
    assert_eq!(after.incarnation, "new");
    assert_eq!(after.place, before.place);
    assert!(after.number(JOBS) >= 500 + NUMBERS_SKIPPED && after.number(PULLED) >= 70 + NUMBERS_SKIPPED, "{after:?}");
    let next = publish(&*ledger, 2, "ann").await;
    assert!(next.id > job.id && next.id.0 > 500 + NUMBERS_SKIPPED, "{next:?}");
    let mark = ledger.pull(next.id, &id("ann"), &Entry::Post(PostId(2)), false, NOW).await.unwrap();
    assert!(mark > 70 + NUMBERS_SKIPPED, "{mark}");
}

async fn new_incarnations_reuse_no_notification_id(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let follow =
        NotificationEvent { kind: NotificationKind::Follow, by: id("bo"), event: 0, comment: None, content: None };
    let notify = async |now: u64| {
        let groups = ledger.notify(&id("ann"), std::slice::from_ref(&follow), now, 1).await.expect("an answer");
        groups[0].id.0
    };
    // Also in a ledger that has none yet.
    let mut last = 0;
    for n in 1..=3 {
        let incarnation = lineage(&*ledger).await.incarnation;
        assert!(ledger.begin_incarnation(&incarnation, &format!("new-{n}"), &[]).await.unwrap());
        let id = notify(NOW + 10 * n).await;
        assert!(id > last + 1_000 * NUMBERS_SKIPPED && id < 1 << 40, "{id} after {last}");
        last = id;
    }
}
