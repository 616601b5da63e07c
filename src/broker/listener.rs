//! What a broker delivers to its node.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::invalidation::Invalidation;
use super::signal::Signal;
use crate::model::{Entry, Position};

/// Who is told what subscribed channels hear. Called from the broker's own tasks: it must not block.
pub trait MessageListener: Send + Sync + 'static {
    /// An entry was appended to a subscribed channel, or published to it without a log (`position` is `None`).
    fn entry(&self, channel: &str, position: Option<&Position>, entry: &Entry);
    /// Something else was said on a subscribed channel; see [`Broker::publish`].
    fn notice(&self, channel: &str, notice: &PresenceEvent);
    /// A signal of any node, this one included; see [`Broker::signal`].
    fn signal(&self, signal: Signal);
    /// Hints may have been lost until now; from now on they flow again, on every channel subscribed to. Called
    /// after a reconnect, and whenever the broker cannot be sure. Positions must be compared with the logs.
    fn resync(&self);
    /// Cached copies of these must not be used from now on; see [`Broker::invalidate`]. Also of one's own. Whoever caches
    /// nothing has nothing to do.
    fn invalidate(&self, _what: &[Invalidation]) {}
    /// No cached copy that was made before now must be used: invalidations may have been missed.
    fn invalidate_all(&self) {}
}

/// Said on a channel without becoming part of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresenceEvent {
    /// A client came: its `ClientInfo` as JSON.
    Join(Bytes),
    /// A client left: its `ClientInfo` as JSON.
    Leave(Bytes),
}

/// The listener of a broker, once it is set.
pub(super) type ListenerCell = Arc<OnceLock<Arc<dyn MessageListener>>>;
