//! The erasure of users: tombstones, and bounded steps until no data is left.

use std::sync::Arc;

use feedline::ledger::{
    DeviceSession, Erasure, ErasureBacklog, IdempotentWrite, Ledger, NotificationEvent, PersonalData, ProfileChange,
    RevocationKind, Thread, WriteLease,
};
use feedline::model::{
    AppGroup, AppNotification, CommentId, ContentId, NotificationId, NotificationKind, ObjectId, ObjectType, PostId,
    PushPreferences, Restriction,
};

use crate::personal::{comment, like};
use crate::support::{NOW, account, conformance, delete, follow, hand_over, id, own, publish, users};

conformance! {
    tombstones_reserve_the_user_id
    erasures_need_the_partition
    erasure_removes_likes_and_their_counts
    erasure_removes_the_user_from_notifications
    erasure_removes_notifications_of_the_application
    erasure_removes_what_was_sent_from_the_user_to_groups_with_others
    erasure_removes_rows_on_both_sides
    posts_are_erased_with_their_content_in_bounded_steps
}

type Any = Arc<dyn Ledger>;

const WINDOW: u64 = 24 * 3_600_000;

async fn tombstones_reserve_the_user_id(ledger: Any) {
    assert!(ledger.create_account(account("ann")).await.unwrap());
    users(&*ledger, &["bo"]).await;
    assert!(ledger.begin_erasure(&id("ann"), NOW + 5).await.unwrap());
    assert!(!ledger.begin_erasure(&id("ann"), NOW + 9).await.unwrap(), "it is already a tombstone");
    let log = ledger.revocations_after(0, 9).await.unwrap();
    let erased: Vec<_> = log.iter().map(|(_, it)| (it.kind, it.subject.as_str(), it.at, it.expires_at)).collect();
    assert_eq!(erased, [(RevocationKind::Erased, "ann", NOW + 5, None)]);

    assert_eq!(ledger.account(&id("ann")).await.unwrap(), None, "the password is gone");
    assert!(!ledger.create_account(account("ann")).await.unwrap(), "the id cannot be registered again");
    ledger.ensure_user(&id("ann"), NOW).await.expect("an answer");
    let named = ProfileChange { name: Some("Ann again".into()), ..ProfileChange::default() };
    assert_eq!(ledger.update_user(&id("ann"), &named).await.unwrap(), None);
    let found = ledger.users(&[id("ann"), id("bo")]).await.unwrap();
    assert_eq!(found.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), ["bo"]);
    assert_eq!(ledger.profile(&id("ann"), Some(&id("bo")), 0).await.unwrap(), None);
    for prefix in ["ann", "name of", "again"] {
        assert!(ledger.search_users(prefix, None, 9).await.unwrap().is_empty(), "{prefix}");
    }
    let page = ledger.hydrate(None, &[], &[id("ann"), id("bo")]).await.unwrap();
    assert_eq!(page.people.len(), 1);

    assert!(ledger.begin_erasure(&id("never-seen"), NOW).await.unwrap());
    assert!(!ledger.create_account(account("never-seen")).await.unwrap());
}

async fn erasures_need_the_partition(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    ledger.begin_erasure(&id("ann"), NOW).await.unwrap();
    let due = async |now: u64| {
        let due = ledger.due_erasures(now, 9).await.expect("an answer");
        due.into_iter().map(|it| (it.user, it.quiet_since)).collect::<Vec<_>>()
    };
    assert_eq!(due(NOW).await, [(id("ann"), None)]);
    let backlog = async || ledger.erasure_backlog().await.expect("an answer");
    assert_eq!(backlog().await, ErasureBacklog { erasures: 1, oldest: Some(NOW) });
    let former = own(&*ledger, "w1", "erasure").await.expect("the partition");
    let quiet = Erasure { user: id("ann"), at: NOW, quiet_since: Some(NOW + 7) };
    assert!(ledger.end_erasure_pass(&former, &quiet, Some(NOW + 20)).await.unwrap());
    assert_eq!(due(NOW + 19).await, []);
    assert_eq!(backlog().await.erasures, 1, "it waits for its next pass");
    assert_eq!(due(NOW + 20).await, [(id("ann"), Some(NOW + 7))]);
    // w1 was paused past its lease.
    let owner = hand_over(&*ledger, "w1", "w2", "erasure").await;
    let loud = Erasure { quiet_since: None, ..quiet.clone() };
    assert!(!ledger.end_erasure_pass(&former, &loud, Some(0)).await.unwrap());
    assert!(!ledger.end_erasure_pass(&former, &quiet, None).await.unwrap());
    assert_eq!(due(NOW + 20).await, [(id("ann"), Some(NOW + 7))], "w1 changed nothing");
    // The longest waiting one comes first.
    ledger.begin_erasure(&id("bo"), NOW).await.unwrap();
    assert_eq!(backlog().await, ErasureBacklog { erasures: 2, oldest: Some(NOW) });
    assert_eq!(due(NOW + 20).await, [(id("bo"), None), (id("ann"), Some(NOW + 7))]);
    assert_eq!(ledger.due_erasures(NOW + 20, 1).await.expect("an answer").len(), 1);
    assert!(ledger.end_erasure_pass(&owner, &quiet, None).await.unwrap());
    assert!(!ledger.end_erasure_pass(&owner, &quiet, None).await.unwrap(), "it is finished");
    assert!(!ledger.end_erasure_pass(&owner, &quiet, Some(0)).await.unwrap());
    assert_eq!(due(NOW + 999).await, [(id("bo"), None)]);
}

