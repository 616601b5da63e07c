//! Keys of ES256, for the tokens of APNs and VAPID.

use std::fmt;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde::Serialize;

use crate::settings::Secret;

/// A private key of the curve P-256.
pub(super) struct SigningKey {
    key: EncodingKey,
    public: Vec<u8>,
}

impl SigningKey {
    /// Reads a key as PEM (PKCS #8, as Apple provides it), or as the base64url of its 32 bytes, as tools for Web Push
    /// print it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let pair = if text.starts_with("-----BEGIN") {
            let pem = EncodingKey::from_ec_pem(text.as_bytes());
            let pem = pem.map_err(|error| format!("is not a private key in PKCS #8: {error}"))?;
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pem.as_bytes())
                .map_err(|_| "is not a private key of the curve P-256".to_owned())?
        } else {
            raw_key(text).ok_or("is neither PEM nor 32 bytes in base64url")?
        };
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| "cannot be encoded".to_owned())?;
        Ok(Self { key: EncodingKey::from_ec_der(pkcs8.as_ref()), public: pair.public_key().as_ref().to_vec() })
    }

    /// The public key as an uncompressed point, in base64url.
    pub(super) fn public_base64(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.public)
    }

    /// Signs claims.
    pub(super) fn sign(&self, header: &Header, claims: &impl Serialize) -> Result<Secret, String> {
        encode(header, claims, &self.key).map(Secret::new).map_err(|error| error.to_string())
    }
}

/// The public key of a private key of VAPID, in base64url; `None` if that is not valid.
pub fn public_key(private_key: &Secret) -> Option<String> {
    SigningKey::parse(private_key.reveal()).ok().map(|key| key.public_base64())
}

fn raw_key(text: &str) -> Option<EcdsaKeyPair> {
    let private = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    let public = PrivateKey::from_private_key(&ECDH_P256, &private).ok()?.compute_public_key().ok()?;
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, public.as_ref()).ok()
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}
