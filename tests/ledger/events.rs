//! Conformance tests of the event queue. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    CommentOutcome, EventConsumer, Ledger, MarkUpTo, NotificationEvent, NotificationMark, UserNotifications,
};
use feedline::model::{Comment, CommentId, ContentId, DomainEvent, NotificationId, NotificationKind, Post, PostId};

use crate::support::{NOW, conformance, follow, id, ids, post, publish, store, users};

conformance! {
    events_are_queued_with_their_write
    acknowledged_events_are_removed
    events_are_enqueued_once
    one_call_notifies_many_users
}

type Any = Arc<dyn Ledger>;

const CONSUMER: EventConsumer = EventConsumer::Notifications;

/// Pending events with their numbers.
async fn pending(ledger: &dyn Ledger) -> Vec<(i64, DomainEvent)> {
    let queued = ledger.pending_events(CONSUMER, 100).await.expect("a list");
    queued.into_iter().map(|queued| (queued.seq, queued.event.expect("an event"))).collect()
}

fn events(pending: Vec<(i64, DomainEvent)>) -> Vec<DomainEvent> {
    pending.into_iter().map(|(_, event)| event).collect()
}

fn comment(number: u64, post: u64, author: &str, mentions: &[&str]) -> Comment {
    Comment {
        id: CommentId(number),
        post: PostId(post),
        reply_to: None,
        author: Some(id(author)),
        text: Some("hi".into()),
        mentions: ids(mentions),
        created_at: NOW,
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    }
}

async fn events_are_queued_with_their_write(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, 1, "ann").await;
    assert!(pending(&*ledger).await.is_empty(), "a post without mentions writes no event");
    let mentioning = Post { mentions: ids(&["bo", "ann", "nobody"]), ..post(2, "ann", &[]) };
    store(&*ledger, mentioning.clone()).await.expect("a post");
    let again = ledger.create_post(&mentioning, None).await.expect("an answer");
    assert!(again.is_none(), "the same post again writes nothing");
    assert!(follow(&*ledger, &id("bo"), &id("ann")).await);
    assert!(!follow(&*ledger, &id("bo"), &id("ann")).await);
    let said = comment(3, 1, "bo", &["ann"]);
    for outcome in [true, false] {
        let stored = ledger.create_comment(&said).await.expect("an answer");
        assert_eq!(matches!(stored, CommentOutcome::Stored(_)), outcome);
    }
    assert_eq!(ledger.create_comment(&comment(4, 99, "bo", &[])).await.unwrap(), CommentOutcome::NoPost);
    let edited = Post { mentions: ids(&["bo", "cy"]), edited_at: Some(NOW + 9), ..mentioning.clone() };
    let event = DomainEvent::post_edited(&mentioning, &edited).expect("it mentions a new user");
    for _ in 0..2 {
        // The second edit is based on an outdated version and writes nothing.
        ledger.edit_post(&mentioning, &edited, Some(&event), NOW + 9).await.expect("an answer");
    }
    let expected = [
        DomainEvent::PostCreated {
            post: PostId(2),
            author: id("ann"),
            mentions: ids(&["bo", "nobody"]),
            repost: None,
            quote: None,
        },
        DomainEvent::Followed { follower: id("bo"), followee: id("ann") },
        DomainEvent::CommentCreated {
            comment: CommentId(3),
            post: PostId(1),
            reply_to: None,
            author: id("bo"),
            mentions: ids(&["ann"]),
        },
        DomainEvent::PostEdited {
            post: PostId(2),
            author: id("ann"),
            mentions: ids(&["cy"]),
            unmentioned: ids(&["nobody"]),
            still_mentioned: None,
        },
    ];
    assert_eq!(events(pending(&*ledger).await), expected);
    let backlog = ledger.event_backlog(CONSUMER).await.unwrap();
    assert_eq!((backlog.events, backlog.oldest), (4, Some(NOW)));
}

async fn acknowledged_events_are_removed(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "di"]).await;
    for reader in ["bo", "cy", "di"] {
        follow(&*ledger, &id(reader), &id("ann")).await;
    }
    let waiting = pending(&*ledger).await;
    let [first, second, third] = [0, 1, 2].map(|n: usize| waiting[n].0);
    assert!(first < second && second < third);
    assert_eq!(ledger.pending_events(CONSUMER, 2).await.unwrap().len(), 2);
    ledger.finish_events(CONSUMER, &[first, 999]).await.unwrap();
    let fault = feedline::ledger::Fault::now("for a test", 1);
    let failed = feedline::ledger::FailedWork::Event(CONSUMER, second);
    assert!(ledger.set_aside(failed, &fault).await.unwrap());
    assert_eq!(pending(&*ledger).await[..], waiting[2..]);
    ledger.finish_events(CONSUMER, &[third]).await.unwrap();
    assert_eq!(ledger.event_backlog(CONSUMER).await.unwrap().events, 0);
    assert_eq!(ledger.event_backlog(CONSUMER).await.unwrap().oldest, None);
    follow(&*ledger, &id("ann"), &id("bo")).await;
    assert!(pending(&*ledger).await[0].0 > third, "numbers are not reused");
}

async fn events_are_enqueued_once(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let (ann, window) = (id("ann"), 60_000);
    let note = async |event: i64| {
        let event = NotificationEvent {
            kind: NotificationKind::Comment(PostId(7)),
            by: id("bo"),
            event,
            comment: None,
            content: None,
        };
        ledger.notify(&ann, &[event], NOW, window).await.expect("an answer")
    };
    let first = note(5).await;
    let again = note(5).await;
    assert_eq!(again, first, "a repeat returns the same notification");
    ledger.mark_notifications(&ann, MarkUpTo::Everything, NotificationMark::Read, None).await.unwrap();
    let again = note(5).await;
    assert_eq!((again.len(), again[0].id, again[0].count), (1, NotificationId(1), 1), "though it was read");
    let anew = note(6).await;
    assert_eq!((anew[0].id, anew[0].count), (NotificationId(2), 1), "another comment starts a new group");
    let renewed = note(7).await;
    assert_eq!((renewed[0].id, renewed[0].count), (NotificationId(2), 1), "until it is read, it renews the group");
    assert!(renewed[0].seq > anew[0].seq);
    ledger.mark_notifications(&ann, MarkUpTo::Everything, NotificationMark::Read, None).await.unwrap();
    assert_eq!(note(7).await[0].id, NotificationId(2), "the group is found again");
    assert_eq!(ledger.notifications(&ann, None, 9).await.unwrap().len(), 2);
}

async fn one_call_notifies_many_users(ledger: Any) {
    let names: Vec<String> = (0..40).map(|n| format!("fan-{n}")).collect();
    let fans: Vec<&str> = names.iter().map(String::as_str).collect();
    users(&*ledger, &fans).await;
    users(&*ledger, &["ann"]).await;
    let kind = NotificationKind::Mention(ContentId::Post(PostId(7)));
    let batch: Vec<UserNotifications> = fans
        .iter()
        .map(|fan| {
            let events = vec![NotificationEvent { kind, by: id("ann"), event: 3, comment: None, content: None }];
            UserNotifications { to: id(fan), events }
        })
        .collect();
    for _ in 0..2 {
        let noted = ledger.notify_many(&batch, NOW, 60_000, None).await.unwrap();
        assert_eq!(noted.len(), 40);
        assert!(noted.iter().all(|(_, groups)| groups.len() == 1 && groups[0].count == 1));
    }
    for fan in fans {
        assert_eq!(ledger.notifications(&id(fan), None, 9).await.unwrap().len(), 1, "{fan}");
    }
}
