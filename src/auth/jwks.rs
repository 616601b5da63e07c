//! Documents with the public keys of an issuer (JWKS, RFC 7517).

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::Value;

use super::verification_key::{TokenAlgorithm, VerificationKey};

/// The maximum number of keys of an issuer.
const MAX_KEYS: usize = 64;

/// The maximum length of the id of a key, in bytes.
pub(super) const MAX_KID_BYTES: usize = 256;

/// The sizes of accepted RSA keys, in bytes: larger ones take long to verify, smaller ones are weak.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// The keys of an issuer, by their id.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: HashMap<String, VerificationKey>,
}

/// A document is not a set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not JSON, or has no member `keys`.
    #[error("it is not a JWKS")]
    Malformed,
    /// It has more keys than are accepted.
    #[error("it has more than {MAX_KEYS} keys")]
    TooMany,
    /// None of its keys verifies tokens.
    #[error("it has no key that verifies tokens")]
    Empty,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses a document. Keys of other types and uses, secrets, weak keys and those without an id are skipped. If an
    /// id occurs twice, the first key has it.
    ///
    /// # Errors
    /// If the document is malformed, too large, or has no usable key.
    pub fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        let Document { keys } = serde_json::from_slice(document).map_err(|_| KeySetError::Malformed)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        let mut set = Self::default();
        for key in keys {
            let Ok(key) = serde_json::from_value::<JsonWebKey>(key) else { continue };
            if let Some((kid, key)) = key.verification_key() {
                set.keys.entry(kid).or_insert(key);
            }
        }
        if set.keys.is_empty() { Err(KeySetError::Empty) } else { Ok(set) }
    }

    pub(super) fn get(&self, kid: &str) -> Option<&VerificationKey> {
        self.keys.get(kid)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl JsonWebKey {
    fn verification_key(self) -> Option<(String, VerificationKey)> {
        let kid = self.kid.as_deref().filter(|kid| !kid.is_empty() && kid.len() <= MAX_KID_BYTES)?.to_owned();
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        // A secret in a public document is none: keys of the type `oct` are not among these.
        let key = match self.kty.as_str() {
            "RSA" => self.rsa()?,
            "EC" => self.ecdsa()?,
            "OKP" if self.crv.as_deref() == Some("Ed25519") => {
                let key = DecodingKey::from_ed_components(self.x.as_deref()?).ok()?;
                VerificationKey::ed25519(key)
            }
            _ => return None,
        };
        match self.alg.as_deref() {
            None => Some((kid, key)),
            Some(alg) => Some((kid, key.only(TokenAlgorithm::parse(alg)?)?)),
        }
    }

    fn rsa(&self) -> Option<VerificationKey> {
        let modulus = self.n.as_deref()?;
        let exponent = self.e.as_deref()?;
        let bytes = URL_SAFE_NO_PAD.decode(modulus).ok()?.into_iter().skip_while(|byte| *byte == 0).count();
        let is_accepted = RSA_BYTES.contains(&bytes);
        is_accepted.then(|| DecodingKey::from_rsa_components(modulus, exponent).ok())?.map(VerificationKey::rsa)
    }

    fn ecdsa(&self) -> Option<VerificationKey> {
        let coordinate = match self.crv.as_deref()? {
            "P-256" => 32,
            "P-384" => 48,
            "P-521" => 66,
            _ => return None,
        };
        let x = self.x.as_deref()?;
        let y = self.y.as_deref()?;
        let has_length = |text: &str| URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == coordinate);
        if !has_length(x) || !has_length(y) {
            return None;
        }
        VerificationKey::ecdsa(DecodingKey::from_ec_components(x, y).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(keys: &Value) -> Result<usize, KeySetError> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).map(|set| set.len())
    }

    #[test]
    fn keys_that_verify_tokens_are_kept_and_others_skipped() {
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "a", "x": URL_SAFE_NO_PAD.encode([7; 32]) });
        let with = |key: &str, value: Value| {
            let mut changed = ed.clone();
            changed[key] = value;
            changed
        };
        assert_eq!(parse(&json!([ed, with("kid", json!("b")), ed])), Ok(2));
        assert_eq!(parse(&json!([with("use", json!("sig"))])), Ok(1));
        assert_eq!(parse(&json!([with("alg", json!("EdDSA"))])), Ok(1));
        let zeroes = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![0; bytes]);
        let modulus = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![9; bytes]);
        let rsa = |bytes: usize| json!({ "kty": "RSA", "kid": "r", "e": "AQAB", "n": modulus(bytes) });
        assert_eq!(parse(&json!([rsa(256)])), Ok(1));
        let skipped = json!([
            with("use", json!("enc")),
            with("alg", json!("HS256")),
            with("alg", json!("RS256")),
            with("crv", json!("X25519")),
            with("kid", json!("")),
            with("kid", json!("x".repeat(257))),
            with("kid", json!(1)),
            with("x", Value::Null),
            rsa(128),
            rsa(2048),
            { "kty": "oct", "kid": "s", "k": "c2VjcmV0" },
            { "kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256" },
            { "kty": "RSA", "kid": "r", "e": "AQAB", "n": zeroes(256) },
            { "kty": "EC", "crv": "P-256", "kid": "e", "x": zeroes(32), "y": zeroes(31) },
            { "kty": "EC", "crv": "secp256k1", "kid": "e", "x": zeroes(32), "y": zeroes(32) },
            { "kty": "new" }, [], 1, null,
        ]);
        for key in skipped.as_array().unwrap() {
            assert_eq!(parse(&json!([key])), Err(KeySetError::Empty), "{key}");
            assert_eq!(parse(&json!([key, with("kid", json!("ok"))])), Ok(1), "{key}");
        }
    }

    #[test]
    fn malformed_and_large_documents_are_refused() {
        for document in ["", "<html>", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":null}"#] {
            assert_eq!(KeySet::parse(document.as_bytes()).unwrap_err(), KeySetError::Malformed, "{document}");
        }
        assert_eq!(parse(&json!(vec![json!({}); MAX_KEYS + 1])), Err(KeySetError::TooMany));
        assert_eq!(parse(&json!([])), Err(KeySetError::Empty));
    }
}
