//! Disconnects clients, revokes tokens and blocks users: `disconnect`, `invalidate_user_tokens`, `revoke_token`,
//! `block_user`, `unblock_user`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answers::{Answer, failed, read};
use super::context::ServerApi;
use crate::broker::{DisconnectRequest, Signal};
use crate::feed::{FeedError, now};
use crate::model::UserId;
use crate::protocol::{Disconnect, ErrorCode};

/// The maximal length of a close reason, in bytes: RFC 6455 allows 125 for the reason and the code.
const REASON: usize = 123;

/// The close codes that an application may send.
const CODES: std::ops::RangeInclusive<u16> = 3000..=4999;

/// The maximal number of clients that one request may spare.
const WHITELIST: usize = 1_000;

/// The connections to close: those that match all of `user`, `client` and `session` that are given.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DisconnectRequest")]
pub(super) struct DisconnectInput {
    /// The user; empty for anonymous clients, together with `client` or `session`.
    user: String,
    /// The id of a connection.
    #[serde(default)]
    client: String,
    /// The `jti` of the token of the connections.
    #[serde(default)]
    session: String,
    /// The ids of connections that stay, at most 1,000.
    #[serde(default)]
    whitelist: Vec<String>,
    /// The close code and reason; 3503 by default.
    disconnect: Option<CloseInput>,
}

/// The code and the reason of a close frame.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DisconnectCode")]
struct CloseInput {
    /// The close code, 3000 to 4999; 0 for the default.
    code: u16,
    /// The reason, at most 123 bytes.
    #[serde(default)]
    reason: String,
}

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
    /// Tokens issued before this time, in Unix seconds; 0 or absent: until now.
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

/// Runs a method of this file; `None` for other methods.
pub(super) async fn serve(api: &ServerApi, method: &str, body: &[u8]) -> Option<Answer> {
    Some(match method {
        "disconnect" => disconnect(api, body).await,
        "invalidate_user_tokens" => invalidate_user_tokens(api, body).await,
        "revoke_token" => revoke_token(api, body).await,
        "block_user" => block_user(api, body).await,
        "unblock_user" => unblock_user(api, body).await,
        _ => return None,
    })
}

async fn disconnect(api: &ServerApi, body: &[u8]) -> Answer {
    let DisconnectInput { user, client, session, whitelist, disconnect } = read(body)?;
    if (!user.is_empty() && UserId::parse(&user).is_none()) || whitelist.len() > WHITELIST {
        return Err(ErrorCode::BAD_REQUEST);
    }
    // Without a user, the request would disconnect all anonymous clients.
    if user.is_empty() && client.is_empty() && session.is_empty() {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let (code, reason) = match disconnect {
        Some(closing) if closing.code > 0 => (closing.code, closing.reason),
        _ => (Disconnect::FORCE_DISCONNECT.code, Disconnect::FORCE_DISCONNECT.reason.into_owned()),
    };
    if !CODES.contains(&code) || reason.len() > REASON {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let request = DisconnectRequest { user, client, session, whitelist, code, reason };
    let signal = Signal::Disconnect(request);
    api.broker.signal(signal).await.map_err(|error| failed(&error.into()))?;
    Ok(json!({}))
}

async fn invalidate_user_tokens(api: &ServerApi, body: &[u8]) -> Answer {
    let Invalidate { user, issued_before } = read(body)?;
    // 0 means "not given", as elsewhere in this protocol.
    let issued_before = issued_before.filter(|at| *at > 0);
    done(api.feed.revocations.invalidate_user_tokens(&user, issued_before).await)
}

async fn revoke_token(api: &ServerApi, body: &[u8]) -> Answer {
    let RevokeToken { uid, expire_at } = read(body)?;
    // A time in the past is allowed: a backend may revoke a token that has just expired.
    done(api.feed.revocations.revoke_token(&uid, expire_at.filter(|at| *at > 0)).await)
}

async fn block_user(api: &ServerApi, body: &[u8]) -> Answer {
    let BlockUser { user, expire_at } = read(body)?;
    done(api.feed.revocations.block_user(&user, future(expire_at)?).await)
}

async fn unblock_user(api: &ServerApi, body: &[u8]) -> Answer {
    let UnblockUser { user } = read(body)?;
    done(api.feed.revocations.unblock_user(&user).await)
}

/// A future time, in Unix seconds; 0 means "not given".
fn future(at: Option<u64>) -> Result<Option<u64>, ErrorCode> {
    match at.filter(|at| *at > 0) {
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
