//! Who a client is: connect, and refresh before that runs out.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::subscriptions::subscribed;
use super::time::{Moment, Remaining, remaining, ttl};
use super::{Action, Identity, Join, Opening, Session, Side, State, Subscription, VERSION, refuse};
use crate::auth::{ConnectClaims, TokenError, TokenIdentity};
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::hub::Joined;
use crate::gateway::sockets::closing;
use crate::model::{Channel, ChannelKind, UserId};
use crate::protocol::{ConnectRequest, ConnectResult, Disconnect, ErrorCode, RefreshResult, ReplyBody, reply};

impl Session {
    pub(super) fn connect(&mut self, id: u32, connect: &ConnectRequest, now: Moment) -> Action {
        if connect.token.is_empty() {
            if !self.options.anonymous {
                return Action::Close(Disconnect::BAD_REQUEST);
            }
            let nobody = Identity { user: None, token: None, info: None, expires_at: None, channels: 0 };
            self.state = State::Opening(nobody);
            return Action::Open(Opening {
                id,
                user: None,
                token: None,
                client: self.client.clone(),
                joins: Vec::new(),
            });
        }
        let claims = match self.options.verifier.verify_connect(&connect.token, now.unix) {
            Ok(claims) => claims,
            Err(TokenError::Expired) => {
                self.state = State::Refused;
                return refuse(id, ErrorCode::TOKEN_EXPIRED);
            }
            Err(error) => return Action::Close(invalid_token(error)),
        };
        if let Some(why) = self.revoked(claims.user.as_ref(), &claims.identity, now) {
            return Action::Close(why);
        }
        let token = Arc::new(claims.identity.clone());
        let own = |user: &UserId| [Channel::Timeline(user.clone()), Channel::Notifications(user.clone())];
        let own = claims.user.iter().flat_map(own).map(|channel| channel.to_string());
        let channels = named_channels(&claims);
        let identity = Identity {
            user: claims.user.clone(),
            token: Some(Arc::clone(&token)),
            info: claims.info,
            expires_at: claims.expire_at,
            channels,
        };
        let named = claims.subs.into_iter().map(|(name, options)| (name, options.info));
        let plain = own.chain(claims.channels).map(|name| (name, None));
        let mut joins: Vec<Join> = Vec::new();
        for (name, chan_info) in named.chain(plain) {
            // A token opens any channel to its user, except channels that are limited to others.
            let permitted = |channel: &ResolvedChannel| channel.permits_server_side(identity.user.as_ref());
            let channel = self.options.channels.find(&name).filter(|_| name.len() <= self.options.channel_length);
            let Some(channel) = channel.filter(permitted) else { return Action::Close(Disconnect::BAD_REQUEST) };
            if joins.iter().any(|join| *join.name == *name) {
                continue;
            }
            let recover = connect.subs.get(&name).cloned().unwrap_or_default();
            let info = self.info_for(&identity, &channel, chan_info);
            let (user, address, expires_at, token) = (claims.user.clone(), self.address, None, None);
            joins.push(Join { id: 0, name: name.into(), channel, recover, expires_at, token, info, user, address });
        }
        // The user's own two are everybody's.
        let own = if claims.user.is_some() { 2 } else { 0 };
        if joins.len() > self.options.max_channels + own {
            return Action::Close(Disconnect::CHANNEL_LIMIT);
        }
        self.state = State::Opening(identity);
        Action::Open(Opening { id, user: claims.user, token: Some(token), client: Arc::clone(&self.client), joins })
    }

