//! Silent messages to devices that show what was read elsewhere.

use std::sync::Arc;

use feedline::ledger::{
    CLEAR_KIND, ClearPlan, DeviceRegistration, DeviceSession, Ledger, MarkUpTo, NotificationEvent, NotificationMark,
    PostAlertPage, PushLease, PushPlan, PushResult, QueuedPush, SettledPush, UserNotifications,
};
use feedline::model::{NotificationKind, PostId, PushTarget};

use crate::devices::{device, register};
use crate::pushes::next_push;
use crate::support::{NOW, conformance, id, publish, users};

conformance! {
    only_other_devices_that_show_something_get_silent_messages
    silent_messages_are_coalesced_and_paused
    apns_has_a_slower_pace
    silent_messages_do_not_count
    a_message_that_grows_is_sent_again
    posts_that_were_seen_get_silent_messages
    marking_costs_no_round_trip
}

type Any = Arc<dyn Ledger>;

const PLAN: PushPlan = PushPlan { grace: 0, digest: 0 };

fn lease(now: u64) -> PushLease {
    PushLease { holder: "w1".into(), until: now + 60_000 }
}

fn clear(session: Option<&str>, now: u64) -> ClearPlan {
    ClearPlan { session: session.map(str::to_owned), now, due_at: now + 2_000 }
}

async fn mark(ledger: &dyn Ledger, session: Option<&str>, now: u64) -> bool {
    let clear = clear(session, now);
    let marked =
        ledger.mark_notifications(&id("ann"), MarkUpTo::Everything, NotificationMark::Read, Some(&clear)).await;
    marked.expect("an answer").is_some()
}

async fn due(ledger: &dyn Ledger, now: u64) -> Vec<QueuedPush> {
    let mut pushes = ledger.lease_pushes(now, &lease(now), 100).await.expect("pushes");
    pushes.sort_by(|a, b| a.key.cmp(&b.key));
    pushes
}

async fn accept(ledger: &dyn Ledger, pushes: &[QueuedPush], leased: u64, now: u64) {
    let settled: Vec<SettledPush> = pushes.iter().map(|push| push.settled(PushResult::Accepted)).collect();
    let number = ledger.settle_pushes(&settled, &lease(leased), now, 0).await.expect("an answer");
    assert_eq!(number, pushes.len());
}

/// Bo comments on a post of ann.
async fn comment(ledger: &dyn Ledger, number: u64, now: u64) {
    let kind = NotificationKind::Comment(PostId(1));
    let event = NotificationEvent { kind, by: id("bo"), event: number.cast_signed(), comment: None, content: None };
    let batch = [UserNotifications { to: id("ann"), events: vec![event] }];
    ledger.notify_many(&batch, now, 1, Some(PLAN)).await.expect("an answer");
}

/// Ann's devices: `phone` of the session s1, `tablet` of s2, and `hook` of a backend. All show a comment.
async fn shown(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo"]).await;
    for (device, session) in [("phone", Some("s1")), ("tablet", Some("s2")), ("hook", None)] {
        let session = DeviceSession { token: session.map(str::to_owned), ..DeviceSession::default() };
        register(ledger, "ann", device, &format!("t-{device}"), session).await.expect("a device");
    }
    comment(ledger, 1, NOW).await;
    let pushes = due(ledger, NOW).await;
    assert_eq!(pushes.len(), 3);
    accept(ledger, &pushes, NOW, NOW).await;
}

fn devices(pushes: &[QueuedPush]) -> Vec<&str> {
    assert!(pushes.iter().all(|push| push.kind == CLEAR_KIND && push.key.item == 0), "{pushes:?}");
    pushes.iter().map(|push| push.key.device.as_str()).collect()
}

