//! Revokes tokens and blocks users: `invalidate_user_tokens`, `revoke_token`, `block_user`, `unblock_user`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answers::{Answer, failed, read};
use super::context::ServerApi;
use crate::feed::{FeedError, now};
use crate::model::{UserId, is_plausible};
use crate::protocol::ErrorCode;

/// The user to unblock.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "UnblockUserRequest")]
pub(super) struct UnblockUser {
    /// The user.
    user: UserId,
}

/// The tokens and sessions to invalidate.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "InvalidateUserTokensRequest")]
pub(super) struct Invalidate {
    /// The user.
    user: UserId,
    /// Tokens issued before this time, in Unix seconds, at most now; absent: until now. 0 takes an earlier
    /// invalidation back.
    #[serde(default)]
    issued_before: Option<u64>,
}

/// The token to revoke.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RevokeTokenRequest")]
pub(super) struct RevokeToken {
    /// The `jti` of the token.
    uid: String,
    /// When the token expires by itself, in Unix seconds; 0 or absent: unknown.
    #[serde(default)]
    expire_at: Option<u64>,
}

/// The user to block.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "BlockUserRequest")]
pub(super) struct BlockUser {
    /// The user.
    user: UserId,
    /// When the block ends, in Unix seconds; 0 or absent: never.
    #[serde(default)]
    expire_at: Option<u64>,
}

pub(super) async fn invalidate_user_tokens(api: &ServerApi, body: &[u8]) -> Answer {
    let Invalidate { user, issued_before } = read(body)?;
    done(api.feed.revocations.invalidate_user_tokens(&user, issued_before).await)
}

pub(super) async fn revoke_token(api: &ServerApi, body: &[u8]) -> Answer {
    let RevokeToken { uid, expire_at } = read(body)?;
    // A time in the past is allowed: a backend may revoke a token that has just expired.
    done(api.feed.revocations.revoke_token(&uid, given(expire_at)?).await)
}

pub(super) async fn block_user(api: &ServerApi, body: &[u8]) -> Answer {
    let BlockUser { user, expire_at } = read(body)?;
    done(api.feed.revocations.block_user(&user, future(expire_at)?).await)
}

pub(super) async fn unblock_user(api: &ServerApi, body: &[u8]) -> Answer {
    let UnblockUser { user } = read(body)?;
    done(api.feed.revocations.unblock_user(&user).await)
}

/// A time, in Unix seconds; 0 means "not given".
fn given(at: Option<u64>) -> Result<Option<u64>, ErrorCode> {
    match at.filter(|at| *at > 0) {
        Some(at) if !is_plausible(at) => Err(ErrorCode::BAD_REQUEST),
        at => Ok(at),
    }
}

/// A future time, in Unix seconds; 0 means "not given".
pub(super) fn future(at: Option<u64>) -> Result<Option<u64>, ErrorCode> {
    match given(at)? {
        Some(at) if at <= now() / 1_000 => Err(ErrorCode::BAD_REQUEST),
        at => Ok(at),
    }
}

fn done(result: Result<(), FeedError>) -> Answer {
    match result {
        Ok(()) => Ok(json!({})),
        Err(FeedError::Invalid { .. }) => Err(ErrorCode::BAD_REQUEST),
        Err(error) => Err(failed(&error)),
    }
}
