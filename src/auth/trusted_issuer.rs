//! The issuers whose tokens are accepted, each with keys of its own.

use std::sync::Arc;

use super::claims::TokenError;
use super::raw_claims::RawClaims;
use super::remote_keys::RemoteKeys;
use super::verification_key::{TokenAlgorithm, TokenHeader, VerificationKey};

/// An issuer, or all issuers that share its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustedIssuer {
    /// The accepted `iss` claims; empty: any.
    pub(super) names: Vec<String>,
    /// `iss` claims that belong to other issuers, if `names` is empty.
    pub(super) foreign: Vec<String>,
    /// The audience that the `aud` claim must contain; `None`: any.
    pub(super) audience: Option<String>,
    /// Configured keys.
    pub(super) keys: Vec<VerificationKey>,
    /// The keys of a JWKS endpoint.
    pub(super) remote: Option<Arc<RemoteKeys>>,
}

impl TrustedIssuer {
    /// Whether a token with this `iss` claim may be of this issuer.
    pub(super) fn accepts(&self, name: Option<&str>) -> bool {
        match name {
            _ if self.names.is_empty() => !name.is_some_and(|name| self.foreign.iter().any(|other| other == name)),
            Some(name) => self.names.iter().any(|known| known == name),
            None => false,
        }
    }

    /// Whether it may have keys for this algorithm.
    pub(super) fn has_key_for(&self, algorithm: TokenAlgorithm) -> bool {
        self.remote.is_some() || self.keys.iter().any(|key| key.verifies(algorithm))
    }

    /// The claims of a token that one of its keys has signed; `None` if none has.
    pub(super) fn claims(&self, token: &str, header: &TokenHeader, algorithm: TokenAlgorithm) -> Option<RawClaims> {
        let configured = self.keys.iter().find_map(|key| key.claims(token, algorithm));
        configured.or_else(|| {
            let keys = self.remote.as_ref()?.keys()?;
            keys.get(header.kid.as_deref()?)?.claims(token, algorithm)
        })
    }

    /// Checks the issuer and the audience of a token that a key of this issuer has signed.
    pub(super) fn check(&self, claims: &RawClaims) -> Result<(), TokenError> {
        if !self.accepts(claims.iss.as_deref()) {
            return Err(TokenError::Invalid("its issuer is another"));
        }
        match (&self.audience, &claims.aud) {
            (None, _) => Ok(()),
            (Some(wanted), Some(audience)) if audience.holds(wanted) => Ok(()),
            _ => Err(TokenError::Invalid("its audience is another")),
        }
    }
}
