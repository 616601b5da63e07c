//! The message for a device: addressed, in its language, with an identity of its own.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use super::providers::endpoint::EndpointUrl;
use super::providers::webpush::PushSubscription;
use super::providers::{Push, PushKind, Target, Urgency};
use super::texts::{TextInput, TextKind, Texts};
use crate::feed::{ClearContent, PushContent};
use crate::ledger::{POST_KIND, PushKey};
use crate::model::{
    Device, Millis, NotificationPosition, NotificationSubject, PushPreferences, PushTarget, WebPushKeys,
};
use crate::settings::Secret;
use crate::shares::SourceId;

/// The longest address that a message has, in bytes.
const MAX_URL: usize = 500;

/// The address of a device, as the transports take it.
///
/// # Errors
/// If a transport does not accept the address.
pub(super) fn target(stored: &PushTarget) -> Result<Target, String> {
    let subscription = |keys: &WebPushKeys| {
        let parsed = PushSubscription::parse(&keys.endpoint, &keys.p256dh, &keys.auth);
        parsed.map_err(|error| error.to_string())
    };
    match stored {
        PushTarget::Fcm { token } => Target::fcm(token).map_err(|error| error.to_string()),
        PushTarget::Apns { token, environment, topic } => {
            Target::apns(token, topic.as_deref(), *environment).map_err(|error| error.to_string())
        }
        PushTarget::Webpush(keys) => subscription(keys).map(Target::WebPush),
        PushTarget::Unifiedpush(keys) => subscription(keys).map(Target::UnifiedPush),
        PushTarget::Webhook { endpoint } => {
            let url = EndpointUrl::parse(endpoint).map_err(|error| format!("the endpoint {error}"))?;
            Ok(Target::Webhook { url, secret: None::<Secret> })
        }
    }
}

/// The message that shows a notification on a device.
///
/// # Errors
/// If the address of the device is not usable.
pub(super) fn alert(
    texts: &Texts,
    (key, seq): (&PushKey, i64),
    device: &Device,
    preferences: &PushPreferences,
    content: &PushContent,
    expires_at: Millis,
) -> Result<Push, String> {
    let notification = &content.notification;
    let kind = text_kind(&notification.kind);
    let input = TextInput {
        kind,
        locale: device.locale.as_deref(),
        name: notification.people.first().map_or("", |person| &person.name),
        count: notification.count,
        text: &content.text,
        private: preferences.private,
    };
    let mut text = texts.render(&input);
    if let Some(content) = notification.content.as_ref().filter(|_| !preferences.private) {
        (text.title, text.body) = (content.title.clone(), content.body.clone());
    }
    // An alert about a post has the id of the post.
    let item = if notification.kind == POST_KIND { "post" } else { "notification" };
    let mut data = BTreeMap::from([(item.to_owned(), notification.id.to_string())]);
    if !preferences.private {
        data.insert("type".to_owned(), notification.kind.to_string());
        let url = notification.content.as_ref().and_then(|content| content.url.clone());
        // Longer ones would take the place of the text.
        if let Some(url) = url.filter(|url| url.len() <= MAX_URL) {
            data.insert("url".to_owned(), url);
        }
        // What an app marks when the message is opened. An alert about a post has none.
        if notification.position > NotificationPosition::ZERO {
            data.insert("position".to_owned(), notification.position.to_string());
        }
        match notification.object {
            Some(NotificationSubject::Post { id }) => {
                data.insert("post".to_owned(), id.to_string());
            }
            Some(NotificationSubject::Comment { id, post }) => {
                data.extend([("comment".to_owned(), id.to_string()), ("post".to_owned(), post.to_string())]);
            }
            None => {}
        }
        if let Some(newest) = notification.comment {
            data.insert("comment".to_owned(), newest.to_string());
        }
    }
    let thread = match (notification.object, &notification.content) {
        (Some(object), _) => format!("post-{}", object.post()),
        (None, Some(_)) => notification.kind.to_string(),
        (None, None) => "follows".to_owned(),
    };
    Ok(Push {
        id: message_id(&[(key, seq)]),
        user: SourceId::of(&key.user),
        device: key.device.to_string(),
        target: target(&device.target)?,
        kind: PushKind::Alert,
        title: text.title,
        body: text.body,
        data,
        collapse_key: Some(format!("{item}-{}", key.item)),
        thread: Some(thread),
        expires_at,
        urgency: urgency(kind),
        badge: Some(content.unread),
    })
}

