//! The API keys of backends.

use std::fmt;

use jsonwebtoken::crypto::sign;
use jsonwebtoken::{Algorithm, EncodingKey};
use rand::TryRng as _;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq;

use super::KeyError;
use crate::denials::{Denied, deny};
use crate::settings::Secret;

/// The valid API keys. Stores only their hashes, made with a random key of this process.
pub struct ApiKeys {
    hash_key: EncodingKey,
    hashes: Vec<String>,
}

impl ApiKeys {
    /// Hashes the valid keys.
    ///
    /// # Errors
    ///
    /// If the system cannot provide random bytes, or hashing fails.
    pub fn new(keys: &[Secret]) -> Result<Self, KeyError> {
        let mut random = [0; 32];
        SysRng.try_fill_bytes(&mut random).map_err(|error| KeyError::new("the hash of API keys", &error))?;
        let hash_key = EncodingKey::from_secret(&random);
        let hashes: Result<Vec<String>, _> = keys.iter().map(|key| hash(&hash_key, key.reveal())).collect();
        Ok(Self { hashes: hashes.map_err(|error| KeyError::new("the hash of API keys", &error))?, hash_key })
    }

    /// Whether the presented key is valid. The time does not depend on how much of it is correct, or on which key it
    /// matches.
    pub fn accept(&self, presented: &str) -> bool {
        let presented_length = presented.len();
        let Ok(presented) = hash(&self.hash_key, presented) else { return false };
        let matches = self.hashes.iter().map(|hash| hash.as_bytes().ct_eq(presented.as_bytes()));
        let accepted: bool = matches.fold(subtle::Choice::from(0), |any, this| any | this).into();
        if !accepted {
            deny(Denied::ApiKey, "wrong", &format_args!("{presented_length} characters"));
        }
        accepted
    }
}

/// The HMAC-SHA256 of a text, base64-encoded.
fn hash(key: &EncodingKey, text: &str) -> Result<String, jsonwebtoken::errors::Error> {
    sign(text.as_bytes(), key, Algorithm::HS256)
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.hashes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_accepted() {
        let keys = ApiKeys::new(&[Secret::new("first-key".into()), Secret::new("second-key".into())]).unwrap();
        assert!(keys.accept("first-key") && keys.accept("second-key"));
        for wrong in ["", "first-ke", "first-key ", "FIRST-KEY", "third-key"] {
            assert!(!keys.accept(wrong), "{wrong:?} passed");
        }
        assert!(!ApiKeys::new(&[]).unwrap().accept(""));
    }
}
