//! Everything fast that can be rebuilt from the ledger: the logs behind channels, and who hears of them.
//!
//! A channel is a bounded, append-only log with contiguous offsets and an epoch. Appending to it also sends a
//! *hint* to every node that subscribed to the channel. Hints may be lost; logs say what happened. One trait,
//! two engines, one conformance suite (`tests/broker.rs`): [`MemoryBroker`] for a single process,
//! [`RedisBroker`] for any number.
//!
//! There are three ways to write to a channel:
//!
//! - [`append`](Broker::append): a log that comes into being with its first entry (application namespaces,
//!   `user:`, `topic:`, `post:`, `notifications:`);
//! - [`fan_out`](Broker::fan_out): one entry to many **inboxes** (`timeline:<user>`). An inbox exists only while
//!   its owner is active; one that does not exist refuses the write, and that is all an inactive follower costs;
//! - [`publish`](Broker::publish): no log at all, a hint to those who listen now.
//!
//! An inbox comes into being in two steps, so that nothing published meanwhile is lost: [`open_inbox`] creates
//! it, from when on it takes what is fanned out; then its owner's past is read from the ledger and
//! [`fill_inbox`] puts that in. An inbox holds each post at most once: `fill_inbox` and [`merge_inbox`] look
//! before they write, and `fan_out` looks where a fill or merge may have been there first. Edits and removals are written
//! without a look, so an inbox may have them for posts that it never held: readers of the log skip them.
//!
//! [`open_inbox`]: Broker::open_inbox
//! [`fill_inbox`]: Broker::fill_inbox
//! [`merge_inbox`]: Broker::merge_inbox

mod epoch;
mod fan_out;
mod invalidation;
mod journal;
mod lineage;
mod memory;
mod permits;
mod presence;
mod queue;
mod redis;
mod tallies;

use std::sync::Arc;
use std::time::Duration;

use self::epoch::new_epoch;
pub use self::epoch::{POSITION_TTL, continues, follows};
pub use self::fan_out::{Attempt, FanOut, FannedOut, JobAttempt, JobProgress, Page, Pull, Receipt};
pub use self::invalidation::{CACHE_LEASE, CacheLease, Confirmation, Invalidation};
pub use self::journal::{Flush, Journal};
pub(crate) use self::lineage::{LIKES, is_behind};
pub use self::lineage::{LedgerMatch, LedgerRecord};
pub use self::memory::MemoryBroker;
pub use self::permits::{Permit, PermitRequest, Permits};
pub use self::presence::{Presence, PresenceStats, PresentClient};
pub use self::queue::{Claim, Item, PARTITION_LEASE, Place, Queue, Waiting};
pub use self::redis::{RedisBroker, RedisOptions, raw};
pub use self::tallies::{TALLY_TTL, Tallies};
use async_trait::async_trait;
use bytes::Bytes;

use crate::model::{Entry, Epoch, Millis, Position, PostId, UserId};

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
    /// A message from [`Broker::signal`], also one's own.
    fn signal(&self, message: &Bytes);
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

/// How much of a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many entries, at least; a few more may be there.
    pub size: u64,
    /// How long after the last write the entries stay. The position outlives them by [`POSITION_TTL`].
    pub ttl: Duration,
}

/// How long a repeated [idempotency key](Append::idempotency_key) is answered as before.
const IDEMPOTENCY_TTL: Duration = Duration::from_secs(300);

/// An inbox is cut back to its length when its offset is a multiple of this, and after a fill, merge or purge that
/// left it longer by this: it never grows beyond its length by twice this and what one merge brings.
const SLACK: u64 = 100;

/// One write to a log that comes into being with it.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Where to.
    pub channel: &'a str,
    /// What.
    pub entry: &'a Entry,
    /// How much stays.
    pub keep: Keep,
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

/// Whether an inbox can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It can, and stands here; and up to this mark of the pulled log it has been [brought](Broker::catch_up_inbox).
    Ready(Position, u64),
    /// It exists and takes what is fanned out, but its past is missing: read it from the ledger *now, not
    /// earlier*, and [`fill_inbox`](Broker::fill_inbox) it for this epoch.
    Unfilled(Epoch),
}

/// A whole inbox, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// Its last position.
    pub top: Position,
    /// The inbox tells of every post with a larger id; at and below, only the ledger knows.
    pub floor: PostId,
    /// Up to which mark of the pulled log it has been [brought](Broker::catch_up_inbox).
    pub mark: u64,
    /// Offsets and entries, oldest first.
    pub entries: Vec<(u64, Entry)>,
}

