//! Conformance tests of notifications. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    Ledger, MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS, MarkUpTo, NotificationEvent, NotificationGroup, NotificationMark,
};
use feedline::model::{CommentId, ContentId, NotificationId, NotificationKind, NotificationPosition, PostId};

use crate::support::{NOW, conformance, id, names, users};

conformance! {
    events_join_their_group_and_move_it_up
    groups_have_one_user_kind_and_object
    actors_count_once
    groups_end_with_their_window
    read_groups_do_not_grow
    repeated_likes_do_not_notify_after_a_read
    read_marks_move_forward_only
    groups_that_grow_are_unseen_again
    positions_mark_what_was_listed
    group_pages_start_at_a_position
    the_newest_actors_are_listed
    group_retention_keeps_the_newest
    one_call_stores_many_events_and_returns_each_group_once
}

type Any = Arc<dyn Ledger>;

const WINDOW: u64 = 1_000;
const LIKE: NotificationKind = NotificationKind::Like(ContentId::Post(PostId(7)));

/// Stores one event for ann; returns the changed group.
async fn note(ledger: &dyn Ledger, kind: NotificationKind, by: &str, at: u64) -> Option<NotificationGroup> {
    let event = NotificationEvent { kind, by: id(by), event: 0 };
    let mut changed = ledger.notify(&id("ann"), &[event], NOW + at, WINDOW).await.expect("an answer");
    assert!(changed.len() <= 1);
    changed.pop()
}

async fn all(ledger: &dyn Ledger) -> Vec<NotificationGroup> {
    ledger.notifications(&id("ann"), None, 2_000).await.expect("a list")
}

fn numbers(groups: &[NotificationGroup]) -> Vec<u64> {
    groups.iter().map(|group| group.id.0).collect()
}

/// Marks notifications of ann. Returns the position of the mark if it moved.
async fn mark(ledger: &dyn Ledger, upto: MarkUpTo, mark: NotificationMark) -> Option<u64> {
    ledger.mark_notifications(&id("ann"), upto, mark, None).await.expect("an answer").map(|position| position.0)
}

fn group(id: u64) -> MarkUpTo {
    MarkUpTo::Group(NotificationId(id))
}

async fn begin(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo", "cy", "di"]).await;
}

async fn events_join_their_group_and_move_it_up(ledger: Any) {
    begin(&*ledger).await;
    let first = note(&*ledger, LIKE, "bo", 0).await.expect("a group");
    assert_eq!((first.id, first.kind, first.count), (NotificationId(1), LIKE, 1));
    assert_eq!((first.created_at, first.updated_at, first.read, first.seen), (NOW, NOW, false, false));
    note(&*ledger, NotificationKind::Follow, "bo", 1).await.expect("another group");
    let grown = note(&*ledger, LIKE, "cy", 2).await.expect("the first again");
    assert_eq!((grown.id, grown.count, names(&grown.people)), (NotificationId(1), 2, vec!["cy", "bo"]));
    assert_eq!((grown.created_at, grown.updated_at), (NOW, NOW + 2));
    assert!(grown.seq > first.seq);
    let listed = all(&*ledger).await;
    assert_eq!(numbers(&listed), [1, 2], "what happened last is first");
    assert_eq!(listed[0], grown);
    assert!(ledger.notifications(&id("bo"), None, 9).await.unwrap().is_empty());
    let asked = [NotificationId(1), NotificationId(9), NotificationId(1)];
    assert_eq!(ledger.notifications_by_id(&id("ann"), &asked).await.unwrap(), [grown]);
    assert!(ledger.notifications_by_id(&id("bo"), &asked).await.unwrap().is_empty(), "they are not bo's");
}