async fn erasure_removes_likes_and_their_counts(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for number in [1, 2, 3] {
        publish(&*ledger, number, "bo").await;
        comment(&*ledger, 10 + number, number, "bo", None).await;
    }
    let objects = [1, 2, 3]
        .map(|n| ContentId::Post(PostId(n)))
        .into_iter()
        .chain([11, 12].map(|n| ContentId::Comment(CommentId(n))));
    let objects: Vec<ContentId> = objects.collect();
    like(&*ledger, &objects.iter().map(|object| ("ann", *object)).collect::<Vec<_>>()).await;
    like(&*ledger, &[("bo", objects[0])]).await;
    let before = ledger.like_tallies(&objects).await.unwrap();
    let mut received = Vec::new();
    loop {
        let step = ledger.erase_likes(&id("ann"), 2).await.unwrap();
        assert!(step.len() <= 2);
        if step.is_empty() {
            break;
        }
        received.extend(step);
    }
    received.sort_by_key(|(object, _)| *object);
    let mut after = ledger.like_tallies(&objects).await.unwrap();
    after.sort_by_key(|(object, _)| *object);
    assert_eq!(received, after, "the returned state equals the stored one");
    for (object, tally) in &before {
        let (_, now) = after.iter().find(|(other, _)| other == object).expect("a tally");
        assert_eq!((now.likes, now.comments), (tally.likes - 1, tally.comments), "{object:?}");
        assert!(now.version > tally.version, "the count is newer");
    }
    let likers = ledger.likers(PostId(1), None, 9).await.unwrap();
    assert_eq!(likers.items.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), ["bo"]);
}

async fn erasure_removes_the_user_from_notifications(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    publish(&*ledger, 1, "bo").await;
    let notify = async |kind: NotificationKind, by: &str| {
        let event = NotificationEvent { kind, by: id(by), event: 0, comment: None, content: None };
        ledger.notify(&id("bo"), &[event], NOW, WINDOW).await.expect("an answer");
    };
    notify(NotificationKind::Like(ContentId::Post(PostId(1))), "ann").await;
    notify(NotificationKind::Like(ContentId::Post(PostId(1))), "cy").await;
    notify(NotificationKind::Follow, "ann").await;
    let before = ledger.notifications(&id("bo"), None, 9).await.unwrap();
    let mut received = Vec::new();
    loop {
        let step = ledger.erase_notices(&id("ann"), 1).await.unwrap();
        if step.is_empty() {
            break;
        }
        received.extend(step);
    }
    received.sort();
    assert_eq!(received, [(id("bo"), NotificationId(1)), (id("bo"), NotificationId(2))]);
    let groups = ledger.notifications(&id("bo"), None, 9).await.unwrap();
    assert_eq!(groups.len(), 1, "a group without people is deleted");
    assert_eq!((groups[0].people.as_slice(), groups[0].count), (&[id("cy")][..], 1));
    assert_eq!(groups[0].seq, before[1].seq, "it is no news");
    assert!(groups[0].position > before[0].position, "but a change");
}

/// Notifies a user of something of the application's, with a key, on behalf of another user or of nobody.
async fn notify_of_app(ledger: &dyn Ledger, number: u64, to: &str, from: Option<&str>, key: &str) {
    let event = app_event(number, to, from, key);
    ledger.notify(&id(to), &[event], NOW + number, WINDOW).await.expect("an answer");
}