/// A broker. Every method answers within the configured timeout, with an error if need be. An `Unreachable` write
/// may have happened.
///
/// Logs are named by channel. Those of inboxes are `timeline:<user>` (see [`inbox_channel`]) and can be read like any other.
#[async_trait]
pub trait Broker: Presence + Tallies + Permits + LedgerRecord + Send + Sync + 'static {
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

    /// Says something to every node, itself included: caches to drop, clients to disconnect.
    async fn signal(&self, message: Bytes) -> Result<()>;

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

    // --- inboxes ---------------------------------------------------------------------------------------

    /// Creates the user's inbox if it is not there, and lets it live for another idle period.
    async fn open_inbox(&self, user: &UserId) -> Result<Opening>;

    /// Puts the past into an [unfilled](Opening::Unfilled) inbox: `posts`, oldest first, none twice, those that
    /// were fanned out meanwhile included or not. `floor`: the inbox is complete above this id. `mark`: up to there the
    /// pulled log was known before `posts` were read, which therefore tell of it. Does nothing if the
    /// inbox is filled already or of another epoch. Subscribed nodes are *not* told: nobody could have a position yet.
    /// The past goes below what came meanwhile, which moves up: offsets at which something was heard before are not
    /// used again. A post that has gone meanwhile is not put in.
    /// Answers with where the inbox stands, `None` if it has gone or been replaced.
    async fn fill_inbox(
        &self,
        user: &UserId,
        epoch: &Epoch,
        posts: &[PostId],
        floor: PostId,
        mark: u64,
    ) -> Result<Option<Position>>;

    /// Adds to an inbox, if there is one, those of `posts` (oldest first) that it does not hold, that lie above
    /// its floor, and that are not known to it as deleted. Raises the floor to `floor` first: what the caller left out
    /// below it is for the ledger to tell. Tells the subscribed nodes. Answers how many were added.
    async fn merge_inbox(&self, user: &UserId, posts: &[PostId], floor: PostId) -> Result<u64>;

    /// Appends a `Gone` for each of `posts` that the inbox holds, or may hold once it is filled. Tells the
    /// subscribed nodes. Answers how many.
    async fn purge_inbox(&self, user: &UserId, posts: &[PostId], reason: crate::model::GoneReason) -> Result<u64>;

    /// Reads all of an inbox. `None` if there is none, or it is not filled.
    async fn read_inbox(&self, user: &UserId) -> Result<Option<Inbox>>;

    /// Appends one entry to many inboxes; see [`FanOut`].
    ///
    /// An inbox holds a post if the last entry on it, edits aside, is `Post`. `Post` is written where the inbox does
    /// not hold it, unless it was deleted there. `Edited` and `Gone` are written to every inbox, whether it holds
    /// the post or not: finding that out would cost hundreds of times the write. The caller selects users who may know of
    /// the post. `Edited` is not written to an unfilled inbox; `Gone` is, because the past could otherwise
    /// bring the post back. A `Post` at or below an inbox's floor is none of its business: nothing is written. Refused for
    /// `Data`.
    ///
    /// Pages of one attempt have no user in common. The pages that an attempt wrote are known to the next one, and those that
    /// come after that are refused, so an inbox has an entry once however many attempts there are.
    async fn fan_out(&self, page: FanOut<'_>) -> Result<FannedOut>;

    /// Names the run of the engine together with the incarnation of the ledger: what was written under another name counts as
    /// lost.
    fn run(&self) -> Result<Arc<str>>;

    /// Begins another attempt at a job: from now on pages of earlier ones are refused. Answers what they wrote, as far as the
    /// broker remembers; `None` if a later attempt has begun. The first attempt need not be begun.
    async fn begin_attempt(&self, attempt: &JobAttempt) -> Result<Option<JobProgress>>;

    /// Shortens the time for which a job is remembered to five minutes: the ledger has noted that it is finished.
    async fn retire_job(&self, attempt: &JobAttempt) -> Result<()>;

    // --- the pulled log --------------------------------------------------------------------------------

    /// Appends one entry of the pulled log to those inboxes whose mark is below the entry's, which is theirs then: done
    /// again, by this node or another, it changes nothing. What is written of it, and where, is as for
    /// [`fan_out`](Self::fan_out), except that a [repeated](Attempt::Repeated) entry is written only where it says something
    /// new: `Edited` and `Gone` where the inbox holds the post. One receipt a user, in the order given. Refused for `Data`.
    async fn pull(&self, pull: Pull<'_>) -> Result<Vec<Receipt>>;

    /// Brings a filled inbox of this epoch up to a mark: appends those of `entries`, in their order, that say something
    /// new there, and raises its mark; one whose mark is not below it takes nothing. Tells the subscribed nodes. Answers where it stands then and how many were
    /// appended, `None` if it has gone, been replaced, or is not filled. `Data` is stepped over.
    async fn catch_up_inbox(
        &self,
        user: &UserId,
        epoch: &Epoch,
        entries: &[Entry],
        mark: u64,
    ) -> Result<Option<(Position, u64)>>;

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

/// The channel of a user's timeline: its log is the inbox.
pub fn inbox_channel(user: &UserId) -> String {
    format!("timeline:{user}")
}

/// The user whose inbox the channel is, if it is one.
pub fn inbox_owner(channel: &str) -> Option<&str> {
    channel.strip_prefix("timeline:")
}

/// What both engines are told at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOptions {
    /// How many entries an inbox keeps (`timeline.length`), with some slack above.
    pub length: u64,
    /// After how long without its owner it goes (`timeline.idle_days`).
    pub idle: Duration,
}
