//! The inputs and outputs of the operations on devices, and their rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time_zones::zone;
use crate::feed::error::{FeedError, Result};
use crate::model::{ApnsEnvironment, Device, DeviceId, Millis, Platform, PushPreferences, PushTarget, WebPushKeys};

/// The longest token of FCM, in bytes.
const MAX_TOKEN: usize = 1_024;

/// The longest locale, topic and version of an app, in bytes.
const MAX_LOCALE: usize = 35;
const MAX_TOPIC: usize = 255;
const MAX_VERSION: usize = 64;

/// A device that receives pushes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceRegistration")]
pub(crate) struct RegisterDevice {
    /// Its id, chosen by the app. Registering it again updates it.
    id: DeviceId,
    /// The service that delivers its pushes.
    platform: Platform,
    /// For `fcm` and `apns`: the token of the device.
    #[serde(default)]
    token: Option<String>,
    /// For `apns`: the service that knows the token; absent: both are tried.
    #[serde(default)]
    environment: Option<ApnsEnvironment>,
    /// For `apns`: the bundle id of the app; absent: that of the server's configuration.
    #[serde(default)]
    topic: Option<String>,
    /// For `webpush`, `unifiedpush` and `webhook`: the URL, `https`.
    #[serde(default)]
    endpoint: Option<String>,
    /// For `webpush` and `unifiedpush`: the public key of the subscription, base64url.
    #[serde(default)]
    p256dh: Option<String>,
    /// For `webpush` and `unifiedpush`: the secret of the subscription, base64url.
    #[serde(default)]
    auth: Option<String>,
    /// The language of its texts, as in BCP 47 (`zh-CN`) or as systems write it (`zh_TW`). Others are ignored.
    #[serde(default)]
    locale: Option<String>,
    /// Its time zone, by its IANA name (`Europe/Berlin`) or its offset (`GMT+02:00`). Others are ignored.
    #[serde(default)]
    time_zone: Option<String>,
    /// The version of the app. Its first 64 bytes are kept.
    #[serde(default)]
    app_version: Option<String>,
}

/// A device.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneDevice {
    /// Its id.
    pub(super) id: DeviceId,
}

/// A device that receives pushes. Its address is a secret and not shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub(crate) struct DeviceView {
    /// Its id.
    id: DeviceId,
    /// The service that delivers its pushes.
    platform: Platform,
    /// The language of its texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<String>,
    /// Its time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// The version of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    app_version: Option<String>,
    /// When it was registered first, in Unix milliseconds.
    registered_at: Millis,
    /// When it was registered last, in Unix milliseconds.
    seen_at: Millis,
}

impl From<Device> for DeviceView {
    fn from(device: Device) -> Self {
        Self {
            platform: device.target.platform(),
            id: device.id,
            locale: device.locale,
            time_zone: device.time_zone,
            app_version: device.app_version,
            registered_at: device.registered_at,
            seen_at: device.seen_at,
        }
    }
}

/// The caller's devices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceList {
    /// All of them, 20 at most.
    pub(super) items: Vec<DeviceView>,
}

impl RegisterDevice {
    pub(super) fn platform(&self) -> Platform {
        self.platform
    }

    /// The device, if its members obey the rules. Endpoints and keys are for
    /// [`TargetValidator`](super::TargetValidator).
    pub(super) fn checked(self, now: Millis) -> Result<Device> {
        self.refuse_others()?;
        let target = match self.platform {
            Platform::Fcm => PushTarget::Fcm { token: token(self.token)? },
            Platform::Apns => PushTarget::Apns {
                token: apns_token(self.token)?,
                environment: self.environment,
                topic: self.topic.map(topic).transpose()?,
            },
            Platform::Webpush => PushTarget::Webpush(keys(self.endpoint, self.p256dh, self.auth)?),
            Platform::Unifiedpush => PushTarget::Unifiedpush(keys(self.endpoint, self.p256dh, self.auth)?),
            Platform::Webhook => PushTarget::Webhook { endpoint: required("endpoint", self.endpoint)? },
        };
        Ok(Device {
            id: self.id,
            target,
            locale: self.locale.and_then(|locale| language_tag(&locale)),
            time_zone: self.time_zone.filter(|name| zone(name).is_some()),
            app_version: self.app_version.and_then(|version| app_version(&version)),
            registered_at: now,
            seen_at: now,
        })
    }

    /// Refuses members of other platforms.
    fn refuse_others(&self) -> Result<()> {
        let (is_apns, has_token) =
            (self.platform == Platform::Apns, matches!(self.platform, Platform::Fcm | Platform::Apns));
        let has_keys = matches!(self.platform, Platform::Webpush | Platform::Unifiedpush);
        let members = [
            ("token", self.token.is_some(), has_token),
            ("environment", self.environment.is_some(), is_apns),
            ("topic", self.topic.is_some(), is_apns),
            ("endpoint", self.endpoint.is_some(), !has_token),
            ("p256dh", self.p256dh.is_some(), has_keys),
            ("auth", self.auth.is_some(), has_keys),
        ];
        match members.into_iter().find(|(_, is_given, is_allowed)| *is_given && !is_allowed) {
            Some((field, ..)) => Err(FeedError::invalid(field, "devices of this platform have no such member")),
            None => Ok(()),
        }
    }
}

