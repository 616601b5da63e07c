//! The queue of pushes: filled with notifications, one row for each device, leased, settled and bounded.

use std::sync::Arc;

use feedline::ledger::{
    DeviceSession, Ledger, MarkUpTo, NotificationEvent, PUSH, PushBacklog, PushLease, PushPlan, PushResult, QueuedPush,
    RetryOutcome, SettledPush, UserNotifications,
};
use feedline::model::{ContentId, DeviceId, NotificationKind, PostId, PushPreferences};

use crate::devices::register;
use crate::support::{NOW, conformance, id, users};

conformance! {
    notifications_are_queued_for_each_device
    queueing_costs_no_round_trip
    groups_that_grow_are_one_push
    deferred_pushes_are_due_when_quiet_hours_change
    leases_exclude_other_processes
    accepted_pushes_are_not_repeated
    a_digest_counts_once
    failed_pushes_are_kept_with_their_reason
    the_first_attempt_is_remembered
    leased_pushes_are_read_again
    pushes_of_removed_devices_have_no_target
    erasure_removes_pushes
}

type Any = Arc<dyn Ledger>;

const PLAN: PushPlan = PushPlan { grace: 10_000, digest: 600_000 };
const WINDOW: u64 = 86_400_000;

/// A like of post 1 by a user; the number is that of the event.
fn like(number: u64, by: &str) -> NotificationEvent {
    let kind = NotificationKind::Like(ContentId::Post(PostId(1)));
    NotificationEvent { kind, by: id(by), event: number.cast_signed(), comment: None, content: None }
}

fn comment(number: u64, by: &str) -> NotificationEvent {
    NotificationEvent { kind: NotificationKind::Comment(PostId(1)), ..like(number, by) }
}

async fn notify(ledger: &dyn Ledger, event: NotificationEvent, now: u64) {
    let batch = [UserNotifications { to: id("ann"), events: vec![event] }];
    ledger.notify_many(&batch, now, WINDOW, Some(PLAN)).await.expect("an answer");
}

fn lease(holder: &str, until: u64) -> PushLease {
    PushLease { holder: holder.into(), until }
}

/// Leases what is due at a time, until a minute later.
async fn due(ledger: &dyn Ledger, now: u64) -> Vec<QueuedPush> {
    ledger.lease_pushes(now, &lease("w1", now + 60_000), 100).await.expect("pushes")
}

/// When the next push is due.
pub(crate) async fn next_push(ledger: &dyn Ledger) -> Option<u64> {
    ledger.push_backlog(NOW).await.expect("an answer").next
}

/// Settles pushes that [`due`] leased at a time.
async fn settle(ledger: &dyn Ledger, pushes: &[QueuedPush], result: &PushResult, leased: u64, now: u64) -> usize {
    let settled: Vec<SettledPush> = pushes.iter().map(|push| push.settled(result.clone())).collect();
    ledger.settle_pushes(&settled, &lease("w1", leased + 60_000), now, PLAN.digest).await.expect("an answer")
}

/// Ann has a device, bo has none.
async fn with_phone(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo", "cy", "dee", "eve"]).await;
    register(ledger, "ann", "phone", "t1", DeviceSession::default()).await.expect("a device");
}

async fn notifications_are_queued_for_each_device(ledger: Any) {
    with_phone(&*ledger).await;
    let session = DeviceSession { token: Some("s".into()), generation: Some(3), issued_at: 9 };
    register(&*ledger, "ann", "tablet", "t2", session.clone()).await.expect("a device");
    let preferences = PushPreferences { private: true, ..PushPreferences::default() };
    ledger.set_push_preferences(&id("ann"), &preferences).await.expect("an answer");
    let batch = ["ann", "bo"].map(|to| UserNotifications { to: id(to), events: vec![comment(1, "cy")] });
    ledger.notify_many(&batch[..1], NOW, WINDOW, Some(PLAN)).await.expect("an answer");
    let batch = [UserNotifications { to: id("bo"), events: vec![comment(2, "cy")] }];
    ledger.notify_many(&batch, NOW, WINDOW, Some(PLAN)).await.expect("an answer");
    assert_eq!(next_push(&*ledger).await, Some(NOW + 10_000));
    assert!(due(&*ledger, NOW + 9_999).await.is_empty(), "within the grace");
    let backlog = ledger.push_backlog(NOW + 10_001).await.expect("an answer");
    assert_eq!(backlog, PushBacklog { due: 2, next: Some(NOW + 10_000) });
    let mut pushes = due(&*ledger, NOW + 10_000).await;
    pushes.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(pushes.iter().map(|push| push.key.device.as_str()).collect::<Vec<_>>(), ["phone", "tablet"]);
    let tablet = &pushes[1];
    assert_eq!((tablet.key.item, &*tablet.kind, tablet.attempts, tablet.queued_at), (1, "comment", 1, NOW));
    assert_eq!((&tablet.preferences, tablet.accepted), (&preferences, 0));
    let (device, of) = tablet.device.as_ref().expect("a device");
    assert_eq!((device.target.address(), of), ("t2", &session));
}

