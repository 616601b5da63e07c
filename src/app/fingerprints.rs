//! Digests of the keys that all nodes must have, for the comparison of nodes.

use std::collections::BTreeMap;

use jsonwebtoken::crypto::sign;
use jsonwebtoken::{Algorithm, EncodingKey};

use crate::config::{Config, Secret, Secrets};
use crate::feed::FINGERPRINTS;

/// The characters of a digest that are kept, of 6 bits each: enough to notice a difference, too few to find a key.
const LENGTH: usize = 6;

/// The digests, keyed by the id of the ledger: those of two deployments with the same keys differ.
pub(super) fn fingerprints(config: &Config, secrets: &Secrets, ledger_id: &str) -> BTreeMap<String, String> {
    let auth = &config.auth;
    let secret = |secret: &Option<Secret>| secret.as_ref().map_or_else(String::new, |it| it.reveal().to_owned());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut token_keys = vec![
        secret(&secrets.hmac_secret),
        text(&auth.rsa_public_key),
        text(&auth.ecdsa_public_key),
        secret(&auth.subscription_hmac_secret),
        text(&auth.subscription_rsa_public_key),
        text(&auth.subscription_ecdsa_public_key),
        text(&auth.jwks_url),
    ];
    token_keys.extend(auth.issuers.iter().flat_map(|issuer| [issuer.name.clone(), issuer.jwks_url.clone()]));
    let mut api_keys: Vec<String> = secrets.api_keys.iter().map(|key| key.reveal().to_owned()).collect();
    api_keys.sort_unstable();
    let keys = [token_keys, vec![secret(&secrets.session_key)], api_keys, vec![secret(&auth.hmac_secret_previous)]];
    let digests = keys.iter().zip(FINGERPRINTS).map(|(keys, kind)| (kind.to_owned(), digest(ledger_id, kind, keys)));
    digests.collect()
}

fn digest(ledger_id: &str, kind: &str, keys: &[String]) -> String {
    // The length of each keeps lists apart.
    let text = keys.iter().fold(kind.to_owned(), |text, key| format!("{text}\n{} {key}", key.len()));
    let signed = sign(text.as_bytes(), &EncodingKey::from_secret(ledger_id.as_bytes()), Algorithm::HS256);
    signed.unwrap_or_default().chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HMAC: &str = "a secret that is long enough for HS256 tokens";

    fn of(env: &[(&str, &str)], ledger_id: &str) -> BTreeMap<String, String> {
        let all = [("AUTH__HMAC_SECRET", HMAC), ("AUTH__API_KEYS", "one-key-of-a-backend,another-key")];
        let env = all.iter().chain(env).map(|(name, value)| (format!("FEEDLINE__{name}"), (*value).to_owned()));
        let config = Config::parse("", env.collect::<BTreeMap<_, _>>().into_iter()).unwrap();
        let secrets = Secrets::load(&config).unwrap();
        fingerprints(&config, &secrets, ledger_id)
    }

    #[test]
    fn each_kind_of_key_has_its_digest() {
        let own = of(&[], "ledger");
        assert_eq!(own, of(&[("AUTH__API_KEYS", "another-key,one-key-of-a-backend")], "ledger"), "in any order");
        let differing = |env: &[(&str, &str)]| {
            let other = of(env, "ledger");
            FINGERPRINTS.into_iter().filter(|kind| own.get(*kind) != other.get(*kind)).collect::<Vec<_>>()
        };
        assert_eq!(differing(&[("AUTH__API_KEYS", "one-key-of-a-backend")]), ["api_keys"]);
        let other = "another secret that is long enough for tokens";
        assert_eq!(differing(&[("AUTH__HMAC_SECRET", other)]), ["token_keys"]);
        assert_eq!(differing(&[("AUTH__HMAC_SECRET_PREVIOUS", other)]), ["key_versions"]);
        let session = [("ACCOUNTS__ENABLED", "true"), ("AUTH__SESSION_KEY", other)];
        assert_eq!(differing(&session), ["session_keys"]);
        assert!(of(&[], "other").iter().all(|(kind, digest)| own[kind] != *digest && digest.len() == LENGTH));
    }
}
