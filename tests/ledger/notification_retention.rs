//! Conformance tests of the removal of old notifications. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{EndedNotification, Ledger, MarkUpTo, NotificationEvent, NotificationMark, RemovedNotification};
use feedline::model::{ContentId, NotificationId, NotificationKind, PostId, UserId};

use crate::support::{NOW, conformance, database, id, open_at, users};

conformance! {
    old_groups_are_removed_in_batches
    groups_that_nobody_is_left_in_are_removed_too
    what_happens_again_begins_a_group
}

type Any = Arc<dyn Ledger>;

const WINDOW: u64 = 1_000;

async fn like(ledger: &dyn Ledger, to: &str, post: u64, by: &str, at: u64) -> NotificationId {
    let event = NotificationEvent::new(NotificationKind::Like(ContentId::Post(PostId(post))), &id(by));
    ledger.notify(&id(to), &[event], NOW + at, WINDOW).await.expect("an answer")[0].id
}

async fn remove(ledger: &dyn Ledger, before: u64, limit: usize) -> Vec<(UserId, NotificationId, bool)> {
    let removed = ledger.remove_old_notifications(NOW + before, limit).await.expect("an answer");
    let parts = |RemovedNotification { owner, id, was_listed }| (owner, id, was_listed);
    removed.into_iter().map(parts).collect()
}

async fn listed(ledger: &dyn Ledger, user: &str, before: Option<i64>) -> Vec<NotificationId> {
    let groups = ledger.notifications(&id(user), before, 99).await.expect("a list");
    groups.into_iter().map(|group| group.id).collect()
}

async fn old_groups_are_removed_in_batches(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "di"]).await;
    let first = like(&*ledger, "ann", 1, "bo", 0).await;
    let second = like(&*ledger, "ann", 2, "bo", 10).await;
    let other = like(&*ledger, "cy", 3, "bo", 20).await;
    let third = like(&*ledger, "ann", 4, "bo", 30).await;
    let fourth = like(&*ledger, "ann", 5, "bo", 40).await;
    assert_eq!(like(&*ledger, "ann", 1, "di", 100).await, first, "its last event is not old");
    let place = ledger.notifications_by_id(&id("ann"), &[third]).await.unwrap()[0].place;
    assert_eq!(remove(&*ledger, 10, 9).await, [], "an event at the time itself is not older");
    assert_eq!(remove(&*ledger, 40, 2).await, [(id("ann"), second, true), (id("cy"), other, true)]);
    assert_eq!(listed(&*ledger, "ann", None).await, [first, fourth, third]);
    assert_eq!(remove(&*ledger, 40, 2).await, [(id("ann"), third, true)]);
    assert_eq!(remove(&*ledger, 40, 2).await, []);
    assert_eq!(listed(&*ledger, "ann", None).await, [first, fourth]);
    assert_eq!(listed(&*ledger, "ann", Some(place)).await, [], "behind the place of one that is gone");
    assert_eq!(listed(&*ledger, "cy", None).await, []);
    assert_eq!(ledger.unread_notifications(&id("ann"), 9).await.unwrap().len(), 2);
    let mark = ledger.mark_notifications(&id("ann"), MarkUpTo::Group(third), NotificationMark::Read, None).await;
    assert_eq!(mark.unwrap(), None, "it is gone");
    assert_eq!(ledger.unread_notifications(&id("ann"), 9).await.unwrap().len(), 2);
    let sizes = remove(&*ledger, 999, 9).await.len();
    assert_eq!((sizes, listed(&*ledger, "ann", None).await), (2, vec![]));
}

async fn groups_that_nobody_is_left_in_are_removed_too(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let left = like(&*ledger, "ann", 1, "bo", 0).await;
    let kind = NotificationKind::Like(ContentId::Post(PostId(1)));
    let ended = EndedNotification { to: id("ann"), kind, by: Some(id("bo")), comment: None };
    ledger.end_notifications(&[ended]).await.unwrap();
    assert_eq!(remove(&*ledger, 1, 9).await, [(id("ann"), left, false)]);
    assert_eq!(remove(&*ledger, 1, 9).await, []);
}

async fn what_happens_again_begins_a_group(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let old = like(&*ledger, "ann", 1, "bo", 0).await;
    remove(&*ledger, 1, 9).await;
    let new = like(&*ledger, "ann", 1, "bo", 2).await;
    assert!(new > old);
    let groups = ledger.notifications(&id("ann"), None, 9).await.unwrap();
    assert_eq!((groups.len(), groups[0].count, groups[0].read), (1, 1, false));
}

/// The people of a large group are removed in parts, also those that a removal leaves.
#[tokio::test]
async fn nobody_stays_of_a_group_that_is_gone() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    for by in 0..120 {
        like(&*ledger, "ann", 1, &format!("u{by}"), 0).await;
    }
    assert_eq!(remove(&*ledger, 1, 9).await.len(), 1);
    like(&*ledger, "ann", 2, "bo", 5).await;
    let client = server.client(&name).await;
    let people = client.query_one("SELECT count(*), min(person) FROM notification_people", &[]).await.unwrap();
    assert_eq!((people.get::<_, i64>(0), people.get::<_, &str>(1)), (1, "bo"));
    let groups = client.query_one("SELECT groups FROM notified", &[]).await.unwrap();
    assert_eq!(groups.get::<_, i64>(0), 1);
}
