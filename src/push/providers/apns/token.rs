//! The provider token: a JWT that identifies the team. Apple refuses tokens older than an hour, and teams that change
//! theirs more than once in 20 minutes.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, Header};
use parking_lot::Mutex;
use serde::Serialize;

use crate::config::Secret;
use crate::model::Millis;
use crate::push::providers::ProviderError;
use crate::push::providers::settings::ApnsSettings;
use crate::push::providers::signing::SigningKey;

/// The age at which a token is replaced.
const MAX_AGE: Duration = Duration::from_secs(50 * 60);

/// The age below which a token is not replaced, even if Apple calls it expired: the clock is wrong then.
const MIN_AGE: Duration = Duration::from_secs(20 * 60);

/// Provides tokens.
pub(super) struct ProviderTokens {
    key: SigningKey,
    key_id: String,
    team_id: String,
    cached: Mutex<Option<ProviderToken>>,
}

/// A signed token.
#[derive(Clone, Debug)]
pub(super) struct ProviderToken {
    pub(super) value: Arc<Secret>,
    issued_at: Millis,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    /// Unix seconds.
    iat: u64,
}

impl ProviderTokens {
    /// Checks the key and the ids.
    pub(super) fn new(settings: &ApnsSettings) -> Result<Self, ProviderError> {
        for (place, id) in [("push.apns_key_id", &settings.key_id), ("push.apns_team_id", &settings.team_id)] {
            if id.len() != 10 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(ProviderError::new(place, "must have 10 letters and digits"));
            }
        }
        let key = SigningKey::parse(settings.key.reveal());
        let key = key.map_err(|problem| ProviderError::new("push.apns_key", problem))?;
        let (key_id, team_id) = (settings.key_id.clone(), settings.team_id.clone());
        let tokens = Self { key, key_id, team_id, cached: Mutex::default() };
        tokens.sign(0).map_err(|problem| ProviderError::new("push.apns_key", problem))?;
        Ok(tokens)
    }

    /// The token for requests at `now`.
    pub(super) fn current(&self, now: Millis) -> Result<ProviderToken, String> {
        let mut cached = self.cached.lock();
        if let Some(token) = cached.as_ref().filter(|token| token.age(now) < MAX_AGE) {
            return Ok(token.clone());
        }
        let token = self.sign(now)?;
        *cached = Some(token.clone());
        Ok(token)
    }

    /// Apple calls a token expired. Returns whether another one is used from now on.
    pub(super) fn replace(&self, expired: &ProviderToken, now: Millis) -> bool {
        let mut cached = self.cached.lock();
        match cached.as_ref() {
            Some(token) if Arc::ptr_eq(&token.value, &expired.value) => {
                let replaceable = token.age(now) >= MIN_AGE;
                if replaceable {
                    *cached = None;
                }
                replaceable
            }
            // Another request was faster.
            _ => true,
        }
    }

    fn sign(&self, now: Millis) -> Result<ProviderToken, String> {
        let header = Header { typ: None, kid: Some(self.key_id.clone()), ..Header::new(Algorithm::ES256) };
        let value = self.key.sign(&header, &Claims { iss: &self.team_id, iat: now / 1000 })?;
        Ok(ProviderToken { value: Arc::new(value), issued_at: now })
    }
}

impl ProviderToken {
    fn age(&self, now: Millis) -> Duration {
        Duration::from_millis(now.saturating_sub(self.issued_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::providers::ApnsEnvironment;
    use crate::push::providers::endpoint::EndpointUrl;

    const MINUTE: Millis = 60_000;

    fn settings() -> ApnsSettings {
        let url = EndpointUrl::parse("https://api.push.apple.com").unwrap();
        ApnsSettings {
            // The key of the example in RFC 8291.
            key: Secret::new("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw".into()),
            key_id: "ABC123DEFG".into(),
            team_id: "DEF123GHIJ".into(),
            topic: "com.example.app".into(),
            environment: ApnsEnvironment::Production,
            production_url: url.clone(),
            sandbox_url: url,
            connections: 1,
            concurrency: 1,
        }
    }

    #[test]
    fn a_token_is_reused_for_50_minutes() {
        let tokens = ProviderTokens::new(&settings()).unwrap();
        let start = 1_700_000_000_000;
        let first = tokens.current(start).unwrap();
        for minutes in [0, 1, 20, 49] {
            let again = tokens.current(start + minutes * MINUTE).unwrap();
            assert!(Arc::ptr_eq(&again.value, &first.value), "replaced after {minutes} minutes");
        }
        let second = tokens.current(start + 50 * MINUTE).unwrap();
        assert!(!Arc::ptr_eq(&second.value, &first.value), "60 minutes are the limit");
    }

    #[test]
    fn an_expired_token_is_replaced_at_most_every_20_minutes() {
        let tokens = ProviderTokens::new(&settings()).unwrap();
        let start = 1_700_000_000_000;
        let first = tokens.current(start).unwrap();
        assert!(!tokens.replace(&first, start + 19 * MINUTE));
        assert!(tokens.replace(&first, start + 20 * MINUTE));
        let second = tokens.current(start + 20 * MINUTE).unwrap();
        assert!(!Arc::ptr_eq(&second.value, &first.value));
        assert!(tokens.replace(&first, start + 21 * MINUTE), "another request replaced it already");
        assert!(Arc::ptr_eq(&tokens.current(start + 21 * MINUTE).unwrap().value, &second.value));
    }

    #[test]
    fn impossible_settings_are_refused_without_the_key() {
        let place = |settings: &ApnsSettings| ProviderTokens::new(settings).err().unwrap().to_string();
        assert!(place(&ApnsSettings { key_id: "short".into(), ..settings() }).starts_with("push.apns_key_id"));
        let wrong = place(&ApnsSettings { key: Secret::new("not-a-key".into()), ..settings() });
        assert!(wrong.starts_with("push.apns_key") && !wrong.contains("not-a-key"), "{wrong}");
    }
}
