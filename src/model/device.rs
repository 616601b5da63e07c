//! Devices that receive pushes, and what their owners want to receive.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::{Millis, is_app_kind};

/// The id of a device, unique for its user and chosen by the app: 1 to 64 of `A-Z a-z 0-9 _ - .`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(Box<str>);

impl DeviceId {
    /// Parses an id; `None` if the text is not a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        ((1..=64).contains(&text.len()) && plain).then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a device id is 1 to 64 of A-Z a-z 0-9 _ - ."))
    }
}

impl JsonSchema for DeviceId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeviceId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$", "examples": ["phone-1"] })
    }
}

/// The service that delivers the pushes of a device.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Firebase Cloud Messaging: Android, and apps of Firebase on other systems.
    Fcm,
    /// The Apple Push Notification service.
    Apns,
    /// Web Push: browsers.
    Webpush,
    /// UnifiedPush: Web Push by a distributor that the user chooses.
    Unifiedpush,
    /// A server of the application. Only backends register it.
    Webhook,
}

impl Platform {
    /// All platforms.
    pub const ALL: [Self; 5] = [Self::Fcm, Self::Apns, Self::Webpush, Self::Unifiedpush, Self::Webhook];

    /// The name of the platform.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fcm => "fcm",
            Self::Apns => "apns",
            Self::Webpush => "webpush",
            Self::Unifiedpush => "unifiedpush",
            Self::Webhook => "webhook",
        }
    }
}

/// Which of Apple's services knows the token of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApnsEnvironment {
    /// Apps from the store, and from TestFlight.
    Production,
    /// Apps that a developer installed.
    Sandbox,
}

impl ApnsEnvironment {
    /// The other environment.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Production => Self::Sandbox,
            Self::Sandbox => Self::Production,
        }
    }
}

/// The address of a device at its platform. It is a secret: with it, anyone can send to the device.
#[derive(Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(tag = "platform", rename_all = "lowercase")]
pub enum PushTarget {
    /// [`Platform::Fcm`].
    Fcm {
        /// The registration token.
        token: String,
    },
    /// [`Platform::Apns`].
    Apns {
        /// The device token, in hexadecimal.
        token: String,
        /// The service that knows the token; `None`: not known, both are tried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<ApnsEnvironment>,
        /// The app's bundle id; `None`: that of the configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        topic: Option<String>,
    },
    /// [`Platform::Webpush`].
    Webpush(WebPushKeys),
    /// [`Platform::Unifiedpush`].
    Unifiedpush(WebPushKeys),
    /// [`Platform::Webhook`].
    Webhook {
        /// The URL.
        endpoint: String,
    },
}

/// A subscription of Web Push.
#[derive(Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct WebPushKeys {
    /// The URL of the push service.
    pub endpoint: String,
    /// The public key of the receiver, base64url: an uncompressed point of P-256.
    pub p256dh: String,
    /// The authentication secret, base64url: 16 bytes.
    pub auth: String,
}

impl PushTarget {
    /// The platform.
    pub fn platform(&self) -> Platform {
        match self {
            Self::Fcm { .. } => Platform::Fcm,
            Self::Apns { .. } => Platform::Apns,
            Self::Webpush(_) => Platform::Webpush,
            Self::Unifiedpush(_) => Platform::Unifiedpush,
            Self::Webhook { .. } => Platform::Webhook,
        }
    }

    /// The token or the URL: what identifies the device at its platform.
    pub fn address(&self) -> &str {
        match self {
            Self::Fcm { token } | Self::Apns { token, .. } => token,
            Self::Webpush(WebPushKeys { endpoint, .. })
            | Self::Unifiedpush(WebPushKeys { endpoint, .. })
            | Self::Webhook { endpoint } => endpoint,
        }
    }
}

/// Logs show the platform only.
impl fmt::Debug for PushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(…)", self.platform().as_str())
    }
}

impl fmt::Debug for WebPushKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebPushKeys(…)")
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its address.
    pub target: PushTarget,
    /// The language and region of its texts, as in BCP 47.
    pub locale: Option<String>,
    /// The IANA name of its time zone.
    pub time_zone: Option<String>,
    /// The version of the app.
    pub app_version: Option<String>,
    /// When it was registered first, in Unix milliseconds.
    pub registered_at: Millis,
    /// When it was registered last, in Unix milliseconds.
    pub seen_at: Millis,
}

/// A time of the day, to the minute: `22:30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay {
    /// Minutes since midnight.
    pub minutes: u16,
}

impl TimeOfDay {
    /// Parses `hh:mm`; `None` if the text is not a time.
    pub fn parse(text: &str) -> Option<Self> {
        let (hours, minutes) = text.split_once(':')?;
        let digits = |text: &str| (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse());
        let hours: u16 = digits(hours)?.ok()?;
        let minutes: u16 = digits(minutes)?.ok()?;
        (hours < 24 && minutes < 60).then_some(Self { minutes: hours * 60 + minutes })
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:02}:{:02}", self.minutes / 60, self.minutes % 60))
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a time of the day is hh:mm, from 00:00 to 23:59"))
    }
}

