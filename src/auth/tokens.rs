//! Verifies tokens: connect tokens, which authenticate a client, and subscription tokens, which authorize a client to
//! subscribe to a channel.
//!
//! The type of a key determines its algorithms. The token's header only selects among the keys, and each key verifies
//! its own algorithms only. The keys of JWKS endpoints are fetched elsewhere; a token whose key is missing waits for
//! [`Verifier::missing_key`] first. The current time is a parameter, in Unix seconds.
//!
//! Feedline's own sessions are signed with a separate key, which the header's `kid` identifies. A token with this `kid`
//! is verified with this key only, and no other token is verified with it. Therefore neither key can sign tokens of the
//! other kind.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use super::claims::{ConnectClaims, SubscribeClaims, TokenError, TokenIdentity, TokenKind};
use super::jwks::MAX_KID_BYTES;
use super::raw_claims::{RawClaims, RawOptions, expiry, in_time, json, text_claim};
use super::remote_keys::{MissingKey, RemoteKeys};
use super::trusted_issuer::TrustedIssuer;
use super::verification_key::{TokenAlgorithm, TokenHeader, VerificationKey};
use super::{AuthConfig, Secrets};
use crate::denials::{Denied, deny};
use crate::settings::Secret;

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

/// Verifies tokens. It uses no store and no clock, so connection tasks can call it directly. Clones share the keys of
/// JWKS endpoints.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The issuers of the application's tokens: first that of `[auth]`, then those of `auth.issuers`.
    issuers: Vec<TrustedIssuer>,
    /// The issuer of subscription tokens, if these have keys of their own.
    subscription_issuer: Option<TrustedIssuer>,
    /// The claim with the user id, unless it is `sub`.
    user_id_claim: Option<String>,
    /// The key of Feedline's own sessions, if accounts are enabled.
    session_key: Option<VerificationKey>,
    require_exp: bool,
    /// The tolerated clock difference, in seconds.
    leeway: u64,
    /// The maximum lifetime of a session, in seconds. A longer lifetime in the token has no effect.
    session_ttl: u64,
}

/// The issuer in the claims of a token that is not verified yet.
#[derive(Deserialize)]
struct ClaimedIssuer {
    iss: Option<String>,
}

impl Verifier {
    /// Uses the configured keys, and the generated secrets.
    ///
    /// # Errors
    ///
    /// If a public key cannot be decoded.
    pub fn new(auth: &AuthConfig, secrets: &Secrets) -> Result<Self, KeyError> {
        let keys = configured_keys(
            &[&secrets.hmac_secret, &auth.hmac_secret_previous],
            ("auth.rsa_public_key", &auth.rsa_public_key),
            ("auth.ecdsa_public_key", &auth.ecdsa_public_key),
        )?;
        let subscription_keys = configured_keys(
            &[&auth.subscription_hmac_secret],
            ("auth.subscription_rsa_public_key", &auth.subscription_rsa_public_key),
            ("auth.subscription_ecdsa_public_key", &auth.subscription_ecdsa_public_key),
        )?;
        let subscription_issuer = (!subscription_keys.is_empty()).then(|| TrustedIssuer {
            names: auth.issuer.clone(),
            audience: auth.audience.clone(),
            keys: subscription_keys,
            ..TrustedIssuer::default()
        });
        let remote = |url: &String| Arc::new(RemoteKeys::new(url.clone()));
        let mut issuers = vec![TrustedIssuer {
            names: auth.issuer.clone(),
            foreign: auth.issuers.iter().map(|issuer| issuer.name.clone()).collect(),
            audience: auth.audience.clone(),
            keys,
            remote: auth.jwks_url.as_ref().map(remote),
        }];
        issuers.extend(auth.issuers.iter().map(|issuer| TrustedIssuer {
            names: vec![issuer.name.clone()],
            audience: issuer.audience.clone(),
            remote: Some(remote(&issuer.jwks_url)),
            ..TrustedIssuer::default()
        }));
        let session_key = |secret: &Secret| VerificationKey::secret(secret.reveal().as_bytes(), &[Algorithm::HS256]);
        Ok(Self {
            issuers,
            subscription_issuer,
            user_id_claim: Some(auth.user_id_claim.clone()).filter(|claim| claim != "sub"),
            session_key: secrets.session_key.as_ref().map(session_key),
            require_exp: auth.require_exp,
            leeway: auth.leeway.as_secs(),
            session_ttl: auth.token_ttl.as_secs(),
        })
    }

