//! Devices: one owner for each address, a bounded number for each user, removed with the session that registered them.

use std::sync::Arc;

use feedline::ledger::{
    DeviceRegistration, DeviceSession, Ledger, PersonalData, Revocation, RevocationKind, SessionsEnd,
};
use feedline::model::{
    ApnsEnvironment, Device, DeviceId, PushKinds, PushPreferences, PushTarget, QuietHours, TimeOfDay, WebPushKeys,
};
use serde_json::{Value, json};

use crate::support::{NOW, account, conformance, id, users};

conformance! {
    devices_are_stored_and_updated
    an_address_belongs_to_one_device
    idle_devices_are_removed
    addresses_are_exchanged_without_deadlock
    the_devices_registered_longest_ago_are_replaced
    devices_end_with_their_session
    an_ended_session_registers_no_device
    addresses_are_forgotten_unless_registered_again
    preferences_are_replaced
    devices_are_exported_without_their_address
}

type Any = Arc<dyn Ledger>;

fn device_id(text: &str) -> DeviceId {
    DeviceId::parse(text).expect("a device id")
}

fn fcm(token: &str) -> PushTarget {
    PushTarget::Fcm { token: token.into() }
}

pub(crate) fn device(name: &str, target: PushTarget, at: u64) -> Device {
    let (locale, time_zone, app_version) = (None, None, None);
    Device { id: device_id(name), target, locale, time_zone, app_version, registered_at: at, seen_at: at }
}

async fn register_at(ledger: &dyn Ledger, user: &str, name: &str, token: &str, at: u64, most: usize) -> Device {
    let registration = DeviceRegistration { device: device(name, fcm(token), at), session: DeviceSession::default() };
    ledger.register_device(&id(user), &registration, most).await.expect("an answer").expect("a device")
}

/// Registers a device of FCM in a session.
pub(crate) async fn register(
    ledger: &dyn Ledger,
    user: &str,
    name: &str,
    token: &str,
    session: DeviceSession,
) -> Option<Device> {
    let registration = DeviceRegistration { device: device(name, fcm(token), NOW), session };
    ledger.register_device(&id(user), &registration, 20).await.expect("an answer")
}

/// The ids of a user's devices.
async fn names(ledger: &dyn Ledger, user: &str) -> Vec<String> {
    let devices = ledger.devices(&id(user)).await.expect("an answer");
    devices.iter().map(|device| device.id.to_string()).collect()
}

async fn devices_are_stored_and_updated(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let keys = WebPushKeys { endpoint: "https://a.example/1".into(), p256dh: "BK".into(), auth: "AA".into() };
    let apns =
        PushTarget::Apns { token: "ab".into(), environment: Some(ApnsEnvironment::Sandbox), topic: Some("t".into()) };
    let targets = [fcm("t"), apns, PushTarget::Webpush(keys.clone()), PushTarget::Unifiedpush(keys)];
    for (number, target) in targets.into_iter().enumerate() {
        let device = Device {
            locale: Some("zh-CN".into()),
            time_zone: Some("Asia/Tokyo".into()),
            app_version: Some("1.2 \u{1F600}".into()),
            ..device(&format!("d{number}"), target, NOW)
        };
        let registration = DeviceRegistration { device: device.clone(), session: DeviceSession::default() };
        let registered = ledger.register_device(&id("ann"), &registration, 9).await.expect("an answer");
        assert_eq!(registered.as_ref(), Some(&device));
        assert_eq!(ledger.devices(&id("ann")).await.expect("devices").last(), Some(&device));
    }
    let again = register_at(&*ledger, "ann", "d0", "another", NOW + 5, 9).await;
    assert_eq!((again.registered_at, again.seen_at, &again.target), (NOW, NOW + 5, &fcm("another")));
    assert_eq!(again.locale, None, "members that are omitted are removed");
    assert_eq!(ledger.devices(&id("ann")).await.expect("devices")[0], again);
    assert!(names(&*ledger, "bo").await.is_empty());
    assert!(ledger.remove_device(&id("ann"), &device_id("d2")).await.expect("an answer"));
    assert!(!ledger.remove_device(&id("ann"), &device_id("d2")).await.expect("an answer"));
    assert!(!ledger.remove_device(&id("bo"), &device_id("d1")).await.expect("an answer"), "it is ann's");
    assert_eq!(names(&*ledger, "ann").await, ["d0", "d1", "d3"]);
}

async fn idle_devices_are_removed(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for user in ["ann", "bo", "cy"] {
        register_at(&*ledger, user, "d", user, NOW, 9).await;
    }
    ledger.touch_devices(&[id("bo"), id("nobody")], NOW + 10, NOW).await.expect("an answer");
    assert_eq!(ledger.forget_idle_devices(NOW, 9).await.expect("an answer"), 0);
    ledger.touch_devices(&[id("bo"), id("nobody")], NOW + 10, NOW + 5).await.expect("an answer");
    register_at(&*ledger, "cy", "d", "cy", NOW + 20, 9).await;
    assert_eq!(ledger.forget_idle_devices(NOW + 1, 9).await.expect("an answer"), 1);
    assert!(names(&*ledger, "ann").await.is_empty());
    assert_eq!(ledger.forget_idle_devices(NOW + 30, 1).await.expect("an answer"), 1);
    assert_eq!(ledger.forget_idle_devices(NOW + 30, 9).await.expect("an answer"), 1);
}

