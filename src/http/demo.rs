//! `/demo/…`: the pictures of the demonstration.

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Response, StatusCode};

use super::answers::problem;
use crate::demo::picture;

pub(super) async fn serve(Path(name): Path<String>) -> Response<Body> {
    let Some(drawn) = picture(&name) else {
        return problem(StatusCode::NOT_FOUND, "not_found", "there is nothing here");
    };
    let mut response = Response::new(Body::from(drawn));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    // The same name has the same picture as long as the version of the program is the same.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
