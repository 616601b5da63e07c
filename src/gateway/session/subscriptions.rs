//! Which channels a client is in: subscribe, unsubscribe, and refreshing a subscription before it runs out.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::time::{Moment, Remaining, remaining, ttl};
use super::{Action, Identity, Join, Session, Side, State, Subscription, SubscriptionTokens, refuse};
use crate::auth::{TokenError, TokenIdentity};
use crate::gateway::channels::{Credentials, ResolvedChannel, Right};
use crate::gateway::hub::Joined;
use crate::protocol::{
    ClientInfo, Disconnect, ErrorCode, RefreshResult, ReplyBody, SubRefreshRequest, SubscribeRequest, SubscribeResult,
    reply,
};

impl Session {
    pub(super) fn subscribe(&mut self, id: u32, subscribe: SubscribeRequest, now: Moment) -> Action {
        let SubscribeRequest { channel: name, token, recover, delta } = subscribe;
        if name.is_empty() || !(delta.is_empty() || delta == "fossil") {
            return Action::Close(Disconnect::BAD_REQUEST);
        }
        if name.len() > self.options.channel_length {
            return refuse(id, ErrorCode::BAD_REQUEST);
        }
        if self.subscription(&name).is_some() {
            return refuse(id, ErrorCode::ALREADY_SUBSCRIBED);
        }
        let mine = self.subscriptions.iter().filter(|subscription| subscription.side == Side::Client).count();
        if mine >= self.options.max_channels {
            return refuse(id, ErrorCode::LIMIT_EXCEEDED);
        }
        let Some(channel) = self.options.channels.find(&name) else { return refuse(id, ErrorCode::UNKNOWN_CHANNEL) };
        let State::Open(identity) = &self.state else { return Action::Close(Disconnect::BAD_REQUEST) };
        let client = Credentials { user: identity.user.as_ref(), subscribed: false, token: !token.is_empty() };
        if !channel.permits(Right::Subscribe, client) {
            return refuse(id, ErrorCode::PERMISSION_DENIED);
        }
        let (expires_at, token, chan_info) = if token.is_empty() {
            (None, None, None)
        } else {
            match self.subscription_token(&token, &name, identity, now) {
                Ok(Granted { expires_at, token, info }) => (expires_at, Some(Arc::new(token)), info),
                Err(TokenFault::Expired) => return refuse(id, ErrorCode::TOKEN_EXPIRED),
                Err(TokenFault::Invalid) => return refuse(id, ErrorCode::PERMISSION_DENIED),
                Err(TokenFault::Foreign) => return Action::Close(Disconnect::INVALID_TOKEN),
            }
        };
        let info = self.info_for(identity, &channel, chan_info);
        let (user, address) = (identity.user.clone(), self.address);
        Action::Join(Join { id, name: name.into(), channel, recover, expires_at, token, info, user, address })
    }

    /// Checks a subscription token: it must be valid, of this channel, this user and, if it says so, this client.
    fn subscription_token(
        &self,
        token: &str,
        channel: &str,
        identity: &Identity,
        now: Moment,
    ) -> Result<Granted, TokenFault> {
        let claims = self.options.verifier.verify_subscribe(token, now.unix).map_err(|error| match error {
            TokenError::Expired => TokenFault::Expired,
            TokenError::Invalid(_) | TokenError::NoExpiry => TokenFault::Invalid,
        })?;
        if self.revoked(claims.user.as_ref(), &claims.identity, now).is_some() {
            return Err(TokenFault::Invalid);
        }
        let fits = claims.channel == channel
            && claims.user == identity.user
            && claims.client.as_deref().is_none_or(|client| client.is_empty() || client == &*self.client);
        if !fits {
            return Err(TokenFault::Foreign);
        }
        Ok(Granted { expires_at: claims.expire_at, token: claims.identity, info: claims.options.info })
    }

    pub(super) fn info_for(
        &self,
        identity: &Identity,
        channel: &ResolvedChannel,
        chan_info: Option<Box<RawValue>>,
    ) -> Option<ClientInfo> {
        (channel.has_presence() || channel.tells_joins()).then(|| ClientInfo {
            user: identity.name().to_owned(),
            client: self.client.to_string(),
            conn_info: identity.info.clone(),
            chan_info,
        })
    }