async fn groups_have_one_user_kind_and_object(ledger: Any) {
    begin(&*ledger).await;
    let (post, comment) = (ContentId::Post(PostId(7)), ContentId::Comment(CommentId(7)));
    let kinds = [
        NotificationKind::Like(post),
        NotificationKind::Like(comment),
        NotificationKind::Like(ContentId::Post(PostId(8))),
        NotificationKind::Comment(PostId(7)),
        NotificationKind::Reply(CommentId(7)),
        NotificationKind::Follow,
        NotificationKind::Mention(post),
        NotificationKind::Mention(comment),
    ];
    for (number, kind) in (1..).zip(kinds) {
        assert_eq!(note(&*ledger, kind, "bo", 0).await.unwrap().id, NotificationId(number));
    }
    let listed = all(&*ledger).await;
    assert_eq!(listed.iter().rev().map(|group| group.kind).collect::<Vec<_>>(), kinds);
    let other = NotificationEvent { kind: LIKE, by: id("bo"), event: 0 };
    let of_cy = ledger.notify(&id("cy"), &[other], NOW, WINDOW).await.unwrap();
    assert_eq!((of_cy[0].id, of_cy[0].count), (NotificationId(9), 1));
    assert_eq!(all(&*ledger).await, listed);
}

async fn actors_count_once(ledger: Any) {
    begin(&*ledger).await;
    for kind in [LIKE, NotificationKind::Comment(PostId(7))] {
        note(&*ledger, kind, "bo", 0).await.unwrap();
        let grown = note(&*ledger, kind, "cy", 1).await.unwrap();
        assert_eq!(note(&*ledger, kind, "bo", 2).await, None);
        assert_eq!(all(&*ledger).await[0], grown);
    }
}

async fn groups_end_with_their_window(ledger: Any) {
    begin(&*ledger).await;
    note(&*ledger, LIKE, "bo", 0).await.unwrap();
    assert_eq!(note(&*ledger, LIKE, "cy", WINDOW - 1).await.unwrap().id, NotificationId(1));
    let anew = note(&*ledger, LIKE, "di", WINDOW).await.unwrap();
    assert_eq!((anew.id, anew.count), (NotificationId(2), 1), "the window is counted from the first");
    assert_eq!(note(&*ledger, LIKE, "bo", WINDOW + 1).await.unwrap().count, 2, "the window is new, and so is bo");
    assert_eq!(numbers(&all(&*ledger).await), [2, 1]);
}

async fn read_groups_do_not_grow(ledger: Any) {
    begin(&*ledger).await;
    let comment = NotificationKind::Comment(PostId(7));
    note(&*ledger, comment, "bo", 0).await.unwrap();
    assert_eq!(mark(&*ledger, MarkUpTo::Everything, NotificationMark::Seen).await, Some(1));
    assert_eq!(note(&*ledger, comment, "cy", 1).await.unwrap().id, NotificationId(1), "seen is not read");
    assert_eq!(mark(&*ledger, MarkUpTo::Everything, NotificationMark::Read).await, Some(2));
    let anew = note(&*ledger, comment, "bo", 2).await.expect("another comment is news");
    assert_eq!((anew.id, anew.count, anew.read), (NotificationId(2), 1, false));
    let read: Vec<_> = all(&*ledger).await.iter().map(|group| (group.id.0, group.read)).collect();
    assert_eq!(read, [(2, false), (1, true)]);
}

async fn repeated_likes_do_not_notify_after_a_read(ledger: Any) {
    begin(&*ledger).await;
    note(&*ledger, LIKE, "bo", 0).await.unwrap();
    mark(&*ledger, MarkUpTo::Everything, NotificationMark::Read).await;
    assert_eq!(note(&*ledger, LIKE, "bo", 1).await, None, "taken back and done again");
    assert_eq!(note(&*ledger, LIKE, "cy", 1).await.unwrap().id, NotificationId(2));
    assert_eq!(note(&*ledger, LIKE, "bo", WINDOW).await.unwrap().id, NotificationId(2), "as much later as this it is");
}