/// The kinds of the application that a user decides about.
const MAX_APP_KINDS: usize = 100;

/// The rules of preferences that their type does not express.
pub(super) fn check_preferences(preferences: &PushPreferences) -> Result<()> {
    if !(1..=PushPreferences::MAX_DAILY_CAP).contains(&preferences.daily_cap) {
        return Err(FeedError::invalid("daily_cap", "a daily cap is 1 to 1,000"));
    }
    if preferences.kinds.app.len() > MAX_APP_KINDS {
        let what = "kinds of the application";
        return Err(FeedError::LimitExceeded { field: "kinds", what, most: MAX_APP_KINDS as u64 });
    }
    let Some(quiet) = &preferences.quiet_hours else { return Ok(()) };
    if quiet.from == quiet.to {
        return Err(FeedError::invalid("quiet_hours", "quiet hours that end when they begin"));
    }
    match &quiet.time_zone {
        Some(name) if zone(name).is_none() => {
            Err(FeedError::invalid("quiet_hours", "not a time zone of the IANA database"))
        }
        _ => Ok(()),
    }
}

fn required(field: &'static str, value: Option<String>) -> Result<String> {
    value.ok_or_else(|| FeedError::invalid(field, "devices of this platform need it"))
}

fn token(token: Option<String>) -> Result<String> {
    let token = required("token", token)?;
    let plain = (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if plain { Ok(token) } else { Err(FeedError::invalid("token", "a token has 1 to 1,024 visible ASCII characters")) }
}

fn apns_token(token: Option<String>) -> Result<String> {
    let token = required("token", token)?;
    let fits = (32..=512).contains(&token.len()) && token.len().is_multiple_of(2);
    if fits && token.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(token.to_ascii_lowercase())
    } else {
        Err(FeedError::invalid("token", "a token of APNs has 32 to 512 hexadecimal digits"))
    }
}

fn topic(topic: String) -> Result<String> {
    let plain = topic.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if plain && (1..=MAX_TOPIC).contains(&topic.len()) {
        Ok(topic)
    } else {
        Err(FeedError::invalid("topic", "a topic is the bundle id of an app"))
    }
}

fn keys(endpoint: Option<String>, p256dh: Option<String>, auth: Option<String>) -> Result<WebPushKeys> {
    // Browsers encode keys without padding, some libraries with it.
    let key = |field, key| required(field, key).map(|key| key.trim_end_matches('=').to_owned());
    let endpoint = required("endpoint", endpoint)?;
    Ok(WebPushKeys { endpoint, p256dh: key("p256dh", p256dh)?, auth: key("auth", auth)? })
}

/// A locale as a tag of BCP 47, or its beginning if the rest is none; `None`: it is no locale. Systems write `zh_TW`,
/// `de_DE.UTF-8@euro`, `en_US@calendar=buddhist`, `zh_TW_#Hant`, and tags with any number of extensions.
fn language_tag(locale: &str) -> Option<String> {
    let locale = locale.trim().split(['.', '@', ';', ',']).next()?;
    let mut tag = String::new();
    for part in locale.split(['-', '_']) {
        let is_part = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_language = part.len() >= 2 && part.bytes().all(|b| b.is_ascii_alphabetic());
        let begins = tag.is_empty();
        if !is_part || (begins && !is_language) || tag.len() + part.len() >= MAX_LOCALE {
            break;
        }
        if !begins {
            tag.push('-');
        }
        tag.push_str(part);
    }
    (!tag.is_empty()).then_some(tag)
}

