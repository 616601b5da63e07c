//! The outlet: events written with their cause, the log, and the entries that consumers hold.

use std::sync::Arc;

use feedline::ledger::{
    EventConsumer, Fence, HeldEntry, Ledger, NewOutletEntry, NotificationEvent, OutletEnd, OutletEntry,
    OutletSettlement, PushPlan, RetryOutcome, UserNotifications, WEBHOOK,
};
use feedline::model::{DomainEvent, NotificationId, NotificationKind, Post, PostId, Restriction};

use crate::support::{
    NOW, conformance, delete, follow, hand_over, id, ids, outlet_conformance, own, post, publish, store, unfollow,
    users,
};

mod off {
    use super::*;

    conformance! {
        without_outlet_nothing_is_written
    }
}

mod on {
    use super::*;

    outlet_conformance! {
        every_cause_writes_its_event
        blocks_end_follows_in_order
        notifications_are_events
        events_cost_no_round_trip
        the_log_is_appended_once_and_in_order
        consumers_begin_at_the_end_and_never_go_back
        held_entries_wait_for_those_before_them
        entries_that_were_given_up_can_be_replayed
        only_the_owner_appends
        only_the_owner_settles
        old_entries_are_trimmed
        a_new_incarnation_skips_ids
    }
}

type Any = Arc<dyn Ledger>;

const OUTLET: EventConsumer = EventConsumer::Outlet;
const PUBLISHER: &str = "events/outlet";
const HOOK: &str = "webhook:hook";

async fn pending(ledger: &dyn Ledger) -> Vec<(i64, DomainEvent)> {
    let queued = ledger.pending_events(OUTLET, 100).await.expect("a list");
    queued.into_iter().map(|queued| (queued.seq, queued.event.expect("an event"))).collect()
}

async fn events(ledger: &dyn Ledger) -> Vec<DomainEvent> {
    pending(ledger).await.into_iter().map(|(_, event)| event).collect()
}

/// Everything that causes events.
async fn live(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo", "cy"]).await;
    publish(ledger, 1, "ann").await;
    let before = Post { mentions: ids(&["bo"]), ..post(2, "ann", &[]) };
    store(ledger, before.clone()).await.expect("a post");
    let after = Post { edited_at: Some(NOW + 9), ..before.clone() };
    ledger.edit_post(&before, &after, None, after.edited_at.unwrap_or(after.created_at)).await.expect("an answer");
    delete(ledger, 1, "ann").await.expect("a job");
    follow(ledger, &id("bo"), &id("ann")).await;
    unfollow(ledger, &id("bo"), &id("ann")).await;
}

async fn without_outlet_nothing_is_written(ledger: Any) {
    live(&*ledger).await;
    notify(&*ledger, "ann", "bo", None).await;
    ledger.append_events(&[(NOW, DomainEvent::UserAway { user: id("ann") })]).await.expect("an answer");
    assert_eq!(events(&*ledger).await, []);
    // The mention, the deletion, the follow and its end.
    let others = ledger.pending_events(EventConsumer::Notifications, 100).await.expect("a list");
    assert_eq!(others.len(), 4, "{others:?}");
}

