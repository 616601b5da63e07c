//! Inboxes: the logs of timelines, written to by fan-out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{FanOut, FannedOut, JobAttempt, JobProgress, Pull, Receipt, Result};
use crate::model::{Channel, ChannelKind, Entry, Epoch, GoneReason, Position, PostId, UserId};

/// An inbox is cut back to its length when its offset is a multiple of this, and after a fill, merge or purge that
/// left it longer by this: it never grows beyond its length by twice this and what one merge brings.
pub(super) const SLACK: u64 = 100;

/// Whether an inbox can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxState {
    /// It can, and stands here; and up to this mark of the pulled log it has been [brought](InboxStore::catch_up_inbox).
    Ready(Position, u64),
    /// It exists and takes what is fanned out, but its past is missing: read it from the ledger *now, not
    /// earlier*, and [`fill_inbox`](InboxStore::fill_inbox) it for this epoch.
    Unfilled(Epoch),
}

/// A whole inbox, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// Its last position.
    pub top: Position,
    /// The inbox tells of every post with a larger id; at and below, only the ledger knows.
    pub floor: PostId,
    /// Up to which mark of the pulled log it has been [brought](InboxStore::catch_up_inbox).
    pub mark: u64,
    /// Offsets and entries, oldest first.
    pub entries: Vec<(u64, Entry)>,
}

/// The inboxes of active users, and the jobs that write to them.
///
/// The number of entries in an inbox is bounded, so what reads all of one is bounded, too.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Creates the user's inbox if it is not there, and lets it live for another idle period.
    async fn open_inbox(&self, user: &UserId) -> Result<InboxState>;

    /// Puts the past into an [unfilled](InboxState::Unfilled) inbox: `posts`, oldest first, none twice, those that
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
    async fn purge_inbox(&self, user: &UserId, posts: &[PostId], reason: GoneReason) -> Result<u64>;

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
    /// [`fan_out`](Self::fan_out), except that a [repeated](super::Attempt::Repeated) entry is written only where it says something
    /// new: `Edited` and `Gone` where the inbox holds the post. One receipt a user, in the order given. Refused for `Data`.
    async fn pull(&self, pull: Pull<'_>) -> Result<Vec<Receipt>>;

    /// Brings a filled inbox of this epoch up to a mark: appends those of `entries`, in their order, that say something
    /// new there, and raises its mark; one whose mark is not below it takes nothing. Tells the subscribed nodes. Answers
    /// where it stands then and how many were appended, `None` if it has gone, been replaced, or is not filled. `Data` is
    /// stepped over.
    async fn catch_up_inbox(
        &self,
        user: &UserId,
        epoch: &Epoch,
        entries: &[Entry],
        mark: u64,
    ) -> Result<Option<(Position, u64)>>;
}

/// The channel of a user's timeline: its log is the inbox.
pub fn inbox_channel(user: &UserId) -> String {
    Channel::Timeline(user.clone()).to_string()
}

/// The user whose inbox the channel is, if it is one.
pub fn inbox_owner(channel: &str) -> Option<&str> {
    ChannelKind::Timeline.id_of(channel)
}

/// What both engines are told at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOptions {
    /// How many entries an inbox keeps (`timeline.length`), with some slack above.
    pub length: u64,
    /// After how long without its owner it goes (`timeline.idle_days`).
    pub idle: Duration,
}
