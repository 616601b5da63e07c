//! Work that outlives the process that promised it: what is to be carried to inboxes.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::{Millis, PostId, UserId, Visibility};

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
        /// Who could see it.
        #[serde(default)]
        visibility: Visibility,
    },
    /// A post changed: those who hold it and may see it are told.
    Edit {
        /// Which.
        post: PostId,
        /// Whose.
        author: UserId,
        /// What it was about before.
        topics: Vec<String>,
        /// Who could see it before.
        visibility: Visibility,
    },
    /// Others than before may see a post: it leaves the inboxes of those who may not.
    Narrow {
        /// Which.
        post: PostId,
        /// Whose.
        author: UserId,
        /// The visibility before and after the edit; absent in jobs of version 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<VisibilityChange>,
    },
    /// Others than before may see a post: it comes into the inboxes of those who may.
    Widen {
        /// Which.
        post: PostId,
        /// Whose.
        author: UserId,
        /// The visibility before and after the edit; absent in jobs of version 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<VisibilityChange>,
    },
    /// `reader` follows `author`, or what stood between them is gone: the posts come in.
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
    /// `reader` may not, or does not want to, see what `author` writes: the posts leave.
    Part {
        /// Whose inbox it is.
        reader: UserId,
        /// Whose posts.
        author: UserId,
    },
}

/// What an edit did to the visibility of a post.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibilityChange {
    /// The visibility that the edit replaced.
    pub before: Visibility,
    /// The visibility that the edit set. A later edit may have replaced it since.
    pub after: Visibility,
}

impl Work {
    /// Whose posts it concerns. Jobs of one author are done in order.
    pub fn author(&self) -> &UserId {
        match self {
            Self::Post { author, .. }
            | Self::Delete { author, .. }
            | Self::Edit { author, .. }
            | Self::Narrow { author, .. }
            | Self::Widen { author, .. }
            | Self::Follow { author, .. }
            | Self::Unfollow { author, .. }
            | Self::Part { author, .. } => author,
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
    /// The last follower served, in the order of [`Edges::followers_after`](super::Edges::followers_after); empty before the first.
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

/// Fan-out jobs. They are made by the writes that need them, in the same transaction.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Takes up to `limit` jobs that nobody holds at `now` (the lease ran out), oldest first.
    async fn claim_jobs(&self, now: Millis, lease: &Lease, limit: usize) -> Result<Vec<Job>>;

    /// Notes how far a job is, and holds it for longer. `false` if another than the lease's holder holds it by now, or
    /// it is finished: stop. A lease that ran out without anyone claiming the job goes on. If the store crashes before
    /// anything else is written, it may not have happened, and some of the job is done again.
    async fn advance_job(&self, id: i64, cursor: &str, lease: &Lease) -> Result<bool>;

    /// The job is done. Nothing happens if another holds it by now. If the store crashes before anything else is written, it
    /// may not have happened, and the job is done again.
    async fn finish_job(&self, id: i64, holder: &str) -> Result<()>;

    /// Whether a post of the author's is still being put into inboxes by a job ([`Work::Post`], [`Work::Widen`]) older than
    /// this one.
    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool>;

    /// How much waits.
    async fn backlog(&self) -> Result<Backlog>;
}
