//! Voluntary application server identification (RFC 8292): one signed token for each push service.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, Header};
use parking_lot::Mutex;
use serde::Serialize;

use crate::model::Millis;
use crate::push::providers::ProviderError;
use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::settings::WebPushSettings;
use crate::push::providers::signing::SigningKey;
use crate::settings::Secret;

/// The lifetime of a token. The maximum is 24 hours, and clocks differ.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The age at which a token is replaced.
const MAX_AGE: Duration = Duration::from_secs(11 * 3600);

/// The maximum number of push services whose tokens are kept.
const MAX_CACHED: usize = 4096;

/// Signs the identity of this server.
pub(super) struct Vapid {
    key: SigningKey,
    public_key: String,
    subject: String,
    cached: Mutex<HashMap<String, Cached>>,
}

struct Cached {
    authorization: Arc<Secret>,
    issued_at: Millis,
}

#[derive(Serialize)]
struct VapidClaims<'a> {
    aud: &'a str,
    exp: u64,
    sub: &'a str,
}

impl Vapid {
    pub(super) fn new(settings: &WebPushSettings) -> Result<Self, ProviderError> {
        if !is_subject(&settings.subject) {
            let problem = "must be `mailto:` with an address, or an `https:` URL; Apple refuses other forms";
            return Err(ProviderError::new("push.vapid_subject", problem));
        }
        let invalid = |problem| ProviderError::new("push.vapid_private_key", problem);
        let key = SigningKey::parse(settings.private_key.reveal()).map_err(invalid)?;
        let public_key = key.public_base64();
        let subject = settings.subject.clone();
        let vapid = Self { key, public_key, subject, cached: Mutex::default() };
        vapid.sign("https://push.example.net", 0).map_err(invalid)?;
        Ok(vapid)
    }

    /// The `Authorization` header for the push service with an origin.
    pub(super) fn authorization(&self, origin: &str, now: Millis) -> Result<Arc<Secret>, String> {
        let mut cached = self.cached.lock();
        if let Some(entry) = cached.get(origin).filter(|entry| entry.is_fresh(now)) {
            return Ok(Arc::clone(&entry.authorization));
        }
        if cached.len() >= MAX_CACHED && !cached.contains_key(origin) {
            cached.retain(|_, entry| entry.is_fresh(now));
            if cached.len() >= MAX_CACHED {
                // Signing again is cheap compared with a request.
                cached.clear();
            }
        }
        let authorization = Arc::new(self.sign(origin, now)?);
        let entry = Cached { authorization: Arc::clone(&authorization), issued_at: now };
        cached.insert(origin.to_owned(), entry);
        Ok(authorization)
    }

    fn sign(&self, origin: &str, now: Millis) -> Result<Secret, String> {
        let exp = now / 1000 + LIFETIME.as_secs();
        let claims = VapidClaims { aud: origin, exp, sub: &self.subject };
        let token = self.key.sign(&Header::new(Algorithm::ES256), &claims)?;
        Ok(Secret::new(format!("vapid t={}, k={}", token.reveal(), self.public_key)))
    }
}

impl Cached {
    fn is_fresh(&self, now: Millis) -> bool {
        // After a clock that went back, the token may expire too late.
        self.issued_at <= now && now - self.issued_at < MAX_AGE.as_millis() as Millis
    }
}

fn is_subject(subject: &str) -> bool {
    if subject.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>')) {
        return false;
    }
    match subject.strip_prefix("mailto:") {
        Some(address) => address.split_once('@').is_some_and(|(user, domain)| !user.is_empty() && domain.contains('.')),
        None => EndpointUrl::parse(subject).is_ok_and(|url| url.is_https() && url.host() != "localhost"),
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation, decode};

    use super::*;

    fn vapid(subject: &str) -> Result<Vapid, ProviderError> {
        Vapid::new(&WebPushSettings {
            private_key: Secret::new("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw".into()),
            subject: subject.into(),
            max_body: 4096,
            concurrency: 1,
        })
    }

    /// RFC 8292, section 2.4: the token and the key of the example, verified as this server's are.
    #[test]
    fn the_example_of_rfc_8292_verifies() {
        let token = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1\
            MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb\
            1JrErtmysazNjjvW2L9OkSSHzvoD1oA";
        let key = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs";
        let claims = verify(token, key, "https://push.example.net");
        assert_eq!(claims["sub"], "mailto:push@example.com");
        assert_eq!(claims["exp"], 1_453_523_768);
    }

    fn verify(token: &str, key: &str, origin: &str) -> serde_json::Value {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(key).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[origin]);
        validation.validate_exp = false;
        decode(token, &DecodingKey::from_ec_der(&key), &validation).unwrap().claims
    }

    #[test]
    fn one_token_for_each_origin_lives_less_than_24_hours() {
        let vapid = vapid("mailto:push@example.com").unwrap();
        let start = 1_700_000_000_000;
        let hour = 3_600_000;
        let first = vapid.authorization("https://a.example", start).unwrap();
        let (token, key) = first.reveal().strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let claims = verify(token, key, "https://a.example");
        assert_eq!(claims["sub"], "mailto:push@example.com");
        assert_eq!(claims["exp"], start / 1000 + 12 * 3600);
        assert_eq!(key, vapid.public_key);

        let same = |origin, at| Arc::ptr_eq(&vapid.authorization(origin, at).unwrap(), &first);
        assert!(same("https://a.example", start + 10 * hour));
        assert!(!same("https://b.example", start));
        assert!(!same("https://a.example", start + 11 * hour));
    }

    #[test]
    fn the_number_of_cached_tokens_is_bounded() {
        let vapid = vapid("mailto:push@example.com").unwrap();
        for origin in 0..MAX_CACHED + 10 {
            vapid.authorization(&format!("https://{origin}.example"), 0).unwrap();
        }
        assert!(vapid.cached.lock().len() <= MAX_CACHED);
    }

    #[test]
    fn subjects_that_apple_refuses_are_refused() {
        for subject in ["mailto:ops@example.com", "https://example.com/contact"] {
            assert!(vapid(subject).is_ok(), "{subject}");
        }
        let wrong =
            ["", "ops@example.com", "mailto:", "mailto:ops", "mailto: ops@example.com", "mailto:<ops@example.com>"];
        for subject in wrong.into_iter().chain(["http://example.com", "https://localhost", "mailto:ops@localhost"]) {
            assert!(vapid(subject).is_err(), "{subject}");
        }
    }
}