async fn every_cause_writes_its_event(ledger: Any) {
    live(&*ledger).await;
    assert!(delete(&*ledger, 1, "ann").await.is_none(), "it is gone");
    assert!(!unfollow(&*ledger, &id("bo"), &id("ann")).await, "there is none");
    ledger.append_events(&[(NOW, DomainEvent::UserConnected { user: id("cy") })]).await.expect("an answer");
    let (ann, bo) = (id("ann"), id("bo"));
    let expected = [
        DomainEvent::PostCreated { post: PostId(1), author: ann.clone(), mentions: vec![], repost: None, quote: None },
        DomainEvent::PostCreated {
            post: PostId(2),
            author: ann.clone(),
            mentions: ids(&["bo"]),
            repost: None,
            quote: None,
        },
        DomainEvent::PostEdited {
            post: PostId(2),
            author: ann.clone(),
            mentions: vec![],
            unmentioned: vec![],
            still_mentioned: None,
        },
        DomainEvent::PostDeleted { post: PostId(1), author: ann.clone(), mentions: vec![], repost: None, quote: None },
        DomainEvent::Followed { follower: bo.clone(), followee: ann.clone() },
        DomainEvent::Unfollowed { follower: bo, followee: ann },
        DomainEvent::UserConnected { user: id("cy") },
    ];
    assert_eq!(events(&*ledger).await, expected);
    let others = ledger.pending_events(EventConsumer::Notifications, 100).await.expect("a list");
    assert_eq!(others.len(), 4, "posts without mentions concern the outlet alone: {others:?}");
    // An event stays until both consumers are done.
    let seqs: Vec<i64> = pending(&*ledger).await.iter().map(|(seq, _)| *seq).collect();
    ledger.finish_events(OUTLET, &seqs).await.expect("an answer");
    assert_eq!(events(&*ledger).await, []);
    assert_eq!(ledger.pending_events(EventConsumer::Notifications, 100).await.expect("a list"), others);
}

async fn blocks_end_follows_in_order(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    follow(&*ledger, &id("ann"), &id("bo")).await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    let block = async |target: &str| {
        ledger.restrict(Restriction::Block, &id("ann"), &id(target), NOW).await.expect("an answer")
    };
    assert!(block("bo").await.is_some());
    assert!(block("bo").await.is_none());
    assert!(block("cy").await.is_some(), "no follow ends");
    let ended = |from: &str, to: &str| DomainEvent::Unfollowed { follower: id(from), followee: id(to) };
    let mut events: Vec<DomainEvent> = events(&*ledger).await.split_off(2);
    events.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(events, [ended("ann", "bo"), ended("bo", "ann")]);
}

async fn notify(ledger: &dyn Ledger, to: &str, by: &str, pushes: Option<PushPlan>) {
    let event =
        NotificationEvent { kind: NotificationKind::Follow, by: id(by), event: 0, comment: None, content: None };
    let batch = [UserNotifications { to: id(to), events: vec![event] }];
    ledger.notify_many(&batch, NOW, 60_000, pushes).await.expect("an answer");
}

async fn notifications_are_events(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    notify(&*ledger, "ann", "bo", None).await;
    notify(&*ledger, "ann", "cy", Some(PushPlan { grace: 1, digest: 1 })).await;
    let notified = DomainEvent::Notified { to: id("ann"), notification: NotificationId(1) };
    assert_eq!(events(&*ledger).await, [notified.clone(), notified]);
}

async fn events_cost_no_round_trip(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let begun = ledger.round_trips();
    publish(&*ledger, 1, "ann").await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    unfollow(&*ledger, &id("bo"), &id("ann")).await;
    assert_eq!(ledger.round_trips() - begun, 3);
}

/// A process that owns the publisher from now on: it takes the partition of its predecessor.
async fn publisher(ledger: &dyn Ledger) -> Fence {
    ledger.end_work_lease("p1").await.expect("an answer");
    own(ledger, "p1", PUBLISHER).await.expect("the partition")
}

/// Appends an entry for each user.
async fn append(ledger: &dyn Ledger, names: &[&str], now: u64) -> OutletEnd {
    users(ledger, names).await;
    let away = |name: &&str| (now, DomainEvent::UserAway { user: id(name) });
    ledger.append_events(&names.iter().map(away).collect::<Vec<_>>()).await.expect("an answer");
    let waiting = pending(ledger).await;
    let entries: Vec<NewOutletEntry> = waiting.iter().map(|(seq, event)| entry(*seq, event, now)).collect();
    let done: Vec<i64> = waiting.iter().map(|(seq, _)| *seq).collect();
    let fence = publisher(ledger).await;
    assert!(ledger.publish_outlet(&fence, &entries, &done, now).await.expect("an answer"), "the owner");
    ledger.outlet_end().await.expect("an end")
}

