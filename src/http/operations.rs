//! The feed's operations over HTTP: input from path, query and body; who asks from a token or an API key.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::{MethodFilter, MethodRouter, on};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};

use super::in_flight::Ticket;
use super::{BODY, Site, json_answer};
use crate::api::operations::{Access, Operation, Verb};
use crate::auth::TokenError;
use crate::feed::{Caller, Credential, FeedError, Origin, now};
use crate::model::{UserId, UserOrigin};
use crate::net::ClientAddress;

/// The route of the operation at this index of the table.
pub(super) fn route(index: usize, operation: &Operation) -> MethodRouter<Arc<Site>> {
    let filter = match operation.verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
    };
    on(filter, move |State(site): State<Arc<Site>>, request: Request| async move { serve(&site, index, request).await })
}

async fn serve(site: &Arc<Site>, index: usize, request: Request) -> Response<Body> {
    let operation = &site.gateway.operations().all()[index];
    let answer = run(site, operation, request).await;
    site.gateway.metrics().operation(operation.name, answer.as_ref().map_or_else(FeedError::code, |_| "ok"));
    match answer.and_then(|(answer, ticket)| ticket.into_body(answer)) {
        Ok(body) => {
            let status = StatusCode::from_u16(operation.status).unwrap_or(StatusCode::OK);
            json_answer(status, body)
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &FeedError) -> Response<Body> {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json_answer(status, error.to_json().to_string());
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

async fn run(site: &Arc<Site>, operation: &Operation, request: Request) -> Result<(bytes::Bytes, Ticket), FeedError> {
    let (mut parts, body) = request.into_parts();
    let (caller, credential, origin) = match operation.access {
        Access::Open if !parts.headers.contains_key(API_KEY) => {
            (Caller::Anonymous, Credential::Nothing, address(&parts))
        }
        Access::Open | Access::Reader | Access::User => caller(site, &parts)?,
    };
    let ticket = site.in_flight.admit(&caller, origin)?;
    let key = key(operation, &parts.headers)?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut input = read_query(&query)?;
    // A DELETE may have a body; its input may be in the query as well.
    if operation.verb.has_body() || operation.verb == Verb::Delete {
        input.extend(read_body(body).await?);
    }
    // The path has the last word: it is what the request is about.
    if let Ok(params) = RawPathParams::from_request_parts(&mut parts, &()).await {
        input.extend(params.iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
    }
    let asked = crate::api::Request { caller, credential, origin, client: None, key, input: Value::Object(input) };
    Ok((site.gateway.executor().run(operation, asked).await?, ticket))
}

/// The header that names a write; to operations that take no key it means nothing.
fn key(operation: &Operation, headers: &HeaderMap) -> Result<Option<String>, FeedError> {
    let Some(key) = headers.get("idempotency-key").filter(|_| operation.takes_key()) else { return Ok(None) };
    let wrong = |_| FeedError::invalid("idempotency_key", "an idempotency key is printable ASCII");
    key.to_str().map(|key| Some(key.to_owned())).map_err(wrong)
}

/// The header that holds a backend's key.
const API_KEY: &str = "x-api-key";

/// The client's address; the listener noted it.
fn address(parts: &Parts) -> Origin {
    let client = parts.extensions.get::<ClientAddress>();
    Origin::Address(client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.0))
}

/// `limit=20&cursor=p12`, percent-encoded. Everything is text; inputs that are numbers read their digits.
fn read_query(query: &str) -> Result<Map<String, Value>, FeedError> {
    let mut input = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (percent_decode(name), percent_decode(value)) else {
            return Err(FeedError::Invalid { field: None, message: "the query is not percent-encoded UTF-8".into() });
        };
        input.insert(name, value.into());
    }
    Ok(input)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

async fn read_body(body: Body) -> Result<Map<String, Value>, FeedError> {
    let body = to_bytes(body, BODY).await.map_err(|error| {
        let too_large = std::error::Error::source(&error).is_some_and(|source| source.is::<LengthLimitError>());
        if too_large {
            FeedError::TooLarge(BODY)
        } else {
            FeedError::Invalid { field: None, message: "the body could not be read".into() }
        }
    })?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Object(input)) => Ok(input),
        // Clients that always send a body send this one.
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(FeedError::Invalid { field: None, message: "the body is a JSON object".into() }),
        Err(error) => Err(FeedError::Invalid { field: None, message: format!("the body is not JSON: {error}").into() }),
    }
}

/// Who asks: a user with a token, or a backend with an API key, acting for one or for nobody.
fn caller(site: &Site, parts: &Parts) -> Result<(Caller, Credential, Origin), FeedError> {
    let text = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(key) = text(API_KEY) {
        if !site.api_keys.accept(key) {
            return Err(FeedError::Unauthorized("wrong API key"));
        }
        return match text("x-user") {
            None => Ok((Caller::Anonymous, Credential::Nothing, Origin::Backend)),
            Some(user) => {
                let credential = Credential::Backend(user_origin(text("x-user-origin"))?);
                let user = UserId::parse(user).filter(|user| !user.is_reserved());
                user.map(|user| (Caller::User(user), credential, Origin::Backend))
                    .ok_or_else(|| FeedError::invalid("X-User", "X-User is not a user's id"))
            }
        };
    }
    let Some(authorization) = text(AUTHORIZATION.as_str()) else {
        return Err(FeedError::Unauthorized("send a token as `Authorization: Bearer …`"));
    };
    let (scheme, token) = authorization.split_once(' ').unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(FeedError::Unauthorized("send a token as `Authorization: Bearer …`"));
    }
    match site.verifier.verify_connect(token.trim(), now() / 1_000) {
        Ok(claims) => {
            let credential = Credential::Token(Arc::new(claims.identity));
            Ok((claims.user.map_or(Caller::Anonymous, Caller::User), credential, address(parts)))
        }
        Err(TokenError::NoExpiry) => Err(FeedError::Unauthorized("the token has no exp, see auth.require_exp")),
        Err(TokenError::Expired) => Err(FeedError::Unauthorized("the token has expired")),
        Err(TokenError::Invalid(_)) => Err(FeedError::Unauthorized("the token is not valid")),
    }
}

/// Whom a backend means by `X-User`: a user of the application, unless it says that it means an account.
fn user_origin(header: Option<&str>) -> Result<UserOrigin, FeedError> {
    match header {
        None | Some("application") => Ok(UserOrigin::Application),
        Some("account") => Ok(UserOrigin::Account),
        Some(_) => Err(FeedError::invalid("X-User-Origin", "X-User-Origin is account or application")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let input = read_query("q=a+b%20c%C3%A9&limit=5&flag").unwrap();
        assert_eq!(Value::Object(input), serde_json::json!({ "q": "a b cé", "limit": "5", "flag": "" }));
        for wrong in ["a=%", "a=%zz", "a=%ff", "%c3=1"] {
            assert!(read_query(wrong).is_err(), "{wrong}");
        }
    }
}
