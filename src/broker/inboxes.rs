//! Inboxes: the logs of timelines, written to by fan-out and from the pull log, and those of lists, from the pull log
//! alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{FanOut, FannedOut, JobAttempt, JobProgress, Pull, Receipt, Result};
use crate::model::{Channel, ChannelKind, Entry, Epoch, GoneReason, InboxId, Position, PostId, UserId};

/// An inbox is trimmed to its length when its offset is a multiple of this, and after a fill, merge or purge that left
/// it longer by this. So it exceeds its length by at most twice this value and the posts of one merge.
pub(super) const SLACK: u64 = 100;

/// The state of an inbox that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxState {
    /// It can be read: its last position, and the mark of the pull log up to which it has
    /// [caught up](InboxStore::catch_up_inbox).
    Ready(Position, u64),
    /// It accepts fan-outs, but its past posts are missing: read them from the ledger *now, not earlier*, and call
    /// [`fill_inbox`](InboxStore::fill_inbox) with this epoch.
    Unfilled(Epoch),
}

/// A whole inbox, read atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// The last position of the inbox.
    pub top: Position,
    /// The inbox is complete for posts with larger ids. Posts up to this id are in the ledger only.
    pub floor: PostId,
    /// The mark of the pull log up to which it has [caught up](InboxStore::catch_up_inbox).
    pub mark: u64,
    /// The entries with their offsets, oldest first.
    pub entries: Vec<(u64, Entry)>,
}

impl Inbox {
    /// The posts that were added, oldest first, also those that left later.
    pub fn added_posts(&self) -> Vec<PostId> {
        let added = self.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Post(_)));
        let posts: BTreeSet<PostId> = added.filter_map(|(_, entry)| entry.post()).collect();
        posts.into_iter().collect()
    }
}

