//! The pull log: entries of authors with too many followers for a worker to write to each of them, and entries for
//! the followers of topics and for lists.
//!
//! The log is part of the ledger and has a *mark* for each entry. A node reads it from its last position, and an inbox
//! catches up from its own mark to the end. Marks must therefore grow in the order in which entries become visible: see
//! [`PullLogStore::pull`].

use async_trait::async_trait;

use super::{JobId, Result};
use crate::model::{Entry, ListId, Millis, UserId};

/// How the posts of an author reach inboxes: pushed or pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanoutMode {
    /// The number of followers of the author.
    pub followers: u64,
    /// Whether the pull log contains entries of the author.
    pub pulled: bool,
}

/// An entry of the pull log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullLogEntry {
    /// The position of the entry in the log. The store assigns it in ascending order.
    pub mark: u64,
    /// The author of the post.
    pub author: UserId,
    /// `None`: the entry is for the followers of the author. Otherwise it is for users who follow one of these topics,
    /// and for lists that have one of them or the author.
    pub topics: Option<Vec<String>>,
    /// The entry for the inboxes of these users.
    pub entry: Entry,
    /// Whether a worker may have begun to write the entry to inboxes, so that each inbox must be checked for it first.
    pub repeated: bool,
    /// When the entry was appended, in Unix milliseconds.
    pub at: Millis,
}

/// The entries that an inbox lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEntries {
    /// The entries, in the order of the log.
    pub entries: Vec<Entry>,
    /// The mark up to which the inbox is complete with these entries.
    pub mark: u64,
    /// Whether the log has more entries for the inbox after that mark.
    pub more: bool,
}

/// The pull log.
#[async_trait]
pub trait PullLogStore: Send + Sync {
    /// The fan-out mode of an author. An unknown user has no followers and is not pulled.
    async fn fanout_mode(&self, author: &UserId) -> Result<FanoutMode>;

    /// Appends the entry of a job to the log and returns its mark. A repeat for the same job changes nothing and
    /// returns the same mark. Refuses `Data` ([`LedgerError::Failed`](super::LedgerError::Failed)).
    ///
    /// After a read up to a mark, no entry appears at or below that mark. Stores with concurrent transactions must
    /// assign marks under a lock that is held until the commit.
    async fn pull(&self, job: JobId, author: &UserId, entry: &Entry, repeated: bool, now: Millis) -> Result<u64>;

    /// Appends an entry for the followers of these topics, and for lists that have one of them or the author, to the
    /// log, [`repeated`](PullLogEntry::repeated), and returns its mark. A repeat appends it again.
    async fn pull_by_topics(&self, author: &UserId, entry: &Entry, topics: &[String], now: Millis) -> Result<u64>;

    /// The mark of the last entry; 0 if there is none.
    async fn pulled_top(&self) -> Result<u64>;

    /// The first `limit` entries after a mark, in order.
    async fn pulled_after(&self, mark: u64, limit: usize) -> Result<Vec<PullLogEntry>>;

    /// The first `limit` entries after a mark for a reader, who follows their author or one of their topics, and the
    /// mark up to which they are complete. An entry may be for the followers of an author and for those of a topic.
    /// The edges and the log are read in one snapshot. The cost depends on the number of authors and topics that
    /// `reader` follows and on the number of entries found.
    async fn pulled_for(&self, reader: &UserId, mark: u64, limit: usize) -> Result<DueEntries>;

    /// The same for a list: the entries with [`topics`](PullLogEntry::topics), whose author the list has, or one of
    /// their topics. The cost depends on the number of members and on the number of entries found.
    async fn pulled_for_list(&self, list: ListId, mark: u64, limit: usize) -> Result<DueEntries>;

    /// The users among `users` that follow `author`, in any order. Accepts any number in one round trip. The cost does
    /// not depend on the number of other followers.
    async fn followers_among(&self, author: &UserId, users: &[UserId]) -> Result<Vec<UserId>>;

    /// Removes up to `limit` of the oldest entries that were added before `before`. Returns their number. Marks are not
    /// reused.
    async fn forget_pulled(&self, before: Millis, limit: usize) -> Result<usize>;
}
