//! The claims of tokens in their encoded form.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::claims::{SubscribeOptions, TokenError, TokenIdentity, TokenKind};
use crate::model::{SubscribeOverride, UserId, is_plausible, without_nulls};
use crate::protocol::to_portable;

/// When the rights of a token expire: at `expire_at` if it is present (0: never), otherwise at `exp`. A token that is
/// past its `exp` and valid only because of the leeway expires at the end of the leeway. All times are in Unix seconds.
pub(super) fn expiry(expire_at: Option<u64>, exp: Option<u64>, now: u64, leeway: u64) -> Option<u64> {
    match expire_at {
        Some(0) => None,
        Some(at) => Some(at),
        None => exp.map(|exp| if exp > now { exp } else { exp.saturating_add(leeway) }),
    }
}

/// Checks the times of the claims, and the given `exp`. `now` and `leeway` are in seconds.
pub(super) fn in_time(claims: &RawClaims, exp: Option<u64>, now: u64, leeway: u64) -> Result<(), TokenError> {
    let dates = [claims.nbf, claims.iat].into_iter().flatten().map(|date| date.0);
    if !dates.chain(exp).chain(claims.expire_at).all(is_plausible) {
        return Err(TokenError::Invalid("a time is not in Unix seconds"));
    }
    let begins = claims.nbf.into_iter().chain(claims.iat).map(|at| at.0).max();
    let early = begins.is_some_and(|at| at > now.saturating_add(leeway));
    let late = exp.is_some_and(|exp| exp.saturating_add(leeway) <= now);
    if early || late { Err(TokenError::Expired) } else { Ok(()) }
}

/// A JSON claim for clients, given either as JSON or as JSON in base64. The base64 form takes precedence unless it is
/// empty. The result is on one line: line breaks between its tokens would end the message that it is sent in.
pub(super) fn json(plain: Option<Box<RawValue>>, base64: Option<&str>) -> Result<Option<Box<RawValue>>, TokenError> {
    let json = match (base64.filter(|text| !text.is_empty()), plain) {
        (Some(base64), _) => {
            let bytes = STANDARD.decode(base64).map_err(|_| TokenError::Invalid("it holds base64 that is none"))?;
            serde_json::from_slice(&bytes).map_err(|_| TokenError::Invalid("it holds JSON that is none"))?
        }
        (None, Some(plain)) => plain,
        (None, None) => return Ok(None),
    };
    let portable = to_portable(&json).ok_or(TokenError::Invalid("it holds JSON that clients cannot decode"))?;
    Ok(Some(portable))
}

/// The text in a claim of a token whose signature is verified; empty if the token lacks the claim.
pub(super) fn text_claim(token: &str, name: &str) -> Result<String, TokenError> {
    let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Map<String, Value>>(&claims).ok());
    match claims.ok_or(TokenError::Invalid("it is malformed"))?.remove(name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(TokenError::Invalid("the claim with its user id is not text")),
    }
}

/// The claims of a token of any kind, as they are encoded.
#[derive(Deserialize)]
pub(super) struct RawClaims {
    #[serde(default)]
    sub: String,
    pub(super) jti: Option<String>,
    pub(super) iat: Option<NumericDate>,
    pub(super) exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    pub(super) aud: Option<AudienceClaim>,
    pub(super) iss: Option<String>,
    pub(super) expire_at: Option<u64>,
    pub(super) channel: Option<String>,
    pub(super) client: Option<String>,
    pub(super) channels: Option<Vec<String>>,
    pub(super) subs: Option<BTreeMap<String, RawOptions>>,
    pub(super) info: Option<Box<RawValue>>,
    pub(super) b64info: Option<String>,
    pub(super) data: Option<Box<RawValue>>,
    pub(super) b64data: Option<String>,
    /// Replaces options of the namespace, in subscription tokens.
    #[serde(default, rename = "override")]
    pub(super) replaced: SubscribeOverride,
    /// Data for the application's backend.
    pub(super) meta: Option<Box<RawValue>>,
    /// `session` in the tokens of Feedline's own sessions.
    pub(super) token_use: Option<String>,
    /// In sessions: the number of times that all sessions of the account had been ended before.
    #[serde(default, rename = "feedline_gen")]
    pub(super) generation: u64,
}

impl RawClaims {
    /// Decodes the claims of a token. Claims that are `null` count as absent, except `sub`.
    pub(super) fn decode(json: &str) -> Option<Self> {
        serde_json::from_str(&without_nulls(json)).ok()
    }

    /// The identity of the token.
    pub(super) fn identity(&self, kind: TokenKind) -> TokenIdentity {
        TokenIdentity {
            kind,
            id: self.jti.as_deref().filter(|id| !id.is_empty()).map(Into::into),
            issued_at: self.iat.map(|iat| iat.0),
            expires_at: self.exp.map(|exp| exp.0),
        }
    }

    /// Replaces `sub` by the user id of another claim.
    pub(super) fn set_user(&mut self, user: String) {
        self.sub = user;
    }

    pub(super) fn user(&self) -> Result<Option<UserId>, TokenError> {
        if self.sub.is_empty() {
            return Ok(None);
        }
        let user = UserId::parse(&self.sub).filter(|user| !user.is_reserved());
        user.map(Some).ok_or(TokenError::Invalid("its sub is not a user id"))
    }
}

#[derive(Deserialize)]
pub(super) struct RawOptions {
    pub(super) info: Option<Box<RawValue>>,
    pub(super) b64info: Option<String>,
    pub(super) data: Option<Box<RawValue>>,
    pub(super) b64data: Option<String>,
    #[serde(default, rename = "override")]
    pub(super) replaced: SubscribeOverride,
}

impl RawOptions {
    pub(super) fn options(self) -> Result<SubscribeOptions, TokenError> {
        Ok(SubscribeOptions {
            info: json(self.info, self.b64info.as_deref())?,
            data: json(self.data, self.b64data.as_deref())?,
            replaced: self.replaced,
        })
    }
}

/// Seconds since the Unix epoch. Tokens may contain fractions and negative numbers.
#[derive(Clone, Copy)]
pub(super) struct NumericDate(pub(super) u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        // The cast saturates: times before the epoch become 0, which is in the past as well.
        let seconds = number.as_u64().or_else(|| number.as_f64().map(|seconds| seconds as u64));
        seconds.map(Self).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

/// One audience, or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum AudienceClaim {
    One(String),
    Many(Vec<String>),
}

impl AudienceClaim {
    pub(super) fn holds(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Many(many) => many.iter().any(|one| one == wanted),
        }
    }
}
