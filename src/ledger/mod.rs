//! The durable truth: accounts, posts, edges, and the jobs that carry posts to inboxes.
//!
//! One trait, one conformance suite (`tests/ledger/`). [`SqliteLedger`] is embedded: WAL, one writer with group
//! commit, a few readers. Nothing outside this folder knows SQL.

mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::sqlite::{Durability, SqliteLedger, SqliteOptions};
use crate::model::{Millis, Post, PostId, Profile, User, UserId};

/// What can go wrong with a ledger.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// It could not be reached, or did not answer in time. Nothing is known of the write: it may have happened.
    #[error("the ledger is unreachable: {0}")]
    Unreachable(String),
    /// Too much is waiting, or another process holds the lock for too long. Nothing was written.
    #[error("the ledger is busy")]
    Busy,
    /// It answered with an error that trying again does not mend.
    #[error("the ledger failed: {0}")]
    Failed(String),
}

/// What a ledger's answer is.
pub type Result<T> = std::result::Result<T, LedgerError>;

/// An account to be made.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// Its id.
    pub user: UserId,
    /// What to call them.
    pub name: String,
    /// argon2id, in PHC form.
    pub password: String,
    /// Now.
    pub created_at: Millis,
}

/// A part of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<i64>,
}

/// What is to be carried to inboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A new post goes to its author's followers.
    Post {
        /// Which.
        post: PostId,
        /// Whose.
        author: UserId,
    },
    /// A deleted one leaves them.
    Delete {
        /// Which.
        post: PostId,
        /// Whose.
        author: UserId,
        /// What it was about.
        topics: Vec<String>,
    },
    /// `reader` follows `author`: the posts come in.
    Follow {
        /// Whose inbox it is.
        reader: UserId,
        /// Whose posts.
        author: UserId,
    },
    /// `reader` follows `author` no more: the posts leave.
    Unfollow {
        /// Whose inbox it is.
        reader: UserId,
        /// Whose posts.
        author: UserId,
    },
}

impl Work {
    /// Whose posts it concerns. Jobs of one author are done in order.
    pub fn author(&self) -> &UserId {
        match self {
            Self::Post { author, .. }
            | Self::Delete { author, .. }
            | Self::Follow { author, .. }
            | Self::Unfollow { author, .. } => author,
        }
    }
}

/// Work that outlives the process that promised it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: i64,
    /// What is to be done.
    pub work: Work,
    /// The last follower served, in the order of [`Ledger::followers_after`]; empty before the first.
    pub cursor: String,
    /// When it was made, in Unix milliseconds.
    pub created_at: Millis,
}

/// Who works on a job, and until when nobody else may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Names the worker's process.
    pub holder: Arc<str>,
    /// In Unix milliseconds. After that any worker may claim the job.
    pub until: Millis,
}

/// How much fan-out waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Jobs not finished.
    pub jobs: u64,
    /// When the oldest was made, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// The durable truth. Every method answers within the configured timeout, with an error if need be. A write has
/// happened, durably, when its method returns.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// What it is, for people: `sqlite at data/feedline.db`.
    fn name(&self) -> String;

    /// Whether it answers.
    async fn ping(&self) -> Result<()>;

    /// Finishes what is queued and closes.
    async fn close(&self);

    // --- people ----------------------------------------------------------------------------------------

    /// Makes an account and its user. `false` if the account exists (or a user with that id does: an id that an
    /// application's token brought cannot be taken over by signing up).
    async fn create_account(&self, account: NewAccount) -> Result<bool>;

    /// The stored password of an account, argon2id in PHC form.
    async fn password(&self, user: &UserId) -> Result<Option<String>>;

    /// Makes sure that a user exists, as one does whose first token just came. Changes nothing if so.
    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<()>;

    /// Those of `ids` that exist, each once, in any order. Any number of ids, one round trip.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>>;

    /// A user with counts, and the edges seen from `viewer`.
    async fn profile(&self, user: &UserId, viewer: Option<&UserId>) -> Result<Option<Profile>>;

    // --- edges -----------------------------------------------------------------------------------------

    /// `follower` follows `followee` from now on; makes the job that brings the posts in, held by `lease`, in the same
    /// transaction. `None` if it was so already. The caller has checked that both exist.
    async fn follow(&self, follower: &UserId, followee: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>>;

    /// Ends it; makes the job that takes the posts out, held by `lease`, in the same transaction. `None` if there was
    /// nothing to end.
    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>>;

    /// How many `follower` follows.
    async fn following_count(&self, follower: &UserId) -> Result<u64>;

    /// Who follows `user`, latest first; `before` is a [`Listed::next`].
    async fn followers(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Listed<User>>;

    /// Whom `user` follows, latest first; `before` is a [`Listed::next`].
    async fn following(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Listed<User>>;

    /// The ids of followers in ascending order of id, byte by byte, after `cursor` (empty for the first): what a fan-out walks.
    async fn followers_after(&self, author: &UserId, cursor: &str, limit: usize) -> Result<Vec<UserId>>;

    /// Those of `authors` that `reader` follows.
    async fn followed_among(&self, reader: &UserId, authors: &[UserId]) -> Result<Vec<UserId>>;

    // --- posts -----------------------------------------------------------------------------------------

    /// Stores a post, its topics and its fan-out job, held by `lease`, in one transaction. Answers with the job.
    /// The caller has made sure that the author exists and that the id is new: anything else fails.
    async fn create_post(&self, post: &Post, lease: &Lease) -> Result<Job>;

    /// Those of `ids` that exist and are not deleted, each once, in any order. Any number of ids, one round trip.
    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>>;

    /// Deletes a post of `author` and makes the job that takes it out of inboxes, in one transaction.
    /// `None` if there is no such post of theirs, or it is deleted already.
    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>>;

    /// An author's posts below `before`, newest first.
    async fn author_posts(&self, author: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// A topic's posts below `before`, newest first.
    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// What a timeline consists of: posts below `before` by those whom `reader` follows and by the reader, newest
    /// first. The cost depends on the number of followees and `limit`, not on how much they ever wrote.
    async fn timeline_posts(&self, reader: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    // --- fan-out jobs ----------------------------------------------------------------------------------

    /// Takes up to `limit` jobs that nobody holds at `now` (the lease ran out), oldest first.
    async fn claim_jobs(&self, now: Millis, lease: &Lease, limit: usize) -> Result<Vec<Job>>;

    /// Notes how far a job is, and holds it for longer. `false` if another than the lease's holder holds it by now, or
    /// it is finished: stop. A lease that ran out without anyone claiming the job goes on.
    async fn advance_job(&self, id: i64, cursor: &str, lease: &Lease) -> Result<bool>;

    /// The job is done. Nothing happens if another holds it by now.
    async fn finish_job(&self, id: i64, holder: &str) -> Result<()>;

    /// Whether a post of the author's is still being carried by a job older than this one.
    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool>;

    /// How much waits.
    async fn backlog(&self) -> Result<Backlog>;
}