fn entry(event: i64, what: &DomainEvent, now: u64) -> NewOutletEntry {
    let DomainEvent::UserAway { user } = what else { panic!("{what:?}") };
    NewOutletEntry { event, at: now, kind: "user.away".into(), owner: user.into(), body: r#"{"type":"é"}"#.into() }
}

async fn the_log_is_appended_once_and_in_order(ledger: Any) {
    assert_eq!(ledger.outlet_end().await.unwrap(), OutletEnd::default());
    users(&*ledger, &["ann", "bo"]).await;
    let away = ["ann", "bo", "ann"].map(|name| (NOW, DomainEvent::UserAway { user: id(name) }));
    ledger.append_events(&away).await.expect("an answer");
    let waiting = pending(&*ledger).await;
    let entries: Vec<NewOutletEntry> = waiting.iter().map(|(seq, event)| entry(*seq, event, NOW)).collect();
    let done: Vec<i64> = waiting.iter().map(|(seq, _)| *seq).collect();
    let fence = publisher(&*ledger).await;
    let publish = async |entries: &[NewOutletEntry], done: &[i64]| {
        assert!(ledger.publish_outlet(&fence, entries, done, NOW).await.unwrap(), "the owner");
        ledger.outlet_end().await.unwrap()
    };
    let first = publish(&entries[..2], &done[..2]).await;
    assert_eq!((first.last, pending(&*ledger).await.len()), (2, 1));
    // Another process published a part before.
    let end = publish(&entries, &done).await;
    assert_eq!(end, OutletEnd { last: 3, trimmed: 0 });
    assert_eq!(publish(&entries, &done).await, end);
    assert!(pending(&*ledger).await.is_empty());
    let all = ledger.outlet_entries(0, 10).await.unwrap();
    let users: Vec<(u64, &str)> = all.iter().map(|entry| (entry.position, entry.owner.as_str())).collect();
    assert_eq!(users, [(1, "ann"), (2, "bo"), (3, "ann")]);
    assert_eq!(all[0].json(), r#"{"id":"1","type":"é"}"#);
    assert_eq!(ledger.outlet_entries(1, 1).await.unwrap(), all[1..2]);
}

async fn consumers_begin_at_the_end_and_never_go_back(ledger: Any) {
    append(&*ledger, &["ann", "bo"], NOW).await;
    assert_eq!(ledger.advance_outlet_cursor("app", 1).await.unwrap(), None);
    for _ in 0..2 {
        ledger.register_outlet_consumers(&["app".into(), HOOK.into()]).await.unwrap();
        append(&*ledger, &["cy"], NOW + 5).await;
    }
    assert_eq!(ledger.advance_outlet_cursor("app", 0).await.unwrap(), Some(2));
    assert_eq!(ledger.advance_outlet_cursor("app", 3).await.unwrap(), Some(3));
    assert_eq!(ledger.advance_outlet_cursor("app", 1).await.unwrap(), Some(3));
    let backlogs = ledger.outlet_backlogs().await.unwrap();
    let app = backlogs.iter().find(|backlog| backlog.consumer == "app").expect("a backlog");
    assert_eq!((app.cursor, app.oldest, app.held), (3, Some(NOW + 5), 0));
    ledger.advance_outlet_cursor("app", 4).await.unwrap();
    let backlogs = ledger.outlet_backlogs().await.unwrap();
    assert_eq!(backlogs.iter().find(|backlog| backlog.consumer == "app").expect("a backlog").oldest, None);
}

/// The same end of the log, and the same waiting events, as long as a process does not own the publisher.
async fn only_the_owner_appends(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    ledger.append_events(&[(NOW, DomainEvent::UserAway { user: id("ann") })]).await.expect("an answer");
    let waiting = pending(&*ledger).await;
    let (entries, done) = ([entry(waiting[0].0, &waiting[0].1, NOW)], [waiting[0].0]);
    let former = own(&*ledger, "p1", PUBLISHER).await.expect("the partition");
    assert_eq!(own(&*ledger, "p2", PUBLISHER).await, None, "it has an owner");
    let fence = hand_over(&*ledger, "p1", "p2", PUBLISHER).await;
    assert!(!ledger.publish_outlet(&former, &entries, &done, NOW).await.unwrap());
    assert_eq!((ledger.outlet_end().await.unwrap().last, pending(&*ledger).await), (0, waiting), "nothing changed");
    assert!(ledger.publish_outlet(&fence, &entries, &done, NOW).await.unwrap());
}

/// A ledger with entries of these users, all of them new to the webhook, and its owner.
async fn hooked(ledger: &dyn Ledger, names: &[&str]) -> (Vec<OutletEntry>, Fence) {
    ledger.register_outlet_consumers(&[HOOK.into()]).await.unwrap();
    let fence = own(ledger, "w1", HOOK).await.expect("the partition");
    append(ledger, names, NOW).await;
    let batch = ledger.outlet_batch(HOOK, NOW, 100).await.unwrap().expect("a consumer");
    assert_eq!((batch.cursor, batch.held, batch.due.len(), batch.owners_held.len()), (0, 0, 0, 0));
    assert_eq!(batch.entries.len(), names.len());
    (batch.entries, fence)
}

fn held(entry: &OutletEntry, due_at: Option<u64>) -> HeldEntry {
    let reason = "server_error: 500 \0".to_owned();
    HeldEntry { entry: entry.clone(), held_at: NOW, attempts: 1, due_at, reason }
}

/// Settles a batch as the owner.
async fn settle((ledger, fence): (&dyn Ledger, &Fence), cursor: u64, held: Vec<HeldEntry>, released: &[u64], now: u64) {
    let settlement = OutletSettlement { cursor, held, given_up: vec![], released: released.to_vec() };
    assert!(ledger.settle_outlet(fence, HOOK, &settlement, now).await.expect("an answer"));
}

/// The positions of the entries that are due.
async fn due(ledger: &dyn Ledger, now: u64) -> Vec<u64> {
    let batch = ledger.outlet_batch(HOOK, now, 100).await.unwrap().expect("a consumer");
    batch.due.iter().map(|held| held.entry.position).collect()
}

async fn held_entries_wait_for_those_before_them(ledger: Any) {
    assert_eq!(ledger.outlet_batch("webhook:other", NOW, 9).await.unwrap(), None);
    let (entries, fence) = hooked(&*ledger, &["ann", "bo", "ann", "ann"]).await;
    let owner: (&dyn Ledger, _) = (&*ledger, &fence);
    // The first one of ann was refused. The second one waits for it, the third one is not read yet.
    settle(owner, 3, vec![held(&entries[0], Some(NOW + 10)), held(&entries[2], None)], &[], NOW).await;
    assert!(due(&*ledger, NOW + 9).await.is_empty());
    let batch = ledger.outlet_batch(HOOK, NOW + 10, 100).await.unwrap().expect("a consumer");
    assert_eq!((batch.cursor, batch.held), (3, 2));
    assert_eq!(batch.entries, entries[3..]);
    assert!(batch.owners_held.contains(&(&id("ann")).into()) && !batch.owners_held.contains(&(&id("bo")).into()));
    assert_eq!((batch.due.len(), batch.due[0].attempts, &batch.due[0].entry), (1, 1, &entries[0]));
    settle(owner, 4, vec![held(&entries[3], None)], &[], NOW + 10).await;
    // Again refused: the others still wait.
    let again = HeldEntry { attempts: 2, ..held(&entries[0], Some(NOW + 30)) };
    settle(owner, 4, vec![again], &[], NOW + 10).await;
    assert!(due(&*ledger, NOW + 29).await.is_empty());
    settle(owner, 4, vec![], &[1], NOW + 30).await;
    assert_eq!(due(&*ledger, NOW + 30).await, [3], "the next one of ann is due at once");
    settle(owner, 4, vec![], &[3], NOW + 31).await;
    assert_eq!(due(&*ledger, NOW + 31).await, [4]);
    settle(owner, 0, vec![], &[4], NOW + 31).await;
    let batch = ledger.outlet_batch(HOOK, NOW + 99, 100).await.unwrap().expect("a consumer");
    assert_eq!((batch.cursor, batch.held, batch.due.len(), batch.entries.len()), (4, 0, 0, 0));
}

async fn entries_that_were_given_up_can_be_replayed(ledger: Any) {
    let (entries, fence) = hooked(&*ledger, &["ann", "ann"]).await;
    let owner: (&dyn Ledger, _) = (&*ledger, &fence);
    settle(owner, 2, vec![held(&entries[0], Some(NOW)), held(&entries[1], None)], &[], NOW).await;
    let given_up = vec![held(&entries[0], None).give_up(HOOK, NOW + 5)];
    let settlement = OutletSettlement { cursor: 2, held: vec![], given_up, released: vec![1] };
    assert!(ledger.settle_outlet(&fence, HOOK, &settlement, NOW + 5).await.unwrap());
    assert_eq!(due(&*ledger, NOW + 5).await, [2], "it no longer holds up the next one");
    settle(owner, 2, vec![], &[2], NOW + 5).await;
    let listed = ledger.quarantined(Some(WEBHOOK), 0, 9).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].name.as_str(), listed[0].at), ("hook/1", NOW + 5));
    assert!(listed[0].reason.starts_with("given up after 1 attempts: server_error"), "{listed:?}");
    assert_eq!(ledger.outlet_backlogs().await.unwrap()[0].failed, 1);
    let retry = async |name: &str| ledger.retry_quarantined(WEBHOOK, name, NOW + 6).await.unwrap();
    assert_eq!(retry("hook/2").await, RetryOutcome::Absent, "it was delivered");
    assert_eq!(retry("hook/1").await, RetryOutcome::Returned);
    assert_eq!(due(&*ledger, NOW + 6).await, [1]);
    let batch = ledger.outlet_batch(HOOK, NOW + 6, 9).await.unwrap().expect("a consumer");
    assert_eq!(batch.due[0].entry, entries[0]);
    assert_eq!(ledger.quarantine_size().await.unwrap(), 0);
    assert_eq!(ledger.outlet_backlogs().await.unwrap()[0].failed, 0);
}

