//! Live state that can be rebuilt from the ledger: the logs behind channels, and the delivery of new entries to nodes.
//!
//! A channel is a bounded, append-only log with contiguous offsets and an epoch. Appending to it also sends a *hint* to
//! every node that subscribed to the channel. Hints may be lost; the log is authoritative. One trait has two engines
//! and one conformance suite (`tests/broker/`): [`MemoryBroker`] for a single process, [`RedisBroker`] for any number.
//!
//! There are three ways to write to a channel:
//!
//! - [`append`](Broker::append): a log that the first entry creates (application namespaces, `user:`, `topic:`,
//!   `post:`, `notifications:`);
//! - [`fan_out`](InboxStore::fan_out): one entry to many **inboxes** (`timeline:<user>`). An inbox exists only while
//!   its owner is active. A write to an inbox that does not exist is refused, which makes inactive followers cheap;
//! - [`publish`](Broker::publish): no log, only a hint to the nodes that are subscribed now.
//!
//! An inbox is created in two steps, so that no post is lost in between: [`open_inbox`] creates it, and from then on it
//! accepts fan-outs; then the caller reads the owner's past posts from the ledger and adds them with [`fill_inbox`]. An
//! inbox contains each post at most once: `fill_inbox` and [`merge_inbox`] search it before they write, and `fan_out`
//! does where a fill or merge may have written the post. Edits and removals are written without a search, so an inbox
//! may have them for posts that it does not contain: readers of the log skip these.
//!
//! [`open_inbox`]: InboxStore::open_inbox
//! [`fill_inbox`]: InboxStore::fill_inbox
//! [`merge_inbox`]: InboxStore::merge_inbox

mod applied_invalidations;
mod cache_lease;
mod connection_requests;
mod epoch;
mod error;
mod fan_out;
mod identity;
mod inboxes;
mod invalidation;
mod journal;
mod lineage;
mod listener;
mod logs;
mod memory;
mod outlet_copy;
mod permits;
mod presence;
mod queue;
mod redis;
mod signal;
mod tallies;

use std::sync::Arc;
use std::time::Duration;

pub use self::cache_lease::{CACHE_LEASE, CacheLease};
pub use self::connection_requests::{
    ConnectionSelector, DisconnectRequest, NodeAnswer, NodeInfo, NodeQuestion, RefreshRequest, ServerSubscription,
    UnsubscribeRequest,
};
pub(crate) use self::epoch::READER_TTL;
pub use self::epoch::{POSITION_TTL, continues, follows};
pub use self::error::{BrokerError, Result};
pub use self::fan_out::{Attempt, FanOut, FannedOut, JobAttempt, JobProgress, PageRecipients, Pull, Receipt};
pub use self::identity::{BrokerIdentity, IdentityStore, MEMORY_PLACE, SeenNode};
pub use self::inboxes::{Inbox, InboxOptions, InboxState, InboxStore, inbox_channel, is_inbox, timeline_owner};
pub use self::invalidation::{Confirmation, Invalidation};
pub use self::journal::{Flush, Journal};
pub(crate) use self::lineage::{LIKES, is_behind};
pub use self::lineage::{LedgerMatch, LedgerRecord};
pub use self::listener::{MessageListener, PresenceEvent};
pub use self::logs::{Append, AppendOutcome, Broadcast, Slice, Span};
pub use self::memory::MemoryBroker;
pub use self::outlet_copy::{OutletRecord, OutletStream};
pub use self::permits::{Permit, PermitRequest, PermitStore};
pub use self::presence::{PresenceStats, PresenceStore, PresentClient};
pub use self::queue::{DurableQueue, QueueBacklog, QueueItem, QueueOffset, QueuePage, QueuedEntry};
pub use self::redis::measured;
pub use self::redis::{RedisBroker, RedisFindings, RedisOptions, queue_backlog, redis_rights};
pub use self::signal::{EmulatedCommands, LiveItems, LiveItemsTaken, SettlementEvent, Signal};
pub use self::tallies::{TALLY_TTL, TallyStore};
use async_trait::async_trait;

use crate::model::{Entry, Millis, Position, UserId};

