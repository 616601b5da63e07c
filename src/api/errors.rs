//! The wire form of errors. `feed/error_kind.rs` has the codes and statuses.

use serde_json::{Value, json};

use crate::feed::{FeedError, StoredError, whole_seconds};

impl FeedError {
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
