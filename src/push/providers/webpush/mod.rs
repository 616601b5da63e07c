//! Web Push and UnifiedPush: the same requests (RFC 8030), encrypted for the receiver (RFC 8291) and signed for the
//! push service (RFC 8292).
//!
//! | file | contents |
//! |---|---|
//! | `subscription.rs` | a valid subscription |
//! | `encryption.rs` | the content encoding `aes128gcm` |
//! | `vapid.rs` | the signed identity of this server |
//! | `errors.rs` | the consequence of a response |

pub mod encryption;
mod errors;
mod subscription;
mod vapid;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

pub use subscription::{InvalidSubscription, PushSubscription};

use super::clock::now;
use super::http::{Connections, HttpClient, HttpOptions};
use super::push::hashed_key;
use super::settings::WebPushSettings;
use super::{Outcome, Provider, ProviderError, Push, PushKind, Reason, Scope, Target};
use crate::model::Platform;
use crate::settings::Secret;
use vapid::Vapid;

/// The longest time that a push service keeps a message: FCM, which serves Chrome, accepts 28 days.
const MAX_TTL: Duration = Duration::from_secs(2_419_200);

/// The length of a topic: the maximum of RFC 8030.
const TOPIC_LENGTH: usize = 32;

/// The largest message of a single record: what every push service has to accept.
const MAX_BODY: usize = 4096;

/// The part of the maximum size that a message has after it was refused as too large.
const SHORTER: usize = 2;

/// The push service of Safari, which ends subscriptions that receive messages without showing a notification.
const VISIBLE_ONLY_SUFFIX: &str = ".push.apple.com";

/// The transport of Web Push and UnifiedPush.
pub struct WebPush {
    http: HttpClient,
    vapid: Vapid,
    max_body: usize,
}

/// What the service worker receives.
#[derive(Serialize)]
struct WebPushPayload<'a> {
    id: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    badge: Option<u32>,
    data: &'a BTreeMap<String, String>,
}

impl WebPush {
    /// Checks the settings.
    ///
    /// # Errors
    /// If the key or the subject is not valid, or the size impossible.
    pub fn new(settings: &WebPushSettings, options: HttpOptions) -> Result<Self, ProviderError> {
        if !(encryption::OVERHEAD + 256..=MAX_BODY).contains(&settings.max_body) {
            return Err(ProviderError::new("push.webpush.max_body", "must be from 359 to 4096 bytes"));
        }
        let vapid = Vapid::new(settings)?;
        Ok(Self { http: HttpClient::new(options, Connections::Many)?, vapid, max_body: settings.max_body })
    }

    /// Encrypts a message for a limit of bytes.
    fn encode(&self, push: &Push, subscription: &PushSubscription, limit: usize) -> Result<Vec<u8>, Outcome> {
        let render = |title: &str, body: &str| {
            serde_json::to_vec(&WebPushPayload {
                id: push.id.to_string(),
                kind: push.kind.name(),
                title,
                body,
                tag: push.collapse_key.as_deref(),
                thread: push.thread.as_deref(),
                badge: push.badge,
                data: &push.data,
            })
        };
        let size = |json: &Result<Vec<u8>, _>| match json {
            Ok(json) => encryption::encrypted_len(json.len()),
            Err(_) => usize::MAX,
        };
        let plaintext = push.fit(limit, render, size).ok_or_else(|| Outcome::rejected("too_large"))?;
        let plaintext = plaintext.map_err(|_: serde_json::Error| Outcome::rejected("encoding"))?;
        encryption::encrypt(&plaintext, subscription).map_err(|_| Outcome::rejected("encryption"))
    }

    /// `None`: a value contains characters that a header cannot.
    fn headers(&self, push: &Push, authorization: &Secret, ttl: Duration) -> Option<HeaderMap> {
        let mut authorization = HeaderValue::try_from(authorization.reveal()).ok()?;
        authorization.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
        headers.insert(HeaderName::from_static("ttl"), HeaderValue::from(ttl.as_secs()));
        headers.insert(HeaderName::from_static("urgency"), HeaderValue::from_static(push.urgency.name()));
        if let Some(key) = &push.collapse_key {
            // Hashed always: the push service can read the topic.
            let topic = HeaderValue::try_from(hashed_key(key, TOPIC_LENGTH)).ok()?;
            headers.insert(HeaderName::from_static("topic"), topic);
        }
        Some(headers)
    }
}

#[async_trait]
impl Provider for WebPush {
    async fn send(&self, push: &Push) -> Outcome {
        let (Target::WebPush(subscription) | Target::UnifiedPush(subscription)) = &push.target else {
            return Outcome::rejected("wrong_platform");
        };
        let endpoint = subscription.endpoint();
        if push.kind == PushKind::Clear
            && push.target.platform() == Platform::Webpush
            && endpoint.host().ends_with(VISIBLE_ONLY_SUFFIX)
        {
            return Outcome::rejected("silent_unsupported");
        }
        let Some(ttl) = push.ttl(now(), MAX_TTL) else { return Outcome::rejected("expired") };
        let authorization = match self.vapid.authorization(endpoint.origin(), now()) {
            Ok(authorization) => authorization,
            Err(detail) => {
                let reason = Reason::with_detail("vapid", &detail, &[]);
                return Outcome::Misconfigured { scope: Scope::Provider, reason };
            }
        };
        let body = match self.encode(push, subscription, self.max_body) {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let Some(headers) = self.headers(push, &authorization, ttl) else { return Outcome::rejected("encoding") };
        let sent = self.http.post(endpoint, headers.clone(), body).await;
        // A service may accept less than is usual: once more, with less text.
        let sent = match sent {
            Ok(response) if response.status == 413 => match self.encode(push, subscription, self.max_body / SHORTER) {
                Ok(body) => self.http.post(endpoint, headers, body).await,
                Err(_) => Ok(response),
            },
            sent => sent,
        };
        match sent {
            Ok(response) => errors::outcome(&response, endpoint),
            Err(error) => error.outcome(Scope::Origin),
        }
    }
}