impl JsonSchema for TimeOfDay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeOfDay".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "examples": ["22:30"] })
    }
}

/// A part of each day without pushes. What happened in it is pushed at its end.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// Its begin.
    pub from: TimeOfDay,
    /// Its end; before `from`: on the next day.
    pub to: TimeOfDay,
    /// The IANA name of the time zone; absent: that of each device, or UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// The kinds of pushes that a user wants.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(default)]
pub struct PushKinds {
    /// Mentions in posts and comments.
    pub mention: bool,
    /// Replies to the user's comments.
    pub reply: bool,
    /// Comments on the user's posts.
    pub comment: bool,
    /// Likes of the user's posts and comments.
    pub like: bool,
    /// New followers.
    pub follow: bool,
    /// Requests to follow the user.
    pub request: bool,
    /// Requests of the user that were accepted.
    pub accepted: bool,
    /// Reposts of the user's posts.
    pub repost: bool,
    /// Quotes of the user's posts.
    pub quote: bool,
    /// Posts of authors with alerts: see `users.notify`.
    pub post: bool,
    /// What the application notifies of, by kind: `app.` and a name, and `app.*` for kinds that are not named.
    #[serde(flatten)]
    pub app: BTreeMap<AppKind, bool>,
}

/// A kind of notifications of the application, or `app.*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct AppKind(#[schemars(regex(pattern = r"^app\.([a-z0-9_.-]{1,60}|\*)$"))] String);

/// That of all kinds that are not named.
const EVERY_APP_KIND: &str = "app.*";

impl TryFrom<String> for AppKind {
    type Error = String;

    fn try_from(kind: String) -> Result<Self, String> {
        if kind == EVERY_APP_KIND || is_app_kind(&kind) {
            Ok(Self(kind))
        } else {
            Err(format!("unknown field `{kind}`, expected a kind of push"))
        }
    }
}

impl Borrow<str> for AppKind {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Default for PushKinds {
    fn default() -> Self {
        Self {
            mention: true,
            reply: true,
            comment: true,
            like: true,
            follow: true,
            request: true,
            accepted: true,
            repost: true,
            quote: true,
            post: true,
            app: BTreeMap::new(),
        }
    }
}

impl PushKinds {
    /// Whether the user wants a kind, by its public name. Unknown kinds are not wanted.
    pub fn wants(&self, kind: &str) -> bool {
        match kind {
            "mention" => self.mention,
            "reply" => self.reply,
            "comment" => self.comment,
            "like" => self.like,
            "follow" => self.follow,
            "request" => self.request,
            "accepted" => self.accepted,
            "repost" => self.repost,
            "quote" => self.quote,
            "post" => self.post,
            app if app.starts_with("app.") => {
                *self.app.get(app).or_else(|| self.app.get(EVERY_APP_KIND)).unwrap_or(&true)
            }
            _ => false,
        }
    }
}

/// The pushes that a user wants.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PushPreferences {
    /// By kind; all by default.
    pub kinds: PushKinds,
    /// Whether pushes contain neither text nor names.
    pub private: bool,
    /// Without them, pushes are sent at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    /// The maximal number of pushes in 24 hours to each device, 1 to 1,000.
    #[schemars(range(min = 1, max = 1000))]
    pub daily_cap: u32,
}

impl PushPreferences {
    /// The default and the range of [`daily_cap`](Self::daily_cap).
    pub const DAILY_CAP: u32 = 100;
    /// The greatest daily cap.
    pub const MAX_DAILY_CAP: u32 = 1_000;
}

impl Default for PushPreferences {
    fn default() -> Self {
        Self { kinds: PushKinds::default(), private: false, quiet_hours: None, daily_cap: Self::DAILY_CAP }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day_round_trip() {
        for text in ["00:00", "07:05", "23:59"] {
            let time = TimeOfDay::parse(text).expect(text);
            assert_eq!(serde_json::to_string(&time).expect("JSON"), format!("{text:?}"));
        }
        for wrong in ["", "7:05", "24:00", "12:60", "12", "+1:00", "12:5", "aa:bb"] {
            assert!(TimeOfDay::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn absent_preferences_have_their_defaults() {
        let some: PushPreferences = serde_json::from_str(r#"{"kinds":{"like":false}}"#).expect("preferences");
        assert!(!some.kinds.like && some.kinds.mention && some.kinds.post && !some.private);
        assert_eq!((some.daily_cap, some.quiet_hours), (100, None));
        assert!(!some.kinds.wants("like") && some.kinds.wants("reply") && !some.kinds.wants("poke"));
    }

    #[test]
    fn debug_output_hides_addresses() {
        let target = PushTarget::Fcm { token: "secret".into() };
        assert_eq!(format!("{target:?}"), "fcm(…)");
        let stored = serde_json::to_string(&target).expect("JSON");
        assert_eq!(stored, r#"{"platform":"fcm","token":"secret"}"#);
        assert_eq!(serde_json::from_str::<PushTarget>(&stored).expect("a target"), target);
    }
}