/// The silent message that withdraws from a device what was read elsewhere, and sets the badge.
///
/// # Errors
/// If the address of the device is not usable.
pub(super) fn clear(
    (key, seq): (&PushKey, i64),
    device: &Device,
    content: &ClearContent,
    expires_at: Millis,
) -> Result<Push, String> {
    let unread: Vec<String> = content.unread.iter().map(ToString::to_string).collect();
    let mut data = BTreeMap::from([
        ("unread".to_owned(), unread.join(",")),
        ("upto".to_owned(), content.upto.to_string()),
        ("seen_post".to_owned(), content.seen_post.to_string()),
    ]);
    if content.after.0 > 0 {
        data.insert("after".to_owned(), content.after.to_string());
    }
    if !content.gone_posts.is_empty() {
        let gone: Vec<String> = content.gone_posts.iter().map(ToString::to_string).collect();
        data.insert("gone_posts".to_owned(), gone.join(","));
    }
    Ok(Push {
        id: message_id(&[(key, seq)]),
        user: SourceId::of(&key.user),
        device: key.device.to_string(),
        target: target(&device.target)?,
        kind: PushKind::Clear,
        title: String::new(),
        body: String::new(),
        data,
        // The newest one has the whole state.
        collapse_key: Some("clear".to_owned()),
        thread: None,
        expires_at,
        urgency: Urgency::Normal,
        badge: Some(content.badge),
    })
}

/// A message that checks the delivery to a device.
///
/// # Errors
/// If the address of the device is not usable.
pub fn test_message(texts: &Texts, device: &Device, expires_at: Millis) -> Result<Push, String> {
    let name = "";
    let text = "";
    let count = 1;
    let locale = device.locale.as_deref();
    let text = texts.render(&TextInput { kind: TextKind::Test, locale, name, count, text, private: false });
    Ok(Push {
        id: Uuid::new_v4(),
        user: SourceId::ONLY,
        device: device.id.to_string(),
        target: target(&device.target)?,
        kind: PushKind::Test,
        title: text.title,
        body: text.body,
        data: BTreeMap::new(),
        collapse_key: None,
        thread: None,
        expires_at,
        urgency: Urgency::High,
        badge: None,
    })
}

