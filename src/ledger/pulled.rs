//! The pulled log: what authors did who have too many followers for a worker to write to each of them.
//!
//! A log of the ledger's, with a *mark* for each entry. A node reads it from where it stands, and an inbox is brought
//! from its own mark to the end, so marks must grow in the order in which entries become visible: see
//! [`PullLogStore::pull`].

use async_trait::async_trait;

use super::Result;
use crate::model::{Entry, Millis, UserId};

/// How the posts of an author reach inboxes: pushed or pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanoutMode {
    /// The author's followers.
    pub followers: u64,
    /// Whether the pull log contains entries of the author.
    pub pulled: bool,
}

/// An entry of the pull log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullLogEntry {
    /// Its position in the log.
    pub mark: u64,
    /// The author, whose followers it is for.
    pub author: UserId,
    /// The entry for their inboxes.
    pub entry: Entry,
    /// Whether a worker may have begun to write it to inboxes, so that each must be looked into first.
    pub repeated: bool,
    /// When it was put in, in Unix milliseconds.
    pub at: Millis,
}

/// The entries that an inbox lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEntries {
    /// The entries, in the order of the log.
    pub entries: Vec<Entry>,
    /// The mark up to which the inbox is complete with these entries.
    pub mark: u64,
    /// Whether there is more beyond it.
    pub more: bool,
}

/// The pull log.
#[async_trait]
pub trait PullLogStore: Send + Sync {
    /// How an author's posts reach inboxes. Of an unknown user: no followers, not pulled.
    async fn fanout_mode(&self, author: &UserId) -> Result<FanoutMode>;

    /// Puts what a job carries at the end of the log, and answers with its mark. Done again for the same job, it
    /// changes nothing and answers with the same mark. Refuses ([`LedgerError::Failed`](super::LedgerError::Failed))
    /// `Data`.
    ///
    /// After a read up to a mark, no entry appears at or below it. Where several transactions can write at once, marks
    /// must be made under a lock that is held until the commit.
    async fn pull(&self, job: i64, author: &UserId, entry: &Entry, repeated: bool, now: Millis) -> Result<u64>;

    /// The mark of the last entry; 0 if there is none.
    async fn pulled_top(&self) -> Result<u64>;

    /// The first `limit` entries after a mark, in order.
    async fn pulled_after(&self, mark: u64, limit: usize) -> Result<Vec<PullLogEntry>>;

    /// The first `limit` entries after a mark that are of authors whom `reader` follows, and up to where they reach:
    /// the edges and the log as they were at one moment. The cost depends on how many `reader` follows and on what is
    /// found.
    async fn pulled_for(&self, reader: &UserId, mark: u64, limit: usize) -> Result<DueEntries>;

    /// Those of `users` who follow `author`, in any order. Any number, one round trip. The cost does not depend on how
    /// many others do.
    async fn followers_among(&self, author: &UserId, users: &[UserId]) -> Result<Vec<UserId>>;

    /// Drops up to `limit` of the oldest entries that were put in before `before`. Answers how many. Marks go on from
    /// where they were.
    async fn forget_pulled(&self, before: Millis, limit: usize) -> Result<usize>;
}