    /// The client is in its channels (or could not be brought there): what to say.
    pub fn opened(&mut self, id: u32, joined: Vec<(Join, Joined)>, now: Moment) -> Action {
        let State::Opening(identity) = std::mem::replace(&mut self.state, State::Refused) else {
            return Action::Close(Disconnect::INTERNAL);
        };
        let mut result = ConnectResult {
            client: self.client.to_string(),
            version: VERSION.to_owned(),
            ping: self.options.ping_interval.as_secs(),
            pong: true,
            ..ConnectResult::default()
        };
        if let Some(expires_at) = identity.expires_at {
            result.expires = true;
            result.ttl = ttl(expires_at, now);
        }
        for (join, joined) in joined {
            self.subscriptions.push(Subscription {
                channel: Arc::clone(&join.name),
                side: Side::Server,
                expires_at: None,
                token: None,
            });
            result.subs.insert(join.name.to_string(), subscribed(&join, joined, now));
        }
        self.state = State::Open(identity);
        Action::Reply(reply(id, &ReplyBody::Connect(result)))
    }

    /// How the connection is closed because a token ended before its time, if it did, or the user is blocked.
    pub(super) fn revoked(&self, user: Option<&UserId>, token: &TokenIdentity, now: Moment) -> Option<Disconnect> {
        self.options.revocations.check(user, Some(token), now.unix.saturating_mul(1_000)).err().map(closing)
    }

    /// The client could not be brought into its channels: what to say. It may connect again.
    pub fn not_opened(&mut self, id: u32) -> Action {
        self.state = State::Refused;
        refuse(id, ErrorCode::INTERNAL)
    }

    pub(super) fn refresh(&mut self, id: u32, token: &str, now: Moment) -> Action {
        let State::Open(identity) = &mut self.state else { return Action::Close(Disconnect::BAD_REQUEST) };
        if token.is_empty() {
            return Action::Close(Disconnect::BAD_REQUEST);
        }
        let claims = match self.options.verifier.verify_connect(token, now.unix) {
            Ok(claims) if claims.user == identity.user && claims.identity.is_like(identity.token.as_deref()) => claims,
            Ok(_) => return Action::Close(Disconnect::INVALID_TOKEN),
            Err(TokenError::Expired) => return Action::Close(Disconnect::EXPIRED),
            Err(error) => return Action::Close(invalid_token(error)),
        };
        let unix_millis = now.unix.saturating_mul(1_000);
        if let Err(revoked) = self.options.revocations.check(claims.user.as_ref(), Some(&claims.identity), unix_millis)
        {
            return Action::Close(closing(revoked));
        }
        if named_channels(&claims) != identity.channels {
            // Only a new connection is brought into its channels.
            return Action::Close(Disconnect::INSUFFICIENT_STATE);
        }
        let mut result =
            RefreshResult { client: self.client.to_string(), version: VERSION.to_owned(), ..RefreshResult::default() };
        match remaining(claims.expire_at, now) {
            Remaining::Forever => {}
            Remaining::Seconds(ttl) => (result.expires, result.ttl) = (true, ttl),
            Remaining::None => return refuse(id, ErrorCode::EXPIRED),
        }
        identity.expires_at = claims.expire_at;
        identity.token = Some(Arc::new(claims.identity));
        Action::Reply(reply(id, &ReplyBody::Refresh(result)))
    }
}

/// How the connection of a client with a token that is not valid is closed. The reason says why where the operator's
/// configuration decided.
fn invalid_token(error: TokenError) -> Disconnect {
    match error {
        TokenError::NoExpiry => Disconnect { reason: "invalid token: no exp".into(), ..Disconnect::INVALID_TOKEN },
        TokenError::Invalid(_) | TokenError::Expired => Disconnect::INVALID_TOKEN,
    }
}

/// A number that stands for the channels a token names, whatever their order. It is kept as long as a connection is
/// there, so it is small.
fn named_channels(claims: &ConnectClaims) -> u64 {
    let own = |name: &str| {
        let owner = ChannelKind::Timeline.id_of(name).or_else(|| ChannelKind::Notifications.id_of(name));
        owner.is_some() && owner == claims.user.as_ref().map(UserId::as_str)
    };
    let names: BTreeSet<&String> = claims.channels.iter().chain(claims.subs.keys()).filter(|name| !own(name)).collect();
    if names.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}