async fn queueing_costs_no_round_trip(ledger: Any) {
    with_phone(&*ledger).await;
    let mut costs = Vec::new();
    for (number, plan) in [(1, None), (2, Some(PLAN))] {
        let batch = [UserNotifications { to: id("ann"), events: vec![comment(number, "bo")] }];
        let before = ledger.round_trips();
        ledger.notify_many(&batch, NOW, WINDOW, plan).await.expect("an answer");
        costs.push(ledger.round_trips() - before);
        ledger
            .mark_notifications(&id("ann"), MarkUpTo::Everything, feedline::ledger::NotificationMark::Read, None)
            .await
            .expect("a mark");
    }
    assert_eq!(costs[0], costs[1]);
    let pushes = due(&*ledger, NOW + 10_000).await;
    assert_eq!(pushes.iter().map(|push| push.key.item).collect::<Vec<_>>(), [2], "without a plan nothing is queued");
}

async fn groups_that_grow_are_one_push(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, like(1, "bo"), NOW).await;
    notify(&*ledger, like(2, "cy"), NOW + 9_000).await;
    let at = NOW + 10_000;
    let pushes = due(&*ledger, at).await;
    assert_eq!(pushes.len(), 1, "due 10 s after the first like");
    // It grows while it is sent.
    notify(&*ledger, like(3, "dee"), at + 1).await;
    assert_eq!(settle(&*ledger, &pushes, &PushResult::Accepted, at, at + 2).await, 1);
    assert_eq!(next_push(&*ledger).await, Some(at + 2 + PLAN.digest));
    let later = at + 2 + PLAN.digest;
    assert!(due(&*ledger, later - 1).await.is_empty());
    let again = due(&*ledger, later).await;
    assert_eq!((again.len(), again[0].seq > pushes[0].seq, again[0].accepted), (1, true, 1));
    assert_eq!(settle(&*ledger, &again, &PushResult::Accepted, later, later).await, 1);
    assert_eq!(next_push(&*ledger).await, None);
    // A comment is pushed without a pause.
    notify(&*ledger, comment(7, "bo"), later).await;
    let comments = due(&*ledger, later + 10_000).await;
    assert_eq!(settle(&*ledger, &comments, &PushResult::Accepted, later + 10_000, later + 10_000).await, 1);
    notify(&*ledger, comment(8, "cy"), later + 11_000).await;
    assert_eq!(next_push(&*ledger).await, Some(later + 21_000));
}

async fn deferred_pushes_are_due_when_quiet_hours_change(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, like(1, "bo"), NOW).await;
    let tried = NOW + 10_000;
    let held = PushResult::Deferred(tried + 9_000_000);
    assert_eq!(settle(&*ledger, &due(&*ledger, tried).await, &held, tried, tried).await, 1);
    let end = async |user: &str| ledger.end_deferrals(&id(user), tried, PLAN).await.expect("an answer");
    end("bo").await;
    assert_eq!(next_push(&*ledger).await, Some(tried + 9_000_000), "those of another user");
    end("ann").await;
    assert_eq!(next_push(&*ledger).await, Some(tried + PLAN.grace));
    end("ann").await;
    assert_eq!(next_push(&*ledger).await, Some(tried + PLAN.grace), "never later");
    // A retry keeps its pause.
    let again = tried + PLAN.grace;
    let retry = PushResult::Retry(again + 500_000);
    assert_eq!(settle(&*ledger, &due(&*ledger, again).await, &retry, again, again).await, 1);
    end("ann").await;
    assert_eq!(next_push(&*ledger).await, Some(again + 500_000));
}

