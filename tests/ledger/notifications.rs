//! Conformance tests of notifications. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    EndedNotification, Ledger, MAX_GROUP_COMMENTS, MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS, MarkUpTo,
    NotificationEvent, NotificationGroup, NotificationMark,
};
use feedline::model::{
    AppGroup, AppNotification, Comment, CommentId, ContentId, NotificationId, NotificationKind, NotificationPosition,
    PostId,
};

use crate::support::{NOW, POST, comment, conformance, id, ids, names, post, store, users};

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
    people_leave_their_groups_and_return
    a_mention_is_never_repeated
    people_stay_with_their_last_comment
    groups_under_a_post_are_those_about_its_comments
    groups_of_the_application_have_the_last_content
}

type Any = Arc<dyn Ledger>;

const WINDOW: u64 = 1_000;
const LIKE: NotificationKind = NotificationKind::Like(ContentId::Post(PostId(7)));

/// Stores one event for ann; returns the changed group.
async fn note(ledger: &dyn Ledger, kind: NotificationKind, by: &str, at: u64) -> Option<NotificationGroup> {
    let event = NotificationEvent { kind, by: id(by), event: 0, comment: None, content: None };
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
    let other = NotificationEvent { kind: LIKE, by: id("bo"), event: 0, comment: None, content: None };
    let of_cy = ledger.notify(&id("cy"), &[other], NOW, WINDOW).await.unwrap();
    assert_eq!((of_cy[0].id, of_cy[0].count), (NotificationId(9), 1));
    assert_eq!(all(&*ledger).await, listed);
}

async fn actors_count_once(ledger: Any) {
    begin(&*ledger).await;
    note(&*ledger, LIKE, "bo", 0).await.unwrap();
    let grown = note(&*ledger, LIKE, "cy", 1).await.unwrap();
    assert_eq!(note(&*ledger, LIKE, "bo", 2).await, None);
    assert_eq!(all(&*ledger).await[0], grown);
    let comment = NotificationKind::Comment(PostId(7));
    note(&*ledger, comment, "bo", 0).await.unwrap();
    let grown = note(&*ledger, comment, "cy", 1).await.unwrap();
    let renewed = note(&*ledger, comment, "bo", 2).await.expect("another comment is news");
    assert_eq!((renewed.id, renewed.count, names(&renewed.people)), (grown.id, 2, vec!["bo", "cy"]));
    assert!(renewed.seq > grown.seq && renewed.updated_at == NOW + 2 && renewed.created_at == NOW);
}

fn ended(kind: NotificationKind, by: Option<&str>, comment: Option<u64>) -> EndedNotification {
    EndedNotification { to: id("ann"), kind, by: by.map(id), comment: comment.map(CommentId) }
}

/// Ends causes; returns the numbers of the groups.
async fn end(ledger: &dyn Ledger, causes: &[EndedNotification]) -> Vec<u64> {
    let mut groups = ledger.end_notifications(causes).await.expect("an answer");
    groups.sort_unstable();
    assert!(groups.iter().all(|(owner, _)| *owner == id("ann")));
    groups.into_iter().map(|(_, group)| group.0).collect()
}

async fn people_leave_their_groups_and_return(ledger: Any) {
    begin(&*ledger).await;
    note(&*ledger, LIKE, "bo", 0).await.unwrap();
    note(&*ledger, LIKE, "cy", 1).await.unwrap();
    let leave = ended(LIKE, Some("cy"), None);
    for _ in 0..2 {
        assert_eq!(end(&*ledger, std::slice::from_ref(&leave)).await, [1], "a repeat returns the same");
        let left = all(&*ledger).await.remove(0);
        assert_eq!((left.count, names(&left.people), left.updated_at), (1, vec!["bo"], NOW + 1));
    }
    assert!(
        end(&*ledger, &[ended(LIKE, Some("di"), None), ended(NotificationKind::Follow, None, None)]).await.is_empty()
    );
    assert_eq!(end(&*ledger, &[ended(LIKE, None, None)]).await, [1], "nobody leaves");
    end(&*ledger, &[ended(LIKE, Some("bo"), None)]).await;
    assert!(all(&*ledger).await.is_empty(), "the group is empty");
    assert!(ledger.unread_notifications(&id("ann"), 9).await.unwrap().is_empty());
    assert!(ledger.notifications_by_id(&id("ann"), &[NotificationId(1)]).await.unwrap().is_empty());
    let back = note(&*ledger, LIKE, "cy", 2).await.expect("the group is back");
    assert_eq!((back.id.0, back.count, back.updated_at), (1, 1, NOW + 1), "nothing moves");
    assert_eq!(note(&*ledger, LIKE, "di", 3).await.unwrap().count, 2);
    // An event that was processed before does not bring anybody back.
    let event = |number| NotificationEvent { kind: LIKE, by: id("bo"), event: number, comment: None, content: None };
    ledger.notify(&id("ann"), &[event(7)], NOW + 4, WINDOW).await.unwrap();
    end(&*ledger, &[ended(LIKE, Some("bo"), None)]).await;
    ledger.notify(&id("ann"), &[event(7)], NOW + 5, WINDOW).await.unwrap();
    assert_eq!(all(&*ledger).await[0].count, 2);
    let by = async |person: &str| ledger.notifications_by(&id("ann"), &id(person), 9).await.unwrap();
    assert_eq!((by("bo").await, by("di").await), (vec![], vec![NotificationId(1)]));
}

