//! The claims of verified tokens.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::model::{SubscribeOverride, UserId};

/// The identity of a token, by which it can be revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    /// The issuer of the token.
    pub kind: TokenKind,
    /// The `jti` claim. `None`: the token cannot be revoked individually.
    pub id: Option<Box<str>>,
    /// The `iat` claim, in Unix seconds. `None`: revocations treat the token as older than any other.
    pub issued_at: Option<u64>,
    /// The `exp` claim, in Unix seconds. `None`: the token has no expiry.
    pub expires_at: Option<u64>,
}

impl TokenIdentity {
    /// Whether both tokens are sessions of Feedline, or neither is: a refresh must not change the kind. `None` matches
    /// any.
    pub fn is_like(&self, other: Option<&Self>) -> bool {
        let is_session = |token: &Self| token.kind != TokenKind::Application;
        other.is_none_or(|other| is_session(self) == is_session(other))
    }
}

/// The issuer of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Feedline, for an account that signed in: a session.
    Session {
        /// The number of times that all sessions of the account had been ended before this one was opened.
        generation: u64,
    },
    /// The application, or `feedline token`.
    Application,
}

/// The claims of a connect token.
#[derive(Clone, Debug)]
pub struct ConnectClaims {
    /// The identity of the token.
    pub identity: TokenIdentity,
    /// The user; `None` for anonymous clients.
    pub user: Option<UserId>,
    /// When the connection expires, in Unix seconds; `None`: never.
    pub expire_at: Option<u64>,
    /// The `info` claim: JSON that other subscribers receive together with the client.
    pub info: Option<Box<RawValue>>,
    /// The `meta` claim: JSON for the application's backend, which no client receives.
    pub meta: Option<Box<RawValue>>,
    /// The names of channels for server-side subscriptions.
    pub channels: Vec<String>,
    /// More such channels, by name, with options.
    pub subs: BTreeMap<String, SubscribeOptions>,
}

/// The options of a token for one channel.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// JSON that other subscribers of the channel receive together with the client.
    pub info: Option<Box<RawValue>>,
    /// JSON for the reply to the subscriber.
    pub data: Option<Box<RawValue>>,
    /// Replaces options of the namespace.
    pub replaced: SubscribeOverride,
}

/// The claims of a subscription token.
#[derive(Clone, Debug)]
pub struct SubscribeClaims {
    /// The identity of the token.
    pub identity: TokenIdentity,
    /// The user; `None` for anonymous clients. It must equal the user of the connection.
    pub user: Option<UserId>,
    /// The channel.
    pub channel: String,
    /// The id of the only connection that may use the token; `None`: any connection.
    pub client: Option<String>,
    /// When the subscription expires, in Unix seconds; `None`: never.
    pub expire_at: Option<u64>,
    /// Options of the subscription.
    pub options: SubscribeOptions,
}

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token cannot be decoded, its signature is wrong, or it is for another use.
    #[error("invalid token: {0}")]
    Invalid(&'static str),
    /// The token never expires, and `auth.require_exp` is on.
    #[error("invalid token: it has no exp, and auth.require_exp is on")]
    NoExpiry,
    /// The token has expired, or is not valid yet. Another token may be accepted.
    #[error("token expired")]
    Expired,
}