async fn an_address_belongs_to_one_device(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    register_at(&*ledger, "ann", "a", "shared", NOW, 9).await;
    register_at(&*ledger, "ann", "b", "own", NOW, 9).await;
    register_at(&*ledger, "bo", "c", "shared", NOW, 9).await;
    assert_eq!((names(&*ledger, "ann").await, names(&*ledger, "bo").await), (vec!["b".into()], vec!["c".into()]));
    // Another platform may have the same token.
    let apns = PushTarget::Apns { token: "shared".into(), environment: None, topic: None };
    let other = DeviceRegistration { device: device("d", apns, NOW), session: DeviceSession::default() };
    ledger.register_device(&id("ann"), &other, 9).await.expect("an answer");
    assert_eq!(names(&*ledger, "bo").await, ["c"]);
    // The same user, under another id: the app was installed again.
    register_at(&*ledger, "bo", "e", "shared", NOW, 9).await;
    assert_eq!(names(&*ledger, "bo").await, ["e"]);
}

async fn addresses_are_exchanged_without_deadlock(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for round in 0..30 {
        let (one, two) = if round % 2 == 0 { ("x", "y") } else { ("y", "x") };
        tokio::join!(
            register_at(&*ledger, "ann", "a", one, NOW + round, 9),
            register_at(&*ledger, "bo", "b", two, NOW + round, 9),
        );
        let mut tokens: Vec<String> = Vec::new();
        for user in ["ann", "bo"] {
            let devices = ledger.devices(&id(user)).await.expect("devices");
            tokens.extend(devices.iter().map(|device| device.target.address().to_owned()));
        }
        tokens.sort();
        tokens.dedup();
        assert!(!tokens.is_empty() && tokens.len() <= 2);
    }
    tokio::join!(register_at(&*ledger, "ann", "a", "same", NOW, 9), register_at(&*ledger, "bo", "b", "same", NOW, 9));
    assert_eq!(names(&*ledger, "ann").await.len() + names(&*ledger, "bo").await.len(), 1);
}

async fn the_devices_registered_longest_ago_are_replaced(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    register_at(&*ledger, "bo", "old", "bo's", NOW, 3).await;
    for (number, name) in ["b", "c", "a"].into_iter().enumerate() {
        register_at(&*ledger, "ann", name, name, NOW + number as u64, 3).await;
    }
    register_at(&*ledger, "ann", "b", "b", NOW + 5, 3).await;
    register_at(&*ledger, "ann", "new", "new", NOW + 6, 3).await;
    assert_eq!(names(&*ledger, "ann").await, ["a", "b", "new"]);
    // A device whose clock is behind is not removed by its own registration.
    register_at(&*ledger, "ann", "late", "late", NOW - 9, 3).await;
    assert_eq!(names(&*ledger, "ann").await, ["b", "late", "new"]);
    assert_eq!(names(&*ledger, "bo").await, ["old"]);
}

fn token(id: &str, issued_at: u64) -> DeviceSession {
    DeviceSession { token: Some(id.into()), generation: None, issued_at }
}

fn session(id: &str, generation: u64) -> DeviceSession {
    DeviceSession { token: Some(id.into()), generation: Some(generation), issued_at: 100 }
}

fn revocation(kind: RevocationKind, subject: &str, value: u64) -> Revocation {
    let expires_at = Some(NOW + 60_000);
    Revocation { kind, subject: subject.into(), owner: None, value, spared: None, at: NOW, expires_at }
}

async fn devices_end_with_their_session(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for (user, name, session) in [
        ("ann", "one", token("t1", 100)),
        ("ann", "two", token("t2", 200)),
        ("ann", "backend", DeviceSession { issued_at: 300, ..DeviceSession::default() }),
        ("bo", "bos", token("t3", 100)),
    ] {
        register(&*ledger, user, name, &format!("{user} {name}"), session).await.expect("a device");
    }
    ledger.revoke(&revocation(RevocationKind::Block, "ann", 1)).await.expect("a number");
    assert_eq!(names(&*ledger, "ann").await.len(), 3, "a block can be lifted");
    ledger.revoke(&revocation(RevocationKind::Token, "t1", 0)).await.expect("a number");
    assert_eq!(names(&*ledger, "ann").await, ["backend", "two"]);
    ledger.revoke(&revocation(RevocationKind::UserTokens, "ann", 201)).await.expect("a number");
    assert_eq!(names(&*ledger, "ann").await, ["backend"]);
    ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer");
    assert!(names(&*ledger, "ann").await.is_empty());
    assert_eq!(names(&*ledger, "bo").await, ["bos"]);

    ledger.create_account(account("cy")).await.expect("an answer");
    for (name, session) in [
        ("old", session("s0", 0)),
        ("spared", session("s1", 0)),
        ("backend", DeviceSession { issued_at: 300, ..DeviceSession::default() }),
    ] {
        register(&*ledger, "cy", name, name, session).await.expect("a device");
    }
    let end = SessionsEnd { spared: Some("s1".into()), at: NOW, expires_at: NOW + 60_000 };
    assert_eq!(ledger.end_sessions(&id("cy"), &end).await.expect("an answer"), Some(1));
    assert_eq!(names(&*ledger, "cy").await, ["spared"]);
    register(&*ledger, "cy", "new", "new", session("s2", 1)).await.expect("a device");
    assert_eq!(ledger.end_sessions(&id("cy"), &SessionsEnd { spared: None, ..end }).await.expect("an answer"), Some(2));
    assert!(names(&*ledger, "cy").await.is_empty());
}

