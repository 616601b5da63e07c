//! What can go wrong with an operation of the feed. `api/errors.rs` has the codes and statuses.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use serde::{Deserialize, Serialize};

use crate::auth::{PasswordError, Revoked};
use crate::broker::BrokerError;
use crate::ledger::LedgerError;

/// Why an operation was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The input is malformed or violates a rule; `field` names the member, if known.
    #[error("{message}")]
    Invalid {
        /// The part at fault, if it can be told.
        field: Option<Cow<'static, str>>,
        /// What is wrong with it.
        message: Cow<'static, str>,
    },
    /// The request has no credentials, or they are wrong, expired or revoked.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// The user does not have this right, or is blocked.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The object does not exist, or the caller cannot see it: the two are not distinguished.
    #[error("{0}")]
    NotFound(&'static str),
    /// The request conflicts with the current state.
    #[error("{message}")]
    Conflict {
        /// The part at fault.
        field: &'static str,
        /// What it clashes with.
        message: &'static str,
    },
    /// The request body is too large.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// A configured limit is reached.
    #[error("{what}: at most {most}")]
    LimitExceeded {
        /// The part at fault.
        field: &'static str,
        /// What is limited.
        what: &'static str,
        /// To how many.
        most: u64,
    },
    /// The first request with the same idempotency key is still running.
    #[error("the first request with this idempotency key is still running, try again")]
    InProgress,
    /// The idempotency key was used for another operation or another input.
    #[error("this idempotency key was used for another operation or another input")]
    KeyReused,
    /// The user or the address exceeded a rate limit. `Retry-After` says when to retry.
    #[error("{what}: too many at once, try again in {} s", whole_seconds(*.retry_after))]
    RateLimited {
        /// What is counted.
        what: &'static str,
        /// When there will be room for one more.
        retry_after: Duration,
    },
    /// Too many requests run at the same time.
    #[error("{0}")]
    TooMany(&'static str),
    /// The server failed internally.
    #[error("something failed inside")]
    Internal,
    /// The write-behind queue is full. Nothing was written.
    #[error("{0}")]
    Busy(&'static str),
    /// A store is unreachable. A write may or may not have happened.
    #[error("temporarily unavailable, try again")]
    Unavailable,
    /// The stored error of the first request with the same idempotency key.
    #[error("{}", .0.message)]
    Remembered(Box<Remembered>),
}

/// A lasting error, as it is stored for repeats of the request.
#[derive(Debug, Serialize, Deserialize)]
pub struct Remembered {
    /// Its public code.
    pub(crate) code: String,
    /// Its HTTP status.
    pub(crate) status: u16,
    /// Its message.
    pub(crate) message: String,
    /// The member of the input at fault.
    pub(crate) field: Option<String>,
}

/// Rounded up, so that a client that waits so long has waited long enough.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// There is no such post, or the reader may not see it.
pub(crate) const NO_POST: FeedError = FeedError::NotFound("no such post");

/// There is no such comment, or the reader may not see it.
pub(crate) const NO_COMMENT: FeedError = FeedError::NotFound("no such comment");

/// There is no such user, or the reader may not see the profile.
pub(crate) const NO_USER: FeedError = FeedError::NotFound("no such user");

/// The result of an operation.
pub type Result<T> = std::result::Result<T, FeedError>;

impl FeedError {
    /// An input error that names the part at fault.
    pub fn invalid(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { field: Some(field.into()), message: message.into() }
    }

    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::InProgress
                | Self::RateLimited { .. }
                | Self::TooMany(_)
                | Self::Internal
                | Self::Busy(_)
                | Self::Unavailable
        )
    }

    /// Whether the error says that a store cannot do its work at this time: the same request succeeds once it can.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Busy(_) | Self::TooMany(_) | Self::RateLimited { .. } | Self::InProgress
        )
    }

    /// The part of the input at fault.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid { field, .. } => field.as_deref(),
            Self::Conflict { field, .. } | Self::LimitExceeded { field, .. } => Some(field),
            Self::InProgress | Self::KeyReused => Some("idempotency_key"),
            Self::Remembered(error) => error.field.as_deref(),
            _ => None,
        }
    }
}

impl From<Revoked> for FeedError {
    fn from(revoked: Revoked) -> Self {
        match revoked {
            Revoked::Token => Self::Unauthorized("the token was revoked, or its session has ended: sign in again"),
            Revoked::User => Self::Forbidden("this user is blocked"),
        }
    }
}

impl From<PasswordError> for FeedError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Busy => Self::TooMany("too many are signing in, try again"),
            PasswordError::Failed(_) => {
                tracing::error!(%error, "a password could not be looked at");
                Self::Internal
            }
        }
    }
}

tokio::task_local! {
    /// The cause of the last [internal](FeedError::Internal) error of the work in [`isolate`].
    static CAUSE: RefCell<Option<String>>;
}

/// Runs work whose failure is recorded for an operator. A panic counts as an [internal](FeedError::Internal) error. The
/// second part of the result is the cause, if the work failed with an internal error.
pub(crate) async fn isolate<T>(work: impl Future<Output = Result<T>>) -> (Result<T>, String) {
    let work = async {
        let done = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            note_cause(&"it panicked, see the log");
            Err(FeedError::Internal)
        });
        let cause = CAUSE.with(RefCell::take);
        (done, cause.unwrap_or_else(|| "unknown, see the log".to_owned()))
    };
    CAUSE.scope(RefCell::new(None), work).await
}

fn note_cause(error: &dyn Display) {
    // Outside of `isolate` nothing is recorded.
    let _ = CAUSE.try_with(|cause| *cause.borrow_mut() = Some(error.to_string()));
}

impl From<LedgerError> for FeedError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Busy => Self::TooMany("the server is busy, try again"),
            LedgerError::Unreachable(_) => {
                tracing::warn!(%error, "an operation could not reach the ledger");
                Self::Unavailable
            }
            LedgerError::Failed(_) => {
                tracing::error!(%error, "an operation failed in the ledger");
                note_cause(&error);
                Self::Internal
            }
        }
    }
}

impl From<BrokerError> for FeedError {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Unreachable(_) => {
                tracing::warn!(%error, "an operation could not reach the broker");
                Self::Unavailable
            }
            BrokerError::Refused(_) => {
                tracing::error!(%error, "an operation failed in the broker");
                note_cause(&error);
                Self::Internal
            }
        }
    }
}
