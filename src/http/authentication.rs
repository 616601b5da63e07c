//! Authenticates HTTP requests: determines the caller from a token or an API key.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use crate::auth::{ApiKeys, KeyLookup, TokenError, Verifier};
use crate::feed::{Caller, Credential, FeedError, Origin, now};
use crate::model::{UserId, UserOrigin};
use crate::net::ClientAddress;
use crate::reloadable::Reloadable;

/// The header with the API key of a backend.
const API_KEY: &str = "x-api-key";

/// Authenticates callers of operations.
pub(super) struct Authenticator {
    /// Verifies the tokens of users.
    pub(super) verifier: Reloadable<Verifier>,
    /// The keys of backends.
    pub(super) api_keys: Reloadable<ApiKeys>,
}

impl Authenticator {
    /// Waits until the key of the request's token is fetched, if it is not known.
    pub(super) async fn await_key(&self, parts: &Parts) -> Result<(), FeedError> {
        let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = authorization.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
        match token.and_then(|token| self.verifier.get().missing_key(token)) {
            Some(key) if key.wait().await == KeyLookup::Unavailable => Err(FeedError::Unavailable),
            _ => Ok(()),
        }
    }

    /// The caller of an operation that needs no credentials: anonymous, unless the request has an API key.
    pub(super) fn open_caller(&self, parts: &Parts) -> Result<(Caller, Credential, Origin), FeedError> {
        if parts.headers.contains_key(API_KEY) {
            return self.caller(parts);
        }
        Ok((Caller::Anonymous, Credential::Nothing, address(parts)))
    }

    /// The caller: a user with a token, or a backend with an API key, for itself or for a user.
    pub(super) fn caller(&self, parts: &Parts) -> Result<(Caller, Credential, Origin), FeedError> {
        let text = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if let Some(key) = text(API_KEY) {
            if !self.api_keys.get().accept(key) {
                return Err(FeedError::Unauthorized("wrong API key"));
            }
            return Ok(match backend_user(parts)? {
                None => (Caller::Anonymous, Credential::Nothing, Origin::Backend),
                Some((user, credential)) => (Caller::User(user), credential, Origin::Backend),
            });
        }
        let Some(authorization) = text(AUTHORIZATION.as_str()) else {
            return Err(FeedError::Unauthorized("send a token as `Authorization: Bearer …`"));
        };
        let (scheme, token) = authorization.split_once(' ').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(FeedError::Unauthorized("send a token as `Authorization: Bearer …`"));
        }
        match self.verifier.get().verify_connect(token.trim(), now() / 1_000) {
            Ok(claims) => {
                let credential = Credential::Token(Arc::new(claims.identity));
                Ok((claims.user.map_or(Caller::Anonymous, Caller::User), credential, address(parts)))
            }
            Err(TokenError::NoExpiry) => Err(FeedError::Unauthorized("the token has no exp, see auth.require_exp")),
            Err(TokenError::Expired) => Err(FeedError::Unauthorized("the token has expired")),
            Err(TokenError::Invalid(_)) => Err(FeedError::Unauthorized("the token is not valid")),
        }
    }
}

/// The user in `X-User` of a backend with a valid key; `None`: the backend acts as itself.
pub(super) fn backend_user(parts: &Parts) -> Result<Option<(UserId, Credential)>, FeedError> {
    let text = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(user) = text("x-user") else { return Ok(None) };
    let credential = Credential::Backend(user_origin(text("x-user-origin"))?);
    let user = UserId::parse(user).filter(|user| !user.is_reserved());
    let user = user.ok_or_else(|| FeedError::invalid("X-User", "X-User is not a user's id"))?;
    Ok(Some((user, credential)))
}

/// The client's address, as determined by the listener.
fn address(parts: &Parts) -> Origin {
    let client = parts.extensions.get::<ClientAddress>();
    Origin::Address(client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.0))
}

/// The origin of the user in `X-User`: the application, unless `X-User-Origin` names an account.
fn user_origin(header: Option<&str>) -> Result<UserOrigin, FeedError> {
    match header {
        None | Some("application") => Ok(UserOrigin::Application),
        Some("account") => Ok(UserOrigin::Account),
        Some(_) => Err(FeedError::invalid("X-User-Origin", "X-User-Origin is account or application")),
    }
}
