//! Responses of the server API: `{"result":{…}}` or `{"error":{"code":n,"message":"…"}}`.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::feed::FeedError;
use crate::model::without_nulls;
use crate::protocol::ErrorCode;

/// The result of a method, or an error of the protocol.
pub(super) type Answer = Result<Value, ErrorCode>;

/// An error of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ApiError {
    code: u32,
    message: Cow<'static, str>,
}

impl ApiError {
    /// There is no method, or rpc method, of this name.
    pub(super) const METHOD_NOT_FOUND: Self = Self { code: 104, message: Cow::Borrowed("method not found") };

    /// The error of an operation.
    pub(super) fn of_operation(error: &FeedError) -> Self {
        Self { code: error.status().into(), message: error.to_rpc_message().into() }
    }

    /// The HTTP status of the error, for backends that ask for statuses.
    pub(super) fn status(&self) -> StatusCode {
        match self.code {
            102 | 104 | 404 => StatusCode::NOT_FOUND,
            113 | 409 => StatusCode::CONFLICT,
            112 => StatusCode::RANGE_NOT_SATISFIABLE,
            107 | 108 | 400..=499 => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The error alone: the body of a response with its status.
    pub(super) fn to_text(&self) -> String {
        // A number and a text can always be encoded.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<ErrorCode> for ApiError {
    fn from(error: ErrorCode) -> Self {
        Self { code: error.code, message: error.message.into() }
    }
}

/// The body of a response.
pub(super) fn to_body(answer: &Result<String, ApiError>) -> String {
    match answer {
        Ok(result) => format!(r#"{{"result":{result}}}"#),
        Err(error) => format!(r#"{{"error":{}}}"#, error.to_text()),
    }
}

/// Decodes a request. Its members that are `null` count as absent, and `null` alone as an empty request.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ErrorCode> {
    let json = std::str::from_utf8(body).map_err(|_| ErrorCode::BAD_REQUEST)?;
    let json = if json.trim_ascii() == "null" { "{}".into() } else { without_nulls(json) };
    serde_json::from_str(&json).map_err(|_| ErrorCode::BAD_REQUEST)
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