async fn leases_exclude_other_processes(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    let at = NOW + 10_000;
    let first = due(&*ledger, at).await;
    assert_eq!(first.len(), 1);
    assert!(ledger.lease_pushes(at + 59_999, &lease("w2", at + 99_999), 9).await.expect("pushes").is_empty());
    let second = ledger.lease_pushes(at + 60_000, &lease("w2", at + 120_000), 9).await.expect("pushes");
    assert_eq!((second.len(), second[0].attempts), (1, 2), "the first process died");
    assert_eq!(settle(&*ledger, &first, &PushResult::Accepted, at, at + 60_001).await, 0, "its lease has ended");
    let settled = [second[0].settled(PushResult::Retry(at + 70_000))];
    let held = lease("w2", at + 120_000);
    assert_eq!(ledger.settle_pushes(&settled, &held, at + 60_002, 0).await.expect("an answer"), 1);
    let third = due(&*ledger, at + 70_000).await;
    assert_eq!((third.len(), third[0].attempts), (1, 3));
    let deferred = PushResult::Deferred(at + 80_000);
    assert_eq!(settle(&*ledger, &third, &deferred, at + 70_000, at + 70_001).await, 1);
    let fourth = due(&*ledger, at + 80_000).await;
    assert_eq!((fourth.len(), fourth[0].attempts, fourth[0].queued_at), (1, 1, NOW), "a deferral is no attempt");
    assert_eq!(settle(&*ledger, &fourth, &PushResult::Unwanted, at + 80_000, at + 80_001).await, 1);
    assert_eq!(next_push(&*ledger).await, None);
    assert_eq!(ledger.forget_pushes(at + 999_999_999, 9).await.expect("an answer"), 0, "it was never sent");
    let limited = async |limit| ledger.lease_pushes(at + 999_999, &lease("w1", at + 1_999_999), limit).await;
    for number in 2..5 {
        ledger
            .mark_notifications(&id("ann"), MarkUpTo::Everything, feedline::ledger::NotificationMark::Read, None)
            .await
            .expect("a mark");
        notify(&*ledger, comment(number, "bo"), NOW + number).await;
    }
    let items = |pushes: Vec<QueuedPush>| pushes.iter().map(|push| push.key.item).collect::<Vec<_>>();
    assert_eq!(items(limited(2).await.expect("pushes")), [2, 3], "those due first first");
    assert_eq!(items(limited(2).await.expect("pushes")), [4]);
}

/// The step of the first attempt and the number of attempts that are expected, and the result of the step.
type Step = (Option<u64>, u32, fn(u64) -> PushResult);

async fn the_first_attempt_is_remembered(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    let time = |step: u64| NOW + 10_000 + step * 3_600_000;
    let (deferred, postponed, retry) = (PushResult::Deferred, PushResult::Postponed, PushResult::Retry);
    let steps: [Step; 8] = [
        // Held by quiet hours, and not sent by an open breaker: no attempt yet.
        (None, 1, deferred),
        (None, 1, postponed),
        (None, 2, retry),
        (Some(2), 3, retry),
        (Some(2), 4, postponed),
        // Quiet hours again.
        (Some(2), 5, deferred),
        (None, 1, retry),
        (Some(6), 2, retry),
    ];
    for (step, (first, attempts, result)) in (0..).zip(steps) {
        let pushes = due(&*ledger, time(step)).await;
        let expected = (first.map(|step| time(step) + 1), attempts, NOW);
        let push = &pushes[0];
        assert_eq!((push.first_tried_at, push.attempts, push.queued_at), expected, "step {step}");
        assert_eq!(settle(&*ledger, &pushes, &result(time(step + 1)), time(step), time(step) + 1).await, 1);
    }
}

async fn leased_pushes_are_read_again(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    notify(&*ledger, like(2, "bo"), NOW).await;
    let at = NOW + 10_000;
    let pushes = due(&*ledger, at).await;
    let keys: Vec<_> = pushes.iter().map(|push| push.key.clone()).collect();
    let reload = async || {
        let mut again = ledger.reload_pushes(&keys, &lease("w1", at + 60_000), at).await.expect("pushes");
        again.sort_by_key(|push| push.key.item);
        again
    };
    let mut expected = pushes.clone();
    expected.sort_by_key(|push| push.key.item);
    assert_eq!(reload().await, expected);
    // What changes meanwhile is found: preferences, another accepted push, a group that grows, a removed device.
    let preferences = PushPreferences { private: true, ..PushPreferences::default() };
    ledger.set_push_preferences(&id("ann"), &preferences).await.expect("an answer");
    notify(&*ledger, like(3, "cy"), at + 1).await;
    let (accepted, waiting): (Vec<_>, Vec<_>) = pushes.into_iter().partition(|push| push.key.item == 1);
    assert_eq!(settle(&*ledger, &accepted, &PushResult::Accepted, at, at + 2).await, 1);
    let again = reload().await;
    assert_eq!((again.len(), again[0].key.item, again[0].accepted), (1, 2, 1), "the other one is settled");
    assert!(again[0].preferences.private && again[0].seq > waiting[0].seq && again[0].attempts == 1, "{again:?}");
    ledger.remove_device(&id("ann"), &again[0].key.device).await.expect("an answer");
    assert_eq!(reload().await[0].device, None);
    let other = ledger.reload_pushes(&keys, &lease("w2", at + 60_000), at).await.expect("an answer");
    assert!(other.is_empty(), "another process does not hold it");
}

