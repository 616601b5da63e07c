//! The codes and statuses of errors: the same for every transport.
//!
//! | kind | `code` | HTTP and rpc | try again? |
//! |---|---|---:|---|
//! | [`Invalid`](crate::feed::FeedError::Invalid) | `invalid` | 400 | corrected |
//! | [`Unauthorized`](crate::feed::FeedError::Unauthorized) | `unauthorized` | 401 | with a token |
//! | [`Forbidden`](crate::feed::FeedError::Forbidden) | `forbidden` | 403 | no |
//! | [`NotFound`](crate::feed::FeedError::NotFound) | `not_found` | 404 | no |
//! | [`Conflict`](crate::feed::FeedError::Conflict) | `conflict` | 409 | corrected |
//! | [`TooLarge`](crate::feed::FeedError::TooLarge) | `too_large` | 413 | smaller |
//! | [`InProgress`](crate::feed::FeedError::InProgress) | `in_progress` | 409 | later |
//! | [`LimitExceeded`](crate::feed::FeedError::LimitExceeded) | `limit_exceeded` | 422 | no |
//! | [`KeyReused`](crate::feed::FeedError::KeyReused) | `idempotency_conflict` | 422 | under another key |
//! | [`RateLimited`](crate::feed::FeedError::RateLimited) | `rate_limited` | 429 | later, it says when |
//! | [`TooMany`](crate::feed::FeedError::TooMany) | `too_many_requests` | 429 | later |
//! | [`Internal`](crate::feed::FeedError::Internal) | `internal` | 500 | later |
//! | [`Busy`](crate::feed::FeedError::Busy) | `busy` | 503 | later: nothing was done |
//! | [`Unavailable`](crate::feed::FeedError::Unavailable) | `unavailable` | 503 | later |
//! | [`Remembered`](crate::feed::FeedError::Remembered) | as it was | as it was | as it was: no |

use serde_json::{Value, json};

use crate::feed::{FeedError, Remembered, whole_seconds};

/// The codes of lasting errors: these can be stored.
const LASTING: &[&str] =
    &["invalid", "unauthorized", "forbidden", "not_found", "conflict", "too_large", "limit_exceeded"];

impl FeedError {
    /// The public name of the kind.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound(_) => "not_found",
            Self::Conflict { .. } => "conflict",
            Self::TooLarge(_) => "too_large",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::InProgress => "in_progress",
            Self::KeyReused => "idempotency_conflict",
            Self::RateLimited { .. } => "rate_limited",
            Self::TooMany(_) => "too_many_requests",
            Self::Internal => "internal",
            Self::Busy(_) => "busy",
            Self::Unavailable => "unavailable",
            Self::Remembered(error) => LASTING.iter().find(|code| **code == error.code).copied().unwrap_or("other"),
        }
    }

    /// The HTTP status, which is the rpc code too: it lies in the range 400–1999 that the client protocol leaves to
    /// applications.
    pub fn status(&self) -> u16 {
        match self {
            Self::Invalid { .. } => 400,
            Self::Unauthorized(_) => 401,
            Self::Forbidden(_) => 403,
            Self::NotFound(_) => 404,
            Self::Conflict { .. } | Self::InProgress => 409,
            Self::TooLarge(_) => 413,
            Self::LimitExceeded { .. } | Self::KeyReused => 422,
            Self::RateLimited { .. } | Self::TooMany(_) => 429,
            Self::Internal => 500,
            Self::Busy(_) | Self::Unavailable => 503,
            Self::Remembered(error) => error.status,
        }
    }

    /// In how many seconds it is worth trying again, where that is known.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(whole_seconds(*retry_after)),
            Self::InProgress | Self::Busy(_) => Some(1),
            _ => None,
        }
    }

    /// The stored form of a lasting error, for repeats of the request; `None` for a temporary one.
    pub(super) fn to_remember(&self) -> Option<Remembered> {
        (!self.is_temporary()).then(|| Remembered {
            code: self.code().to_owned(),
            status: self.status(),
            message: self.to_string(),
            field: self.field().map(str::to_owned),
        })
    }

    /// The error as HTTP clients read it.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code(), "message": self.to_string() });
        if let Some(field) = self.field() {
            error["field"] = field.into();
        }
        json!({ "error": error })
    }
}