async fn a_mention_is_never_repeated(ledger: Any) {
    begin(&*ledger).await;
    let mention = NotificationKind::Mention(ContentId::Post(PostId(7)));
    note(&*ledger, mention, "bo", 0).await.unwrap();
    mark(&*ledger, MarkUpTo::Everything, NotificationMark::Read).await;
    assert_eq!(note(&*ledger, mention, "bo", 9 * WINDOW).await, None);
    end(&*ledger, &[ended(mention, Some("bo"), None)]).await;
    let back = note(&*ledger, mention, "bo", 9 * WINDOW).await.expect("the group is back");
    assert_eq!((back.id.0, back.read), (1, true));
}

async fn people_stay_with_their_last_comment(ledger: Any) {
    begin(&*ledger).await;
    let kind = NotificationKind::Reply(CommentId(5));
    let reply = async |by: &str, comment: u64| {
        let event = NotificationEvent { comment: Some(CommentId(comment)), ..NotificationEvent::new(kind, &id(by)) };
        ledger.notify(&id("ann"), &[event], NOW, WINDOW).await.expect("an answer").remove(0)
    };
    let comments = |group: &NotificationGroup, by: &str| {
        group.comments.get(&id(by)).map(|comments| comments.iter().map(|id| id.0).collect::<Vec<_>>())
    };
    reply("bo", 10).await;
    reply("cy", 11).await;
    let group = reply("bo", 12).await;
    assert_eq!((comments(&group, "bo"), comments(&group, "cy")), (Some(vec![12, 10]), Some(vec![11])));
    end(&*ledger, &[ended(kind, Some("bo"), Some(12)), ended(kind, Some("bo"), Some(99))]).await;
    let group = all(&*ledger).await.remove(0);
    assert_eq!((group.count, comments(&group, "bo")), (2, Some(vec![10])));
    end(&*ledger, &[ended(kind, Some("bo"), Some(10))]).await;
    let group = all(&*ledger).await.remove(0);
    assert_eq!((group.count, names(&group.people), comments(&group, "bo")), (1, vec!["cy"], None));
    assert_eq!(reply("bo", 13).await.count, 2);
    for number in 20..20 + 2 * MAX_GROUP_COMMENTS as u64 {
        reply("bo", number).await;
    }
    assert_eq!(comments(&all(&*ledger).await[0], "bo").map(|comments| comments.len()), Some(MAX_GROUP_COMMENTS));
}

