//! `subscribe`, and `sub_refresh` before a subscription expires.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::client::{ClientIdentity, SessionContext};
use super::refusal::CommandRefusal;
use super::subscription_table::SubscriptionTable;
use super::time::{SessionTime, TimeLeft, ttl};
use crate::auth::{TokenError, TokenIdentity};
use crate::gateway::channels::{Credentials, Right};
use crate::gateway::join::{Join, Joined};
use crate::protocol::{Disconnect, ErrorCode, RefreshResult, SubRefreshRequest, SubscribeRequest, SubscribeResult};

/// Checks a `subscribe` command.
pub(super) fn subscribe(
    context: &SessionContext,
    identity: &ClientIdentity,
    subscriptions: &SubscriptionTable,
    id: u32,
    request: SubscribeRequest,
    now: SessionTime,
) -> Result<Join, CommandRefusal> {
    let SubscribeRequest { channel: name, token, recover, delta } = request;
    if name.is_empty() || !(delta.is_empty() || delta == "fossil") {
        return Err(CommandRefusal::BAD_REQUEST);
    }
    if name.len() > context.options.channel_length {
        return Err(ErrorCode::BAD_REQUEST.into());
    }
    if subscriptions.contains(&name) {
        return Err(ErrorCode::ALREADY_SUBSCRIBED.into());
    }
    if subscriptions.client_side() >= context.options.max_channels {
        return Err(ErrorCode::LIMIT_EXCEEDED.into());
    }
    let channel = context.options.channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    let client = Credentials { user: identity.user.as_ref(), subscribed: false, token: !token.is_empty() };
    if !channel.permits(Right::Subscribe, client) {
        return Err(ErrorCode::PERMISSION_DENIED.into());
    }
    let (expires_at, token, chan_info) = if token.is_empty() {
        (None, None, None)
    } else {
        let granted = verify_token(context, identity, &token, &name, now)?;
        (granted.expires_at, Some(granted.token), granted.info)
    };
    let info = context.presence_info(identity, &channel, chan_info);
    let (user, address) = (identity.user.clone(), context.address);
    Ok(Join { id, name: name.into(), channel, recover, expires_at, token, info, user, address })
}

/// The rights that a subscription token grants.
struct TokenGrant {
    /// When the subscription expires, in Unix seconds; `None`: never.
    expires_at: Option<u64>,
    token: Arc<TokenIdentity>,
    /// The `info` claim of the token, which other subscribers receive.
    info: Option<Box<RawValue>>,
}

/// Verifies a subscription token. It must be valid and match the channel, the user and, if it names one, the client.
fn verify_token(
    context: &SessionContext,
    identity: &ClientIdentity,
    token: &str,
    channel: &str,
    now: SessionTime,
) -> Result<TokenGrant, CommandRefusal> {
    let claims = context.options.verifier.verify_subscribe(token, now.unix).map_err(|error| match error {
        TokenError::Expired => ErrorCode::TOKEN_EXPIRED,
        TokenError::Invalid(_) | TokenError::NoExpiry => ErrorCode::PERMISSION_DENIED,
    })?;
    if context.check_revoked(claims.user.as_ref(), &claims.identity, now).is_err() {
        return Err(ErrorCode::PERMISSION_DENIED.into());
    }
    let fits = claims.channel == channel
        && claims.user == identity.user
        && claims.client.as_deref().is_none_or(|client| client.is_empty() || client == &*context.client);
    if !fits {
        return Err(Disconnect::INVALID_TOKEN.into());
    }
    let token = Arc::new(claims.identity);
    Ok(TokenGrant { expires_at: claims.expire_at, token, info: claims.options.info })
}

/// The reply to `subscribe`, and the description of a server-side subscription in the reply to `connect`.
pub(super) fn subscribe_result(join: &Join, joined: Joined, now: SessionTime) -> SubscribeResult {
    let mut result = SubscribeResult { was_recovering: join.recover.recover, ..SubscribeResult::default() };
    if let Some(expires_at) = join.expires_at {
        (result.expires, result.ttl) = (true, ttl(expires_at, now));
    }
    if let Some(position) = joined.position {
        (result.recoverable, result.positioned) = (true, true);
        result.epoch = position.epoch.to_string().into();
        result.offset = position.offset;
    }
    if let Some(missed) = joined.missed {
        // The publications in the reply start after the client's own offset.
        (result.recovered, result.offset) = (true, join.recover.offset);
        result.publications = missed;
    }
    result
}

/// Replaces the token of a subscription.
pub(super) fn refresh_subscription(
    context: &SessionContext,
    identity: &ClientIdentity,
    subscriptions: &mut SubscriptionTable,
    request: &SubRefreshRequest,
    now: SessionTime,
) -> Result<RefreshResult, CommandRefusal> {
    let SubRefreshRequest { channel, token } = request;
    if channel.is_empty() {
        return Err(CommandRefusal::BAD_REQUEST);
    }
    if !subscriptions.contains(channel) {
        return Err(ErrorCode::PERMISSION_DENIED.into());
    }
    if token.is_empty() {
        return Err(ErrorCode::BAD_REQUEST.into());
    }
    let TokenGrant { expires_at, token, .. } = verify_token(context, identity, token, channel, now)?;
    let result = refresh_result(expires_at, now)?;
    subscriptions.refresh(channel, expires_at, token);
    Ok(result)
}

/// The reply to a refresh. An expiry in the past is refused.
pub(super) fn refresh_result(expires_at: Option<u64>, now: SessionTime) -> Result<RefreshResult, CommandRefusal> {
    match TimeLeft::until(expires_at, now) {
        TimeLeft::Unlimited => Ok(RefreshResult::default()),
        TimeLeft::Seconds(ttl) => Ok(RefreshResult { expires: true, ttl, ..RefreshResult::default() }),
        TimeLeft::Expired => Err(ErrorCode::EXPIRED.into()),
    }
}
