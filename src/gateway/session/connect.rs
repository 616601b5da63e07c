//! `connect`, and `refresh` before the connection expires.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::actions::ConnectGrant;
use super::client::{ClientIdentity, PingKind, SessionContext};
use super::close_codes::invalid_token;
use super::command_refusal::CommandRefusal;
use super::options::{SessionOptions, VERSION};
use super::subscribe::{refresh_result, subscribe_result};
use super::time::{SessionTime, TimeLeft, ttl};
use crate::auth::{ConnectClaims, SubscribeOptions, TokenError, TokenIdentity, TokenKind};
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::channels::join::{Join, Joined};
use crate::model::{Channel, ChannelKind, OverrideValue, UserId, canonical_name};
use crate::protocol::{ConnectRequest, ConnectResult, Disconnect, ErrorCode, Recover, RefreshResult};

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
    let claims =
        context.options.verifier.get().verify_connect(&request.token, now.unix).map_err(|error| match error {
            TokenError::Expired => CommandRefusal::Error(ErrorCode::TOKEN_EXPIRED),
            error => CommandRefusal::Close(invalid_token(error)),
        })?;
    context.check_revoked(claims.user.as_ref(), &claims.identity, now)?;
    if let TimeLeft::Expired = TimeLeft::until(claims.expire_at, now) {
        return Err(ErrorCode::EXPIRED.into());
    }
    let token = Arc::new(claims.identity.clone());
    let identity = ClientIdentity {
        user: claims.user.clone(),
        token: Some(Arc::clone(&token)),
        info: claims.info.clone(),
        meta: claims.meta.clone(),
        expires_at: claims.expire_at,
        channels: channel_digest(&claims),
    };
    let user = claims.user.clone();
    let joins = server_side_joins(context, request, &identity, claims)?;
    Ok((identity, ConnectGrant { id, user, token: Some(token), client, joins }))
}

/// An identity that the application's backend has proved, instead of a token.
pub(super) struct Proven {
    pub(super) user: Option<UserId>,
    pub(super) info: Option<Box<RawValue>>,
    /// JSON for the client.
    pub(super) data: Option<Box<RawValue>>,
    pub(super) meta: Option<Box<RawValue>>,
    pub(super) channels: Vec<String>,
    pub(super) subs: BTreeMap<String, SubscribeOptions>,
}

/// Grants what the backend has proved. Also returns the data for the client.
pub(super) fn connect_proven(
    context: &SessionContext,
    id: u32,
    request: &ConnectRequest,
    proven: Proven,
) -> Result<(ClientIdentity, ConnectGrant, Option<Box<RawValue>>), CommandRefusal> {
    let Proven { user, info, data, meta, channels, subs } = proven;
    let identity = ClientIdentity { user: user.clone(), info, meta, ..ClientIdentity::default() };
    let token = TokenIdentity { kind: TokenKind::Application, id: None, issued_at: None, expires_at: None };
    let claims =
        ConnectClaims { identity: token, user: user.clone(), expire_at: None, info: None, meta: None, channels, subs };
    let joins = server_side_joins(context, request, &identity, claims)?;
    let grant = ConnectGrant { id, user, token: None, client: Arc::clone(&context.client), joins };
    Ok((identity, grant, data))
}

/// The channels that the server subscribes a user to, besides those that the token names.
pub(super) fn own_channels(options: &SessionOptions, identity: &ClientIdentity) -> Vec<String> {
    let Some(user) = &identity.user else { return Vec::new() };
    let is_session = identity.token.as_ref().is_some_and(|token| token.kind != TokenKind::Application);
    let mut own = Vec::new();
    if is_session || options.client.has_feed_channels() {
        own.extend([Channel::Timeline(user.clone()), Channel::Notifications(user.clone())].map(|it| it.to_string()));
    }
    if options.client.user_personal_channel {
        own.push(format!("#{user}"));
    }
    own
}

