//! Everything fast that can be rebuilt from the ledger: the logs behind channels, and who hears of them.
//!
//! A channel is a bounded, append-only log with contiguous offsets and an epoch. Appending to it also sends a
//! *hint* to every node that subscribed to the channel. Hints may be lost; logs say what happened. One trait,
//! two engines, one conformance suite (`tests/broker/`): [`MemoryBroker`] for a single process,
//! [`RedisBroker`] for any number.
//!
//! There are three ways to write to a channel:
//!
//! - [`append`](Broker::append): a log that comes into being with its first entry (application namespaces,
//!   `user:`, `topic:`, `post:`, `notifications:`);
//! - [`fan_out`](InboxStore::fan_out): one entry to many **inboxes** (`timeline:<user>`). An inbox exists only while
//!   its owner is active; one that does not exist refuses the write, and that is all an inactive follower costs;
//! - [`publish`](Broker::publish): no log at all, a hint to those who listen now.
//!
//! An inbox comes into being in two steps, so that nothing published meanwhile is lost: [`open_inbox`] creates
//! it, from when on it takes what is fanned out; then its owner's past is read from the ledger and
//! [`fill_inbox`] puts that in. An inbox holds each post at most once: `fill_inbox` and [`merge_inbox`] look
//! before they write, and `fan_out` looks where a fill or merge may have been there first. Edits and removals are written
//! without a look, so an inbox may have them for posts that it never held: readers of the log skip them.
//!
//! [`open_inbox`]: InboxStore::open_inbox
//! [`fill_inbox`]: InboxStore::fill_inbox
//! [`merge_inbox`]: InboxStore::merge_inbox

mod epoch;
mod error;
mod fan_out;
mod inboxes;
mod invalidation;
mod journal;
mod lineage;
mod listener;
mod logs;
mod memory;
mod permits;
mod presence;
mod queue;
mod redis;
mod signal;
mod tallies;

use std::sync::Arc;
use std::time::Duration;

pub use self::epoch::{POSITION_TTL, continues, follows};
pub use self::error::{BrokerError, Result};
pub use self::fan_out::{Attempt, FanOut, FannedOut, JobAttempt, JobProgress, PageRecipients, Pull, Receipt};
pub use self::inboxes::{Inbox, InboxOptions, InboxState, InboxStore, inbox_channel, inbox_owner};
pub use self::invalidation::{CACHE_LEASE, CacheLease, Confirmation, Invalidation};
pub use self::journal::{Flush, Journal};
pub(crate) use self::lineage::{LIKES, is_behind};
pub use self::lineage::{LedgerMatch, LedgerRecord};
pub use self::listener::{MessageListener, PresenceEvent};
pub use self::logs::{Append, Appended, Slice, Span};
pub use self::memory::MemoryBroker;
pub use self::permits::{Permit, PermitRequest, PermitStore};
pub use self::presence::{PresenceStats, PresenceStore, PresentClient};
pub use self::queue::{Claim, DurableQueue, PARTITION_LEASE, QueueItem, QueueOffset, QueuedEntry};
pub use self::redis::{RedisBroker, RedisOptions, raw};
pub use self::signal::{DisconnectRequest, SettlementEvent, Signal};
pub use self::tallies::{TALLY_TTL, TallyStore};
use async_trait::async_trait;

use crate::model::{Entry, Millis, Position, UserId};

/// A broker. Every method answers within the configured timeout, with an error if need be. An `Unreachable` write
/// may have happened.
///
/// Logs are named by channel. Those of inboxes are `timeline:<user>` (see [`inbox_channel`]) and can be read like any other.
#[async_trait]
pub trait Broker: InboxStore + PresenceStore + TallyStore + PermitStore + LedgerRecord + Send + Sync + 'static {
    /// What it is, for people: `memory`, or `redis 7.0.15 at 127.0.0.1:6379`.
    fn name(&self) -> String;

    /// Says who hears. Once, before the first subscription.
    fn listen(&self, listener: Arc<dyn MessageListener>);

    /// Whether it answers.
    async fn ping(&self) -> Result<()>;

    /// Round trips made to the engine so far; 0 where there are none.
    fn round_trips(&self) -> u64;

    // --- hearing ---------------------------------------------------------------------------------------

    /// From when this returns, entries of the channel reach the listener. Subscribing again is harmless.
    async fn subscribe(&self, channel: &str) -> Result<()>;

    /// Ends it. A hint under way may still arrive.
    async fn unsubscribe(&self, channel: &str) -> Result<()>;

    /// Of each of these users, whether any node has subscribed to the channel of their inbox. One round trip, however
    /// many they are.
    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>>;

    /// Sends a signal to all nodes, this one included.
    async fn signal(&self, signal: Signal) -> Result<()>;

    /// Appends to the invalidation log, which all nodes follow. When [`Confirmation::wait`] returns, no node uses a cached
    /// copy of these that was made before the call. The caller has dropped its own copies. One round trip; waiting makes
    /// none.
    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation>;

    /// Whether this node may use its caches.
    fn cache_lease(&self) -> Arc<CacheLease>;

    // --- logs ------------------------------------------------------------------------------------------

    /// Appends an entry and tells the subscribed nodes. Refused for an inbox: those are fanned out to.
    async fn append(&self, append: Append<'_>) -> Result<Appended>;

    /// Tells the subscribed nodes and keeps nothing.
    async fn publish(&self, channel: &str, entry: &Entry) -> Result<Appended>;

    /// Tells the subscribed nodes something that is no entry.
    async fn notice(&self, channel: &str, notice: &PresenceEvent) -> Result<()>;

    /// Where the log stands; a position that is asked for stays known for [`POSITION_TTL`] from now on. A log that nothing
    /// was written to stands at offset 0 of a derived epoch (see [`continues`]), which its first entry will have, and
    /// costs the broker nothing. `None` for an inbox that is absent or not filled.
    async fn position(&self, channel: &str) -> Result<Option<Position>>;

    /// Where many logs stand, in one round trip, as [`position`](Self::position) answers for each.
    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>>;

    /// Reads a part of a log. `None` for an inbox that is absent or not filled.
    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>>;

    /// Drops logs and inboxes with everything in them. A log that is dropped is replaced by an empty one with a new epoch.
    async fn drop_logs(&self, channels: &[String]) -> Result<()>;

    // --- nodes -----------------------------------------------------------------------------------------

    /// Leases a number for the ids this node makes, 0 to 63, that no other live node has, for [`NODE_LEASE`] by the store's
    /// clock; called again to renew. `holder` names this process. `number`: what it had so far, and keeps if nobody else took
    /// it, even where the broker has forgotten the lease. Otherwise it is any. `ceiling`: the holder makes no id of a later
    /// millisecond before it has renewed; the store remembers it for the number's next holder.
    async fn lease_node(&self, holder: &str, number: Option<u8>, ceiling: Millis) -> Result<NodeLease>;
}

/// How long a node number is leased.
pub const NODE_LEASE: Duration = Duration::from_secs(60);

/// A number for the ids that a node makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    /// The number.
    pub number: u8,
    /// How long it stays this node's, from when the store answered; `None` where there is no other node.
    pub ttl: Option<Duration>,
    /// A former holder may have made ids up to this time (Unix milliseconds); 0 where the lease was renewed.
    pub used_until: Millis,
}
