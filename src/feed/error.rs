//! The errors of operations. `api/error_kind.rs` has their codes and statuses.

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

/// The reason why an operation was refused or failed. `api::ErrorKind` describes each code.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The code `invalid`.
    #[error("{message}")]
    Invalid {
        /// The field at fault, if it is known.
        field: Option<Cow<'static, str>>,
        /// The rule that it violates.
        message: Cow<'static, str>,
    },
    /// The code `unauthorized`.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// The code `forbidden`.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The code `locked`.
    #[error("this account is locked: only its followers see this")]
    Locked,
    /// The code `not_found`.
    #[error("{0}")]
    NotFound(&'static str),
    /// The code `conflict`.
    #[error("{message}")]
    Conflict {
        /// The field at fault.
        field: &'static str,
        /// The state that it conflicts with.
        message: &'static str,
    },
    /// The code `too_large`.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The code `limit_exceeded`.
    #[error("{what}: at most {most}")]
    LimitExceeded {
        /// The field at fault.
        field: &'static str,
        /// The things that are limited.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// The code `in_progress`.
    #[error("the first request with this idempotency key is still running, try again")]
    InProgress,
    /// The code `idempotency_conflict`.
    #[error("this idempotency key was used for another operation or another input")]
    KeyReused,
    /// The code `rate_limited`.
    #[error("{what}: too many at once, try again in {} s", whole_seconds(*.retry_after))]
    RateLimited {
        /// The things that are counted.
        what: &'static str,
        /// When the next one is allowed.
        retry_after: Duration,
    },
    /// The code `too_many_requests`.
    #[error("{0}")]
    TooMany(&'static str),
    /// The code `internal`.
    #[error("the server failed internally")]
    Internal,
    /// The code `busy`.
    #[error("{0}")]
    Busy(&'static str),
    /// The code `unavailable`.
    #[error("temporarily unavailable, try again")]
    Unavailable,
    /// The code `unavailable`: a store is unreachable or refuses to work, for the reason given. The reason is for
    /// operators: clients do not get it.
    #[error("temporarily unavailable, try again")]
    StoreAway(Box<str>),
    /// The stored error of the first request with the same idempotency key. It has the kind of that error.
    #[error("{}", .0.message)]
    Stored(Box<StoredError>),
}

/// A permanent error, as the ledger stores it for repeats of the request: see `api/idempotency.rs`.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredError {
    /// The code of its kind.
    pub(crate) code: String,
    /// Its message.
    pub(crate) message: String,
    /// The field of the input at fault.
    pub(crate) field: Option<String>,
}

/// Rounds up to whole seconds, so that a client that waits this long has waited long enough.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The post does not exist, or the reader may not see it.
pub(crate) const NO_POST: FeedError = FeedError::NotFound("no such post");

/// The comment does not exist, or the reader may not see it.
pub(crate) const NO_COMMENT: FeedError = FeedError::NotFound("no such comment");

/// The user does not exist, or the reader may not see the profile.
pub(crate) const NO_USER: FeedError = FeedError::NotFound("no such user");

/// The result of an operation.
pub type Result<T> = std::result::Result<T, FeedError>;

impl FeedError {
    /// An `invalid` error that names the field at fault.
    pub fn invalid(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { field: Some(field.into()), message: message.into() }
    }

    /// Whether a store is out of service or refuses to work: the same request succeeds once the store recovers.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unavailable
                | Self::StoreAway(_)
                | Self::Busy(_)
                | Self::TooMany(_)
                | Self::RateLimited { .. }
                | Self::InProgress
        )
    }

    /// The reason, for operators.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::StoreAway(reason) => reason.to_string(),
            other => other.to_string(),
        }
    }

    /// The field of the input at fault.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid { field, .. } => field.as_deref(),
            Self::Conflict { field, .. } | Self::LimitExceeded { field, .. } => Some(field),
            Self::InProgress | Self::KeyReused => Some("idempotency_key"),
            Self::Stored(error) => error.field.as_deref(),
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
            PasswordError::Busy => Self::TooMany("too many sign-ins run at once, try again"),
            PasswordError::Failed(_) => {
                tracing::error!(%error, "a password could not be verified");
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
/// second part of the result is the cause, if the work failed.
pub(crate) async fn isolate<T>(work: impl Future<Output = Result<T>>) -> (Result<T>, String) {
    let work = async {
        let done = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            note_cause(&"it panicked, see the log");
            Err(FeedError::Internal)
        });
        let cause = match &done {
            Ok(_) => None,
            Err(FeedError::Internal) => CAUSE.with(RefCell::take),
            Err(error) => Some(error.reason()),
        };
        (done, cause.unwrap_or_else(|| "unknown, see the log".to_owned()))
    };
    CAUSE.scope(RefCell::new(None), work).await
}

fn note_cause(error: &dyn Display) {
    // The cause is recorded only inside `isolate`.
    let _ = CAUSE.try_with(|cause| *cause.borrow_mut() = Some(error.to_string()));
}

impl From<LedgerError> for FeedError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Busy => Self::TooMany("the server is busy, try again"),
            LedgerError::Unreachable(_) | LedgerError::Refused(..) => {
                tracing::warn!(%error, "an operation waits for the ledger");
                Self::StoreAway(error.to_string().into())
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
            BrokerError::Unreachable(_) | BrokerError::Refused(..) => {
                tracing::warn!(%error, "an operation waits for the broker");
                Self::StoreAway(error.to_string().into())
            }
            BrokerError::Failed(_) => {
                tracing::error!(%error, "an operation failed in the broker");
                note_cause(&error);
                Self::Internal
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_refusal::Refusal;

    #[test]
    fn refusals_of_stores_are_outages_with_their_reason() {
        for refusal in Refusal::ALL {
            let of_ledger = FeedError::from(LedgerError::Refused(refusal, "the text".to_owned()));
            let of_broker = FeedError::from(BrokerError::Refused(refusal, "the text".to_owned()));
            for error in [of_ledger, of_broker] {
                assert!(error.is_outage() && matches!(error, FeedError::StoreAway(_)), "{error:?}");
                assert!(error.reason().contains(refusal.as_str()) && error.reason().contains("the text"), "{error:?}");
                assert!(!error.to_string().contains("the text"), "clients do not get the reason");
            }
        }
    }

    #[test]
    fn lost_stores_are_outages_and_lasting_errors_are_not() {
        let why = || "why".to_owned();
        let away = [LedgerError::Unreachable(why()).into(), BrokerError::Unreachable(why()).into()];
        assert!(away.iter().all(FeedError::is_outage));
        assert!(FeedError::from(LedgerError::Busy).is_outage());
        let lasting = [LedgerError::Failed(why()).into(), BrokerError::Failed(why()).into()];
        assert!(lasting.iter().all(|error: &FeedError| matches!(error, FeedError::Internal) && !error.is_outage()));
    }
}
