//! The items of the send queue of one connection.

use std::sync::Arc;

use super::framed::Framed;
use super::probe::Probe;
use crate::broker::{RefreshRequest, ServerSubscription};

/// An item of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A message. All receivers share its encoding.
    Push(Framed),
    /// The subscription to this channel cannot continue without a gap. The client's task closes a connection with 3010
    /// if the subscription is server-side; otherwise it sends an unsubscribe push with code 2500.
    Insufficient(Arc<str>),
    /// The backend ended the subscription to this channel; empty: all but those to the user's own two channels.
    Unsubscribed(Arc<str>),
    /// The backend subscribed the client to a channel.
    Subscribed(Arc<ServerSubscription>),
    /// The backend changed the expiry of the connection.
    Refreshed(Arc<RefreshRequest>),
    /// The token of the subscription to this channel was revoked.
    Revoked(Arc<str>),
    /// A relation of the user changed: end the subscriptions to posts and profiles that the user cannot see any more.
    CheckAccess,
    /// Ping the client behind everything that is queued, and report its next frame.
    Probe(Probe),
}

impl Outgoing {
    /// Its part of the size of a queue, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Push(message) => message.len(),
            Self::Insufficient(channel) | Self::Unsubscribed(channel) | Self::Revoked(channel) => channel.len(),
            Self::Subscribed(subscription) => {
                subscription.channel.len() + subscription.info.len() + subscription.data.len()
            }
            Self::Refreshed(refresh) => refresh.info.len(),
            Self::CheckAccess => 0,
            Self::Probe(_) => size_of::<Probe>(),
        }
    }
}
