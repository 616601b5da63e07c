//! The request of a message.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::model::Millis;
use crate::push::providers::push::short_key;
use crate::push::providers::{Outcome, Push, Urgency};
use crate::settings::Secret;

/// The maximum size of a message, in bytes. FCM counts less of it than this transport does.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The longest time that FCM keeps a message: 28 days.
const MAX_TTL: Duration = Duration::from_secs(2_419_200);

/// The maximum length of `apns-collapse-id`.
const MAX_COLLAPSE_ID: usize = 64;

#[derive(Serialize)]
struct FcmRequest<'a> {
    message: FcmMessage<'a>,
}

#[derive(Serialize)]
struct FcmMessage<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<FcmNotification<'a>>,
    data: &'a BTreeMap<&'a str, String>,
    android: Android<'a>,
    apns: FcmApns<'a>,
}

#[derive(Serialize)]
struct FcmNotification<'a> {
    title: &'a str,
    body: &'a str,
}

#[derive(Serialize)]
struct Android<'a> {
    priority: &'static str,
    ttl: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    collapse_key: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<AndroidNotification<'a>>,
}

#[derive(Serialize)]
struct AndroidNotification<'a> {
    /// Replaces a shown notification with the same tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification_count: Option<u32>,
}

/// For iOS apps that use FCM.
#[derive(Serialize)]
struct FcmApns<'a> {
    headers: BTreeMap<&'static str, String>,
    payload: FcmApnsPayload<'a>,
}

#[derive(Serialize)]
struct FcmApnsPayload<'a> {
    aps: FcmAps<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FcmAps<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    badge: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sound: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_available: Option<u8>,
}

/// Encodes a message.
pub(super) fn encode(push: &Push, token: &Secret, now: Millis) -> Result<String, Outcome> {
    let ttl = push.ttl(now, MAX_TTL).ok_or_else(|| Outcome::rejected("expired"))?;
    let fields = push.fields();
    if let Some(name) = fields.keys().find(|name| is_reserved(name)) {
        return Err(Outcome::rejected("reserved_key").with_detail(name, &[]));
    }
    let render = |title: &str, body: &str| {
        let message = message(push, token.reveal(), FcmNotification { title, body }, &fields, ttl, now);
        serde_json::to_string(&FcmRequest { message })
    };
    // The token is not part of the payload, whatever its length.
    let size = |json: &Result<String, _>| match json {
        Ok(json) => json.len() - token.reveal().len(),
        Err(_) => usize::MAX,
    };
    let fitted = push.fit(MAX_MESSAGE_BYTES, render, size).ok_or_else(|| Outcome::rejected("too_large"))?;
    fitted.map_err(|_: serde_json::Error| Outcome::rejected("encoding"))
}

fn message<'a>(
    push: &'a Push,
    token: &'a str,
    notification: FcmNotification<'a>,
    data: &'a BTreeMap<&'a str, String>,
    ttl: Duration,
    now: Millis,
) -> FcmMessage<'a> {
    let visible = push.kind.is_visible();
    // FCM keeps messages with at most four collapse keys for a device that is offline, and drops others. Alerts get
    // none: a hundred of them are kept, and the tag replaces what is shown.
    let android = Android {
        priority: if visible && push.urgency == Urgency::High { "HIGH" } else { "NORMAL" },
        ttl: format!("{}s", ttl.as_secs()),
        collapse_key: (!visible).then_some("clear"),
        notification: visible
            .then_some(AndroidNotification { tag: push.collapse_key.as_deref(), notification_count: push.badge }),
    };
    let aps = FcmAps {
        badge: push.badge,
        thread_id: push.thread.as_deref().filter(|_| visible),
        sound: visible.then_some("default"),
        content_available: (!visible).then_some(1),
    };
    FcmMessage {
        token,
        notification: visible.then_some(notification),
        data,
        android,
        apns: FcmApns { headers: apns_headers(push, ttl, now), payload: FcmApnsPayload { aps } },
    }
}

fn apns_headers(push: &Push, ttl: Duration, now: Millis) -> BTreeMap<&'static str, String> {
    let visible = push.kind.is_visible();
    let mut headers = BTreeMap::new();
    headers.insert("apns-push-type", if visible { "alert" } else { "background" }.to_owned());
    headers.insert("apns-priority", if visible && push.urgency == Urgency::High { "10" } else { "5" }.to_owned());
    headers.insert("apns-expiration", (now / 1000 + ttl.as_secs()).to_string());
    if let Some(key) = &push.collapse_key {
        headers.insert("apns-collapse-id", short_key(key, MAX_COLLAPSE_ID));
    }
    headers
}

/// Names of `data` that FCM refuses.
fn is_reserved(name: &str) -> bool {
    matches!(name, "" | "from" | "message_type") || name.starts_with("google") || name.starts_with("gcm")
}
