//! The subscriptions of a session.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::time::{SessionTime, is_over};
use crate::auth::TokenIdentity;
use crate::gateway::channels::join::Join;

/// Subscription tokens in use, by channel.
pub type SubscriptionTokens = Vec<(Arc<str>, Arc<TokenIdentity>)>;

/// The side that created a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscribedBy {
    /// The server, when the client connected or a backend asked for it.
    Server,
    /// The client, with `subscribe`.
    Client,
}

/// A subscription that was removed.
#[derive(Debug, PartialEq, Eq)]
pub struct DroppedSubscription {
    /// The channel's name.
    pub channel: Arc<str>,
    /// The name as the client wrote it, for a push about the end.
    pub shown_name: Arc<str>,
}

/// One subscription.
#[derive(Debug)]
struct Subscription {
    channel: Arc<str>,
    by: SubscribedBy,
    /// In a box: most subscriptions have no terms.
    terms: Option<Box<SubscriptionTerms>>,
}

/// What a token or a backend determined for a subscription.
#[derive(Debug, Default)]
struct SubscriptionTerms {
    /// When the subscription expires, in Unix seconds; `None`: never.
    expires_at: Option<u64>,
    /// The subscription token, if one was needed.
    token: Option<Arc<TokenIdentity>>,
    /// What other subscribers see of the client in this channel: JSON.
    chan_info: Option<Box<RawValue>>,
    /// The channel's name as the client wrote it, if that differs.
    spelling: Option<Arc<str>>,
}

impl Subscription {
    fn shown_name(&self) -> &Arc<str> {
        self.terms.as_ref().and_then(|terms| terms.spelling.as_ref()).unwrap_or(&self.channel)
    }

    fn dropped(self) -> DroppedSubscription {
        DroppedSubscription { shown_name: Arc::clone(self.shown_name()), channel: self.channel }
    }

    fn expires_at(&self) -> Option<u64> {
        self.terms.as_ref()?.expires_at
    }

    fn token(&self) -> Option<&Arc<TokenIdentity>> {
        self.terms.as_ref()?.token.as_ref()
    }
}

/// The channels that a client is subscribed to. They are few, so the list is searched linearly.
#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    subscriptions: Vec<Subscription>,
    /// Whether subscription tokens were added or removed since the last call of
    /// [`changed_tokens`](Self::changed_tokens).
    tokens_changed: bool,
}

impl SubscriptionTable {
    /// Allocates memory for more subscriptions, and not for others: most clients have these alone.
    pub(super) fn reserve(&mut self, additional: usize) {
        self.subscriptions.reserve_exact(additional);
    }

    /// Adds a server-side subscription.
    pub(super) fn add_server_side(&mut self, join: &Join) {
        self.insert(join, SubscribedBy::Server);
    }

    /// Adds a client-side subscription.
    pub(super) fn add(&mut self, join: &Join) {
        self.insert(join, SubscribedBy::Client);
    }

    fn insert(&mut self, join: &Join, by: SubscribedBy) {
        let channel = Arc::clone(&join.name);
        let token = join.token.clone();
        self.tokens_changed |= token.is_some();
        let chan_info = join.chan_info.clone();
        let terms =
            SubscriptionTerms { expires_at: join.expires_at, token, chan_info, spelling: join.spelling.clone() };
        let has_terms = terms.expires_at.is_some()
            || terms.token.is_some()
            || terms.chan_info.is_some()
            || terms.spelling.is_some();
        self.subscriptions.push(Subscription { channel, by, terms: has_terms.then(|| Box::new(terms)) });
    }

    /// What other subscribers see of the client in a channel.
    pub(super) fn chan_info(&self, channel: &str) -> Option<Box<RawValue>> {
        self.find(channel)?.terms.as_ref()?.chan_info.clone()
    }

    /// Removes a subscription; `None` if the client was not subscribed to the channel.
    pub(super) fn remove(&mut self, channel: &str) -> Option<DroppedSubscription> {
        let index = self.subscriptions.iter().position(|subscription| &*subscription.channel == channel)?;
        let removed = self.subscriptions.swap_remove(index);
        self.tokens_changed |= removed.token().is_some();
        Some(removed.dropped())
    }

    /// Replaces the token and the expiry of a subscription.
    pub(super) fn refresh(&mut self, channel: &str, expires_at: Option<u64>, token: Arc<TokenIdentity>) {
        if let Some(subscription) = self.subscriptions.iter_mut().find(|it| &*it.channel == channel) {
            let terms = subscription.terms.get_or_insert_default();
            (terms.expires_at, terms.token) = (expires_at, Some(token));
            self.tokens_changed = true;
        }
    }

    /// Whether the client is subscribed to a channel.
    pub(super) fn contains(&self, channel: &str) -> bool {
        self.find(channel).is_some()
    }

    /// Whether the server subscribed the client to a channel.
    pub(super) fn is_server_side(&self, channel: &str) -> bool {
        self.find(channel).is_some_and(|subscription| subscription.by == SubscribedBy::Server)
    }

    fn find(&self, channel: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| &*subscription.channel == channel)
    }

    /// The channels.
    pub(super) fn channels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.subscriptions.iter().map(|subscription| &subscription.channel)
    }

    /// The number of server-side subscriptions.
    pub(super) fn server_side(&self) -> usize {
        self.subscriptions.len() - self.client_side()
    }

    /// Whether a server-side subscription has expired and its grace period is over. Only a new connection renews it.
    pub(super) fn is_server_side_over(&self, now: SessionTime) -> bool {
        let is_server_side = |it: &&Subscription| it.by == SubscribedBy::Server;
        self.subscriptions.iter().filter(is_server_side).any(|subscription| is_over(subscription.expires_at(), now))
    }

    /// The number of client-side subscriptions.
    pub(super) fn client_side(&self) -> usize {
        self.subscriptions.iter().filter(|subscription| subscription.by == SubscribedBy::Client).count()
    }

    /// Removes the subscriptions that expired and whose grace period is over. Returns them.
    pub(super) fn expire(&mut self, now: SessionTime) -> Vec<DroppedSubscription> {
        let expired: Vec<Subscription> =
            self.subscriptions.extract_if(.., |subscription| is_over(subscription.expires_at(), now)).collect();
        self.tokens_changed |= expired.iter().any(|subscription| subscription.token().is_some());
        expired.into_iter().map(Subscription::dropped).collect()
    }

    /// The earliest expiry, in Unix seconds; `None`: no subscription expires.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.subscriptions.iter().filter_map(Subscription::expires_at).min()
    }

    /// All subscription tokens in use; `None` if they have not changed since the last call.
    pub(super) fn changed_tokens(&mut self) -> Option<SubscriptionTokens> {
        if !std::mem::take(&mut self.tokens_changed) {
            return None;
        }
        let with_token =
            |subscription: &Subscription| Some((Arc::clone(&subscription.channel), Arc::clone(subscription.token()?)));
        Some(self.subscriptions.iter().filter_map(with_token).collect())
    }
}
