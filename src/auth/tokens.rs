//! Tokens: what a client shows to be somebody, and to be let into a channel.
//!
//! Which algorithm a key is for is decided by the configuration: a token's header only picks among the configured
//! keys, each of which verifies its one algorithm and no other. Time is passed in as Unix seconds.
//!
//! Feedline's own sessions have a key of their own, named by the header's `kid`. A token with that `kid` is verified
//! with that key and no other, and any other token never is: neither key can sign the other's kind.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::value::RawValue;

use super::claims::{RawClaims, RawOptions, expiry, in_time, json};
use crate::config::{AuthConfig, Secret, Secrets};
use crate::model::UserId;

/// The `kid` of Feedline's own sessions.
pub(super) const SESSION_KID: &str = "feedline-session";

/// What the claim `token_use` of Feedline's own sessions says.
pub(super) const SESSION_USE: &str = "session";

/// Which token it is: what revocations go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    /// Who signed it.
    pub kind: TokenKind,
    /// Its `jti`. Without one it cannot be revoked by itself.
    pub id: Option<Box<str>>,
    /// Its `iat`, in Unix seconds. Without one it counts as older than everything.
    pub issued_at: Option<u64>,
    /// Its `exp`, in Unix seconds.
    pub expires_at: Option<u64>,
}

impl TokenIdentity {
    /// Whether it is of the same kind as another: a session of Feedline's stays one when it is refreshed.
    pub fn is_like(&self, other: Option<&Self>) -> bool {
        let is_session = |token: &Self| token.kind != TokenKind::Application;
        other.is_none_or(|other| is_session(self) == is_session(other))
    }
}

/// Who signed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Feedline, for an account that signed in.
    Session {
        /// How often all sessions of the account had been ended before.
        generation: u64,
    },
    /// The application, or `feedline token`.
    Application,
}

/// What a connect token says.
#[derive(Clone, Debug)]
pub struct ConnectClaims {
    /// Which token it is.
    pub identity: TokenIdentity,
    /// Whose it is; `None` is nobody in particular.
    pub user: Option<UserId>,
    /// When the connection expires, in Unix seconds; `None` is never.
    pub expire_at: Option<u64>,
    /// What others are told about the connection: JSON.
    pub info: Option<Box<RawValue>>,
    /// Channels to subscribe the connection to.
    pub channels: Vec<String>,
    /// More such channels, with options.
    pub subs: BTreeMap<String, SubscribeOptions>,
}

/// What a connect token says about one channel.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// What others in the channel are told about the subscriber: JSON.
    pub info: Option<Box<RawValue>>,
    /// What the subscriber is told in the answer: JSON.
    pub data: Option<Box<RawValue>>,
}

/// What a subscription token says.
#[derive(Clone, Debug)]
pub struct SubscribeClaims {
    /// Which token it is.
    pub identity: TokenIdentity,
    /// Whose it is; `None` is nobody in particular. It must be who is connected.
    pub user: Option<UserId>,
    /// The channel it lets into.
    pub channel: String,
    /// The one connection it is for, if it is for one.
    pub client: Option<String>,
    /// When the subscription expires, in Unix seconds; `None` is never.
    pub expire_at: Option<u64>,
    /// What is told about the subscriber, and to them.
    pub options: SubscribeOptions,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is none, or not one for here.
    #[error("invalid token: {0}")]
    Invalid(&'static str),
    /// It never expires, and `auth.require_exp` is on.
    #[error("invalid token: it has no exp, and auth.require_exp is on")]
    NoExpiry,
    /// It was valid once, or is not yet: another one may do.
    #[error("token expired")]
    Expired,
}

/// A key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct KeyError {
    what: &'static str,
    reason: String,
}

impl KeyError {
    pub(super) fn new(what: &'static str, reason: &impl fmt::Display) -> Self {
        Self { what, reason: reason.to_string() }
    }
}

/// Verifies tokens. Cheap enough to be called where a connection is served: no store, no clock.
#[derive(Debug)]
pub struct Verifier {
    /// Those of the application.
    keys: Vec<Key>,
    /// That of Feedline's own sessions, where accounts are on.
    session_key: Option<Key>,
    audience: Option<String>,
    issuer: Option<String>,
    require_exp: bool,
    /// In seconds: how far clocks may differ.
    leeway: u64,
    /// In seconds: the longest life of a session, whatever its token says.
    session_ttl: u64,
}

/// One key and the one algorithm it is for.
#[derive(Debug)]
struct Key {
    algorithm: Algorithm,
    key: DecodingKey,
    validation: Validation,
}

impl Key {
    fn hs256(secret: &Secret) -> Self {
        Self::new(Algorithm::HS256, DecodingKey::from_secret(secret.reveal().as_bytes()))
    }

    fn new(algorithm: Algorithm, key: DecodingKey) -> Self {
        let mut validation = Validation::new(algorithm);
        // Times, audience and issuer are checked here, against the time that is passed in.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims = HashSet::new();
        Self { algorithm, key, validation }
    }

    /// The claims, if the signature is this key's.
    fn claims(&self, token: &str) -> Option<RawClaims> {
        decode::<RawClaims>(token, &self.key, &self.validation).ok().map(|decoded| decoded.claims)
    }
}

