//! Responses of the server API: `{"result":{…}}` or `{"error":{"code":n,"message":"…"}}`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::feed::FeedError;
use crate::protocol::ErrorCode;

/// The result of a method, or an error of the protocol.
pub(super) type Answer = Result<Value, ErrorCode>;

/// The body of a response.
pub(super) fn to_body(answer: Answer) -> Value {
    match answer {
        Ok(result) => json!({ "result": result }),
        Err(error) => json!({ "error": { "code": error.code, "message": error.message } }),
    }
}

/// Decodes a request.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ErrorCode> {
    serde_json::from_slice(body).map_err(|_| ErrorCode::BAD_REQUEST)
}

/// Maps a failure of the server to an error code.
pub(super) fn failed(error: &FeedError) -> ErrorCode {
    tracing::warn!(%error, "a backend's request failed");
    ErrorCode::INTERNAL
}

/// Maps a rejection by the feed to an error code.
pub(super) fn refused(error: &FeedError) -> ErrorCode {
    match error {
        FeedError::Invalid { .. } => ErrorCode::BAD_REQUEST,
        FeedError::NotFound(message) => ErrorCode { code: 104, message, temporary: false },
        FeedError::TooMany(message) => ErrorCode { code: 111, message, temporary: true },
        error => failed(error),
    }
}
