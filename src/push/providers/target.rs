//! The address of a device at its provider.

use super::endpoint::EndpointUrl;
use super::webpush::PushSubscription;
use crate::model::{ApnsEnvironment, Platform};
use crate::settings::Secret;

/// The maximum length of a token of FCM. Tokens have about 160 characters now, and no documented limit.
const MAX_FCM_TOKEN: usize = 1024;

/// The range of lengths of APNs tokens, in hexadecimal digits. Apple documents that the size may vary.
const APNS_TOKEN_CHARS: std::ops::RangeInclusive<usize> = 32..=512;

/// The address of a device. Tokens, keys and the paths of endpoints are credentials: `Debug` does not print them.
#[derive(Clone, Debug)]
pub enum Target {
    /// Firebase Cloud Messaging.
    Fcm {
        /// The registration token.
        token: Secret,
    },
    /// Apple Push Notification service.
    Apns {
        /// The device token in hexadecimal digits.
        token: Secret,
        /// The bundle id; `None`: the configured one.
        topic: Option<String>,
        /// The environment of the token; `None`: the configured one is tried first, then the other.
        environment: Option<ApnsEnvironment>,
    },
    /// A browser.
    WebPush(PushSubscription),
    /// A UnifiedPush distributor.
    UnifiedPush(PushSubscription),
    /// A backend of the application.
    Webhook {
        /// The URL that receives messages.
        url: EndpointUrl,
        /// The secret of the signature; `None`: the configured one.
        secret: Option<Secret>,
    },
}

/// A device token, a topic or a key has an impossible form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTarget(pub(super) &'static str);

impl Target {
    /// A device of FCM.
    ///
    /// # Errors
    /// If the token is empty, too long, or contains anything but printable ASCII.
    pub fn fcm(token: &str) -> Result<Self, InvalidTarget> {
        if token.is_empty() || token.len() > MAX_FCM_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidTarget("is not a registration token of FCM"));
        }
        Ok(Self::Fcm { token: Secret::new(token.to_owned()) })
    }

    /// A device of APNs. The token becomes part of a path, so that nothing but hexadecimal digits is accepted.
    ///
    /// # Errors
    /// If the token or the topic has an impossible form.
    pub fn apns(token: &str, topic: Option<&str>, env: Option<ApnsEnvironment>) -> Result<Self, InvalidTarget> {
        if !APNS_TOKEN_CHARS.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidTarget("is not a device token of APNs in hexadecimal digits"));
        }
        if topic.is_some_and(|topic| !is_topic(topic)) {
            return Err(InvalidTarget("is not a bundle id"));
        }
        let token = Secret::new(token.to_ascii_lowercase());
        Ok(Self::Apns { token, topic: topic.map(str::to_owned), environment: env })
    }

    /// The platform of the device.
    pub fn platform(&self) -> Platform {
        match self {
            Self::Fcm { .. } => Platform::Fcm,
            Self::Apns { .. } => Platform::Apns,
            Self::WebPush(_) => Platform::Webpush,
            Self::UnifiedPush(_) => Platform::Unifiedpush,
            Self::Webhook { .. } => Platform::Webhook,
        }
    }

    /// The token or the URL, which is a credential.
    pub(super) fn address(&self) -> &str {
        match self {
            Self::Fcm { token } | Self::Apns { token, .. } => token.reveal(),
            Self::WebPush(subscription) | Self::UnifiedPush(subscription) => subscription.endpoint().reveal(),
            Self::Webhook { url, .. } => url.reveal(),
        }
    }

    /// The origin of the endpoint. `None`: the provider has a fixed address.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Fcm { .. } | Self::Apns { .. } => None,
            Self::WebPush(subscription) | Self::UnifiedPush(subscription) => Some(subscription.endpoint().origin()),
            Self::Webhook { url, .. } => Some(url.origin()),
        }
    }
}

/// Whether a text can be a bundle id, possibly with a suffix such as `.voip`.
pub(super) fn is_topic(topic: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=255).contains(&topic.len()) && topic.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_could_change_the_path_are_refused() {
        assert!(Target::apns(&"aB".repeat(32), Some("com.example.app"), None).is_ok());
        for token in ["", "../../3/device", &"g".repeat(64), &"a".repeat(31), &format!("{}/x", "a".repeat(64))] {
            assert!(Target::apns(token, None, None).is_err(), "{token}");
        }
        assert!(Target::apns(&"a".repeat(64), Some("com.example\r\nx: y"), None).is_err());
        assert!(Target::fcm("dGVzdA:APA91b_-").is_ok());
        for token in ["", "a b", "a\n", "é"] {
            assert!(Target::fcm(token).is_err(), "{token:?}");
        }
    }

    #[test]
    fn debug_shows_no_token() {
        let shown = format!("{:?}", Target::fcm("very-secret-token").unwrap());
        assert!(!shown.contains("very-secret-token"), "{shown}");
    }
}
