//! The API key of a request: `X-API-Key`, `Authorization: apikey …` or `?api_key=…`.

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};

use super::context::BackendCaller;
use crate::auth::ApiKeys;
use crate::feed::{Caller, Credential, FeedError, Origin};
use crate::http::answers::problem;
use crate::http::authentication::backend_user;
use crate::http::query::read_query;

/// The caller of a request with a valid API key.
///
/// # Errors
/// The response, if the key is wrong or missing, or `X-User` is malformed.
pub(in crate::http) fn authenticate(keys: &ApiKeys, parts: &Parts) -> Result<BackendCaller, Box<Response<Body>>> {
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let key = match (header("x-api-key"), header(AUTHORIZATION.as_str())) {
        (Some(key), _) => key.to_owned(),
        (None, Some(authorization)) => match authorization.split_once(' ') {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case("apikey") => key.trim().to_owned(),
            _ => String::new(),
        },
        (None, None) => {
            let query = read_query(parts.uri.query().unwrap_or_default()).unwrap_or_default();
            query.get("api_key").and_then(|key| key.as_str()).unwrap_or_default().to_owned()
        }
    };
    if !keys.accept(&key) {
        let refusal = problem(StatusCode::UNAUTHORIZED, "unauthorized", "send an API key as X-API-Key");
        return Err(Box::new(refusal));
    }
    let malformed = |error: FeedError| problem(StatusCode::BAD_REQUEST, error.code(), &error.to_string());
    let user = backend_user(parts).map_err(|error| Box::new(malformed(error)))?;
    let (caller, credential) = match user {
        Some((user, credential)) => (Caller::User(user), credential),
        None => (Caller::Anonymous, Credential::Nothing),
    };
    Ok(BackendCaller { caller, credential, origin: Origin::Backend, trace: None })
}