async fn only_the_owner_settles(ledger: Any) {
    let (entries, former) = hooked(&*ledger, &["ann"]).await;
    let settlement =
        OutletSettlement { cursor: 1, held: vec![held(&entries[0], Some(NOW))], ..OutletSettlement::default() };
    assert_eq!(own(&*ledger, "w2", HOOK).await, None, "it has an owner");
    let fence = hand_over(&*ledger, "w1", "w2", HOOK).await;
    assert!(!ledger.settle_outlet(&former, HOOK, &settlement, NOW).await.unwrap());
    let batch = ledger.outlet_batch(HOOK, NOW, 9).await.unwrap().expect("a consumer");
    assert_eq!((batch.cursor, batch.held), (0, 0), "nothing changed");
    assert!(ledger.settle_outlet(&fence, HOOK, &settlement, NOW).await.unwrap());
}

async fn old_entries_are_trimmed(ledger: Any) {
    append(&*ledger, &["ann", "bo", "cy"], NOW).await;
    append(&*ledger, &["ann"], NOW + 1_000).await;
    assert_eq!(ledger.trim_outlet(NOW, NOW, 10).await.unwrap(), 0);
    assert_eq!(ledger.trim_outlet(NOW + 1, NOW, 2).await.unwrap(), 2);
    assert_eq!(ledger.outlet_end().await.unwrap(), OutletEnd { last: 4, trimmed: 2 });
    assert_eq!(ledger.trim_outlet(NOW + 1, NOW, 2).await.unwrap(), 1);
    assert_eq!(ledger.outlet_end().await.unwrap(), OutletEnd { last: 4, trimmed: 3 });
    assert_eq!(ledger.outlet_entries(0, 9).await.unwrap().len(), 1);
    assert_eq!(append(&*ledger, &["bo"], NOW + 2_000).await.last, 5, "positions are not reused");
}

async fn a_new_incarnation_skips_ids(ledger: Any) {
    append(&*ledger, &["ann"], NOW).await;
    let lineage = ledger.lineage().await.unwrap();
    assert!(ledger.begin_incarnation(&lineage.incarnation, "another", &[]).await.unwrap());
    assert!(append(&*ledger, &["ann"], NOW).await.last > 1_000_000);
}
