//! The responses that all paths share, and the limit of request bodies.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;

/// The maximal size of a request body, in bytes: several times that of the largest post.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;

/// An error response in the form that all paths use.
pub(super) fn problem(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    json_answer(status, json!({ "error": { "code": code, "message": message } }).to_string())
}

/// A JSON response.
pub(super) fn json_answer(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.into()).into_response()
}
