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
//! - [`fan_out`](Inboxes::fan_out): one entry to many **inboxes** (`timeline:<user>`). An inbox exists only while
//!   its owner is active; one that does not exist refuses the write, and that is all an inactive follower costs;
//! - [`publish`](Broker::publish): no log at all, a hint to those who listen now.
//!
//! An inbox comes into being in two steps, so that nothing published meanwhile is lost: [`open_inbox`] creates
//! it, from when on it takes what is fanned out; then its owner's past is read from the ledger and
//! [`fill_inbox`] puts that in. An inbox holds each post at most once: `fill_inbox` and [`merge_inbox`] look
//! before they write, and `fan_out` looks where a fill or merge may have been there first. Edits and removals are written
//! without a look, so an inbox may have them for posts that it never held: readers of the log skip them.
//!
//! [`open_inbox`]: Inboxes::open_inbox
//! [`fill_inbox`]: Inboxes::fill_inbox
//! [`merge_inbox`]: Inboxes::merge_inbox

mod epoch;
mod fan_out;
mod inboxes;
mod invalidation;
mod journal;
mod lineage;
mod memory;
mod permits;
mod presence;
mod queue;
mod redis;
mod signal;
mod tallies;

use std::sync::Arc;
use std::time::Duration;

use self::epoch::new_epoch;
pub use self::epoch::{POSITION_TTL, continues, follows};
pub use self::fan_out::{Attempt, FanOut, FannedOut, JobAttempt, JobProgress, Page, Pull, Receipt};
use self::inboxes::SLACK;
pub use self::inboxes::{Inbox, InboxOptions, Inboxes, Opening, inbox_channel, inbox_owner};
pub use self::invalidation::{CACHE_LEASE, CacheLease, Confirmation, Invalidation};
pub use self::journal::{Flush, Journal};
pub(crate) use self::lineage::{LIKES, is_behind};
pub use self::lineage::{LedgerMatch, LedgerRecord};
pub use self::memory::MemoryBroker;
pub use self::permits::{Permit, PermitRequest, Permits};
pub use self::presence::{Presence, PresenceStats, PresentClient};
pub use self::queue::{Claim, Item, PARTITION_LEASE, Place, Queue, Waiting};
pub use self::redis::{RedisBroker, RedisOptions, raw};
pub use self::signal::{DisconnectRequest, SettlementEvent, Signal};
pub use self::tallies::{TALLY_TTL, Tallies};
use async_trait::async_trait;
use bytes::Bytes;

use crate::model::{Entry, Millis, Position, Retention, UserId};

/// What can go wrong with a broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It could not be reached, or did not answer in time. Trying again later may work.
    #[error("the broker is unreachable: {0}")]
    Unreachable(String),
    /// It answered with an error that trying again does not mend.
    #[error("the broker refused: {0}")]
    Refused(String),
}

/// What a broker's answer is.
pub type Result<T> = std::result::Result<T, BrokerError>;

/// Who is told what subscribed channels hear. Called from the broker's own tasks: it must not block.
pub trait Listener: Send + Sync + 'static {
    /// An entry was appended to a subscribed channel, or published to it without a log (`position` is `None`).
    fn entry(&self, channel: &str, position: Option<&Position>, entry: &Entry);
    /// Something else was said on a subscribed channel; see [`Broker::publish`].
    fn notice(&self, channel: &str, notice: &Notice);
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
pub enum Notice {
    /// A client came: its `ClientInfo` as JSON.
    Join(Bytes),
    /// A client left: its `ClientInfo` as JSON.
    Leave(Bytes),
}

/// How long a repeated [idempotency key](Append::idempotency_key) is answered as before.
const IDEMPOTENCY_TTL: Duration = Duration::from_secs(300);

/// One write to a log that comes into being with it.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Where to.
    pub channel: &'a str,
    /// What.
    pub entry: &'a Entry,
    /// How much of the log is kept. The position outlives the entries by [`POSITION_TTL`].
    pub retention: Retention,
    /// The same key again within five minutes on this channel changes nothing and answers as the first did.
    pub idempotency_key: Option<&'a str>,
    /// A version and the life it belongs to: an entry whose version is not greater than the last known one of
    /// the same life is not written (and the answer is the position as it was).
    pub version: Option<(u64, &'a str)>,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the entry is. Of an unlogged publication: offset 0 and an empty epoch.
    pub position: Position,
    /// How many nodes were told: 0 means that nobody is connected. 0 also where nothing was written.
    pub receivers: u64,
}

impl Appended {
    /// What came of a publication that is in no log.
    fn unlogged(receivers: u64) -> Self {
        Self { position: Position { offset: 0, epoch: "".into() }, receivers }
    }
}

/// Which part of a log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Oldest first, only what lies after this offset, at most so many.
    After(u64, usize),
    /// Newest first, only what lies before this offset (`u64::MAX` for all), at most so many.
    Before(u64, usize),
}

/// A part of a log, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The log's last position at that moment.
    pub top: Position,
    /// Offsets and entries, in the order asked for. Entries of a kind this version does not know are absent.
    pub entries: Vec<(u64, Entry)>,
}

/// A broker. Every method answers within the configured timeout, with an error if need be. An `Unreachable` write
/// may have happened.
///
/// Logs are named by channel. Those of inboxes are `timeline:<user>` (see [`inbox_channel`]) and can be read like any other.
#[async_trait]
pub trait Broker: Inboxes + Presence + Tallies + Permits + LedgerRecord + Send + Sync + 'static {
    /// What it is, for people: `memory`, or `redis 7.0.15 at 127.0.0.1:6379`.
    fn name(&self) -> String;

    /// Says who hears. Once, before the first subscription.
    fn listen(&self, listener: Arc<dyn Listener>);

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
    async fn notice(&self, channel: &str, notice: &Notice) -> Result<()>;

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
