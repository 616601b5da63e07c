//! CORS for `/api/v1`: the allowed origins of WebSockets may call the operations as well.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;

use super::answers::problem;
use crate::denials::{Denied, deny};
use crate::net::AllowedOrigins;
use crate::net::origin;
use crate::reloadable::Reloadable;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, x-request-id");
/// The maximal size of a list of headers that is allowed as it was asked for.
const MAX_ASKED_HEADERS: usize = 2_048;
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, x-request-id");
/// The maximal time, in seconds, for which a browser may reuse the response to a preflight. Chromium limits it to two
/// hours.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Answers preflights, and adds the CORS headers to every other response. Credentials are not allowed: a page sends its
/// token in `Authorization`, and there are no cookies.
///
/// Requests of other origins are rejected even without a preflight: browsers send "simple" requests without one, so any
/// page could cause failed sign-ins or sign-ups from its visitors' addresses.
pub(super) async fn cors(
    State(origins): State<Reloadable<AllowedOrigins>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let allowed = allow_origin(&origins.get(), request.headers());
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let is_foreign = allowed.is_none() && request.headers().contains_key(ORIGIN);
    let mut response = match (is_foreign, is_preflight) {
        (true, _) => {
            deny(Denied::Origin, "not listed", &origin::shown(request.headers()));
            problem(StatusCode::FORBIDDEN, "forbidden", "this origin may not call the API, see server.origins")
        }
        (false, true) => preflight(request.headers()),
        (false, false) => next.run(request).await,
    };
    let headers = response.headers_mut();
    // Caches must not return a response for one origin to another.
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(allowed) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
    }
    response
}

/// The value of `Access-Control-Allow-Origin`. `None` if the request has no origin, or if its origin may not read the
/// response.
fn allow_origin(origins: &AllowedOrigins, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    match origins {
        AllowedOrigins::Any => Some(HeaderValue::from_static("*")),
        AllowedOrigins::Listed(_) => origin::allowed(origins, headers).then(|| origin.clone()),
    }
}

/// The headers that a page may send: those that its browser asks about, whatever they are. Libraries for tracing and
/// monitoring add their own to every request of a page, and the origin is allowed.
fn request_headers(asked: &HeaderMap) -> HeaderValue {
    let is_list = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~, ".contains(byte);
    let asked = asked.get(ACCESS_CONTROL_REQUEST_HEADERS);
    let asked = asked.filter(|asked| asked.len() <= MAX_ASKED_HEADERS && asked.as_bytes().iter().all(is_list));
    asked.filter(|asked| !asked.is_empty()).cloned().unwrap_or(REQUEST_HEADERS)
}

fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, request_headers(asked));
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.append(VARY, HeaderValue::from_static("access-control-request-method, access-control-request-headers"));
    response
}
