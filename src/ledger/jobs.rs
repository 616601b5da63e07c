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
    /// The visibility of a post changed: the post leaves the inboxes of users that can no longer see it.
    RevokeVisibility {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The visibility before and after the edit; `None` in a job that was released from the quarantine: later jobs
        /// may have run since, so the current visibility applies.
        change: Option<VisibilityChange>,
    },
    /// The visibility of a post changed: the post enters the inboxes of users that can see it now.
    GrantVisibility {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// The visibility before and after the edit; `None` in a job that was released from the quarantine: later jobs
        /// may have run since, so the current visibility applies.
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

    /// Whether the job runs after all earlier ordered jobs of its author. A job that concerns one inbox compares the
    /// inbox with the ledger when it runs, so its order does not matter.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Follow { .. } | Self::Unfollow { .. } | Self::Detach { .. })
    }
}

/// A fan-out job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The id, assigned by the ledger. Later jobs of one author have greater ids.
    pub id: i64,
    /// The work, set by the write that created the job.
    pub work: Work,
    /// The last follower served, in the order of [`FollowStore::followers_after`](super::FollowStore::followers_after);
    /// empty before the first. Workers write it with [`JobStore::advance_job`].
    pub cursor: String,
    /// When the job was created, in Unix milliseconds.
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

/// The right of one process to work on a job. The clock of the ledger measures leases (the clock of PostgreSQL, or of
/// the machine with the SQLite file), so the clocks of nodes do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name of the process that runs the job.
    pub holder: Arc<str>,
    /// The time during which no other process may claim the job. A job created with a lease of length zero waits for a
    /// claim.
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

/// The backlog of fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of unfinished jobs.
    pub jobs: u64,
    /// When the oldest was created, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// The maximal number of jobs of one author that a holder has at a time. Jobs of one author run one after the other,
/// and jobs of other authors must not wait behind all jobs of a prolific author.
pub const MAX_JOBS_OF_AUTHOR: usize = 8;

/// The number of waiting jobs that a claim examines. A larger window makes claims more expensive.
pub const CLAIM_WINDOW: usize = 2_048;

/// Fan-out jobs. The writes that need them create them in the same transaction, with the lease of the writing node.
///
/// [Ordered](Work::is_ordered) jobs of one author run in the order of their ids, regardless of the node that wrote
/// them: at most one node holds leases of an author's ordered jobs at a time, and a job may begin only when no earlier
/// one is left. An expired lease cannot be renewed. A job also waits, regardless of the lease it was created with, if
/// another node holds an earlier job of its author or if an earlier one waits.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Leases up to `limit` jobs without a valid lease, oldest first. Skips ordered jobs of authors with an ordered job
    /// held by another node, and jobs beyond [`MAX_JOBS_OF_AUTHOR`]. Examines only the oldest [`CLAIM_WINDOW`] jobs.
    async fn claim_jobs(&self, lease: &Lease, limit: usize) -> Result<Vec<Job>>;

    /// Whether jobs have no valid lease. A claim would find them, unless another node holds earlier jobs of their
    /// authors.
    async fn has_waiting_jobs(&self) -> Result<bool>;

    /// Stores the progress of a job and renews its lease. Returns `false` and changes nothing if the lease expired, if
    /// the job was claimed since this generation or is finished, or if the job is ordered and an earlier ordered job of
    /// its author is left; the caller must stop. If the store crashes before another write, the progress may be lost,
    /// and a part of the job runs again.
    async fn advance_job(&self, id: i64, generation: u64, cursor: &str, lease: &Lease) -> Result<bool>;

    /// Renews the leases of many jobs, given with their generations. Returns the ids of those that are still held:
    /// their lease did not run out, and if they are ordered, every earlier ordered job of their author is leased by the
    /// same holder. A lease of length zero releases the jobs of these generations, whether or not they are still held.
    async fn renew_jobs(&self, jobs: &[(i64, u64)], lease: &Lease) -> Result<Vec<i64>>;

    /// Removes finished jobs, given with their generations. Returns their outcomes in the same order. If the store
    /// crashes before another write, the removal may be lost, and the jobs run again.
    async fn finish_jobs(&self, jobs: &[(i64, u64)]) -> Result<Vec<Finished>>;

    /// The same for one job.
    async fn finish_job(&self, id: i64, generation: u64) -> Result<Finished> {
        let finished = self.finish_jobs(&[(id, generation)]).await?.pop();
        Ok(finished.unwrap_or(Finished { was_held: false, more: false }))
    }

    /// Whether an older job ([`Work::Post`], [`Work::GrantVisibility`]) is still inserting a post of the author into
    /// inboxes.
    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool>;

    /// The backlog of fan-out.
    async fn backlog(&self) -> Result<Backlog>;
}