fn app_event(number: u64, to: &str, from: Option<&str>, key: &str) -> NotificationEvent {
    let content = AppNotification {
        id: PostId(number),
        from: from.map(id),
        kind: "app.build".to_owned(),
        key: Some(key.to_owned()),
        title: format!("{key}, {number}"),
        body: String::new(),
        url: None,
        // PostgreSQL does not read JSON with an escaped NUL.
        data: Some(serde_json::Map::from_iter([("x".to_owned(), "\0".into())])),
        push: true,
    };
    let kind = NotificationKind::App(AppGroup::of(&content));
    let by = id(from.unwrap_or(to));
    let content = Some(Arc::new(content));
    NotificationEvent { event: number.cast_signed(), content, ..NotificationEvent::new(kind, &by) }
}

async fn erasure_removes_notifications_of_the_application(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    notify_of_app(&*ledger, 1, "ann", None, "own").await;
    notify_of_app(&*ledger, 2, "ann", Some("bo"), "by bo").await;
    notify_of_app(&*ledger, 3, "bo", Some("ann"), "by ann").await;
    notify_of_app(&*ledger, 4, "bo", Some("cy"), "by cy").await;
    notify_of_app(&*ledger, 5, "bo", None, "own").await;
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    let mut owners = Vec::new();
    loop {
        let step = ledger.erase_notices(&id("ann"), 1).await.expect("an answer");
        if step.is_empty() {
            break;
        }
        owners.extend(step.into_iter().map(|(owner, _)| owner));
    }
    owners.sort();
    assert_eq!(owners, [id("ann"), id("bo")]);
    let mut rows = 0;
    while let removed @ 1.. = ledger.erase_rest(&id("ann"), 2).await.expect("an answer") {
        rows += removed;
    }
    assert_eq!(rows, 4, "the group by bo with its person and what it said, and the counters");
    assert!(ledger.notifications(&id("ann"), None, 9).await.expect("a list").is_empty());
    let left = ledger.notifications(&id("bo"), None, 9).await.expect("a list");
    let keys = left.iter().map(|group| group.content.as_ref().and_then(|content| content.key.as_deref()));
    assert_eq!(keys.collect::<Vec<_>>(), [Some("own"), Some("by cy")]);
    // What they said is gone: another event of the same key, without a content of its own, has none.
    for (number, to, key) in [(6, "ann", "own"), (7, "ann", "by bo"), (8, "bo", "by ann")] {
        let event = NotificationEvent { content: None, ..app_event(number, to, Some("cy"), key) };
        let groups = ledger.notify(&id(to), &[event], NOW + number, WINDOW).await.expect("an answer");
        assert!(groups.iter().all(|group| group.content.is_none()), "{to}, {key}: {groups:?}");
    }
}

async fn erasure_removes_what_was_sent_from_the_user_to_groups_with_others(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for (number, from) in [(1, "cy"), (2, "ann")] {
        notify_of_app(&*ledger, number, "bo", Some(from), "shared").await;
    }
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    while !ledger.erase_notices(&id("ann"), 9).await.expect("an answer").is_empty() {}
    while ledger.erase_rest(&id("ann"), 9).await.expect("an answer") > 0 {}
    let left = ledger.notifications(&id("bo"), None, 9).await.expect("a list");
    assert!(left.iter().all(|group| !group.people.contains(&id("ann"))), "{left:?}");
    let senders: Vec<_> = left.iter().filter_map(|group| group.content.as_ref()?.from.clone()).collect();
    assert!(!senders.contains(&id("ann")), "what was sent from ann is left: {left:?}");
}

