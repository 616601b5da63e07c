//! Tokens: what a client shows to be somebody, and to be let into a channel.
//!
//! Which algorithm a key is for is decided by the configuration: a token's header only picks among the configured
//! keys, each of which verifies its one algorithm and no other. Time is passed in as Unix seconds.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::config::{Auth, Secret, Secrets};
use crate::model::UserId;

/// What a connect token says.
#[derive(Clone, Debug)]
pub struct ConnectClaims {
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
    keys: Vec<Key>,
    audience: Option<String>,
    issuer: Option<String>,
}

/// One key and the one algorithm it is for.
#[derive(Debug)]
struct Key {
    algorithm: Algorithm,
    key: DecodingKey,
    validation: Validation,
}

impl Key {
    fn new(algorithm: Algorithm, key: DecodingKey) -> Self {
        let mut validation = Validation::new(algorithm);
        // Times, audience and issuer are checked here, against the time that is passed in.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims = HashSet::new();
        Self { algorithm, key, validation }
    }
}

impl Verifier {
    /// Takes the keys that are configured, and the secret that was made if there is one.
    ///
    /// # Errors
    ///
    /// When a public key is none.
    pub fn new(auth: &Auth, secrets: &Secrets) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        if let Some(secret) = &secrets.hmac_secret {
            keys.push(Key::new(Algorithm::HS256, DecodingKey::from_secret(secret.reveal().as_bytes())));
        }
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
        Ok(Self { keys, audience: auth.audience.clone(), issuer: auth.issuer.clone() })
    }

    /// Verifies a token that says who somebody is. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// When it is not one of ours, is for a channel, or its time is not now.
    pub fn verify_connect(&self, token: &str, now: u64) -> Result<ConnectClaims, TokenError> {
        let claims = self.verify(token)?;
        if claims.channel.is_some() {
            return Err(TokenError::Invalid("it is for a channel"));
        }
        let user = claims.user()?;
        let subs = claims.subs.unwrap_or_default().into_iter();
        let subs: Result<_, _> = subs.map(|(channel, sub)| Ok((channel, sub.options()?))).collect();
        let valid = ConnectClaims {
            user,
            expire_at: expiry(claims.expire_at, claims.exp),
            info: json(claims.info, claims.b64info.as_deref())?,
            channels: claims.channels.unwrap_or_default(),
            subs: subs?,
        };
        in_time(claims.nbf, claims.exp, now).map(|()| valid)
    }

    /// Verifies a token that lets somebody into a channel. Whether the user, the channel and the client are those that
    /// it is shown for is the caller's to see. `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// When it is not one of ours, is for no channel, or its time is not now.
    pub fn verify_subscribe(&self, token: &str, now: u64) -> Result<SubscribeClaims, TokenError> {
        let claims = self.verify(token)?;
        let user = claims.user()?;
        let channel = claims.channel.filter(|channel| !channel.is_empty());
        let options =
            RawOptions { info: claims.info, b64info: claims.b64info, data: claims.data, b64data: claims.b64data };
        let valid = SubscribeClaims {
            user,
            channel: channel.ok_or(TokenError::Invalid("it is for no channel"))?,
            client: claims.client.filter(|client| !client.is_empty()),
            expire_at: expiry(claims.expire_at, claims.exp),
            options: options.options()?,
        };
        in_time(claims.nbf, claims.exp, now).map(|()| valid)
    }

    /// Verifies the signature, the audience and the issuer.
    fn verify(&self, token: &str) -> Result<RawClaims, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Invalid("it is malformed"))?;
        if header.crit.is_some() {
            return Err(TokenError::Invalid("it asks for an extension"));
        }
        let key = self.keys.iter().find(|key| key.algorithm == header.alg);
        let key = key.ok_or(TokenError::Invalid("its algorithm is not configured"))?;
        let decoded = decode::<RawClaims>(token, &key.key, &key.validation);
        let claims = decoded.map_err(|_| TokenError::Invalid("its signature or a claim is wrong"))?.claims;
        if self.issuer.is_some() && self.issuer != claims.iss {
            return Err(TokenError::Invalid("its issuer is another"));
        }
        match (&self.audience, &claims.aud) {
            (None, _) => Ok(claims),
            (Some(wanted), Some(audience)) if audience.holds(wanted) => Ok(claims),
            _ => Err(TokenError::Invalid("its audience is another")),
        }
    }
}

