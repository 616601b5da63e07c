//! Makes tokens: those of `feedline token`, as an application's backend would, and those of Feedline's own sessions.

use std::fmt;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use uuid::Uuid;

use super::KeyError;
use super::tokens::{SESSION_KID, SESSION_USE};
use crate::config::{AuthConfig, Secret, Secrets};
use crate::model::UserId;

/// Makes tokens of the application: HS256 under its secret.
#[derive(Clone)]
pub struct Issuer {
    key: EncodingKey,
    ttl: Duration,
    audience: Option<String>,
    issuer: Option<String>,
}

/// A token that was made.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The token.
    pub token: Secret,
    /// When it ends, in Unix seconds.
    pub expires_at: u64,
}

#[derive(Serialize)]
struct IssuedClaims<'a> {
    sub: &'a str,
    jti: String,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
}

impl Issuer {
    /// Takes the secret that is configured or was made. `None`: there is none, tokens come from elsewhere.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Option<Self> {
        let secret = secrets.hmac_secret.as_ref()?;
        Some(Self {
            key: EncodingKey::from_secret(secret.reveal().as_bytes()),
            ttl: auth.token_ttl,
            audience: auth.audience.clone(),
            issuer: auth.issuer.clone(),
        })
    }

    /// The same, with another life for its tokens.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Makes a token for a user. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// When signing fails.
    pub fn issue(&self, user: &UserId, now: u64) -> Result<Issued, KeyError> {
        let expires_at = now.saturating_add(self.ttl.as_secs());
        let claims = IssuedClaims {
            sub: user.as_str(),
            jti: Uuid::new_v4().to_string(),
            iat: now,
            exp: expires_at,
            aud: self.audience.as_deref(),
            iss: self.issuer.as_deref(),
        };
        sign(&Header::new(Algorithm::HS256), &claims, &self.key, expires_at)
    }
}

/// Makes the tokens of accounts that sign in: HS256 under Feedline's own key, which the header names.
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
    /// Takes the key that is configured or was made. `None`: accounts are off.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Option<Self> {
        let key = EncodingKey::from_secret(secrets.session_key.as_ref()?.reveal().as_bytes());
        Some(Self { key, ttl: auth.token_ttl })
    }

    /// Opens a session. `generation`: how often all sessions of the account were ended before. `now` is in Unix
    /// seconds.
    ///
    /// # Errors
    ///
    /// When signing fails.
    pub fn issue(&self, user: &UserId, generation: u64, now: u64) -> Result<Issued, KeyError> {
        let expires_at = now.saturating_add(self.ttl.as_secs());
        let claims = SessionClaims {
            sub: user.as_str(),
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