async fn read_marks_move_forward_only(ledger: Any) {
    begin(&*ledger).await;
    let everything = MarkUpTo::Everything;
    assert_eq!(mark(&*ledger, everything, NotificationMark::Read).await, None, "there is nothing");
    assert_eq!(ledger.newest_notification(&id("ann")).await.unwrap(), None);
    for (number, by) in [(1, "bo"), (2, "cy"), (3, "di")] {
        note(&*ledger, NotificationKind::Mention(ContentId::Post(PostId(number))), by, 0).await.unwrap();
    }
    assert_eq!(ledger.newest_notification(&id("ann")).await.unwrap(), Some(NotificationId(3)));
    let unread = async || numbers(&ledger.unread_notifications(&id("ann"), 9).await.unwrap());
    assert_eq!(unread().await, [3, 2, 1]);
    assert_eq!(mark(&*ledger, group(2), NotificationMark::Read).await, Some(2));
    assert_eq!(unread().await, [3]);
    assert_eq!(mark(&*ledger, group(1), NotificationMark::Read).await, None, "never back");
    assert_eq!(unread().await, [3]);
    let flags: Vec<_> = all(&*ledger).await.iter().map(|group| (group.read, group.seen)).collect();
    assert_eq!(flags, [(false, false), (true, true), (true, true)], "what is read is seen");
    assert_eq!(mark(&*ledger, group(99), NotificationMark::Read).await, None, "there is no such group");
    users(&*ledger, &["bo"]).await;
    let others = ledger.mark_notifications(&id("bo"), group(3), NotificationMark::Read, None).await.unwrap();
    assert_eq!(others, None, "it is not theirs");
    assert_eq!(ledger.unread_notifications(&id("ann"), 0).await.unwrap(), []);
}

async fn groups_that_grow_are_unseen_again(ledger: Any) {
    begin(&*ledger).await;
    note(&*ledger, LIKE, "bo", 0).await.unwrap();
    assert_eq!(mark(&*ledger, group(1), NotificationMark::Seen).await, Some(1));
    let seen = all(&*ledger).await;
    assert_eq!((seen[0].seen, seen[0].read), (true, false));
    assert!(!note(&*ledger, LIKE, "cy", 1).await.unwrap().seen);
    assert!(!all(&*ledger).await[0].seen);
}

/// A mark at a position as it was listed leaves everything unread that joined a group later.
async fn positions_mark_what_was_listed(ledger: Any) {
    begin(&*ledger).await;
    let mention = NotificationKind::Mention(ContentId::Post(PostId(1)));
    let liked = note(&*ledger, LIKE, "bo", 0).await.unwrap();
    let mentioned = note(&*ledger, mention, "bo", 0).await.unwrap();
    assert!(mentioned.position > liked.position, "each change has a position of its own");
    assert_eq!((liked.position.0, mentioned.position.0), (1, 2));
    let grown = note(&*ledger, LIKE, "cy", 1).await.unwrap();
    assert!(grown.position > mentioned.position, "a group that changes moves on");
    let flags =
        async || -> Vec<_> { all(&*ledger).await.iter().map(|group| (group.kind, group.read, group.seen)).collect() };
    let at = |position| MarkUpTo::Position(NotificationPosition(position));
    assert_eq!(mark(&*ledger, at(0), NotificationMark::Read).await, None);
    assert_eq!(mark(&*ledger, at(liked.position.0), NotificationMark::Read).await, Some(1));
    assert_eq!(flags().await, [(LIKE, false, false), (mention, false, false)], "the group has grown meanwhile");
    assert_eq!(mark(&*ledger, at(mentioned.position.0), NotificationMark::Read).await, Some(2));
    assert_eq!(flags().await, [(LIKE, false, false), (mention, true, true)]);
    let far = NotificationPosition::MAX.0;
    assert_eq!(mark(&*ledger, at(far), NotificationMark::Read).await, Some(grown.position.0), "cut to the last one");
    let next = note(&*ledger, mention, "di", 2).await.unwrap();
    assert!(!next.read && !next.seen, "later events are unread");
}

