//! The messages that a broker delivers to its node.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::invalidation::Invalidation;
use super::signal::Signal;
use crate::model::{Entry, PositionRef};

/// Receives hints of subscribed channels, signals and invalidations. Called from the broker's own tasks: it must not
/// block.
pub trait MessageListener: Send + Sync + 'static {
    /// An entry was appended to a subscribed channel, or published to it without a log (`position` is `None`).
    fn entry(&self, channel: &str, position: Option<PositionRef<'_>>, entry: &Entry);
    /// One entry was appended to several subscribed channels, each with its position there.
    fn entries(&self, channels: &[(&str, PositionRef<'_>)], entry: &Entry) {
        channels.iter().for_each(|(channel, position)| self.entry(channel, Some(*position), entry));
    }
    /// A client joined or left a subscribed channel.
    fn presence_event(&self, channel: &str, event: &PresenceEvent);
    /// A signal of any node, this one included; see [`Broker::signal`](super::Broker::signal).
    fn signal(&self, signal: Signal);
    /// Hints of all channels may have been lost up to now, for example before a reconnect. Positions must be compared
    /// with the logs.
    fn resync(&self);
    /// Cached copies of these objects must not be used from now on; see
    /// [`Broker::invalidate`](super::Broker::invalidate). Includes this node's own invalidations.
    fn invalidate(&self, _what: &[Invalidation]) {}
    /// No cached copy from before this call may be used: invalidations may have been lost.
    fn invalidate_all(&self) {}
}

/// A join or leave, which is not part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresenceEvent {
    /// A client joined: its `ClientInfo` as JSON.
    Join(Bytes),
    /// A client left: its `ClientInfo` as JSON.
    Leave(Bytes),
}

/// The listener of a broker, once it is set.
pub(super) type ListenerCell = Arc<OnceLock<Arc<dyn MessageListener>>>;
