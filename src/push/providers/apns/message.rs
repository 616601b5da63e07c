//! The headers and the payload of a message.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use crate::model::Millis;
use crate::push::providers::push::short_key;
use crate::push::providers::{Outcome, Push, Urgency};
use crate::settings::Secret;

/// The maximum size of the payload, in bytes.
const MAX_PAYLOAD_BYTES: usize = 4096;

/// The maximum length of `apns-collapse-id`, in bytes.
const MAX_COLLAPSE_ID: usize = 64;

/// The longest time that a message is kept for a device. Apple documents 30 days.
const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// A request without its path.
pub(super) struct ApnsRequest {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

#[derive(Serialize)]
struct ApnsPayload<'a> {
    aps: Aps<'a>,
    feedline: &'a BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Aps<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<ApnsAlert<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    badge: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sound: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_available: Option<u8>,
}

#[derive(Serialize)]
struct ApnsAlert<'a> {
    title: &'a str,
    body: &'a str,
}

/// Encodes a message.
pub(super) fn encode(push: &Push, topic: &str, token: &Secret, now: Millis) -> Result<ApnsRequest, Outcome> {
    let ttl = push.ttl(now, MAX_TTL).ok_or_else(|| Outcome::rejected("expired"))?;
    let fields = push.fields();
    let render = |title: &str, body: &str| {
        let payload = ApnsPayload { aps: aps(push, ApnsAlert { title, body }), feedline: &fields };
        serde_json::to_vec(&payload)
    };
    let size = |json: &Result<Vec<u8>, _>| json.as_ref().map_or(usize::MAX, Vec::len);
    let body = push.fit(MAX_PAYLOAD_BYTES, render, size).ok_or_else(|| Outcome::rejected("too_large"))?;
    let body = body.map_err(|_: serde_json::Error| Outcome::rejected("encoding"))?;
    let headers = headers(push, topic, token, now / 1000 + ttl.as_secs());
    Ok(ApnsRequest { headers: headers.ok_or_else(|| Outcome::rejected("encoding"))?, body })
}

fn aps<'a>(push: &'a Push, alert: ApnsAlert<'a>) -> Aps<'a> {
    let visible = push.kind.is_visible();
    Aps {
        alert: visible.then_some(alert),
        badge: push.badge,
        sound: visible.then_some("default"),
        thread_id: push.thread.as_deref().filter(|_| visible),
        content_available: (!visible).then_some(1),
    }
}

/// `None`: a value contains characters that a header cannot.
fn headers(push: &Push, topic: &str, token: &Secret, expiration: u64) -> Option<HeaderMap> {
    let visible = push.kind.is_visible();
    let priority = match push.urgency {
        // Apple refuses other priorities for background messages.
        _ if !visible => "5",
        Urgency::High => "10",
        Urgency::Normal | Urgency::Low => "5",
        Urgency::VeryLow => "1",
    };
    let mut authorization = HeaderValue::try_from(format!("bearer {}", token.reveal())).ok()?;
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let push_type = if visible { "alert" } else { "background" };
    let mut insert = |name, value: &str| {
        headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).ok()?);
        Some(())
    };
    insert("apns-topic", topic)?;
    insert("apns-push-type", push_type)?;
    insert("apns-id", &push.id.to_string())?;
    insert("apns-expiration", &expiration.to_string())?;
    insert("apns-priority", priority)?;
    if let Some(key) = &push.collapse_key {
        insert("apns-collapse-id", &short_key(key, MAX_COLLAPSE_ID))?;
    }
    Some(headers)
}