    /// Accepts tokens without `exp`, whatever `auth.require_exp` is.
    #[must_use]
    pub fn without_required_exp(self) -> Self {
        Self { require_exp: false, ..self }
    }

    /// Shares the fetched keys of another verifier, of the same addresses.
    #[must_use]
    pub fn with_remote_keys_of(mut self, other: &Self) -> Self {
        for keys in self.issuers.iter_mut().filter_map(|issuer| issuer.remote.as_mut()) {
            if let Some(known) = other.remote_keys().find(|known| known.url() == keys.url()) {
                *keys = Arc::clone(known);
            }
        }
        self
    }

    /// The keys that a task must fetch.
    pub fn remote_keys(&self) -> impl Iterator<Item = &Arc<RemoteKeys>> {
        self.issuers.iter().filter_map(|issuer| issuer.remote.as_ref())
    }

    /// The key of a token that must be fetched before the token can be verified. `None` for all tokens without JWKS.
    pub fn missing_key(&self, token: &str) -> Option<MissingKey> {
        self.remote_keys().next()?;
        let header = TokenHeader::of(token)?;
        let algorithm = TokenAlgorithm::parse(&header.alg).filter(|algorithm| !algorithm.is_hmac())?;
        let kid = header.kid.clone().filter(|kid| !kid.is_empty() && kid.len() <= MAX_KID_BYTES)?;
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claimed: ClaimedIssuer = serde_json::from_slice(&claims).ok()?;
        let of_issuer = self.issuers.iter().filter(|issuer| issuer.accepts(claimed.iss.as_deref()));
        let sources: Vec<_> = of_issuer.filter_map(|issuer| issuer.remote.clone()).collect();
        if sources.is_empty() || sources.iter().any(|source| source.has(&kid)) {
            return None;
        }
        // Tokens of configured keys may have an id, too.
        let is_signed = self.issuers.iter().any(|issuer| issuer.claims(token, &header, algorithm).is_some());
        (!is_signed).then_some(MissingKey { sources, kid })
    }

    /// The same for a subscription token.
    pub fn missing_subscription_key(&self, token: &str) -> Option<MissingKey> {
        // Keys of their own are configured, not fetched.
        if self.subscription_issuer.is_some() { None } else { self.missing_key(token) }
    }

    /// Verifies a connect token. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// If the token is invalid, is for a channel, has expired or is not valid yet.
    pub fn verify_connect(&self, token: &str, now: u64) -> Result<ConnectClaims, TokenError> {
        self.connect_claims(token, now).inspect_err(denied)
    }

    fn connect_claims(&self, token: &str, now: u64) -> Result<ConnectClaims, TokenError> {
        let (claims, identity) = self.verify(token, &self.issuers)?;
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
            meta: json(claims.meta.filter(|meta| meta.get() != "null"), None)?,
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
        self.subscribe_claims(token, now).inspect_err(denied)
    }

    fn subscribe_claims(&self, token: &str, now: u64) -> Result<SubscribeClaims, TokenError> {
        let issuers = self.subscription_issuer.as_ref().map_or(&self.issuers[..], std::slice::from_ref);
        let (claims, identity) = self.verify(token, issuers)?;
        let user = claims.user()?;
        let timely = in_time(&claims, identity.expires_at, now, self.leeway);
        let expire_at = expiry(claims.expire_at, identity.expires_at, now, self.leeway);
        let channel = claims.channel.filter(|channel| !channel.is_empty());
        let client = claims.client.filter(|client| !client.is_empty());
        let RawClaims { info, b64info, data, b64data, replaced, .. } = claims;
        let options = RawOptions { info, b64info, data, b64data, replaced };
        let valid = SubscribeClaims {
            identity,
            user,
            channel: channel.ok_or(TokenError::Invalid("it is for no channel"))?,
            client,
            expire_at,
            options: options.options()?,
        };
        timely.map(|()| valid)
    }

