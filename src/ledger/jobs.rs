//! Fan-out jobs: durable work that brings changes to inboxes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::{Millis, PostId, UserId, Visibility};

/// The work of a fan-out job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A new post goes to its author's followers.
    Post {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
    },
    /// A deleted post leaves the inboxes.
    Delete {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Its topics.
        topics: Vec<String>,
        /// Its visibility.
        #[serde(default)]
        visibility: Visibility,
    },
    /// An edited post is announced to the inboxes that contain it.
    Edit {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Its topics before the edit.
        topics: Vec<String>,
        /// Its visibility before the edit.
        visibility: Visibility,
    },
    /// The visibility of a post changed: it leaves the inboxes of users who cannot see it any more.
    RevokeVisibility {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The visibility before and after the edit; absent in jobs of version 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<VisibilityChange>,
    },
    /// The visibility of a post changed: it enters the inboxes of users who can see it now.
    GrantVisibility {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The visibility before and after the edit; absent in jobs of version 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<VisibilityChange>,
    },
    /// `reader` follows `author`, or a restriction between them ended: the posts enter the inbox.
    Follow {
        /// The owner of the inbox.
        reader: UserId,
        /// The author of the posts.
        author: UserId,
    },
    /// `reader` does not follow `author` any more: the posts leave the inbox.
    Unfollow {
        /// The owner of the inbox.
        reader: UserId,
        /// The author of the posts.
        author: UserId,
    },
    /// A restriction hides the posts of `author` from `reader`: they leave the inbox.
    Detach {
        /// The owner of the inbox.
        reader: UserId,
        /// The author of the posts.
        author: UserId,
    },
}

/// The change of a post's visibility by an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibilityChange {
    /// The visibility that the edit replaced.
    pub before: Visibility,
    /// The visibility that the edit set. A later edit may have replaced it since.
    pub after: Visibility,
}

impl Work {
    /// The author of the posts that the work concerns. Jobs of one author run in order.
    pub fn author(&self) -> &UserId {
        match self {
            Self::Post { author, .. }
            | Self::Delete { author, .. }
            | Self::Edit { author, .. }
            | Self::RevokeVisibility { author, .. }
            | Self::GrantVisibility { author, .. }
            | Self::Follow { author, .. }
            | Self::Unfollow { author, .. }
            | Self::Detach { author, .. } => author,
        }
    }

    /// Whether the job puts a post into inboxes: see [`JobStore::carries_posts`].
    pub(super) fn carries_post(&self) -> bool {
        matches!(self, Self::Post { .. } | Self::GrantVisibility { .. })
    }

    /// Whether the job is done after all earlier jobs of its author that are ordered. Jobs that concern one inbox
    /// compare it with the ledger when they run, so their order does not matter.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Follow { .. } | Self::Unfollow { .. } | Self::Detach { .. })
    }
}

/// A fan-out job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: i64,
    /// What is to be done.
    pub work: Work,
    /// The last follower served, in the order of [`FollowStore::followers_after`](super::FollowStore::followers_after);
    /// empty before the first.
    pub cursor: String,
    /// When it was made, in Unix milliseconds.
    pub created_at: Millis,
    /// Counts the leases of the job: every claim raises it. A worker whose generation is not the job's has lost the
    /// lease. 0: no process has held the job yet.
    pub generation: u64,
}

impl Job {
    /// Whether the process that created the job holds its lease. Otherwise the job waits in the ledger for a claim.
    pub fn is_held(&self) -> bool {
        self.generation > 0
    }
}

/// The right of one process to work on a job. Leases are measured by the clock of the ledger (that of PostgreSQL, or of
/// the machine of a SQLite file), so the clocks of nodes do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Names the worker's process.
    pub holder: Arc<str>,
    /// How long no other process may claim the job. A job created with a lease of length zero waits for a claim.
    pub length: Duration,
}

impl Lease {
    /// The length in milliseconds.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The result of finishing a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Whether the caller held the job. If not, nothing changed: another worker has it, or finished it.
    pub was_held: bool,
    /// Whether jobs of the same author wait for a claim.
    pub more: bool,
}

/// How much fan-out waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Jobs not finished.
    pub jobs: u64,
    /// When the oldest was made, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// How many jobs of one author a holder has at a time. An author's jobs are done one after the other anyway, and
/// others' jobs must not wait behind all of a prolific author's.
pub const MAX_JOBS_OF_AUTHOR: usize = 8;

/// How many of the jobs that wait a claim chooses from: it costs more, the more it looks at.
pub const CLAIM_WINDOW: usize = 2_048;

/// Fan-out jobs. They are made by the writes that need them, in the same transaction, with the lease of the writing
/// node.
///
/// [Ordered](Work::is_ordered) jobs of one author are done in the order of their ids, whichever nodes wrote them: at
/// most one node holds leases of an author's ordered jobs at a time, and a job may be begun when no earlier one is
/// left. A lease that ran out cannot be renewed. A job that is created while another node holds an earlier one, or
/// while an earlier one waits, waits as well, whatever lease it was created with.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Leases up to `limit` jobs, oldest first: those that wait, and those whose lease ran out. Skips ordered jobs of
    /// authors of whom another node holds one, and jobs beyond [`MAX_JOBS_OF_AUTHOR`]. Looks at the oldest
    /// [`CLAIM_WINDOW`] jobs only.
    async fn claim_jobs(&self, lease: &Lease, limit: usize) -> Result<Vec<Job>>;

    /// Notes how far a job is, and renews its lease. `false`, and nothing changed, if the lease ran out, if the job was
    /// claimed since this generation or is finished, or if it is ordered and an earlier ordered job of its author is
    /// left: stop. If the store crashes before anything else is written, it may not have happened, and some of the job
    /// is done again.
    async fn advance_job(&self, id: i64, generation: u64, cursor: &str, lease: &Lease) -> Result<bool>;

    /// Renews the leases of many jobs, given with their generations. Returns the ids of those that are still held:
    /// their lease did not run out, and if they are ordered, every earlier ordered job of their author is leased by the
    /// same holder. A lease of length zero releases the jobs of these generations, whether or not they are still held.
    async fn renew_jobs(&self, jobs: &[(i64, u64)], lease: &Lease) -> Result<Vec<i64>>;

    /// The job is done. If the store crashes before anything else is written, it may not have happened, and the job is
    /// done again.
    async fn finish_job(&self, id: i64, generation: u64) -> Result<Finished>;

    /// Whether a post of the author's is still being put into inboxes by a job ([`Work::Post`],
    /// [`Work::GrantVisibility`]) older than this one.
    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool>;

    /// How much waits.
    async fn backlog(&self) -> Result<Backlog>;
}
