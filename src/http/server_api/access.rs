//! Disconnects clients, revokes tokens and blocks users: `disconnect`, `invalidate_user_tokens`, `revoke_token`,
//! `block_user`, `unblock_user`.

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

#[derive(Deserialize)]
struct DisconnectInput {
    user: String,
    #[serde(default)]
    client: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    whitelist: Vec<String>,
    disconnect: Option<CloseInput>,
}

#[derive(Deserialize)]
struct CloseInput {
    code: u16,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct UnblockUser {
    user: UserId,
}

#[derive(Deserialize)]
struct Invalidate {
    user: UserId,
    #[serde(default)]
    issued_before: Option<u64>,
}

#[derive(Deserialize)]
struct RevokeToken {
    uid: String,
    #[serde(default)]
    expire_at: Option<u64>,
}

#[derive(Deserialize)]
struct BlockUser {
    user: UserId,
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