async fn erasure_removes_rows_on_both_sides(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    publish(&*ledger, 1, "ann").await;
    for (barrier, maker, target) in [
        (Restriction::Hide, "ann", "bo"),
        (Restriction::Block, "cy", "ann"),
        (Restriction::Mute, "bo", "ann"),
        (Restriction::Mute, "bo", "cy"),
    ] {
        ledger.restrict(barrier, &id(maker), &id(target), NOW).await.expect("an answer");
    }
    for (user, author) in [("ann", "bo"), ("bo", "ann"), ("bo", "cy")] {
        ledger.enable_post_alerts(&id(user), &id(author), NOW, 9).await.expect("an answer");
    }
    let event = |n: u64| NotificationEvent {
        kind: NotificationKind::Comment(PostId(n)),
        by: id("bo"),
        event: 0,
        comment: None,
        content: None,
    };
    let events: Vec<_> = (1..=5).map(event).collect();
    ledger.notify(&id("ann"), &events, NOW, WINDOW).await.expect("an answer");
    ledger.mark_read(&id("ann"), PostId(1), None).await.expect("an answer");
    crate::devices::register(&*ledger, "ann", "phone", "token", DeviceSession::default()).await.expect("a device");
    ledger.set_push_preferences(&id("ann"), &PushPreferences::default()).await.expect("an answer");
    let write = IdempotentWrite { user: id("ann"), key: "k".into(), operation: "posts.create", input: [7; 32] };
    ledger.begin(&write, Some(PostId(5)), WriteLease { now: NOW, until: NOW + 1, since: 0 }).await.expect("an answer");

    let mut steps = 0;
    loop {
        let removed = ledger.erase_rest(&id("ann"), 3).await.unwrap();
        assert!(removed <= 3);
        if removed == 0 {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 4, "{steps} steps");
    for data in PersonalData::ALL.into_iter().filter(|data| *data != PersonalData::Posts) {
        assert!(ledger.personal_rows(&id("ann"), data, "", 9).await.unwrap().is_empty(), "{data:?}");
    }
    assert!(ledger.notifications(&id("ann"), None, 9).await.unwrap().is_empty());
    assert_eq!(ledger.read_marker(&id("ann")).await.unwrap(), PostId::ZERO);
    // Rows of other users stay.
    let rows = async |data| ledger.personal_rows(&id("bo"), data, "", 9).await.unwrap().len();
    assert_eq!((rows(PersonalData::Restrictions).await, rows(PersonalData::PostAlerts).await), (1, 1));
    let barred = ledger.restricted_authors(&[id("ann"), id("bo"), id("cy")]).await.unwrap();
    let barred: Vec<_> = barred.into_iter().map(|barred| barred.author).collect();
    assert_eq!(barred, [id("cy")], "bo mutes cy; no row of ann is left, in either direction");
}

async fn posts_are_erased_with_their_content_in_bounded_steps(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    for number in [1, 2, 3] {
        publish(&*ledger, number, "ann").await;
    }
    for number in 11..=14 {
        comment(&*ledger, number, 1, "bo", None).await;
    }
    comment(&*ledger, 15, 1, "cy", Some(11)).await;
    like(&*ledger, &[("bo", ContentId::Post(PostId(1))), ("cy", ContentId::Post(PostId(1)))]).await;
    like(&*ledger, &[("cy", ContentId::Comment(CommentId(11))), ("bo", ContentId::Comment(CommentId(11)))]).await;
    let (kind, object) = (ObjectType::parse("post").expect("a type"), ObjectId::parse("1").expect("an id"));
    ledger.add_favourite(&id("bo"), &kind, &object, NOW, 9, false).await.expect("an answer");
    delete(&*ledger, 1, "ann").await.expect("a job");
    delete(&*ledger, 2, "ann").await.expect("a job");

    let step = async |before| ledger.erase_deleted_posts(&id("ann"), before, 3).await.expect("an answer");
    assert_eq!(step(NOW - 1).await, 0, "they were deleted later");
    let mut rows = 0;
    loop {
        let removed = step(NOW).await;
        assert!(removed <= 3);
        rows += removed;
        if removed < 3 {
            break;
        }
    }
    // Two posts, five comments, four likes, a favourite.
    assert_eq!(rows, 12);
    for data in [PersonalData::PostLikes, PersonalData::CommentLikes, PersonalData::Favourites, PersonalData::Comments]
    {
        for user in ["bo", "cy"] {
            assert!(ledger.personal_rows(&id(user), data, "", 9).await.unwrap().is_empty(), "{user} {data:?}");
        }
    }
    assert!(
        ledger.comments_in(Thread { post: PostId(1), reply_to: None }, CommentId::MAX, 9).await.unwrap().is_empty()
    );
    assert!(ledger.counts(&[PostId(1), PostId(2)]).await.unwrap().is_empty());
    assert_eq!(ledger.favourites_count(&id("bo"), &kind).await.unwrap(), 0);
    assert_eq!(ledger.posts(&[PostId(1), PostId(2), PostId(3)]).await.unwrap().len(), 1, "the other posts stay");
    // The post is erased completely: its id is unknown.
    assert!(delete(&*ledger, 1, "ann").await.is_none());
}