async fn group_pages_start_at_a_position(ledger: Any) {
    begin(&*ledger).await;
    for number in 1..=5 {
        note(&*ledger, NotificationKind::Comment(PostId(number)), "bo", 0).await.unwrap();
    }
    let ann = id("ann");
    let first = ledger.notifications(&ann, None, 2).await.unwrap();
    assert_eq!(numbers(&first), [5, 4]);
    // A group of a later page that grows moves to the top and is on no later page; no other group moves.
    note(&*ledger, NotificationKind::Comment(PostId(2)), "cy", 1).await.unwrap();
    let second = ledger.notifications(&ann, Some(first[1].seq), 2).await.unwrap();
    assert_eq!(numbers(&second), [3, 1]);
    assert!(ledger.notifications(&ann, Some(second[1].seq), 2).await.unwrap().is_empty());
    assert_eq!(numbers(&ledger.notifications(&ann, None, 1).await.unwrap()), [2]);
}

async fn the_newest_actors_are_listed(ledger: Any) {
    begin(&*ledger).await;
    let people: Vec<String> = (0..MAX_GROUP_PEOPLE + 4).map(|n| format!("fan-{n}")).collect();
    users(&*ledger, &people.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for by in &people {
        note(&*ledger, NotificationKind::Follow, by, 0).await.unwrap();
    }
    let group = all(&*ledger).await.remove(0);
    assert_eq!(group.count, people.len() as u64);
    let newest: Vec<&str> = people.iter().rev().take(MAX_GROUP_PEOPLE).map(String::as_str).collect();
    assert_eq!(names(&group.people), newest);
}

async fn group_retention_keeps_the_newest(ledger: Any) {
    begin(&*ledger).await;
    let event =
        |number: u64| NotificationEvent { kind: NotificationKind::Comment(PostId(number)), by: id("bo"), event: 0 };
    // The oldest group has so many actors that one step does not delete all of them.
    let fans: Vec<String> = (0..1_200).map(|n| format!("fan-{n}")).collect();
    users(&*ledger, &fans.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let likes: Vec<_> = fans.iter().map(|by| NotificationEvent { kind: LIKE, by: id(by), event: 0 }).collect();
    ledger.notify(&id("ann"), &likes, NOW, WINDOW).await.unwrap();
    let many: Vec<_> = (2_000..2_000 + MAX_NOTIFICATION_GROUPS - 1).map(event).collect();
    ledger.notify(&id("ann"), &many, NOW, WINDOW).await.unwrap();
    let listed = all(&*ledger).await;
    assert_eq!((listed.len() as u64, listed.last().unwrap().kind), (MAX_NOTIFICATION_GROUPS, LIKE));
    ledger.notify(&id("ann"), &[event(8_000), event(8_001)], NOW, WINDOW).await.unwrap();
    let listed = all(&*ledger).await;
    assert_eq!(listed.len() as u64, MAX_NOTIFICATION_GROUPS);
    assert_eq!((listed[0].id.0, listed.last().unwrap().id.0), (MAX_NOTIFICATION_GROUPS + 2, 3), "the oldest went");
    // Nothing of a deleted group is kept: a repeat of its event starts a new group.
    let again = note(&*ledger, LIKE, "fan-3", 1).await.unwrap();
    assert_eq!((again.id.0, again.count), (MAX_NOTIFICATION_GROUPS + 3, 1));
}

async fn one_call_stores_many_events_and_returns_each_group_once(ledger: Any) {
    begin(&*ledger).await;
    let event = |kind, by| NotificationEvent { kind, by: id(by), event: 0 };
    let many = [
        event(LIKE, "bo"),
        event(NotificationKind::Follow, "bo"),
        event(LIKE, "bo"),
        event(LIKE, "cy"),
        event(NotificationKind::Follow, "bo"),
    ];
    let changed = ledger.notify(&id("ann"), &many, NOW, WINDOW).await.unwrap();
    let changed: Vec<_> = changed.iter().map(|group| (group.id.0, group.count)).collect();
    assert_eq!(changed, [(2, 1), (1, 2)]);
    assert!(ledger.notify(&id("ann"), &many, NOW, WINDOW).await.unwrap().is_empty(), "nothing is new");
    assert!(ledger.notify(&id("ann"), &[], NOW, WINDOW).await.unwrap().is_empty());
    assert_eq!(all(&*ledger).await.len(), 2);
}
