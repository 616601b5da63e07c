//! The claims of verified tokens.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::model::UserId;

/// The identity of a token: revocations refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    /// The signer.
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

/// The signer of a token.
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

/// The claims of a connect token.
#[derive(Clone, Debug)]
pub struct ConnectClaims {
    /// The identity of the token.
    pub identity: TokenIdentity,
    /// The user; `None` for anonymous clients.
    pub user: Option<UserId>,
    /// When the connection expires, in Unix seconds; `None` is never.
    pub expire_at: Option<u64>,
    /// Other subscribers see it with the connection: JSON.
    pub info: Option<Box<RawValue>>,
    /// Channels to subscribe the connection to.
    pub channels: Vec<String>,
    /// More such channels, with options.
    pub subs: BTreeMap<String, SubscribeOptions>,
}

/// The options of a connect token for one channel.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// Other subscribers of the channel see it with the client: JSON.
    pub info: Option<Box<RawValue>>,
    /// For the reply to the subscriber: JSON.
    pub data: Option<Box<RawValue>>,
}

/// The claims of a subscription token.
#[derive(Clone, Debug)]
pub struct SubscribeClaims {
    /// The identity of the token.
    pub identity: TokenIdentity,
    /// The user; `None` for anonymous clients. It must be the user of the connection.
    pub user: Option<UserId>,
    /// The channel.
    pub channel: String,
    /// The connection that it is limited to, if it is.
    pub client: Option<String>,
    /// When the subscription expires, in Unix seconds; `None` is never.
    pub expire_at: Option<u64>,
    /// Options of the subscription.
    pub options: SubscribeOptions,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It cannot be decoded, its signature is wrong, or it is for another use.
    #[error("invalid token: {0}")]
    Invalid(&'static str),
    /// It never expires, and `auth.require_exp` is on.
    #[error("invalid token: it has no exp, and auth.require_exp is on")]
    NoExpiry,
    /// It has expired, or is not valid yet: another token may be accepted.
    #[error("token expired")]
    Expired,
}
