//! Digests: one message for several notifications that are due for a device at once, as after quiet hours or an outage.

use std::collections::{BTreeMap, HashMap};

use super::message;
use super::providers::{Push, PushKind, Urgency};
use super::texts::{TextInput, TextKind, Texts};
use crate::feed::PushContent;
use crate::ledger::{CLEAR_KIND, POST_KIND, QueuedPush};
use crate::model::{Device, DeviceId, Millis, UserId};
use crate::shares::SourceId;

/// The smallest number of notifications that become a digest. Fewer are sent one by one.
pub(super) const MIN_DIGEST: usize = 3;

/// The collapse key of digests: a new one replaces the former one on the device.
const COLLAPSE_KEY: &str = "digest";

/// Groups pushes by message: notifications that may become a digest together, all others alone. Silent messages and
/// alerts about posts are in no digest.
pub(super) fn group(pushes: Vec<QueuedPush>) -> Vec<Vec<QueuedPush>> {
    let mut groups: Vec<Vec<QueuedPush>> = Vec::with_capacity(pushes.len());
    let mut places: HashMap<(UserId, DeviceId), usize> = HashMap::new();
    for push in pushes {
        if push.device.is_none() || push.kind == CLEAR_KIND || push.kind == POST_KIND {
            groups.push(vec![push]);
            continue;
        }
        let place = *places.entry((push.key.user.clone(), push.key.device.clone())).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(push),
            None => groups.push(vec![push]),
        }
    }
    let mut divided = Vec::with_capacity(groups.len());
    for group in groups {
        if group.len() >= MIN_DIGEST {
            divided.push(group);
        } else {
            divided.extend(group.into_iter().map(|push| vec![push]));
        }
    }
    divided
}

/// The message that shows several notifications of a user on a device.
///
/// # Errors
/// If the address of the device is not usable.
pub(super) fn digest(
    texts: &Texts,
    alerts: &[(QueuedPush, Box<PushContent>)],
    device: &Device,
    expires_at: Millis,
) -> Result<Push, String> {
    let is_private = alerts.iter().any(|(push, _)| push.preferences.private);
    let text = texts.render(&TextInput {
        kind: TextKind::Digest,
        locale: device.locale.as_deref(),
        name: "",
        count: alerts.len() as u64,
        text: "",
        private: is_private,
    });
    let newest = alerts.iter().map(|(push, _)| push.key.item).max().unwrap_or_default();
    let mut data = BTreeMap::from([("notification".to_owned(), newest.to_string())]);
    if !is_private {
        data.insert("type".to_owned(), "digest".to_owned());
        if let Some(newest) = alerts.iter().map(|(_, content)| content.notification.position).max() {
            data.insert("position".to_owned(), newest.to_string());
        }
    }
    let mut states: Vec<_> = alerts.iter().map(|(push, _)| (&push.key, push.seq)).collect();
    states.sort_unstable();
    let urgencies = alerts.iter().map(|(_, content)| message::urgency_of(&content.notification.kind));
    Ok(Push {
        id: message::message_id(&states),
        user: alerts.first().map_or(SourceId::ONLY, |(push, _)| SourceId::of(&push.key.user)),
        device: device.id.to_string(),
        target: message::target(&device.target)?,
        kind: PushKind::Alert,
        title: text.title,
        body: text.body,
        data,
        collapse_key: Some(COLLAPSE_KEY.to_owned()),
        thread: None,
        expires_at,
        urgency: urgencies.max().unwrap_or(Urgency::Normal),
        badge: alerts.first().map(|(_, content)| content.unread),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{DeviceSession, PushKey};
    use crate::model::{Notification, NotificationId, NotificationPosition, PushPreferences, PushTarget};
    use crate::push::texts::TextsConfig;

    fn device(id: &str) -> Device {
        let id = DeviceId::parse(id).expect("an id");
        let target = PushTarget::Fcm { token: "t".into() };
        let locale = None;
        let time_zone = None;
        let app_version = None;
        Device { id, target, locale, time_zone, app_version, registered_at: 1, seen_at: 1 }
    }

    fn push(on: &str, item: u64, kind: &str) -> QueuedPush {
        let user = UserId::parse("ann").expect("an id");
        QueuedPush {
            key: PushKey { user, device: DeviceId::parse(on).expect("an id"), item },
            kind: kind.into(),
            seq: 1,
            attempts: 1,
            queued_at: 1,
            first_tried_at: None,
            device: Some((device(on), DeviceSession::default())),
            preferences: PushPreferences::default(),
            accepted: 0,
        }
    }

    fn alert(item: u64, kind: &'static str) -> (QueuedPush, Box<PushContent>) {
        let notification = Notification {
            id: NotificationId(item),
            position: NotificationPosition(item),
            kind: kind.into(),
            content: None,
            object: None,
            comment: None,
            people: Vec::new(),
            count: 1,
            filtered: Vec::new(),
            created_at: 1,
            updated_at: 1,
            read: false,
            seen: false,
        };
        (push("phone", item, kind), Box::new(PushContent { notification, text: "the text".into(), unread: 9 }))
    }

    fn items(groups: &[Vec<QueuedPush>]) -> Vec<Vec<u64>> {
        groups.iter().map(|group| group.iter().map(|push| push.key.item).collect()).collect()
    }

    #[test]
    fn notifications_of_a_device_are_grouped() {
        let pushes = vec![
            push("phone", 1, "like"),
            push("tablet", 1, "like"),
            push("phone", 0, CLEAR_KIND),
            push("phone", 2, "mention"),
            push("phone", 7, POST_KIND),
            push("tablet", 2, "mention"),
            QueuedPush { device: None, ..push("phone", 3, "reply") },
            push("phone", 4, "follow"),
        ];
        let two = group(pushes[..7].to_vec());
        assert!(two.iter().all(|group| group.len() == 1), "two of each device: {two:?}");
        assert_eq!(items(&group(pushes)), [vec![1, 2, 4], vec![1], vec![2], vec![0], vec![7], vec![3]]);
    }

    #[test]
    fn a_digest_has_the_number_the_badge_and_the_highest_priority() {
        let texts = Texts::new(&TextsConfig::default()).expect("texts");
        let mut alerts = vec![alert(5, "like"), alert(8, "follow"), alert(6, "like")];
        let made = digest(&texts, &alerts, &device("phone"), 99).expect("a message");
        assert_eq!((made.title.as_str(), made.body.as_str()), ("You have 3 new notifications", ""));
        assert_eq!((made.badge, made.urgency, made.expires_at), (Some(9), Urgency::Normal, 99));
        assert_eq!((made.collapse_key.as_deref(), made.data["notification"].as_str()), (Some("digest"), "8"));
        alerts.reverse();
        assert_eq!(digest(&texts, &alerts, &device("phone"), 99).expect("a message").id, made.id, "another attempt");
        alerts.push(alert(7, "mention"));
        let more = digest(&texts, &alerts, &device("phone"), 99).expect("a message");
        assert_eq!((more.urgency, more.id == made.id), (Urgency::High, false));
        alerts.iter_mut().for_each(|(push, _)| push.preferences.private = true);
        let private = digest(&texts, &alerts, &device("phone"), 99).expect("a message");
        assert_eq!((private.title.as_str(), private.body.as_str()), ("Feedline", "You have new notifications"));
        assert_eq!(private.data.keys().collect::<Vec<_>>(), ["notification"]);
    }
}