    /// The client is in the channel: what to say.
    pub fn joined(&mut self, join: &Join, joined: Joined, now: Moment) -> Bytes {
        let channel = Arc::clone(&join.name);
        let (expires_at, token) = (join.expires_at, join.token.clone());
        self.tokens_changed |= token.is_some();
        self.subscriptions.push(Subscription { channel, side: Side::Client, expires_at, token });
        reply(join.id, &ReplyBody::Subscribe(subscribed(join, joined, now)))
    }

    pub(super) fn unsubscribe(&mut self, id: u32, channel: &str) -> Action {
        if channel.is_empty() {
            return Action::Close(Disconnect::BAD_REQUEST);
        }
        let done = reply(id, &ReplyBody::Unsubscribe {});
        match self.dropped(channel) {
            Some(name) => Action::Leave(name, done),
            None => Action::Reply(done),
        }
    }

    /// The client is not in the channel any more.
    pub fn dropped(&mut self, channel: &str) -> Option<Arc<str>> {
        let at = self.subscriptions.iter().position(|subscription| &*subscription.channel == channel)?;
        let dropped = self.subscriptions.swap_remove(at);
        self.tokens_changed |= dropped.token.is_some();
        Some(dropped.channel)
    }

    /// The subscription tokens in use, if they changed since the last call.
    pub fn changed_subscription_tokens(&mut self) -> Option<SubscriptionTokens> {
        if !std::mem::take(&mut self.tokens_changed) {
            return None;
        }
        let with_token = |subscription: &Subscription| {
            Some((Arc::clone(&subscription.channel), Arc::clone(subscription.token.as_ref()?)))
        };
        Some(self.subscriptions.iter().filter_map(with_token).collect())
    }

    pub(super) fn sub_refresh(&mut self, id: u32, refresh: &SubRefreshRequest, now: Moment) -> Action {
        if refresh.channel.is_empty() {
            return Action::Close(Disconnect::BAD_REQUEST);
        }
        if self.subscription(&refresh.channel).is_none() {
            return refuse(id, ErrorCode::PERMISSION_DENIED);
        }
        if refresh.token.is_empty() {
            return refuse(id, ErrorCode::BAD_REQUEST);
        }
        let State::Open(identity) = &self.state else { return Action::Close(Disconnect::BAD_REQUEST) };
        let Granted { expires_at, token, .. } =
            match self.subscription_token(&refresh.token, &refresh.channel, identity, now) {
                Ok(granted) => granted,
                Err(TokenFault::Expired) => return refuse(id, ErrorCode::TOKEN_EXPIRED),
                Err(TokenFault::Invalid) => return refuse(id, ErrorCode::PERMISSION_DENIED),
                Err(TokenFault::Foreign) => return Action::Close(Disconnect::INVALID_TOKEN),
            };
        let mut result = RefreshResult::default();
        match remaining(expires_at, now) {
            Remaining::Forever => {}
            Remaining::Seconds(ttl) => (result.expires, result.ttl) = (true, ttl),
            Remaining::None => return refuse(id, ErrorCode::EXPIRED),
        }
        let subscription = self.subscriptions.iter_mut().find(|subscription| *subscription.channel == *refresh.channel);
        if let Some(subscription) = subscription {
            subscription.expires_at = expires_at;
            subscription.token = Some(Arc::new(token));
            self.tokens_changed = true;
        }
        Action::Reply(reply(id, &ReplyBody::SubRefresh(result)))
    }
}

/// What a client is told of a subscription.
pub(super) fn subscribed(join: &Join, joined: Joined, now: Moment) -> SubscribeResult {
    let mut result = SubscribeResult { was_recovering: join.recover.recover, ..SubscribeResult::default() };
    if let Some(expires_at) = join.expires_at {
        result.expires = true;
        result.ttl = ttl(expires_at, now);
    }
    if let Some(position) = joined.position {
        (result.recoverable, result.positioned) = (true, true);
        result.epoch = position.epoch.to_string().into();
        result.offset = position.offset;
    }
    if let Some(missed) = joined.missed {
        // The client moves on through the publications.
        (result.recovered, result.offset) = (true, join.recover.offset);
        result.publications = missed;
    }
    result
}

/// What a subscription token grants.
struct Granted {
    /// When the subscription expires, in Unix seconds.
    expires_at: Option<u64>,
    token: TokenIdentity,
    /// What others are told of the subscriber.
    info: Option<Box<RawValue>>,
}

/// What is wrong with a subscription token.
enum TokenFault {
    Expired,
    Invalid,
    /// It is valid, and of somebody or something else.
    Foreign,
}