async fn groups_under_a_post_are_those_about_its_comments(ledger: Any) {
    begin(&*ledger).await;
    store(&*ledger, post(POST.0, "di", &[])).await.expect("a post");
    for (number, author, mentions) in [(8, "ann", vec![]), (9, "bo", vec!["ann", "cy"])] {
        ledger
            .create_comment(&Comment { mentions: ids(&mentions), ..comment(number, author, None) })
            .await
            .expect("an answer");
    }
    let (mine, theirs) = (ContentId::Comment(CommentId(8)), ContentId::Comment(CommentId(9)));
    for kind in [
        NotificationKind::Like(mine),
        NotificationKind::Reply(CommentId(8)),
        NotificationKind::Mention(theirs),
        NotificationKind::Like(ContentId::Post(PostId(7))),
        NotificationKind::Follow,
    ] {
        note(&*ledger, kind, "bo", 0).await.unwrap();
    }
    let under = async |limit| {
        let groups = ledger.notifications_under(POST, limit).await.expect("an answer");
        let mut numbers: Vec<u64> = groups.into_iter().map(|(_, group)| group.0).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(under(9).await, [1, 2, 3]);
    assert_eq!(under(1).await.len(), 1);
    assert!(ledger.notifications_under(PostId(99), 9).await.expect("an answer").is_empty());
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
    let event = |number: u64| NotificationEvent {
        kind: NotificationKind::Comment(PostId(number)),
        by: id("bo"),
        event: 0,
        comment: None,
        content: None,
    };
    // The oldest group has so many actors that one step does not delete all of them.
    let fans: Vec<String> = (0..1_200).map(|n| format!("fan-{n}")).collect();
    users(&*ledger, &fans.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let likes: Vec<_> = fans
        .iter()
        .map(|by| NotificationEvent { kind: LIKE, by: id(by), event: 0, comment: None, content: None })
        .collect();
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
    let event = |kind, by| NotificationEvent { kind, by: id(by), event: 0, comment: None, content: None };
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

/// A notification of the application with a key, in a request of this number.
fn content(request: u64, key: &str, title: &str) -> AppNotification {
    let [kind, key, title] = ["app.build", key, title].map(str::to_owned);
    let (id, body) = (PostId(request), String::new());
    AppNotification { id, from: None, kind, key: Some(key), title, body, url: None, data: None, push: true }
}

fn of_application(event: i64, content: AppNotification) -> NotificationEvent {
    let kind = NotificationKind::App(AppGroup::of(&content));
    NotificationEvent { event, content: Some(Arc::new(content)), ..NotificationEvent::new(kind, &id("ann")) }
}

async fn groups_of_the_application_have_the_last_content(ledger: Any) {
    begin(&*ledger).await;
    let notify = async |events: &[NotificationEvent], at: u64| {
        ledger.notify(&id("ann"), events, NOW + at, WINDOW).await.expect("an answer")
    };
    let titles = async || {
        let all = all(&*ledger).await;
        all.into_iter().map(|group| (group.id.0, group.content.expect("a content").title)).collect::<Vec<_>>()
    };
    let one = of_application(1, content(11, "k", "one"));
    let first = notify(std::slice::from_ref(&one), 0).await.remove(0);
    let other = notify(&[of_application(2, content(12, "l", "other"))], 0).await.remove(0);
    assert_eq!(first.content, Some(content(11, "k", "one")));
    // Also after a mark, and after the window.
    mark(&*ledger, MarkUpTo::Everything, NotificationMark::Read).await;
    let two = of_application(3, content(13, "k", "two"));
    let again = notify(std::slice::from_ref(&two), 3 * WINDOW).await.remove(0);
    assert_eq!((again.id, again.read, again.count), (first.id, false, 1));
    let expected = [(first.id.0, "two".to_owned()), (other.id.0, "other".to_owned())];
    assert_eq!(titles().await, expected);
    // An event again, also an earlier one, changes nothing, and returns its group.
    for event in [two, one] {
        let repeated = notify(&[event], 3 * WINDOW).await;
        assert_eq!((repeated.len(), repeated[0].position), (1, again.position));
        assert_eq!(titles().await, expected);
    }
    // The content goes with its group: without a new one, a later group of the key has none.
    let without = async |event: i64, key: &str| {
        let event = NotificationEvent { content: None, ..of_application(event, content(0, key, "")) };
        notify(&[event], 3 * WINDOW).await.remove(0).content
    };
    let removed = ledger.remove_old_notifications(NOW + 2 * WINDOW, 9).await.expect("an answer");
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert_eq!(titles().await, expected[..1]);
    assert_eq!(without(4, "l").await, None, "it is old");
    assert_eq!(without(5, "k").await, Some(content(13, "k", "two")));
    let many = 0..MAX_NOTIFICATION_GROUPS;
    let many = many.map(|n| of_application(6 + n.cast_signed(), content(20 + n, &n.to_string(), "many")));
    notify(&many.collect::<Vec<_>>(), 3 * WINDOW).await;
    assert!(titles().await.iter().all(|(_, title)| title == "many"));
    assert_eq!(without(6_000, "k").await, None, "there are too many");
}
