//! The provider token: a JWT that identifies the team. Apple refuses tokens older than an hour, and teams that change
//! theirs more than once in 20 minutes.
//!
//! All processes of a team count together. They need no agreement: the time of issue (`iat`) is on a grid of 30
//! minutes, so that every process, also one that was just started and `feedline push test`, has a token with the same
//! claims at the same time, and the team's token changes twice an hour however many processes there are.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, Header};
use parking_lot::Mutex;
use serde::Serialize;

use crate::model::Millis;
use crate::push::providers::ProviderError;
use crate::push::providers::settings::ApnsSettings;
use crate::push::providers::signing::SigningKey;
use crate::settings::Secret;

/// The interval between two tokens.
const INTERVAL: Millis = 30 * 60 * 1000;

/// The age of a token when it is used first: Apple refuses tokens of the future, and clocks differ. With the interval,
/// tokens are 5 to 35 minutes old.
const MIN_AGE: Millis = 5 * 60 * 1000;

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
        let key_id = settings.key_id.clone();
        let team_id = settings.team_id.clone();
        let tokens = Self { key, key_id, team_id, cached: Mutex::default() };
        tokens.sign(0).map_err(|problem| ProviderError::new("push.apns_key", problem))?;
        Ok(tokens)
    }

    /// The token for requests at `now`.
    pub(super) fn current(&self, now: Millis) -> Result<ProviderToken, String> {
        let issued_at = issued_at(now);
        let mut cached = self.cached.lock();
        if let Some(token) = cached.as_ref().filter(|token| token.issued_at == issued_at) {
            return Ok(token.clone());
        }
        let token = self.sign(issued_at)?;
        *cached = Some(token.clone());
        Ok(token)
    }

    fn sign(&self, issued_at: Millis) -> Result<ProviderToken, String> {
        let header = Header { typ: None, kid: Some(self.key_id.clone()), ..Header::new(Algorithm::ES256) };
        let value = self.key.sign(&header, &Claims { iss: &self.team_id, iat: issued_at / 1000 })?;
        Ok(ProviderToken { value: Arc::new(value), issued_at })
    }
}

impl ProviderToken {
    /// Whether another token is to be used at `now`.
    pub(super) fn is_outdated(&self, now: Millis) -> bool {
        self.issued_at != issued_at(now)
    }
}

/// The time of issue of the token for `now`: the same in all processes.
fn issued_at(now: Millis) -> Millis {
    let latest = now.saturating_sub(MIN_AGE);
    latest - latest % INTERVAL
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

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

    fn claims(token: &ProviderToken) -> serde_json::Value {
        let payload = token.value.reveal().split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
    }

    #[test]
    fn processes_have_the_same_claims_at_the_same_time() {
        let one = ProviderTokens::new(&settings()).unwrap();
        let other = ProviderTokens::new(&settings()).unwrap();
        // A time at which the token is new.
        let start = 1_700_000_000_000 / INTERVAL * INTERVAL + MIN_AGE;
        let first = one.current(start).unwrap();
        assert_eq!(claims(&first)["iat"], (start - MIN_AGE) / 1000);
        assert_eq!(claims(&other.current(start + 29 * MINUTE).unwrap()), claims(&first), "a process that starts later");
        assert!(Arc::ptr_eq(&one.current(start + 29 * MINUTE).unwrap().value, &first.value), "it is signed once");
        assert!(!first.is_outdated(start + 29 * MINUTE));
        let second = one.current(start + 30 * MINUTE).unwrap();
        assert!(first.is_outdated(start + 30 * MINUTE) && claims(&second) != claims(&first));
    }

    #[test]
    fn tokens_are_replaced_twice_an_hour_and_always_valid() {
        let tokens = ProviderTokens::new(&settings()).unwrap();
        let start = 1_700_000_000_000;
        let mut issued = Vec::new();
        for minute in 0..600 {
            let now = start + minute * MINUTE;
            let iat = claims(&tokens.current(now).unwrap())["iat"].as_u64().unwrap() * 1000;
            assert!((5 * MINUTE..=35 * MINUTE).contains(&(now - iat)), "{} ms old", now - iat);
            issued.push(iat);
        }
        issued.dedup();
        assert!(issued.len() <= 21 && issued.windows(2).all(|pair| pair[1] - pair[0] == 30 * MINUTE), "{issued:?}");
    }

    #[test]
    fn impossible_settings_are_refused_without_the_key() {
        let place = |settings: &ApnsSettings| ProviderTokens::new(settings).err().unwrap().to_string();
        assert!(place(&ApnsSettings { key_id: "short".into(), ..settings() }).starts_with("push.apns_key_id"));
        let wrong = place(&ApnsSettings { key: Secret::new("not-a-key".into()), ..settings() });
        assert!(wrong.starts_with("push.apns_key") && !wrong.contains("not-a-key"), "{wrong}");
    }
}