/// The version of an app, shortened; `None`: nothing of it can be shown.
fn app_version(version: &str) -> Option<String> {
    let mut kept = String::new();
    for c in version.trim().chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > MAX_VERSION {
            break;
        }
        kept.push(c);
    }
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn field_at_fault(input: Value) -> Option<String> {
        let device: RegisterDevice = serde_json::from_value(input).expect("an input");
        device.checked(7).err().map(|error| error.field().unwrap_or_default().to_owned())
    }

    fn with(mut base: Value, more: Value) -> Value {
        let (Value::Object(members), Value::Object(more)) = (&mut base, more) else { panic!("two objects") };
        members.extend(more);
        base
    }

    #[test]
    fn each_platform_has_its_members() {
        let keys = json!({ "id": "d", "p256dh": "AAAA", "auth": "AAAA==" });
        let url = "https://push.example/send/1?k=2";
        let fcm = json!({ "id": "d", "platform": "fcm", "token": "a:b_c-1" });
        let apns = json!({ "id": "d", "platform": "apns", "token": "AB".repeat(32), "topic": "com.example.app" });
        let webpush = with(keys.clone(), json!({ "platform": "webpush", "endpoint": url }));
        let unified = with(keys, json!({ "platform": "unifiedpush", "endpoint": url }));
        let webhook = json!({ "id": "d", "platform": "webhook", "endpoint": url });
        for right in [&fcm, &apns, &webpush, &unified, &webhook] {
            assert_eq!(field_at_fault(right.clone()), None, "{right}");
        }
        for (wrong, field) in [
            (with(fcm.clone(), json!({ "token": null })), "token"),
            (with(fcm.clone(), json!({ "token": "a b" })), "token"),
            (with(fcm.clone(), json!({ "endpoint": url })), "endpoint"),
            (with(fcm, json!({ "topic": "x" })), "topic"),
            (with(apns.clone(), json!({ "token": "AB".repeat(15) })), "token"),
            (with(apns, json!({ "topic": "a/b" })), "topic"),
            (with(webpush.clone(), json!({ "p256dh": null })), "p256dh"),
            (with(webpush, json!({ "auth": null })), "auth"),
            (with(unified, json!({ "endpoint": null })), "endpoint"),
            (with(webhook.clone(), json!({ "endpoint": null })), "endpoint"),
            (with(webhook, json!({ "auth": "x" })), "auth"),
        ] {
            assert_eq!(field_at_fault(wrong.clone()).as_deref(), Some(field), "{wrong}");
        }
    }

    #[test]
    fn what_a_device_says_of_itself_never_costs_the_registration() {
        let device = |member: &str, value: &str| {
            let input = json!({ "id": "d", "platform": "fcm", "token": "t", member: value });
            let device: RegisterDevice = serde_json::from_value(input).expect("an input");
            device.checked(7).expect("a device")
        };
        let long = "en-US-u-ca-buddhist-nu-thai-hc-h23-co-phonebk";
        for (given, kept) in [
            ("zh-CN", Some("zh-CN")),
            ("zh_TW", Some("zh-TW")),
            ("zh-Hant_TW", Some("zh-Hant-TW")),
            ("zh_TW_#Hant", Some("zh-TW")),
            (" pt_BR ", Some("pt-BR")),
            ("de_DE.UTF-8@euro", Some("de-DE")),
            ("en_US@calendar=gregorian;hours=h23;x", Some("en-US")),
            ("ar-EG-u-nu-latn", Some("ar-EG-u-nu-latn")),
            (long, Some("en-US-u-ca-buddhist-nu-thai-hc-h23")),
            ("de-DE,de;q=0.9", Some("de-DE")),
            ("", None),
            ("C", None),
            ("*", None),
            ("\u{202e}", None),
        ] {
            assert_eq!(device("locale", given).locale.as_deref(), kept, "{given:?}");
        }
        assert_eq!(device("locale", &"x".repeat(5_000)).locale, None);
        for known in ["Europe/Berlin", "Etc/GMT-2", "GMT+02:00", "UTC+5:30", "+0900", "GMT-3", "utc"] {
            assert_eq!(device("time_zone", known).time_zone.as_deref(), Some(known));
        }
        for unknown in ["", "Mars/Olympus", "GMT+99", "Eastern Standard Time"] {
            assert_eq!(device("time_zone", unknown).time_zone, None, "{unknown:?}");
        }
        let cut = "é".repeat(32);
        for (given, kept) in [
            ("1.0 (23)", Some("1.0 (23)")),
            ("", None),
            ("  \n", None),
            ("1.\u{0}0", Some("1.0")),
            (&"é".repeat(60), Some(cut.as_str())),
        ] {
            assert_eq!(device("app_version", given).app_version.as_deref(), kept, "{given:?}");
        }
    }

    #[test]
    fn preferences_are_checked() {
        let check = |json: Value| {
            let preferences: PushPreferences = serde_json::from_value(json).expect("preferences");
            check_preferences(&preferences).err().and_then(|error| error.field().map(str::to_owned))
        };
        assert_eq!(check(json!({})), None);
        assert_eq!(
            check(json!({ "quiet_hours": { "from": "22:00", "to": "07:00", "time_zone": "Asia/Tokyo" } })),
            None
        );
        assert_eq!(check(json!({ "daily_cap": 0 })).as_deref(), Some("daily_cap"));
        assert_eq!(check(json!({ "daily_cap": 1_001 })).as_deref(), Some("daily_cap"));
        let quiet = |to: &str, zone: &str| json!({ "quiet_hours": { "from": "22:00", "to": to, "time_zone": zone } });
        assert_eq!(check(quiet("22:00", "UTC")).as_deref(), Some("quiet_hours"));
        assert_eq!(check(quiet("07:00", "nowhere")).as_deref(), Some("quiet_hours"));
    }
}