impl Verifier {
    /// Takes the keys that are configured, and the secrets that were made if there are any.
    ///
    /// # Errors
    ///
    /// When a public key is none.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        keys.extend(secrets.hmac_secret.as_ref().map(Key::hs256));
        keys.extend(auth.hmac_secret_previous.as_ref().map(Key::hs256));
        if let Some(pem) = &auth.rsa_public_key {
            let key = DecodingKey::from_rsa_pem(pem.as_bytes());
            let key = key.map_err(|error| KeyError::new("auth.rsa_public_key", &error))?;
            keys.push(Key::new(Algorithm::RS256, key));
        }
        if let Some(pem) = &auth.ecdsa_public_key {
            let key = DecodingKey::from_ec_pem(pem.as_bytes());
            let key = key.map_err(|error| KeyError::new("auth.ecdsa_public_key", &error))?;
            keys.push(Key::new(Algorithm::ES256, key));
        }
        Ok(Self {
            keys,
            session_key: secrets.session_key.as_ref().map(Key::hs256),
            audience: auth.audience.clone(),
            issuer: auth.issuer.clone(),
            require_exp: auth.require_exp,
            leeway: auth.leeway.as_secs(),
            session_ttl: auth.token_ttl.as_secs(),
        })
    }

    /// Verifies a token that says who somebody is. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// When it is not one of ours, is for a channel, or its time is not now.
    pub fn verify_connect(&self, token: &str, now: u64) -> Result<ConnectClaims, TokenError> {
        let (claims, identity) = self.verify(token)?;
        if claims.channel.is_some() {
            return Err(TokenError::Invalid("it is for a channel"));
        }
        let user = claims.user()?;
        if user.is_none() && identity.kind != TokenKind::Application {
            return Err(TokenError::Invalid("it is a session of nobody"));
        }
        let expire_at = expiry(claims.expire_at, identity.expires_at, now, self.leeway);
        let timely = in_time(&claims, identity.expires_at, now, self.leeway);
        let subs = claims.subs.unwrap_or_default().into_iter();
        let subs: Result<_, _> = subs.map(|(channel, sub)| Ok((channel, sub.options()?))).collect();
        let valid = ConnectClaims {
            identity,
            user,
            expire_at,
            info: json(claims.info, claims.b64info.as_deref())?,
            channels: claims.channels.unwrap_or_default(),
            subs: subs?,
        };
        timely.map(|()| valid)
    }

    /// Verifies a token that lets somebody into a channel. Whether the user, the channel and the client are those that
    /// it is shown for is the caller's to see. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// When it is not one of ours, is for no channel, or its time is not now.
    pub fn verify_subscribe(&self, token: &str, now: u64) -> Result<SubscribeClaims, TokenError> {
        let (claims, identity) = self.verify(token)?;
        let user = claims.user()?;
        let timely = in_time(&claims, identity.expires_at, now, self.leeway);
        let expire_at = expiry(claims.expire_at, identity.expires_at, now, self.leeway);
        let channel = claims.channel.filter(|channel| !channel.is_empty());
        let options =
            RawOptions { info: claims.info, b64info: claims.b64info, data: claims.data, b64data: claims.b64data };
        let valid = SubscribeClaims {
            identity,
            user,
            channel: channel.ok_or(TokenError::Invalid("it is for no channel"))?,
            client: claims.client.filter(|client| !client.is_empty()),
            expire_at,
            options: options.options()?,
        };
        timely.map(|()| valid)
    }

    /// Verifies the signature, the audience and the issuer.
    fn verify(&self, token: &str) -> Result<(RawClaims, TokenIdentity), TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Invalid("it is malformed"))?;
        if header.crit.is_some() {
            return Err(TokenError::Invalid("it asks for an extension"));
        }
        if header.kid.as_deref() == Some(SESSION_KID) {
            return self.verify_session(token, header.alg);
        }
        let mut keys = self.keys.iter().filter(|key| key.algorithm == header.alg).peekable();
        if keys.peek().is_none() {
            return Err(TokenError::Invalid("its algorithm is not configured"));
        }
        let claims = keys.find_map(|key| key.claims(token));
        let claims = claims.ok_or(TokenError::Invalid("its signature or a claim is wrong"))?;
        if self.issuer.is_some() && self.issuer != claims.iss {
            return Err(TokenError::Invalid("its issuer is another"));
        }
        match (&self.audience, &claims.aud) {
            (None, _) => {}
            (Some(wanted), Some(audience)) if audience.holds(wanted) => {}
            _ => return Err(TokenError::Invalid("its audience is another")),
        }
        if self.require_exp && claims.exp.is_none() {
            return Err(TokenError::NoExpiry);
        }
        let identity = claims.identity(TokenKind::Application);
        Ok((claims, identity))
    }

    /// Verifies a token that says it is one of Feedline's own sessions.
    fn verify_session(&self, token: &str, algorithm: Algorithm) -> Result<(RawClaims, TokenIdentity), TokenError> {
        let key = self.session_key.as_ref().filter(|key| key.algorithm == algorithm);
        let key = key.ok_or(TokenError::Invalid("accounts are not enabled"))?;
        let claims = key.claims(token).ok_or(TokenError::Invalid("its signature or a claim is wrong"))?;
        let (Some(issued_at), Some(expires_at)) = (claims.iat, claims.exp) else {
            return Err(TokenError::Invalid("it is not a session"));
        };
        if claims.token_use.as_deref() != Some(SESSION_USE) || claims.jti.is_none() {
            return Err(TokenError::Invalid("it is not a session"));
        }
        let kind = TokenKind::Session { generation: claims.generation };
        let mut identity = claims.identity(kind);
        // A shorter `auth.token_ttl` holds for sessions opened before, too. So nothing of a session is to be remembered
        // for longer than that.
        identity.expires_at = Some(expires_at.0.min(issued_at.0.saturating_add(self.session_ttl)));
        Ok((claims, identity))
    }
}
