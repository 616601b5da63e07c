//! The wire form of errors.

use serde_json::{Value, json};

use super::error_kind::ErrorKind;
use crate::feed::{FeedError, StoredError, whole_seconds};

impl FeedError {
    /// Its kind.
    pub fn kind(&self) -> &'static ErrorKind {
        match self {
            Self::Invalid { .. } => &ErrorKind::INVALID,
            Self::Unauthorized(_) => &ErrorKind::UNAUTHORIZED,
            Self::Forbidden(_) => &ErrorKind::FORBIDDEN,
            Self::Locked => &ErrorKind::LOCKED,
            Self::NotFound(_) => &ErrorKind::NOT_FOUND,
            Self::Conflict { .. } => &ErrorKind::CONFLICT,
            Self::TooLarge(_) => &ErrorKind::TOO_LARGE,
            Self::LimitExceeded { .. } => &ErrorKind::LIMIT_EXCEEDED,
            Self::InProgress => &ErrorKind::IN_PROGRESS,
            Self::KeyReused => &ErrorKind::IDEMPOTENCY_CONFLICT,
            Self::RateLimited { .. } => &ErrorKind::RATE_LIMITED,
            Self::TooMany(_) => &ErrorKind::TOO_MANY_REQUESTS,
            Self::Internal => &ErrorKind::INTERNAL,
            Self::Busy(_) => &ErrorKind::BUSY,
            Self::Unavailable | Self::StoreAway(_) => &ErrorKind::UNAVAILABLE,
            Self::Stored(error) => ErrorKind::by_code(&error.code).unwrap_or(&ErrorKind::INTERNAL),
        }
    }

    /// The code of its [`kind`](Self::kind).
    pub fn code(&self) -> &'static str {
        self.kind().code
    }

    /// The HTTP status and rpc code of its [`kind`](Self::kind).
    pub fn status(&self) -> u16 {
        self.kind().status
    }

    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        self.kind().is_temporary
    }

    /// The delay before a retry, in seconds (`Retry-After`), if it is known.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(whole_seconds(*retry_after)),
            Self::InProgress | Self::TooMany(_) | Self::Busy(_) | Self::Unavailable | Self::StoreAway(_) => Some(1),
            _ => None,
        }
    }

    /// The message of an rpc error. It begins with the code: SDKs pass only number, message and `temporary` on, and
    /// several codes share a number.
    pub(crate) fn to_rpc_message(&self) -> String {
        format!("{}: {self}", self.code())
    }

    /// The stored form of a permanent error, returned to repeats of the request; `None` for a temporary error.
    pub(super) fn to_stored(&self) -> Option<StoredError> {
        (!self.is_temporary()).then(|| StoredError {
            code: self.code().to_owned(),
            message: self.to_string(),
            field: self.field().map(str::to_owned),
        })
    }

    /// The body of an HTTP response.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code(), "message": self.to_string() });
        if let Some(field) = self.field() {
            error["field"] = field.into();
        }
        json!({ "error": error })
    }
}