async fn accepted_pushes_are_not_repeated(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    let at = NOW + 10_000;
    let pushes = due(&*ledger, at).await;
    settle(&*ledger, &pushes, &PushResult::Accepted, at, at).await;
    // The worker of events was killed before it recorded its progress: the event comes again.
    notify(&*ledger, comment(1, "bo"), at + 5).await;
    assert_eq!(next_push(&*ledger).await, None);
    assert_eq!(ledger.forget_pushes(at + 86_399_999, 9).await.expect("an answer"), 0);
    assert_eq!(ledger.forget_pushes(at + 86_400_000, 9).await.expect("an answer"), 1);
    assert_eq!(ledger.forget_pushes(at + 86_400_000, 9).await.expect("an answer"), 0);
}

async fn a_digest_counts_once(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, like(1, "bo"), NOW).await;
    notify(&*ledger, comment(2, "cy"), NOW).await;
    let at = NOW + 10_000;
    let pushes = due(&*ledger, at).await;
    let (first, second): (Vec<_>, Vec<_>) = pushes.into_iter().partition(|push| push.key.item == 2);
    assert_eq!(settle(&*ledger, &first, &PushResult::Accepted, at, at).await, 1);
    // The group has grown while it was sent.
    notify(&*ledger, like(3, "dee"), at).await;
    assert_eq!(settle(&*ledger, &second, &PushResult::AcceptedInDigest, at, at).await, 1);
    assert!(due(&*ledger, at + PLAN.digest - 1).await.is_empty(), "the pause of the group");
    let later = at + PLAN.digest;
    let again = due(&*ledger, later).await;
    assert_eq!((again.len(), again[0].key.item, again[0].accepted), (1, 1, 1), "one message was sent");
    // A push that is not wanted any more still counts as sent.
    assert_eq!(settle(&*ledger, &again, &PushResult::Unwanted, later, later).await, 1);
    notify(&*ledger, like(4, "eve"), later).await;
    let grown = due(&*ledger, later + 10_000).await;
    assert_eq!((grown.len(), grown[0].key.item, grown[0].accepted), (1, 1, 1));
}

async fn failed_pushes_are_kept_with_their_reason(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    let at = NOW + 10_000;
    let pushes = due(&*ledger, at).await;
    settle(&*ledger, &pushes, &PushResult::Failed("payload too large \0".into()), at, at + 1).await;
    let failed = ledger.quarantined(Some(PUSH), 0, 9).await.expect("failures");
    let name = format!("ann/phone/{}", pushes[0].key.item);
    assert_eq!((failed.len(), &failed[0].name, failed[0].at), (1, &name, at + 1));
    assert!(failed[0].reason.starts_with("payload too large"));
    assert_eq!(next_push(&*ledger).await, None);
    let retried = ledger.retry_quarantined(PUSH, &name, at + 2).await.expect("an answer");
    assert_eq!(retried, RetryOutcome::Returned);
    let again = due(&*ledger, at + 2).await;
    assert_eq!((again.len(), &again[0].key, &again[0].kind), (1, &pushes[0].key, &pushes[0].kind));
}

async fn pushes_of_removed_devices_have_no_target(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    let phone = DeviceId::parse("phone").expect("an id");
    ledger.remove_device(&id("ann"), &phone).await.expect("an answer");
    let gone = due(&*ledger, NOW + 10_000).await;
    assert_eq!((gone.len(), &gone[0].device), (1, &None));
    settle(&*ledger, &gone, &PushResult::Deferred(NOW + 20_000), NOW + 10_000, NOW + 10_000).await;
    // Registered again later: not for what happened before.
    let device = feedline::model::Device {
        id: phone,
        target: feedline::model::PushTarget::Fcm { token: "t1".into() },
        locale: None,
        time_zone: None,
        app_version: None,
        registered_at: NOW + 5,
        seen_at: NOW + 5,
    };
    let again = feedline::ledger::DeviceRegistration { device, session: DeviceSession::default() };
    ledger.register_device(&id("ann"), &again, 9).await.expect("an answer");
    assert_eq!(due(&*ledger, NOW + 20_000).await[0].device, None);
}

async fn erasure_removes_pushes(ledger: Any) {
    with_phone(&*ledger).await;
    notify(&*ledger, comment(1, "bo"), NOW).await;
    notify(&*ledger, like(2, "bo"), NOW).await;
    let pushes = due(&*ledger, NOW + 10_000).await;
    settle(&*ledger, &pushes[..1], &PushResult::Failed("why".into()), NOW + 10_000, NOW + 10_000).await;
    while ledger.erase_rest(&id("ann"), 1).await.expect("an answer") > 0 {}
    assert_eq!(ledger.quarantine_size().await.expect("a number"), 0);
    assert_eq!(next_push(&*ledger).await, None);
}
