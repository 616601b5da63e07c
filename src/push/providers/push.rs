//! A message for one device.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Target, truncate};
use crate::model::Millis;
use crate::shares::SourceId;

/// A message for one device. Its texts are already in the language of the device; `Debug` does not print them.
#[derive(Clone)]
pub struct Push {
    /// The identity of the message, the same in every attempt. It is APNs' `apns-id` and the id of a webhook delivery,
    /// so that receivers and logs recognise a repetition.
    pub id: Uuid,
    /// The user of the device, who has a share of the requests.
    pub user: SourceId,
    /// The device id, for logs and webhooks. It is not a secret.
    pub device: String,
    /// The address of the device at its provider.
    pub target: Target,
    /// What the message is for.
    pub kind: PushKind,
    /// The title. Empty for [`PushKind::Clear`].
    pub title: String,
    /// The text below the title; shortened if the message is too large.
    pub body: String,
    /// Values for the application. They are never shortened. Each transport adds `id`, `kind`, and if present `thread`
    /// and `badge`. FCM reserves `from`, `message_type` and names that begin with `google` or `gcm`.
    pub data: BTreeMap<String, String>,
    /// Messages with the same key replace each other on the device. Any length: transports hash what they limit.
    pub collapse_key: Option<String>,
    /// Messages with the same thread are shown together.
    pub thread: Option<String>,
    /// When the message is useless. A provider keeps it for a device that is offline no longer than this.
    pub expires_at: Millis,
    /// How important the message is.
    pub urgency: Urgency,
    /// The absolute number of unread notifications.
    pub badge: Option<u32>,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushKind {
    /// Shows a notification.
    Alert,
    /// Silent: withdraws the notifications of the thread and sets the badge, because they were read on another device.
    Clear,
    /// A notification that checks the delivery.
    Test,
}

impl PushKind {
    /// The public name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Clear => "clear",
            Self::Test => "test",
        }
    }

    /// Whether the device shows something.
    pub fn is_visible(self) -> bool {
        !matches!(self, Self::Clear)
    }
}

/// How important a message is (RFC 8030, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Only with power and Wi-Fi.
    VeryLow,
    /// With power or Wi-Fi.
    Low,
    /// Neither power nor Wi-Fi is needed.
    Normal,
    /// Wakes the device.
    High,
}

impl Urgency {
    /// The value of the `Urgency` header of Web Push.
    pub fn name(self) -> &'static str {
        match self {
            Self::VeryLow => "very-low",
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// A key with at most `max` bytes: the key itself, or the beginning of its SHA-256 in base64url.
pub(super) fn short_key(key: &str, max: usize) -> String {
    if key.len() <= max && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return key.to_owned();
    }
    hashed_key(key, max)
}

/// The first `max` characters of the SHA-256 of a key in base64url. There are 43.
pub(super) fn hashed_key(key: &str, max: usize) -> String {
    let mut hash = URL_SAFE_NO_PAD.encode(digest(&SHA256, key.as_bytes()));
    hash.truncate(max);
    hash
}

impl Push {
    /// The values for the application, as text.
    pub(super) fn fields(&self) -> BTreeMap<&str, String> {
        let mut fields: BTreeMap<&str, String> =
            self.data.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        fields.insert("id", self.id.to_string());
        fields.insert("kind", self.kind.name().to_owned());
        fields.extend(self.thread.iter().map(|thread| ("thread", thread.clone())));
        fields.extend(self.badge.iter().map(|badge| ("badge", badge.to_string())));
        fields
    }

    /// Encodes the message so that it fits a limit, in bytes: shortens the body, then the title. `encode` receives
    /// title and body; `size` is what counts of its result. `None`: it does not fit without any text.
    pub(super) fn fit<T>(
        &self,
        limit: usize,
        encode: impl Fn(&str, &str) -> T,
        size: impl Fn(&T) -> usize,
    ) -> Option<T> {
        let whole = encode(&self.title, &self.body);
        if size(&whole) <= limit {
            return Some(whole);
        }
        if let Some(body) = truncate::fit(&self.body, limit, |body| size(&encode(&self.title, body))) {
            return Some(encode(&self.title, &body));
        }
        let title = truncate::fit(&self.title, limit, |title| size(&encode(title, "")))?;
        Some(encode(&title, ""))
    }

    /// The time until the message expires, in whole seconds and at most `max`. `None`: it has expired.
    pub fn ttl(&self, now: Millis, max: Duration) -> Option<Duration> {
        let left = self.expires_at.checked_sub(now).filter(|left| *left > 0)?;
        Some(Duration::from_secs(left.div_ceil(1000)).min(max))
    }
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Push");
        shown.field("id", &self.id).field("device", &self.device).field("target", &self.target);
        shown.field("kind", &self.kind).field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