/// When what a token allows ends: `expire_at` rules, with 0 for never, and else the token's own end.
fn expiry(expire_at: Option<u64>, exp: Option<NumericDate>) -> Option<u64> {
    match expire_at {
        Some(0) => None,
        Some(at) => Some(at),
        None => exp.map(|exp| exp.0),
    }
}

fn in_time(nbf: Option<NumericDate>, exp: Option<NumericDate>, now: u64) -> Result<(), TokenError> {
    let early = nbf.is_some_and(|nbf| now < nbf.0);
    let late = exp.is_some_and(|exp| exp.0 <= now);
    if early || late { Err(TokenError::Expired) } else { Ok(()) }
}

/// JSON that is in the token as it is, or as base64.
fn json(plain: Option<Box<RawValue>>, base64: Option<&str>) -> Result<Option<Box<RawValue>>, TokenError> {
    let Some(base64) = base64.filter(|text| !text.is_empty()) else { return Ok(plain) };
    let bytes = STANDARD.decode(base64).map_err(|_| TokenError::Invalid("it holds base64 that is none"))?;
    let json = serde_json::from_slice(&bytes).map_err(|_| TokenError::Invalid("it holds JSON that is none"))?;
    Ok(Some(json))
}

/// The claims as they are written, of either kind of token.
#[derive(Deserialize)]
struct RawClaims {
    #[serde(default)]
    sub: String,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    aud: Option<Audience>,
    iss: Option<String>,
    expire_at: Option<u64>,
    channel: Option<String>,
    client: Option<String>,
    channels: Option<Vec<String>>,
    subs: Option<BTreeMap<String, RawOptions>>,
    info: Option<Box<RawValue>>,
    b64info: Option<String>,
    data: Option<Box<RawValue>>,
    b64data: Option<String>,
}

impl RawClaims {
    fn user(&self) -> Result<Option<UserId>, TokenError> {
        if self.sub.is_empty() {
            return Ok(None);
        }
        let user = UserId::parse(&self.sub).filter(|user| !user.is_reserved());
        user.map(Some).ok_or(TokenError::Invalid("its sub is not a user id"))
    }
}

#[derive(Deserialize)]
struct RawOptions {
    info: Option<Box<RawValue>>,
    b64info: Option<String>,
    data: Option<Box<RawValue>>,
    b64data: Option<String>,
}

impl RawOptions {
    fn options(self) -> Result<SubscribeOptions, TokenError> {
        Ok(SubscribeOptions {
            info: json(self.info, self.b64info.as_deref())?,
            data: json(self.data, self.b64data.as_deref())?,
        })
    }
}

/// Seconds since the Unix epoch. Tokens may write fractions and times before it.
#[derive(Clone, Copy)]
struct NumericDate(u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        // A cast saturates: what lies before the epoch is its beginning, which is as long over.
        let seconds = number.as_u64().or_else(|| number.as_f64().map(|seconds| seconds as u64));
        seconds.map(Self).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

/// One, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn holds(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Many(many) => many.iter().any(|one| one == wanted),
        }
    }
}

/// Makes the tokens of built-in accounts and of the command line: HS256.
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
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
}

impl Issuer {
    /// Takes the secret that is configured or was made. `None`: there is none, tokens come from elsewhere.
    pub fn new(auth: &Auth, secrets: &Secrets) -> Option<Self> {
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
            iat: now,
            exp: expires_at,
            aud: self.audience.as_deref(),
            iss: self.issuer.as_deref(),
        };
        let token = encode(&Header::new(Algorithm::HS256), &claims, &self.key);
        let token = token.map_err(|error| KeyError::new("a token could not be signed", &error))?;
        Ok(Issued { token: Secret::new(token), expires_at })
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
