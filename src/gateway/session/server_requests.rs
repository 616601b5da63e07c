//! What others ask of an open session: a backend, for a subscription or another expiry of the connection; and a change
//! of relations, for a check of its subscriptions.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::actions::{AccessCheck, Action, ServerJoin};
use super::connect::own_channels;
use super::hook_expiries::{self, ExpiryTarget};
use super::time::{SessionTime, TimeLeft};
use super::{Session, SessionState};
use crate::auth::SubscribeOptions;
use crate::broker::{RefreshRequest, ServerSubscription};
use crate::gateway::channels::join::{Join, Joined};
use crate::model::{Channel, canonical_name};
use crate::protocol::{Disconnect, Publication, Recover, SubscribePush};

/// Subscribes the client to a channel for a backend. Does nothing if the client is subscribed already, or the
/// channel does not exist, or is a private one of another user.
pub(crate) fn subscribe_for_backend(session: &Session, request: &ServerSubscription) -> Action {
    let SessionState::Open(identity) = &session.state else { return Action::Nothing };
    let options = &session.context.options;
    let channel = options.channels.find(&request.channel);
    let channel = channel.filter(|channel| channel.permits_server_side(identity.user.as_ref()));
    let Some(channel) = channel.filter(|_| request.channel.len() <= options.client.channel_length) else {
        tracing::debug!(channel = request.channel, "a backend subscribes a client to a channel that it may not use");
        return Action::Nothing;
    };
    if session.subscriptions.contains(&canonical_name(&request.channel)) {
        return Action::Nothing;
    }
    // The user's own channels do not count towards the limit.
    let own = own_channels(&session.context.options, identity).len();
    if session.subscriptions.server_side() >= options.client.channels + own {
        return Action::Close(Disconnect::CHANNEL_LIMIT);
    }
    let recover = request.recover.as_ref().map(|(offset, epoch)| Recover {
        recover: true,
        epoch: epoch.clone(),
        offset: *offset,
        flag: 0,
    });
    let granted = SubscribeOptions { info: json(&request.info), data: None, replaced: request.replaced };
    let recover = recover.unwrap_or_default();
    let join = session.context.join(identity, &request.channel, channel, recover, granted);
    let join = Join { expires_at: request.expire_at, ..join };
    Action::JoinForBackend(Box::new(ServerJoin { join, data: json(&request.data) }))
}

/// Adds a subscription after the client has joined the channel. Returns the push, and the publications that the
/// client missed, for pushes behind it.
pub(crate) fn joined_for_backend(
    session: &mut Session,
    joining: ServerJoin,
    joined: Joined,
) -> (SubscribePush, Vec<Publication>) {
    let ServerJoin { join, data } = joining;
    session.subscriptions.add_server_side(&join);
    let mut push = SubscribePush { data, ..SubscribePush::default() };
    if let Some(position) = joined.position.filter(|_| join.features.positioned) {
        (push.recoverable, push.positioned) = (join.features.recoverable, true);
        (push.epoch, push.offset) = (position.epoch.to_string(), position.offset);
    }
    let Some(missed) = joined.missed else { return (push, Vec::new()) };
    // The publications move the client on from its own offset.
    push.offset = join.recover.offset;
    (push, missed)
}

/// Changes the expiry of the connection for a backend. Returns whether it expires, and in how many seconds; `None`
/// if the session is not open.
///
/// # Errors
/// The close code, if the connection expires now.
pub(crate) fn refresh_for_backend(
    session: &mut Session,
    request: &RefreshRequest,
    now: SessionTime,
) -> Result<Option<(bool, u64)>, Disconnect> {
    let SessionState::Open(identity) = &mut session.state else { return Ok(None) };
    if request.expired {
        return Err(Disconnect::EXPIRED);
    }
    let left = match TimeLeft::until(request.expire_at, now) {
        TimeLeft::Unlimited => (false, 0),
        TimeLeft::Seconds(ttl) => (true, ttl),
        TimeLeft::Expired => return Err(Disconnect::EXPIRED),
    };
    if hook_expiries::contains(&session.hook_expiries, &ExpiryTarget::Connection) {
        hook_expiries::set(&mut session.hook_expiries, &ExpiryTarget::Connection, request.expire_at);
    } else {
        identity.expires_at = request.expire_at;
    }
    if let Some(info) = json(&request.info) {
        identity.info = Some(info);
    }
    Ok(Some(left))
}

/// Checks whether the user may still see the posts and profiles that the client is subscribed to.
pub(crate) fn check_access(session: &Session) -> Action {
    let SessionState::Open(identity) = &session.state else { return Action::Nothing };
    let shown = |name: &Arc<str>| match Channel::parse(name)? {
        channel @ (Channel::Post(_) | Channel::User(_) | Channel::List(_)) => Some((Arc::clone(name), channel)),
        _ => None,
    };
    let channels: Vec<_> = session.subscriptions.channels().filter_map(shown).collect();
    if channels.is_empty() {
        return Action::Nothing;
    }
    Action::CheckAccess(Box::new(AccessCheck { user: identity.user.clone(), channels }))
}

/// The channels that an unsubscribe of a backend without a channel ends: all but the user's own two.
pub(crate) fn channels_of_backend(session: &Session) -> Vec<Arc<str>> {
    let is_own = |name: &str| matches!(Channel::parse(name), Some(Channel::Timeline(_) | Channel::Notifications(_)));
    session.subscriptions.channels().filter(|name| !is_own(name)).cloned().collect()
}

/// JSON of a backend, which its request has checked; empty: none.
fn json(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}