async fn only_other_devices_that_show_something_get_silent_messages(ledger: Any) {
    shown(&*ledger).await;
    let session = DeviceSession { token: Some("s3".into()), ..DeviceSession::default() };
    register(&*ledger, "ann", "watch", "t-watch", session).await.expect("a device");
    assert!(mark(&*ledger, Some("s1"), NOW + 1).await);
    assert!(due(&*ledger, NOW + 2_000).await.is_empty(), "more may be read meanwhile");
    let pushes = due(&*ledger, NOW + 2_001).await;
    assert_eq!(devices(&pushes), ["hook", "tablet"], "the watch was sent nothing");
    accept(&*ledger, &pushes, NOW + 2_001, NOW + 2_001).await;
    assert!(!mark(&*ledger, Some("s2"), NOW + 99_000).await);
    assert_eq!(next_push(&*ledger).await, None, "nothing is new");
}

async fn silent_messages_are_coalesced_and_paused(ledger: Any) {
    shown(&*ledger).await;
    mark(&*ledger, Some("s1"), NOW).await;
    comment(&*ledger, 2, NOW + 1).await;
    mark(&*ledger, None, NOW + 1_000).await;
    let mut pushes = due(&*ledger, NOW + 2_000).await;
    pushes.retain(|push| push.kind == CLEAR_KIND);
    // The second mark is that of a backend: it adds the phone.
    assert_eq!(devices(&pushes), ["hook", "tablet"]);
    accept(&*ledger, &pushes, NOW + 2_000, NOW + 2_000).await;
    let phone = due(&*ledger, NOW + 3_000).await;
    assert_eq!(devices(&phone), ["phone"]);
    accept(&*ledger, &phone, NOW + 3_000, NOW + 3_000).await;
    let mut at = NOW + 3_000;
    for pause in [10_000, 20_000, 30_000] {
        comment(&*ledger, at, at + 1).await;
        mark(&*ledger, Some("s2"), at + 1).await;
        let others = due(&*ledger, at + pause - 1).await;
        assert!(others.iter().all(|push| push.key.device.as_str() != "phone" || push.kind != CLEAR_KIND));
        let pushes = due(&*ledger, at + pause).await;
        let phone: Vec<_> = pushes.into_iter().filter(|push| push.key.device.as_str() == "phone").collect();
        assert_eq!(devices(&phone), ["phone"], "after {pause}");
        accept(&*ledger, &phone, at + pause, at + pause).await;
        at += pause;
    }
}

/// APNs delivers two or three silent messages in an hour.
async fn apns_has_a_slower_pace(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let target = PushTarget::Apns { token: "ab".repeat(32), environment: None, topic: None };
    let registration = DeviceRegistration { device: device("phone", target, NOW), session: DeviceSession::default() };
    ledger.register_device(&id("ann"), &registration, 20).await.expect("an answer").expect("a device");
    let mut at = NOW;
    for (number, pause) in [(1, 0), (2, 300), (3, 600), (4, 900), (5, 1_200), (6, 1_200)] {
        comment(&*ledger, number, at).await;
        let alerts = due(&*ledger, at).await;
        accept(&*ledger, &alerts, at, at).await;
        mark(&*ledger, None, at).await;
        let pause = if number == 1 { 2_000 } else { pause * 1_000 };
        assert!(due(&*ledger, at + pause - 1).await.is_empty(), "before {pause}");
        let clears = due(&*ledger, at + pause).await;
        assert_eq!(devices(&clears), ["phone"], "after {pause}");
        accept(&*ledger, &clears, at + pause, at + pause).await;
        at += pause;
    }
    // One that grew while it was sent.
    comment(&*ledger, 7, at).await;
    let alerts = due(&*ledger, at).await;
    accept(&*ledger, &alerts, at, at).await;
    mark(&*ledger, None, at).await;
    let clears = due(&*ledger, at + 1_200_000).await;
    comment(&*ledger, 8, at + 1_200_001).await;
    mark(&*ledger, None, at + 1_200_001).await;
    accept(&*ledger, &clears, at + 1_200_000, at + 1_200_002).await;
    let others = due(&*ledger, at + 2_400_001).await;
    assert!(others.iter().all(|push| push.kind != CLEAR_KIND), "{others:?}");
    assert_eq!(devices(&due(&*ledger, at + 2_400_002).await), ["phone"]);
}

