//! Keys that verify tokens, and the algorithms of each.

use std::collections::HashSet;

use aws_lc_rs::signature::{ECDSA_P521_SHA512_FIXED, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::Error;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw_claims::RawClaims;

/// The lengths of the points of curves: a byte for the form, and two coordinates.
const P256_POINT: usize = 65;
const P384_POINT: usize = 97;
const P521_POINT: usize = 133;

/// An algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenAlgorithm {
    /// One that the library verifies.
    Library(Algorithm),
    /// ECDSA with P-521 and SHA-512, which the library lacks.
    Es512,
}

impl TokenAlgorithm {
    /// Whether its keys are secrets.
    pub(super) fn is_hmac(self) -> bool {
        matches!(self, Self::Library(algorithm) if algorithm.family() == AlgorithmFamily::Hmac)
    }

    /// The algorithm of this name in the header of a token. There is none for PSS, and none for `none`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(Self::Library(match name {
            "HS256" => Algorithm::HS256,
            "HS384" => Algorithm::HS384,
            "HS512" => Algorithm::HS512,
            "RS256" => Algorithm::RS256,
            "RS384" => Algorithm::RS384,
            "RS512" => Algorithm::RS512,
            "ES256" => Algorithm::ES256,
            "ES384" => Algorithm::ES384,
            "EdDSA" => Algorithm::EdDSA,
            "ES512" => return Some(Self::Es512),
            _ => return None,
        }))
    }
}

/// What the header of a token says about its signature.
#[derive(Debug, Deserialize)]
pub(super) struct TokenHeader {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    pub(super) crit: Option<serde::de::IgnoredAny>,
}

impl TokenHeader {
    /// The header of a token; `None` if it is malformed.
    pub(super) fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let header = parts.next()?;
        let _claims = parts.next()?;
        let _signature = parts.next()?;
        if parts.next().is_some() {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()
    }
}

/// A key, and the only algorithms that it verifies.
#[derive(Clone, Debug)]
pub(super) struct VerificationKey {
    algorithms: Vec<TokenAlgorithm>,
    key: DecodingKey,
}

impl VerificationKey {
    /// A secret, for these algorithms.
    pub(super) fn secret(secret: &[u8], algorithms: &[Algorithm]) -> Self {
        Self::new(DecodingKey::from_secret(secret), algorithms)
    }

    /// A secret of the application, for all HMAC algorithms.
    pub(super) fn hmac(secret: &[u8]) -> Self {
        Self::secret(secret, &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512])
    }

    /// An RSA key.
    pub(super) fn rsa(key: DecodingKey) -> Self {
        Self::new(key, &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512])
    }

    /// An Ed25519 key.
    pub(super) fn ed25519(key: DecodingKey) -> Self {
        Self::new(key, &[Algorithm::EdDSA])
    }

    /// A key on one of the curves P-256, P-384 and P-521, which determines the algorithm; `None`: on another.
    pub(super) fn ecdsa(key: DecodingKey) -> Option<Self> {
        let algorithm = match key.try_get_as_bytes().ok()?.len() {
            P256_POINT => TokenAlgorithm::Library(Algorithm::ES256),
            P384_POINT => TokenAlgorithm::Library(Algorithm::ES384),
            P521_POINT => TokenAlgorithm::Es512,
            _ => return None,
        };
        Some(Self { algorithms: vec![algorithm], key })
    }

    fn new(key: DecodingKey, algorithms: &[Algorithm]) -> Self {
        Self { algorithms: algorithms.iter().copied().map(TokenAlgorithm::Library).collect(), key }
    }

    /// An RSA key in PEM.
    pub(super) fn rsa_pem(pem: &str) -> Result<Self, Error> {
        DecodingKey::from_rsa_pem(pem.as_bytes()).map(Self::rsa)
    }

    /// Whether the key verifies tokens of this algorithm.
    pub(super) fn verifies(&self, algorithm: TokenAlgorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    /// Keeps one algorithm of the key. `None` if it is not one of them.
    pub(super) fn only(mut self, algorithm: TokenAlgorithm) -> Option<Self> {
        self.algorithms.retain(|other| *other == algorithm);
        (!self.algorithms.is_empty()).then_some(self)
    }

    /// The claims of a token. `None`: the signature is not of this key, or the claims are malformed.
    pub(super) fn claims(&self, token: &str, algorithm: TokenAlgorithm) -> Option<RawClaims> {
        if !self.verifies(algorithm) {
            return None;
        }
        match algorithm {
            TokenAlgorithm::Library(algorithm) => {
                let mut validation = Validation::new(algorithm);
                // Expiry, audience and issuer are checked against the time parameter, by the verifier.
                validation.validate_exp = false;
                validation.validate_aud = false;
                validation.required_spec_claims = HashSet::new();
                let decoded = decode::<Box<RawValue>>(token, &self.key, &validation).ok()?;
                RawClaims::decode(decoded.claims.get())
            }
            TokenAlgorithm::Es512 => {
                let (message, signature) = token.rsplit_once('.')?;
                let (_, claims) = message.split_once('.')?;
                let key = UnparsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, self.key.try_get_as_bytes().ok()?);
                key.verify(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
                RawClaims::decode(std::str::from_utf8(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?)
            }
        }
    }
}