/// A broker. Every method returns within the configured timeout, if necessary with an error. A write that returned
/// `Unreachable` may have happened.
///
/// Logs are named by channel. Logs of inboxes are `timeline:<user>` (see [`inbox_channel`]) and `list:<id>`; they can
/// be read like others.
#[async_trait]
pub trait Broker:
    InboxStore
    + PresenceStore
    + TallyStore
    + PermitStore
    + LedgerRecord
    + IdentityStore
    + OutletStream
    + Send
    + Sync
    + 'static
{
    /// A description for operators: `memory`, or `redis 7.0.15 at 127.0.0.1:6379`.
    fn name(&self) -> String;

    /// Sets the listener. To be called once, before the first subscription.
    fn listen(&self, listener: Arc<dyn MessageListener>);

    /// Checks that the broker can be reached and accepts writes.
    async fn ping(&self) -> Result<()>;

    /// Round trips to the engine since the start; 0 for the memory broker.
    fn round_trips(&self) -> u64;

    // --- subscriptions and signals
    // ---------------------------------------------------------------------------------------

    /// Subscribes this node to a channel: once this has returned, its entries reach the listener. Idempotent.
    async fn subscribe(&self, channel: &str) -> Result<()>;

    /// Ends the subscription. A hint in flight may still arrive.
    async fn unsubscribe(&self, channel: &str) -> Result<()>;

    /// For each user, whether any node is subscribed to the channel of their inbox. One round trip for all users.
    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>>;

    /// Sends a signal to all nodes, this one included. Returns the number of connections to the broker that received
    /// it: at least one for each node.
    async fn signal(&self, signal: Signal) -> Result<u64>;

    /// The name of this node, under which other nodes send it signals. It is new at each start.
    fn node(&self) -> &Arc<str>;

    /// Sends a signal to one node, by its name; to this one as well. Returns whether there is a node of this name.
    async fn signal_node(&self, node: &str, signal: Signal) -> Result<bool>;

    /// Appends to the invalidation log, which all nodes follow. When [`Confirmation::wait`] returns, no node uses a
    /// cached copy of these that was made before the call. The caller has dropped its own copies. One round trip;
    /// waiting makes none.
    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation>;

    /// Whether this node may use its caches.
    fn cache_lease(&self) -> Arc<CacheLease>;

    // --- logs ------------------------------------------------------------------------------------------

    /// Appends an entry and sends a hint to the subscribed nodes. Refused for inboxes, which only fan-outs write to.
    async fn append(&self, append: Append<'_>) -> Result<AppendOutcome>;

    /// Appends an entry to the logs of many channels, in few round trips. One result for each channel, in their order:
    /// the failure of one does not affect the others. Refused for all if one of them is an inbox.
    async fn broadcast(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>>;

    /// Sends a hint to the subscribed nodes, without a log.
    async fn publish(&self, channel: &str, entry: &Entry) -> Result<AppendOutcome>;

    /// [Publishes](Self::publish) on many channels, in few round trips. One result for each channel, in their order:
    /// the failure of one does not affect the others. The idempotency key is that of an [`Append`].
    async fn publish_on_all(
        &self,
        channels: &[&str],
        entry: &Entry,
        idempotency_key: Option<&str>,
    ) -> Vec<Result<AppendOutcome>>;

    /// Sends a join or leave to the subscribed nodes, without a log.
    async fn publish_presence_event(&self, channel: &str, event: &PresenceEvent) -> Result<()>;

    /// The last position of a log, for a reader. It stays valid as long as its entries do, five minutes at least. A log
    /// without a write is at offset 0 of a derived epoch (see [`continues`]), which its first entry will have; it
    /// occupies no memory. `None` for an inbox that does not exist or is not filled.
    async fn position(&self, channel: &str) -> Result<Option<Position>>;

    /// The last positions of many logs in one round trip, each as [`position`](Self::position) returns it.
    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>>;

    /// Reads a part of a log. `None` for an inbox that does not exist or is not filled.
    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>>;

    /// Removes the entries of a log; its position stays. Refused for inboxes.
    async fn clear_log(&self, channel: &str) -> Result<()>;

    /// Drops logs and inboxes with their entries. A dropped log is replaced by an empty one with a new epoch.
    async fn drop_logs(&self, channels: &[String]) -> Result<()>;

    // --- nodes -----------------------------------------------------------------------------------------

    /// Leases a node number, 0 to 254, that no other live node has, for [`NODE_LEASE`] by the store's clock. Also
    /// renews a lease. `holder` identifies this process. `number` is the number that it had so far; it keeps the number
    /// unless another node has taken it, even if the broker has lost the lease.
    async fn lease_node(&self, holder: &str, number: Option<u8>, ids: IdTimes) -> Result<NodeLease>;

    /// Ends the lease of a node number. The holder has generated no id with a later millisecond than `used_until`, and
    /// generates none any more. Does nothing if another node has the number.
    async fn release_node(&self, holder: &str, number: u8, used_until: Millis) -> Result<()>;
}

/// How long a node number is leased.
pub const NODE_LEASE: Duration = Duration::from_secs(60);

/// The times of the ids of a node, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdTimes {
    /// The latest that the node has generated. The store keeps the greatest of all nodes.
    pub used: Millis,
    /// The node generates no later one before the next renewal. The store keeps it for the number's next holder.
    pub ceiling: Millis,
}

/// The lease of a number that is part of the ids a node generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    /// The leased node number, 0 to 254.
    pub number: u8,
    /// The time from the store's reply until the lease ends; `None`: there is only one node, the lease does not end.
    pub ttl: Option<Duration>,
    /// A former holder of the number may have generated ids up to this time, and other nodes have up to it (Unix
    /// milliseconds).
    pub used_until: Millis,
    /// The store's clock at its reply; `None`: the store has no clock of its own.
    pub store_time: Option<Millis>,
}