async fn silent_messages_do_not_count(ledger: Any) {
    shown(&*ledger).await;
    mark(&*ledger, Some("s1"), NOW).await;
    let pushes = due(&*ledger, NOW + 2_000).await;
    accept(&*ledger, &pushes, NOW + 2_000, NOW + 2_000).await;
    comment(&*ledger, 2, NOW + 3_000).await;
    let pushes = due(&*ledger, NOW + 3_000).await;
    assert_eq!(pushes.iter().map(|push| push.accepted).collect::<Vec<_>>(), [1, 1, 1]);
}

async fn a_message_that_grows_is_sent_again(ledger: Any) {
    shown(&*ledger).await;
    mark(&*ledger, Some("s1"), NOW).await;
    let pushes = due(&*ledger, NOW + 2_000).await;
    comment(&*ledger, 2, NOW + 2_001).await;
    mark(&*ledger, Some("s1"), NOW + 2_002).await;
    accept(&*ledger, &pushes, NOW + 2_000, NOW + 2_003).await;
    let others = due(&*ledger, NOW + 12_002).await;
    assert!(others.iter().all(|push| push.kind != CLEAR_KIND), "after a pause");
    assert_eq!(devices(&due(&*ledger, NOW + 12_003).await), ["hook", "tablet"]);
}

async fn posts_that_were_seen_get_silent_messages(ledger: Any) {
    shown(&*ledger).await;
    let (post, see) = (PostId(7), async |upto: u64, now: u64| {
        let clear = clear(Some("s1"), now);
        ledger.mark_read(&id("ann"), PostId(upto), Some(&clear)).await.expect("an answer")
    });
    assert_eq!(see(6, NOW).await, PostId(6));
    assert_eq!(next_push(&*ledger).await, None, "the devices show no post");
    publish(&*ledger, post.0, "bo").await;
    ledger.enable_post_alerts(&id("ann"), &id("bo"), NOW, 9).await.expect("an answer");
    let page = PostAlertPage { post, author: id("bo"), after: String::new(), users: 9, due_at: NOW };
    assert_eq!(ledger.queue_post_alerts(&page, NOW).await.expect("an answer"), Some(id("ann")));
    let pushes = due(&*ledger, NOW).await;
    assert_eq!(pushes.len(), 3);
    accept(&*ledger, &pushes, NOW, NOW).await;
    assert_eq!(see(7, NOW).await, PostId(7));
    let pushes = due(&*ledger, NOW + 2_000).await;
    assert_eq!(devices(&pushes), ["hook", "tablet"]);
    accept(&*ledger, &pushes, NOW + 2_000, NOW + 2_000).await;
    assert_eq!((see(5, NOW + 50_000).await, see(9, NOW + 50_000).await), (PostId(7), PostId(9)));
    assert_eq!(next_push(&*ledger).await, None, "the devices know of post 7");
}

async fn marking_costs_no_round_trip(ledger: Any) {
    shown(&*ledger).await;
    let mut costs = Vec::new();
    for (number, clear) in [(2, None), (3, Some(clear(None, NOW)))] {
        comment(&*ledger, number, NOW + number).await;
        let before = ledger.round_trips();
        let ann = id("ann");
        let outcome =
            ledger.mark_notifications(&ann, MarkUpTo::Everything, NotificationMark::Read, clear.as_ref()).await;
        assert!(outcome.expect("an answer").is_some());
        ledger.mark_read(&id("ann"), PostId(number), clear.as_ref()).await.expect("an answer");
        costs.push(ledger.round_trips() - before);
    }
    assert_eq!(costs[0], costs[1]);
}
