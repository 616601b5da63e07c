//! A call of an operation: the caller, the credential, the address it comes from.

use std::net::IpAddr;
use std::sync::Arc;

use super::error::{FeedError, Result};
use crate::auth::{TokenIdentity, TokenKind};
use crate::broker::Attempt;
use crate::model::{PostId, TraceContext, UserId, UserOrigin};

/// The caller of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An anonymous client.
    Anonymous,
    /// A user, proved by a token, or named by a backend that holds an API key.
    User(UserId),
}

impl Caller {
    /// The user.
    ///
    /// # Errors
    /// [`FeedError::Unauthorized`] for an anonymous caller.
    pub fn user(&self) -> Result<&UserId> {
        match self {
            Self::User(user) => Ok(user),
            Self::Anonymous => Err(FeedError::Unauthorized("sign in first")),
        }
    }

    /// The user; `None` for an anonymous caller.
    pub fn reader(&self) -> Option<&UserId> {
        match self {
            Self::User(user) => Some(user),
            Self::Anonymous => None,
        }
    }
}

/// The proof of a caller's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// None: an anonymous client.
    Nothing,
    /// A token.
    Token(Arc<TokenIdentity>),
    /// The word of the application about a client without a token: the answer of the connect hook, or insecure mode. It
    /// says who the user is, and gives no right that users do not have.
    Vouched,
    /// An API key. The backend states where the user's id comes from.
    Backend(UserOrigin),
}

impl Credential {
    /// The token, if it is one.
    pub fn token(&self) -> Option<&Arc<TokenIdentity>> {
        match self {
            Self::Token(token) => Some(token),
            Self::Nothing | Self::Vouched | Self::Backend(_) => None,
        }
    }

    /// The origin that the user's id must have.
    pub(crate) fn origin(&self) -> UserOrigin {
        match self {
            Self::Token(token) if token.kind != TokenKind::Application => UserOrigin::Account,
            Self::Nothing | Self::Token(_) | Self::Vouched => UserOrigin::Application,
            Self::Backend(origin) => *origin,
        }
    }

    /// The error for a user id of the other origin.
    pub(crate) fn refusal(&self) -> FeedError {
        FeedError::Forbidden(match self {
            Self::Nothing => "sign in first",
            Self::Token(token) if token.kind != TokenKind::Application => "the account of this session does not exist",
            Self::Token(_) | Self::Vouched => {
                "this id belongs to an account with a password: an application's user cannot act for it"
            }
            Self::Backend(UserOrigin::Application) => {
                "this id belongs to an account with a password: send X-User-Origin: account to act for it"
            }
            Self::Backend(UserOrigin::Account) => "there is no account with this id",
        })
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A backend with an API key.
    Backend,
    /// A client at this address, over its connection to the gateway.
    Connection(IpAddr),
    /// A client at this address, over HTTP.
    Address(IpAddr),
}

/// An operation under way. Operations that create nothing and depend only on the caller take just the [`Caller`].
pub(crate) struct Call {
    /// The caller, already authorised.
    pub(crate) caller: Caller,
    /// The caller's credential: sign-out revokes the token of the request.
    pub(crate) credential: Credential,
    /// Where the request comes from: backends are exempt from rate limits, sign-ins are counted by address.
    pub(crate) origin: Origin,
    /// The client connection of this node that sent the request, if any: the client is notified when its likes are
    /// settled.
    pub(crate) client: Option<Arc<str>>,
    /// The id for the object that the operation creates, reserved with an idempotency key. An earlier attempt may have
    /// used it.
    pub(crate) reserved: Option<PostId>,
    /// The idempotency key, if there is one.
    pub(crate) key: Option<(UserId, Box<str>)>,
    /// Whether an earlier attempt under the same idempotency key may have run.
    pub(crate) attempt: Attempt,
    /// The span of the request, if its trace is recorded.
    pub(crate) trace: Option<TraceContext>,
}

impl From<Call> for Caller {
    fn from(call: Call) -> Self {
        call.caller
    }
}
