//! Answers that all paths have in common, and the bound of request bodies.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;

/// The largest request body, in bytes: several times a post of the largest size.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;

/// An error, as every path answers it.
pub(super) fn problem(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    json_answer(status, json!({ "error": { "code": code, "message": message } }).to_string())
}

/// An answer in JSON.
pub(super) fn json_answer(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.into()).into_response()
}