/// The server-side subscriptions: the channels that the token names, and the user's own.
fn server_side_joins(
    context: &SessionContext,
    request: &ConnectRequest,
    identity: &ClientIdentity,
    claims: ConnectClaims,
) -> Result<Vec<Join>, CommandRefusal> {
    let own = own_channels(&context.options, identity);
    let own_count = own.len();
    let named = claims.subs.into_iter();
    let plain = own.into_iter().chain(claims.channels).map(|name| (name, SubscribeOptions::default()));
    let wanted: HashMap<_, _> =
        request.subs.iter().map(|(name, recover)| (canonical_name(name), (name, recover))).collect();
    let mut joins: Vec<Join> = Vec::new();
    for (name, mut options) in named.chain(plain) {
        // A token may name any channel, except private channels of other users.
        let is_permitted = |channel: &ResolvedChannel| channel.permits_server_side(identity.user.as_ref());
        let channel =
            context.options.channels.find(&name).filter(|_| name.len() <= context.options.client.channel_length);
        let channel = channel.filter(is_permitted).ok_or(CommandRefusal::BAD_REQUEST)?;
        let canonical = canonical_name(&name);
        if joins.iter().any(|join| *join.name == *canonical) {
            continue;
        }
        if context.options.client.single_connection && is_personal(&canonical, identity.user.as_ref()) {
            // Whether the user has other connections is read from there.
            options.replaced.presence = Some(OverrideValue { value: true });
        }
        // The client may know the channel by another spelling of the name.
        let known = wanted.get(&canonical).copied();
        let recover = known.map_or_else(Recover::default, |(_, recover)| recover.clone());
        let name = known.map_or(&*name, |(spelling, _)| spelling);
        joins.push(context.join(identity, name, channel, recover, options));
    }
    // The user's own channels do not count towards the limit.
    if joins.len() > context.options.client.channels + own_count {
        return Err(Disconnect::CHANNEL_LIMIT.into());
    }
    Ok(joins)
}

/// Whether this is the personal channel of the user.
fn is_personal(name: &str, user: Option<&UserId>) -> bool {
    user.is_some_and(|user| name.strip_prefix('#') == Some(user.as_str()))
}

/// The reply to `connect` after the client has joined its channels.
pub(super) fn connect_result(
    context: &SessionContext,
    identity: &ClientIdentity,
    joined: Vec<(Join, Joined)>,
    data: Option<Box<RawValue>>,
    now: SessionTime,
) -> ConnectResult {
    let client = context.client.to_string();
    let version = VERSION.to_owned();
    let mut result = ConnectResult { client, version, data, ..ConnectResult::default() };
    // A client that the transport pings knows nothing of it.
    if context.pings != PingKind::Frame {
        (result.ping, result.pong) =
            (context.options.client.ping_interval.as_secs(), context.pings == PingKind::Message);
    }
    if let Some(expires_at) = identity.expires_at {
        (result.expires, result.ttl) = (true, ttl(expires_at, now));
    }
    result.subs = joined
        .into_iter()
        .map(|(join, joined)| (join.shown_name().to_string(), subscribe_result(&join, joined, now)))
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
    let claims = match context.options.verifier.get().verify_connect(token, now.unix) {
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
    identity.info = claims.info.or_else(|| identity.info.take());
    identity.meta = claims.meta.or_else(|| identity.meta.take());
    identity.token = Some(Arc::new(claims.identity));
    Ok(result)
}

/// A digest of the channels that a token names, in any order, without the user's own. It is stored for the whole life
/// of the connection, so it is small.
fn channel_digest(claims: &ConnectClaims) -> u64 {
    let is_own = |name: &str| {
        let owner = ChannelKind::Timeline.id_of(name).or_else(|| ChannelKind::Notifications.id_of(name));
        let owner = owner.or_else(|| name.strip_prefix('#'));
        owner.is_some() && owner == claims.user.as_ref().map(UserId::as_str)
    };
    let names = claims.channels.iter().chain(claims.subs.keys()).map(|name| canonical_name(name));
    let names: BTreeSet<_> = names.filter(|name| !is_own(name)).collect();
    if names.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}
