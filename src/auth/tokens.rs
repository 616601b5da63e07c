//! Verifies tokens: connect tokens, which authenticate a client, and subscription tokens, which authorize a client to
//! subscribe to a channel.
//!
//! The configuration determines the algorithm of each key. The token's header only selects among the configured keys,
//! and each key verifies its own algorithm only. The current time is a parameter, in Unix seconds.
//!
//! Feedline's own sessions are signed with a separate key, which the header's `kid` identifies. A token with this `kid`
//! is verified with this key only, and no other token is verified with it. Therefore neither key can sign tokens of the
//! other kind.

use std::collections::HashSet;
use std::fmt;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

use super::claims::{ConnectClaims, SubscribeClaims, TokenError, TokenIdentity, TokenKind};
use super::raw_claims::{RawClaims, RawOptions, expiry, in_time, json};
use crate::config::{AuthConfig, Secret, Secrets};

/// The `kid` in the header of Feedline's own sessions.
pub(super) const SESSION_KID: &str = "feedline-session";

/// The claim `token_use` of Feedline's own sessions.
pub(super) const SESSION_USE: &str = "session";

/// The error for a key that cannot be used.
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

/// Verifies tokens. It uses no store and no clock, so connection tasks can call it directly.
#[derive(Debug)]
pub struct Verifier {
    /// The keys of the application.
    keys: Vec<VerificationKey>,
    /// The key of Feedline's own sessions, if accounts are enabled.
    session_key: Option<VerificationKey>,
    audience: Option<String>,
    issuer: Option<String>,
    require_exp: bool,
    /// The tolerated clock difference, in seconds.
    leeway: u64,
    /// The maximum lifetime of a session, in seconds. A longer lifetime in the token has no effect.
    session_ttl: u64,
}

/// A key, and the only algorithm that it verifies.
#[derive(Debug)]
struct VerificationKey {
    algorithm: Algorithm,
    key: DecodingKey,
    validation: Validation,
}

impl VerificationKey {
    fn hs256(secret: &Secret) -> Self {
        Self::new(Algorithm::HS256, DecodingKey::from_secret(secret.reveal().as_bytes()))
    }

    fn new(algorithm: Algorithm, key: DecodingKey) -> Self {
        let mut validation = Validation::new(algorithm);
        // Expiry, audience and issuer are checked in this module, against the time parameter.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims = HashSet::new();
        Self { algorithm, key, validation }
    }

    /// The claims of the token. `None`: the signature is not of this key, or the claims are malformed.
    fn claims(&self, token: &str) -> Option<RawClaims> {
        decode::<RawClaims>(token, &self.key, &self.validation).ok().map(|decoded| decoded.claims)
    }
}

impl Verifier {
    /// Uses the configured keys, and the generated secrets.
    ///
    /// # Errors
    ///
    /// If a public key cannot be decoded.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        keys.extend(secrets.hmac_secret.as_ref().map(VerificationKey::hs256));
        keys.extend(auth.hmac_secret_previous.as_ref().map(VerificationKey::hs256));
        if let Some(pem) = &auth.rsa_public_key {
            let key = DecodingKey::from_rsa_pem(pem.as_bytes());
            let key = key.map_err(|error| KeyError::new("auth.rsa_public_key", &error))?;
            keys.push(VerificationKey::new(Algorithm::RS256, key));
        }
        if let Some(pem) = &auth.ecdsa_public_key {
            let key = DecodingKey::from_ec_pem(pem.as_bytes());
            let key = key.map_err(|error| KeyError::new("auth.ecdsa_public_key", &error))?;
            keys.push(VerificationKey::new(Algorithm::ES256, key));
        }
        Ok(Self {
            keys,
            session_key: secrets.session_key.as_ref().map(VerificationKey::hs256),
            audience: auth.audience.clone(),
            issuer: auth.issuer.clone(),
            require_exp: auth.require_exp,
            leeway: auth.leeway.as_secs(),
            session_ttl: auth.token_ttl.as_secs(),
        })
    }

    /// Verifies a connect token. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// If the token is invalid, is for a channel, has expired or is not valid yet.
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

    /// Verifies a subscription token. `now` is in Unix seconds. The caller must check that the user, the channel and
    /// the client are those of the subscription.
    ///
    /// # Errors
    ///
    /// If the token is invalid, is not for a channel, has expired or is not valid yet.
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

    /// Verifies a token whose `kid` is that of Feedline's own sessions.
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
        // A shorter `auth.token_ttl` also applies to sessions opened before. So a record about a session need not be
        // kept for longer than `auth.token_ttl`.
        identity.expires_at = Some(expires_at.0.min(issued_at.0.saturating_add(self.session_ttl)));
        Ok((claims, identity))
    }
}