/// The identity of a message about items in these states: the same in each attempt, so that receivers recognise a
/// repetition.
pub(super) fn message_id(states: &[(&PushKey, i64)]) -> Uuid {
    let mut hash = Sha256::new();
    for (key, seq) in states {
        for part in [key.user.as_str(), key.device.as_str(), &key.item.to_string(), &seq.to_string()] {
            hash.update(part);
            hash.update([0]);
        }
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

fn text_kind(kind: &str) -> TextKind {
    match kind {
        "mention" => TextKind::Mention,
        "reply" => TextKind::Reply,
        "comment" => TextKind::Comment,
        "like" => TextKind::Like,
        "follow" => TextKind::Follow,
        "request" => TextKind::Request,
        "accepted" => TextKind::Accepted,
        "repost" => TextKind::Repost,
        "quote" => TextKind::Quote,
        _ => TextKind::Post,
    }
}

/// The priority of a notification of this kind.
pub(super) fn urgency_of(kind: &str) -> Urgency {
    urgency(text_kind(kind))
}

/// Words to the receiver are delivered at once; likes, follows and posts when it suits the device's battery: normal
/// priority of FCM, priority 5 of APNs, urgency `normal` of Web Push.
fn urgency(kind: TextKind) -> Urgency {
    match kind {
        TextKind::Mention | TextKind::Reply | TextKind::Comment => Urgency::High,
        _ => Urgency::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceId, Notification, NotificationId, NotificationPosition, Person, PostId, UserId};
    use crate::push::texts::TextsConfig;

    fn key(item: u64) -> PushKey {
        let user = UserId::parse("ann").expect("an id");
        let device = DeviceId::parse("phone").expect("an id");
        PushKey { user, device, item }
    }

    fn device(target: PushTarget) -> Device {
        let id = DeviceId::parse("phone").expect("an id");
        let time_zone = None;
        let app_version = None;
        Device { id, target, locale: Some("zh-CN".into()), time_zone, app_version, registered_at: 1, seen_at: 1 }
    }

    fn content() -> PushContent {
        let bo = Person { id: UserId::parse("bo").expect("an id"), name: "Bo".into(), avatar: None };
        let notification = Notification {
            id: NotificationId(7),
            position: NotificationPosition(7),
            kind: "mention".into(),
            content: None,
            object: Some(NotificationSubject::Post { id: PostId(5) }),
            comment: None,
            people: vec![bo],
            count: 1,
            filtered: Vec::new(),
            created_at: 1,
            updated_at: 1,
            read: false,
            seen: false,
        };
        PushContent { notification, text: "the text".into(), unread: 3 }
    }

    fn texts() -> Texts {
        Texts::new(&TextsConfig::default()).expect("texts")
    }

    #[test]
    fn messages_of_an_item_have_one_identity() {
        let of = |item, seq| message_id(&[(&key(item), seq)]);
        assert_eq!(of(1, 1), of(1, 1));
        assert_ne!(of(1, 1), of(1, 2));
        assert_ne!(of(1, 1), of(2, 1));
    }

    #[test]
    fn alerts_are_in_the_language_of_the_device() {
        let device = device(PushTarget::Fcm { token: "t".into() });
        let preferences = PushPreferences::default();
        let push = alert(&texts(), (&key(7), 1), &device, &preferences, &content(), 99).expect("a message");
        assert!(push.title.contains("Bo") && push.body.contains("the text"), "{push:?}");
        assert!(push.title.contains('提') || push.body.contains('提') || !push.title.is_ascii(), "{push:?}");
        assert_eq!((push.badge, push.urgency, push.thread.as_deref()), (Some(3), Urgency::High, Some("post-5")));
        assert_eq!((&*push.data["post"], &*push.data["position"]), ("5", "7"));
    }

    #[test]
    fn private_alerts_tell_nothing() {
        let device = device(PushTarget::Webhook { endpoint: "https://a.example/1".into() });
        let preferences = PushPreferences { private: true, ..PushPreferences::default() };
        let push = alert(&texts(), (&key(7), 1), &device, &preferences, &content(), 99).expect("a message");
        let shown = format!("{} {}", push.title, push.body);
        assert!(!shown.contains("Bo") && !shown.contains("the text"), "{shown}");
        assert_eq!(push.data, BTreeMap::from([("notification".to_owned(), "7".to_owned())]));
    }

    #[test]
    fn alerts_about_posts_have_the_id_of_the_post() {
        let device = device(PushTarget::Fcm { token: "t".into() });
        let mut content = content();
        (content.notification.id, content.notification.kind) = (NotificationId(5), "post".into());
        for private in [false, true] {
            let preferences = PushPreferences { private, ..PushPreferences::default() };
            let push = alert(&texts(), (&key(5), 1), &device, &preferences, &content, 99).expect("a message");
            assert_eq!(push.data.get("post").map(String::as_str), Some("5"));
            assert_eq!((push.data.contains_key("notification"), push.data.contains_key("type")), (false, !private));
            assert_eq!((push.collapse_key.as_deref(), push.urgency), (Some("post-5"), Urgency::Normal));
        }
    }

    #[test]
    fn silent_messages_tell_what_is_left() {
        let unread = vec![NotificationId(8), NotificationId(7)];
        let after = NotificationId(0);
        let upto = NotificationId(9);
        let content = ClearContent { unread, after, upto, badge: 3, seen_post: PostId(6), gone_posts: Vec::new() };
        let device = device(PushTarget::Fcm { token: "t".into() });
        let push = clear((&key(0), 1), &device, &content, 99).expect("a message");
        assert_eq!(
            (push.kind, push.badge, push.title.as_str(), push.body.as_str()),
            (PushKind::Clear, Some(3), "", "")
        );
        let expected = [("seen_post", "6"), ("unread", "8,7"), ("upto", "9")];
        assert_eq!(push.data, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let many = ClearContent { after: NotificationId(4), ..content };
        let push = clear((&key(0), 1), &device, &many, 99).expect("a message");
        assert_eq!(push.data["after"], "4");
    }

    #[test]
    fn every_platform_has_a_target() {
        let keys = WebPushKeys {
            endpoint: "https://push.example/1".into(),
            p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4".into(),
            auth: "BTBZMqHH6r4Tts7J_aSIgg".into(),
        };
        let apns = PushTarget::Apns { token: "ab".repeat(32), environment: None, topic: None };
        for stored in [PushTarget::Webpush(keys.clone()), PushTarget::Unifiedpush(keys), apns] {
            let target = target(&stored).expect("a target");
            assert_eq!(target.platform(), stored.platform());
        }
        assert!(target(&PushTarget::Fcm { token: String::new() }).is_err());
    }
}