    /// Verifies the signature, the audience and the issuer, which must be one of these.
    fn verify(&self, token: &str, issuers: &[TrustedIssuer]) -> Result<(RawClaims, TokenIdentity), TokenError> {
        let header = TokenHeader::of(token).ok_or(TokenError::Invalid("it is malformed"))?;
        if header.crit.is_some() {
            return Err(TokenError::Invalid("it asks for an extension"));
        }
        let algorithm = TokenAlgorithm::parse(&header.alg);
        let algorithm = algorithm.ok_or(TokenError::Invalid("its algorithm is not supported"))?;
        if header.kid.as_deref() == Some(SESSION_KID) {
            return self.verify_session(token, algorithm);
        }
        if !issuers.iter().any(|issuer| issuer.has_key_for(algorithm)) {
            return Err(TokenError::Invalid("its algorithm is not configured"));
        }
        // A token counts for an issuer whose key signed it, and must name that issuer: several may share their keys.
        let mut refusal = TokenError::Invalid("its signature or a claim is wrong");
        let mut accepted = None;
        for issuer in issuers {
            let Some(claims) = issuer.claims(token, &header, algorithm) else { continue };
            match issuer.check(&claims) {
                Ok(()) => {
                    accepted = Some(claims);
                    break;
                }
                Err(error) => refusal = error,
            }
        }
        let mut claims = accepted.ok_or(refusal)?;
        if let Some(claim) = &self.user_id_claim {
            claims.set_user(text_claim(token, claim)?);
        }
        if self.require_exp && claims.exp.is_none() {
            return Err(TokenError::NoExpiry);
        }
        let identity = claims.identity(TokenKind::Application);
        Ok((claims, identity))
    }

    /// Verifies a token whose `kid` is that of Feedline's own sessions.
    fn verify_session(&self, token: &str, algorithm: TokenAlgorithm) -> Result<(RawClaims, TokenIdentity), TokenError> {
        let key = self.session_key.as_ref().filter(|key| key.verifies(algorithm));
        let key = key.ok_or(TokenError::Invalid("accounts are not enabled"))?;
        let claims = key.claims(token, algorithm).ok_or(TokenError::Invalid("its signature or a claim is wrong"))?;
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

fn denied(error: &TokenError) {
    let reason = match error {
        TokenError::Invalid(_) => "invalid",
        TokenError::NoExpiry => "no expiry",
        TokenError::Expired => "expired",
    };
    deny(Denied::Token, reason, error);
}

/// The keys of these secrets and PEM texts. The name of each PEM text is that of its key in the configuration.
fn configured_keys(
    secrets: &[&Option<Secret>],
    (rsa_name, rsa): (&'static str, &Option<String>),
    (ecdsa_name, ecdsa): (&'static str, &Option<String>),
) -> Result<Vec<VerificationKey>, KeyError> {
    let hmac = |secret: &Secret| VerificationKey::hmac(secret.reveal().as_bytes());
    let mut keys: Vec<VerificationKey> = secrets.iter().copied().flatten().map(hmac).collect();
    if let Some(pem) = rsa {
        keys.push(VerificationKey::rsa_pem(pem).map_err(|error| KeyError::new(rsa_name, &error))?);
    }
    if let Some(pem) = ecdsa {
        let key = DecodingKey::from_ec_pem(pem.as_bytes()).map_err(|error| KeyError::new(ecdsa_name, &error))?;
        let key = VerificationKey::ecdsa(key);
        keys.push(key.ok_or_else(|| KeyError::new(ecdsa_name, &"it is on another curve"))?);
    }
    Ok(keys)
}
