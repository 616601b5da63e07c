//! `subscribe`, and `sub_refresh` before a subscription expires.

use std::sync::Arc;

use super::client::{ClientIdentity, SessionContext};
use super::command_refusal::CommandRefusal;
use super::hook_questions::is_asked;
use super::subscription_table::SubscriptionTable;
use super::time::{SessionTime, TimeLeft, ttl};
use crate::auth::{SubscribeOptions, TokenError, TokenIdentity};
use crate::gateway::channels::join::{Join, Joined};
use crate::gateway::channels::{Credentials, ResolvedChannel, Right};
use crate::hooks::HookKind;
use crate::model::canonical_name;
use crate::protocol::{
    Disconnect, ErrorCode, RefreshResult, SubRefreshRequest, SubscribeRequest, SubscribeResult, is_portable,
};

/// What a `subscribe` command leads to.
pub(super) enum SubscribeStep {
    /// The client joins the channel.
    Join(Box<Join>),
    /// The application's backend decides.
    Ask(Box<SubscribeRequest>),
}

/// Checks a `subscribe` command.
pub(super) fn subscribe(
    context: &SessionContext,
    identity: &ClientIdentity,
    subscriptions: &SubscriptionTable,
    id: u32,
    request: Box<SubscribeRequest>,
    now: SessionTime,
) -> Result<SubscribeStep, CommandRefusal> {
    let SubscribeRequest { channel: name, token, delta, has_filter, .. } = &*request;
    if name.is_empty() || !(delta.is_empty() || delta == "fossil") {
        return Err(CommandRefusal::BAD_REQUEST);
    }
    if name.len() > context.options.client.channel_length || *has_filter {
        return Err(ErrorCode::BAD_REQUEST.into());
    }
    if subscriptions.contains(&canonical_name(name)) {
        return Err(ErrorCode::ALREADY_SUBSCRIBED.into());
    }
    if subscriptions.client_side() >= context.options.client.channels {
        return Err(ErrorCode::LIMIT_EXCEEDED.into());
    }
    let channel = context.options.channels.find_for_client(name)?;
    if token.is_empty() && is_asked(context, identity, HookKind::Subscribe, &channel, false) {
        if request.data.as_ref().is_some_and(|data| !is_portable(data.get())) {
            return Err(ErrorCode::BAD_REQUEST.into());
        }
        return Ok(SubscribeStep::Ask(request));
    }
    let client = Credentials { user: identity.user.as_ref(), subscribed: false, token: !token.is_empty() };
    if !channel.permits(Right::Subscribe, client) {
        return Err(ErrorCode::PERMISSION_DENIED.into());
    }
    if token.is_empty() {
        let join = join_with(context, identity, id, *request, channel, SubscribeOptions::default());
        return Ok(SubscribeStep::Join(Box::new(join)));
    }
    let granted = verify_token(context, identity, token, name, now)?;
    if let TimeLeft::Expired = TimeLeft::until(granted.expires_at, now) {
        return Err(ErrorCode::EXPIRED.into());
    }
    let mut join = join_with(context, identity, id, *request, channel, granted.options);
    (join.expires_at, join.token) = (granted.expires_at, Some(granted.token));
    Ok(SubscribeStep::Join(Box::new(join)))
}

/// The subscription of a request, with these options. It does not expire.
pub(super) fn join_with(
    context: &SessionContext,
    identity: &ClientIdentity,
    id: u32,
    request: SubscribeRequest,
    channel: ResolvedChannel,
    options: SubscribeOptions,
) -> Join {
    let SubscribeRequest { channel: name, recover, delta, .. } = request;
    let mut join = context.join(identity, &name, channel, recover, options);
    join.wants_deltas = !delta.is_empty() && join.features.positioned && join.channel.permits_deltas();
    Join { id, ..join }
}

/// The rights that a subscription token grants.
struct TokenGrant {
    /// When the subscription expires, in Unix seconds; `None`: never.
    expires_at: Option<u64>,
    token: Arc<TokenIdentity>,
    /// The other claims of the token.
    options: SubscribeOptions,
}

/// Verifies a subscription token. It must be valid and match the channel, the user and, if it names one, the client.
fn verify_token(
    context: &SessionContext,
    identity: &ClientIdentity,
    token: &str,
    channel: &str,
    now: SessionTime,
) -> Result<TokenGrant, CommandRefusal> {
    let claims = context.options.verifier.get().verify_subscribe(token, now.unix).map_err(|error| match error {
        TokenError::Expired => ErrorCode::TOKEN_EXPIRED,
        TokenError::Invalid(_) | TokenError::NoExpiry => ErrorCode::PERMISSION_DENIED,
    })?;
    if context.check_revoked(claims.user.as_ref(), &claims.identity, now).is_err() {
        return Err(ErrorCode::PERMISSION_DENIED.into());
    }
    let fits = canonical_name(&claims.channel) == canonical_name(channel)
        && claims.user == identity.user
        && claims.client.as_deref().is_none_or(|client| client.is_empty() || client == &*context.client);
    if !fits {
        return Err(Disconnect::INVALID_TOKEN.into());
    }
    let token = Arc::new(claims.identity);
    Ok(TokenGrant { expires_at: claims.expire_at, token, options: claims.options })
}

/// The reply to `subscribe`, and the description of a server-side subscription in the reply to `connect`.
pub(super) fn subscribe_result(join: &Join, joined: Joined, now: SessionTime) -> SubscribeResult {
    let mut result = SubscribeResult { was_recovering: join.recover.recover, ..SubscribeResult::default() };
    if let Some(expires_at) = join.expires_at {
        (result.expires, result.ttl) = (true, ttl(expires_at, now));
    }
    result.data.clone_from(&join.data);
    if let Some(position) = joined.position.filter(|_| join.features.positioned) {
        (result.recoverable, result.positioned) = (join.features.recoverable, true);
        result.epoch = position.epoch.to_string().into();
        result.offset = position.offset;
        result.delta = join.wants_deltas;
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
    let channel = &*canonical_name(channel);
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
