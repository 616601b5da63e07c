//! `connect`, and `refresh` before the connection expires.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::actions::ConnectGrant;
use super::client::{ClientIdentity, SessionContext};
use super::options::VERSION;
use super::refusal::{CommandRefusal, invalid_token};
use super::subscribe::{refresh_result, subscribe_result};
use super::time::{SessionTime, ttl};
use crate::auth::{ConnectClaims, TokenError};
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::join::{Join, Joined};
use crate::model::{Channel, ChannelKind, UserId};
use crate::protocol::{ConnectRequest, ConnectResult, Disconnect, ErrorCode, RefreshResult};

/// Checks a `connect` command. Grants the identity and the server-side subscriptions of its token.
pub(super) fn connect(
    context: &SessionContext,
    id: u32,
    request: &ConnectRequest,
    now: SessionTime,
) -> Result<(ClientIdentity, ConnectGrant), CommandRefusal> {
    let client = Arc::clone(&context.client);
    if request.token.is_empty() {
        if !context.options.anonymous {
            return Err(CommandRefusal::BAD_REQUEST);
        }
        return Ok((
            ClientIdentity::default(),
            ConnectGrant { id, user: None, token: None, client, joins: Vec::new() },
        ));
    }
    let claims = context.options.verifier.verify_connect(&request.token, now.unix).map_err(|error| match error {
        TokenError::Expired => CommandRefusal::Error(ErrorCode::TOKEN_EXPIRED),
        error => CommandRefusal::Close(invalid_token(error)),
    })?;
    context.check_revoked(claims.user.as_ref(), &claims.identity, now)?;
    let token = Arc::new(claims.identity.clone());
    let identity = ClientIdentity {
        user: claims.user.clone(),
        token: Some(Arc::clone(&token)),
        info: claims.info.clone(),
        expires_at: claims.expire_at,
        channels: channel_digest(&claims),
    };
    let user = claims.user.clone();
    let joins = server_side_joins(context, request, &identity, claims)?;
    Ok((identity, ConnectGrant { id, user, token: Some(token), client, joins }))
}

/// The server-side subscriptions: the channels that the token names, and the user's own two.
fn server_side_joins(
    context: &SessionContext,
    request: &ConnectRequest,
    identity: &ClientIdentity,
    claims: ConnectClaims,
) -> Result<Vec<Join>, CommandRefusal> {
    let own = |user: &UserId| [Channel::Timeline(user.clone()), Channel::Notifications(user.clone())];
    let own = claims.user.iter().flat_map(own).map(|channel| channel.to_string());
    let named = claims.subs.into_iter().map(|(name, options)| (name, options.info));
    let plain = own.chain(claims.channels).map(|name| (name, None));
    let mut joins: Vec<Join> = Vec::new();
    for (name, chan_info) in named.chain(plain) {
        // A token may name any channel, except private channels of other users.
        let is_permitted = |channel: &ResolvedChannel| channel.permits_server_side(identity.user.as_ref());
        let channel = context.options.channels.find(&name).filter(|_| name.len() <= context.options.channel_length);
        let channel = channel.filter(is_permitted).ok_or(CommandRefusal::BAD_REQUEST)?;
        if joins.iter().any(|join| *join.name == *name) {
            continue;
        }
        joins.push(Join {
            id: 0,
            recover: request.subs.get(&name).cloned().unwrap_or_default(),
            info: context.presence_info(identity, &channel, chan_info),
            name: name.into(),
            channel,
            expires_at: None,
            token: None,
            user: identity.user.clone(),
            address: context.address,
        });
    }
    // The user's own two channels do not count towards the limit.
    let own = if identity.user.is_some() { 2 } else { 0 };
    if joins.len() > context.options.max_channels + own {
        return Err(Disconnect::CHANNEL_LIMIT.into());
    }
    Ok(joins)
}

/// The reply to `connect` after the client has joined its channels.
pub(super) fn connect_result(
    context: &SessionContext,
    identity: &ClientIdentity,
    joined: Vec<(Join, Joined)>,
    now: SessionTime,
) -> ConnectResult {
    let mut result = ConnectResult {
        client: context.client.to_string(),
        version: VERSION.to_owned(),
        ping: context.options.ping_interval.as_secs(),
        pong: true,
        ..ConnectResult::default()
    };
    if let Some(expires_at) = identity.expires_at {
        (result.expires, result.ttl) = (true, ttl(expires_at, now));
    }
    result.subs = joined
        .into_iter()
        .map(|(join, joined)| (join.name.to_string(), subscribe_result(&join, joined, now)))
        .collect();
    result
}

/// Replaces the token of a connection.
pub(super) fn refresh(
    context: &SessionContext,
    identity: &mut ClientIdentity,
    token: &str,
    now: SessionTime,
) -> Result<RefreshResult, CommandRefusal> {
    if token.is_empty() {
        return Err(CommandRefusal::BAD_REQUEST);
    }
    let claims = match context.options.verifier.verify_connect(token, now.unix) {
        Ok(claims) if claims.user == identity.user && claims.identity.is_like(identity.token.as_deref()) => claims,
        Ok(_) => return Err(Disconnect::INVALID_TOKEN.into()),
        Err(TokenError::Expired) => return Err(Disconnect::EXPIRED.into()),
        Err(error) => return Err(invalid_token(error).into()),
    };
    context.check_revoked(claims.user.as_ref(), &claims.identity, now)?;
    if channel_digest(&claims) != identity.channels {
        // Only a new connection can join other channels.
        return Err(Disconnect::INSUFFICIENT_STATE.into());
    }
    let mut result = refresh_result(claims.expire_at, now)?;
    (result.client, result.version) = (context.client.to_string(), VERSION.to_owned());
    identity.expires_at = claims.expire_at;
    identity.token = Some(Arc::new(claims.identity));
    Ok(result)
}

/// A digest of the channels that a token names, in any order, without the user's own. It is stored for the whole life
/// of the connection, so it is small.
fn channel_digest(claims: &ConnectClaims) -> u64 {
    let is_own = |name: &str| {
        let owner = ChannelKind::Timeline.id_of(name).or_else(|| ChannelKind::Notifications.id_of(name));
        owner.is_some() && owner == claims.user.as_ref().map(UserId::as_str)
    };
    let names = claims.channels.iter().chain(claims.subs.keys());
    let names: BTreeSet<&String> = names.filter(|name| !is_own(name)).collect();
    if names.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}