async fn an_ended_session_registers_no_device(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    ledger.create_account(account("cy")).await.expect("an answer");
    let refused = async |user: &str, session: DeviceSession| {
        register(&*ledger, user, "d", &format!("of {user}"), session).await.is_none()
    };
    ledger.revoke(&revocation(RevocationKind::Token, "t1", 0)).await.expect("a number");
    ledger.revoke(&revocation(RevocationKind::UserTokens, "ann", 200)).await.expect("a number");
    assert!(refused("ann", token("t1", 300)).await, "the token was revoked");
    assert!(refused("ann", token("t2", 199)).await, "tokens of this time were revoked");
    assert!(!refused("ann", token("t2", 200)).await);
    let end = SessionsEnd { spared: Some("s1".into()), at: NOW, expires_at: NOW + 60_000 };
    ledger.end_sessions(&id("cy"), &end).await.expect("an answer");
    assert!(refused("cy", session("s0", 0)).await);
    assert!(!refused("cy", session("s1", 0)).await, "it was spared");
    assert!(!refused("cy", session("s2", 1)).await, "it was opened later");
    assert!(!refused("cy", DeviceSession { issued_at: 1, ..DeviceSession::default() }).await, "by a backend");
}

async fn addresses_are_forgotten_unless_registered_again(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    register_at(&*ledger, "ann", "a", "t", NOW, 9).await;
    let forget = async |user: &str, token: &str, since: u64| {
        ledger.forget_address(&id(user), &fcm(token), since).await.expect("an answer")
    };
    assert!(!forget("ann", "t", NOW).await, "it was registered at that time");
    assert!(!forget("ann", "other", NOW + 1).await);
    assert!(!forget("bo", "t", NOW + 1).await);
    register_at(&*ledger, "ann", "a", "t", NOW + 7, 9).await;
    assert!(!forget("ann", "t", NOW + 5).await, "it was registered again");
    assert!(forget("ann", "t", NOW + 8).await);
    assert!(names(&*ledger, "ann").await.is_empty());
}

async fn preferences_are_replaced(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let read = async |user: &str| ledger.push_preferences(&id(user)).await.expect("an answer");
    assert_eq!(read("ann").await, None);
    let time = |text| TimeOfDay::parse(text).expect("a time");
    let quiet = QuietHours { from: time("22:30"), to: time("07:00"), time_zone: Some("Asia/Tokyo".into()) };
    let kinds = PushKinds { like: false, ..PushKinds::default() };
    let some = PushPreferences { kinds, private: true, quiet_hours: Some(quiet), daily_cap: 7 };
    for preferences in [some, PushPreferences::default()] {
        ledger.set_push_preferences(&id("ann"), &preferences).await.expect("an answer");
        assert_eq!(read("ann").await.as_ref(), Some(&preferences));
    }
    assert_eq!(read("bo").await, None);
}

async fn devices_are_exported_without_their_address(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for name in ["a", "b", "c"] {
        register(&*ledger, "ann", name, &format!("secret {name}"), DeviceSession::default()).await.expect("a device");
    }
    ledger.set_push_preferences(&id("ann"), &PushPreferences::default()).await.expect("an answer");
    let mut exported: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let page = ledger.personal_rows(&id("ann"), PersonalData::Devices, &after, 2).await.expect("rows");
        let Some(last) = page.last() else { break };
        after = last.key.clone();
        exported.extend(page.iter().map(|row| serde_json::from_str::<Value>(&row.json).expect("JSON")));
    }
    let row = |name| json!({ "id": name, "platform": "fcm", "registered_at": NOW, "seen_at": NOW });
    assert_eq!(exported, ["a", "b", "c"].map(row));
    let rows = ledger.personal_rows(&id("ann"), PersonalData::PushPreferences, "", 9).await.expect("rows");
    assert_eq!(rows.len(), 1);
    let after = &rows[0].key;
    assert!(ledger.personal_rows(&id("ann"), PersonalData::PushPreferences, after, 9).await.expect("rows").is_empty());
    let of_bo = ledger.personal_rows(&id("bo"), PersonalData::Devices, "", 9).await.expect("rows");
    assert!(of_bo.is_empty());
}