/// The inboxes of active users and of their lists, and the jobs that write to them.
///
/// The number of entries in an inbox is bounded, and with it the cost of reading a whole inbox.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Opens an inbox: creates it if it does not exist, and extends its life by the idle period.
    async fn open_inbox(&self, inbox: &InboxId) -> Result<InboxState>;

    /// Adds past posts to an [unfilled](InboxState::Unfilled) inbox: `posts`, oldest first, without duplicates; posts
    /// that were fanned out in the meantime may be among them. The inbox is then complete above `floor`. `mark` is a
    /// mark of the pull log from before `posts` were read. Does nothing if the inbox is already filled or has another
    /// epoch. Sends no hints: no client has a position yet. Past posts go below the entries that have arrived since the
    /// inbox was opened; these move to new offsets, so that no offset is used for two entries. Posts that were removed
    /// in the meantime are not added. Returns the last position; `None` if the inbox does not exist any more or was
    /// replaced.
    async fn fill_inbox(
        &self,
        inbox: &InboxId,
        epoch: &Epoch,
        posts: &[PostId],
        floor: PostId,
        mark: u64,
    ) -> Result<Option<Position>>;

    /// Adds those of `posts` (oldest first) to an inbox that it does not contain, that are above its floor, and that it
    /// has not recorded as deleted. First raises the floor to `floor`: the caller omitted posts below it. Sends hints
    /// to the subscribed nodes. Returns the number of added posts; 0 if there is no inbox.
    async fn merge_inbox(&self, inbox: &InboxId, posts: &[PostId], floor: PostId) -> Result<u64>;

    /// Adds a new post to the inbox of its author, unless it contains the post. Sends hints to the subscribed nodes.
    /// Unlike [`merge_inbox`](Self::merge_inbox), it does not search the inbox if the post is newer than all of the
    /// author's own, and fan-outs of others' posts need not search it later. Returns the number of added posts; 0 if
    /// there is no inbox.
    async fn add_own_post(&self, author: &UserId, post: PostId) -> Result<u64>;

    /// Appends a `Gone` for each of `posts` that the inbox contains, or may contain once it is filled. Sends hints to
    /// the subscribed nodes. Returns their number.
    async fn purge_inbox(&self, inbox: &InboxId, posts: &[PostId], reason: GoneReason) -> Result<u64>;

    /// Reads a whole inbox. `None` if it does not exist or is not filled.
    async fn read_inbox(&self, inbox: &InboxId) -> Result<Option<Inbox>>;

    /// Appends one entry to many inboxes; see [`FanOut`].
    ///
    /// An inbox contains a post if its last entry for the post, except edits, is `Post`. `Post` is written to inboxes
    /// that do not contain the post and have not recorded its deletion. `Edited` and `Gone` are written to every inbox,
    /// whether it contains the post or not: the search would cost hundreds of times the write. The caller selects users
    /// that may have received the post. `Edited` is not written to an unfilled inbox; `Gone` is, since the past posts
    /// could otherwise contain the post. A `Post` at or below the floor of an inbox is not written. Refused for `Data`.
    ///
    /// Pages of one attempt have no user in common. An attempt knows the pages that earlier attempts wrote, and later
    /// pages of those are refused, so an inbox receives the entry once, regardless of the number of attempts.
    async fn fan_out(&self, page: FanOut<'_>) -> Result<FannedOut>;

    /// The run of the engine together with the incarnation of the ledger. Data that was written under another run
    /// counts as lost.
    fn run(&self) -> Result<Arc<str>>;

    /// Begins another attempt at a job: from now on pages of earlier attempts are refused. Returns the recipients that
    /// earlier attempts wrote to, as far as the broker has kept them; `None` if a later attempt has begun. The first
    /// attempt need not be begun.
    async fn begin_attempt(&self, attempt: &JobAttempt) -> Result<Option<JobProgress>>;

    /// Shortens the time for which the progress of a job is kept to five minutes. The ledger has recorded its end.
    async fn retire_job(&self, attempt: &JobAttempt) -> Result<()>;

    // --- the pull log --------------------------------------------------------------------------------

    /// Appends an entry of the pull log to those inboxes whose mark is below the mark of the entry, and raises their
    /// mark. Idempotent, across nodes too. Entries are written as by [`fan_out`](Self::fan_out), except that a
    /// [repeated](super::Attempt::Repeated) `Edited` or `Gone` is written only to inboxes that contain the post.
    /// Returns one receipt for each inbox, in their order. Refused for `Data`.
    async fn pull(&self, pull: Pull<'_>) -> Result<Vec<Receipt>>;

    /// Catches a filled inbox of this epoch up to a mark of the pull log: appends those of `entries` that are new to
    /// it, and raises its mark. Does nothing if its mark is not below `mark`. Sends hints to the subscribed nodes.
    /// Returns the last position and the number of appended entries; `None` if the inbox does not exist, was replaced,
    /// or is not filled. `Data` is skipped.
    async fn catch_up_inbox(
        &self,
        inbox: &InboxId,
        epoch: &Epoch,
        entries: &[Entry],
        mark: u64,
    ) -> Result<Option<(Position, u64)>>;
}

/// The channel of a user's timeline: its log is the inbox.
pub fn inbox_channel(user: &UserId) -> String {
    Channel::Timeline(user.clone()).to_string()
}

/// Whether the log of a channel is an inbox.
pub fn is_inbox(channel: &str) -> bool {
    timeline_owner(channel).is_some() || ChannelKind::List.id_of(channel).is_some()
}

/// The user whose timeline the channel is, if it is one. Brokers send hints of timelines to nodes in batches.
pub fn timeline_owner(channel: &str) -> Option<&str> {
    ChannelKind::Timeline.id_of(channel)
}

/// The options of inboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOptions {
    /// The minimum number of entries that an inbox keeps (`timeline.length`).
    pub length: u64,
    /// How long an inbox is kept after its owner was last active (`timeline.idle_days`).
    pub idle: Duration,
}

impl InboxOptions {
    /// The minimum number of entries that the inbox of a list keeps.
    const LIST_LENGTH: u64 = 400;

    /// The minimum number of entries that an inbox keeps.
    pub fn length_of(&self, inbox: &InboxId) -> u64 {
        match inbox {
            InboxId::Timeline(_) => self.length,
            InboxId::List(_) => self.length.min(Self::LIST_LENGTH),
        }
    }
}
