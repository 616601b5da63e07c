//! Issues tokens: those of `feedline token`, in the form that an application's backend issues, and those of Feedline's
//! own sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use uuid::Uuid;

use super::KeyError;
use super::tokens::{SESSION_KID, SESSION_USE};
use super::{AuthConfig, Secrets};
use crate::model::UserId;
use crate::settings::Secret;

/// Issues tokens of the application: HS256 with its secret.
#[derive(Clone)]
pub struct Issuer {
    key: EncodingKey,
    ttl: Duration,
    audience: Option<String>,
    issuer: Option<String>,
    /// The claim with the user id.
    user_id_claim: String,
}

/// An issued token.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The token.
    pub token: Secret,
    /// When the token expires, in Unix seconds.
    pub expires_at: u64,
}

#[derive(Serialize)]
struct IssuedClaims<'a> {
    /// The user id, by the name of its claim.
    #[serde(flatten)]
    user: BTreeMap<&'a str, &'a str>,
    jti: String,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
}

impl Issuer {
    /// Uses the configured or generated secret. `None`: there is no secret, because only public keys are configured.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Option<Self> {
        let secret = secrets.hmac_secret.as_ref()?;
        Some(Self {
            key: EncodingKey::from_secret(secret.reveal().as_bytes()),
            ttl: auth.token_ttl,
            audience: auth.audience.clone(),
            issuer: auth.issuer.first().cloned(),
            user_id_claim: auth.user_id_claim.clone(),
        })
    }

    /// Changes the lifetime of the tokens.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Issues a token for a user. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// If signing fails.
    pub fn issue(&self, user: &UserId, now: u64) -> Result<Issued, KeyError> {
        let expires_at = now.saturating_add(self.ttl.as_secs());
        let claims = IssuedClaims {
            user: BTreeMap::from([(self.user_id_claim.as_str(), user.shown())]),
            jti: Uuid::new_v4().to_string(),
            iat: now,
            exp: expires_at,
            aud: self.audience.as_deref(),
            iss: self.issuer.as_deref(),
        };
        sign(&Header::new(Algorithm::HS256), &claims, &self.key, expires_at)
    }
}

/// Issues the tokens of accounts that sign in: HS256 with Feedline's own key, which the header's `kid` identifies.
#[derive(Clone)]
pub struct SessionIssuer {
    key: EncodingKey,
    ttl: Duration,
}

#[derive(Serialize)]
struct SessionClaims<'a> {
    sub: &'a str,
    jti: String,
    iat: u64,
    exp: u64,
    token_use: &'static str,
    feedline_gen: u64,
}

impl SessionIssuer {
    /// Uses the configured or generated key. `None`: accounts are disabled.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Option<Self> {
        let key = EncodingKey::from_secret(secrets.session_key.as_ref()?.reveal().as_bytes());
        Some(Self { key, ttl: auth.token_ttl })
    }

    /// Opens a session. `generation` is the number of times that all sessions of the account were ended before. `now`
    /// is in Unix seconds.
    ///
    /// # Errors
    ///
    /// If signing fails.
    pub fn issue(&self, user: &UserId, generation: u64, now: u64) -> Result<Issued, KeyError> {
        let expires_at = now.saturating_add(self.ttl.as_secs());
        let claims = SessionClaims {
            sub: user.shown(),
            jti: Uuid::new_v4().to_string(),
            iat: now,
            exp: expires_at,
            token_use: SESSION_USE,
            feedline_gen: generation,
        };
        let header = Header { kid: Some(SESSION_KID.to_owned()), ..Header::new(Algorithm::HS256) };
        sign(&header, &claims, &self.key, expires_at)
    }
}

fn sign(header: &Header, claims: &impl Serialize, key: &EncodingKey, expires_at: u64) -> Result<Issued, KeyError> {
    let token = encode(header, claims, key);
    let token = token.map_err(|error| KeyError::new("a token could not be signed", &error))?;
    Ok(Issued { token: Secret::new(token), expires_at })
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionIssuer").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
