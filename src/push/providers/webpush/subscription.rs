//! A valid subscription.

use std::fmt;

use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, ParsedPublicKeyFormat, UnparsedPublicKey};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::push::providers::endpoint::{EndpointError, EndpointUrl};

/// The size of an uncompressed point of the curve P-256, in bytes.
pub(super) const POINT_LENGTH: usize = 65;

/// The size of the authentication secret, in bytes.
pub(super) const AUTH_LENGTH: usize = 16;

/// Base64url, with or without padding: browsers omit it, some libraries do not.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The endpoint and the keys of a browser's subscription. `Debug` shows the origin only.
#[derive(Clone, PartialEq, Eq)]
pub struct PushSubscription {
    endpoint: EndpointUrl,
    p256dh: [u8; POINT_LENGTH],
    auth: [u8; AUTH_LENGTH],
}

/// What is wrong with a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSubscription {
    /// The endpoint.
    #[error("`endpoint` {0}")]
    Endpoint(#[from] EndpointError),
    /// The public key.
    #[error("`p256dh` is not a public key of the curve P-256, 65 bytes in base64url")]
    PublicKey,
    /// The authentication secret.
    #[error("`auth` is not 16 bytes in base64url")]
    Auth,
}

impl PushSubscription {
    /// Checks the members of a browser's `PushSubscription`. Whether the endpoint may be contacted is for
    /// [`EndpointPolicy::check`](crate::push::providers::endpoint::EndpointPolicy::check).
    ///
    /// # Errors
    /// If a member is malformed, or the key is not a point of the curve.
    pub fn parse(endpoint: &str, p256dh: &str, auth: &str) -> Result<Self, InvalidSubscription> {
        let endpoint = EndpointUrl::parse(endpoint)?;
        let p256dh = BASE64URL.decode(p256dh).ok().and_then(|key| <[u8; POINT_LENGTH]>::try_from(key).ok());
        let p256dh = p256dh.filter(is_point).ok_or(InvalidSubscription::PublicKey)?;
        let auth = BASE64URL.decode(auth).ok().and_then(|auth| auth.try_into().ok());
        Ok(Self { endpoint, p256dh, auth: auth.ok_or(InvalidSubscription::Auth)? })
    }

    /// Where messages are sent.
    pub fn endpoint(&self) -> &EndpointUrl {
        &self.endpoint
    }

    pub(super) fn p256dh(&self) -> &[u8; POINT_LENGTH] {
        &self.p256dh
    }

    pub(super) fn auth(&self) -> &[u8; AUTH_LENGTH] {
        &self.auth
    }
}

fn is_point(key: &[u8; POINT_LENGTH]) -> bool {
    let parsed = ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P256, key));
    parsed.is_ok_and(|parsed| parsed.alg() == &ECDH_P256 && parsed.format() == ParsedPublicKeyFormat::Uncompressed)
}

impl fmt::Debug for PushSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSubscription").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "https://push.example.net/v1/secret";
    const KEY: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    #[test]
    fn keys_are_checked() {
        assert!(PushSubscription::parse(ENDPOINT, KEY, AUTH).is_ok());
        assert!(PushSubscription::parse(ENDPOINT, &format!("{KEY}="), &format!("{AUTH}==")).is_ok());
        // Off the curve, the point at infinity, compressed, too short, not base64url.
        let off_curve = format!("{}A", &KEY[..KEY.len() - 1]);
        for key in [&off_curve, "AA", &KEY[..44], &KEY[..80], "", "ä", &"A".repeat(87)] {
            assert_eq!(PushSubscription::parse(ENDPOINT, key, AUTH), Err(InvalidSubscription::PublicKey), "{key}");
        }
        for auth in ["", "BTBZMqHH6r4Tts7J_aSI", "BTBZMqHH6r4Tts7J_aSIggAA", "BTBZMqHH6r4Tts7J+aSI//"] {
            assert_eq!(PushSubscription::parse(ENDPOINT, KEY, auth), Err(InvalidSubscription::Auth), "{auth}");
        }
    }

    #[test]
    fn debug_shows_neither_path_nor_keys() {
        let shown = format!("{:?}", PushSubscription::parse(ENDPOINT, KEY, AUTH).unwrap());
        assert_eq!(shown, "PushSubscription { endpoint: https://push.example.net/…, .. }");
    }
}
