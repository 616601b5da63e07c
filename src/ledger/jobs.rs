//! Fan-out jobs: durable work that brings changes to inboxes.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Fence, Result};
use crate::model::{Millis, PostId, Relation, TraceContext, UserId, Visibility, lenient_trace};

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
        /// The span that caused the job, if its trace is recorded. Versions before it ignore it.
        #[serde(default, deserialize_with = "lenient_trace", skip_serializing_if = "Option::is_none")]
        trace: Option<TraceContext>,
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
    /// The author was suspended: the posts leave open timelines by one entry of the pull log.
    HideAuthor {
        /// A post of the author. The entry names the author by it.
        post: PostId,
        /// The author.
        author: UserId,
    },
    /// Some readers may no longer see a reposted post: the repost is removed from their open timelines.
    HideRepost {
        /// The repost.
        repost: PostId,
        /// Its author.
        author: UserId,
    },
    /// An account was locked or unlocked: its posts leave topics or return to them. If it was unlocked, its requests
    /// are accepted.
    LockChanged {
        /// The user.
        author: UserId,
        /// The last request that is accepted; `None`: the account was locked.
        accept_through: Option<u64>,
    },
    /// The relation of two users changed: posts enter or leave an inbox.
    Edge {
        /// The change.
        change: EdgeWork,
        /// The owner of the inbox.
        reader: UserId,
        /// The author of the posts.
        author: UserId,
    },
}

/// What happens to the posts of an author in an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeWork {
    /// A follow, or the end of a restriction: the posts enter the inbox.
    Follow,
    /// The end of a follow: the posts leave the inbox.
    Unfollow,
    /// A restriction hides the posts: they leave the inbox.
    Detach,
    /// The reader wants no reposts of the author: these leave the inbox.
    DetachReposts,
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
            | Self::HideAuthor { author, .. }
            | Self::HideRepost { author, .. }
            | Self::LockChanged { author, .. }
            | Self::Edge { author, .. } => author,
        }
    }

    /// The span that caused the work, if its trace is recorded.
    pub fn trace(&self) -> Option<TraceContext> {
        match self {
            Self::Post { trace, .. } => *trace,
            Self::Delete { .. }
            | Self::Edit { .. }
            | Self::RevokeVisibility { .. }
            | Self::GrantVisibility { .. }
            | Self::HideAuthor { .. }
            | Self::HideRepost { .. }
            | Self::LockChanged { .. }
            | Self::Edge { .. } => None,
        }
    }
}

/// The number of partitions of fan-out. A deployment keeps it for its whole life.
pub const FANOUT_PARTITIONS: u16 = 64;

/// The partition of all jobs of an author: FNV-1a of the id, which is the same on every node and in every version.
pub fn fanout_partition(author: &UserId) -> u16 {
    let hash = author
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // The low bits of FNV-1a depend on the last byte most.
    u16::try_from((hash ^ (hash >> 32)) % u64::from(FANOUT_PARTITIONS)).unwrap_or_default()
}

/// The number of a job, assigned by the ledger. Later jobs of one author have greater numbers. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fan-out job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The work, set by the write that created the job.
    pub work: Work,
    /// When the job was created, in Unix milliseconds.
    pub created_at: Millis,
}

impl Job {
    /// The partition of the job: that of its author.
    pub fn partition(&self) -> u16 {
        fanout_partition(self.work.author())
    }
}

/// A job that a write has just created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// The job.
    pub job: Job,
    /// The unfinished job of the same author before it. An owner that does not have it must load it first.
    pub previous: Option<JobId>,
}

/// The unfinished jobs of one partition that an owner asks for.
#[derive(Clone, Debug)]
pub struct JobRequest {
    /// The partition.
    pub partition: u16,
    /// The ownership of the partition.
    pub fence: Fence,
    /// The number of jobs that are read, in the order of their numbers. Jobs that the owner has already count, too.
    pub limit: usize,
}

/// A job as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedJob {
    /// Its number.
    pub id: JobId,
    /// Its partition.
    pub partition: u16,
    /// The job, or the reason why the row cannot be decoded.
    pub job: std::result::Result<Job, String>,
}

/// The backlog of fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of unfinished jobs.
    pub jobs: u64,
    /// When the oldest was created, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// Fan-out jobs. The writes that need them create them in the same transaction.
///
/// The owner of a [partition](fanout_partition) runs its jobs, those of one author in the order of their numbers. The
/// ledger serializes the writes of an author, so a job becomes visible after all earlier ones of its author.
///
/// Each partition has a *floor*: the jobs up to this number are finished. Statements read behind the floor, so their
/// cost does not depend on the number of jobs that are finished but cannot be vacuumed yet.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// The first unfinished jobs of each partition, ordered by number, without those of the authors in `skip`. Nothing
    /// is returned of a partition that has another owner.
    async fn load_jobs(&self, requests: &[JobRequest], skip: &[UserId]) -> Result<Vec<LoadedJob>>;

    /// Whether a job is unfinished, and its partition has this owner.
    async fn holds_job(&self, id: JobId, fence: &Fence) -> Result<bool>;

    /// Removes finished jobs, each with the ownership of its partition. Returns those that were removed; the others
    /// belong to another owner now. If the store crashes before another write, the removal may be lost, and the jobs
    /// run again.
    async fn finish_jobs(&self, jobs: &[(JobId, Fence)]) -> Result<Vec<JobId>>;

    /// Removes a job whose effect does not depend on its order: its command has run it. No ownership is needed. Returns
    /// the current relations of some pairs of a reader and an author, in their order, which the command checks.
    async fn remove_job(&self, id: JobId, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>>;

    /// Raises the floors of partitions up to `candidate`, but not past an unfinished job. All jobs up to `candidate`
    /// must be visible or impossible: it was the greatest number longer ago than any write may take to commit.
    async fn raise_floors(&self, partitions: &[(u16, Fence)], candidate: JobId) -> Result<()>;

    /// The backlog of these partitions.
    async fn backlog(&self, partitions: &[u16]) -> Result<Backlog>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_job_is_optional() {
        let author = UserId::parse("ann").expect("an id");
        let work = |trace| Work::Post { post: PostId(7), author: author.clone(), trace };
        let plain = r#"{"post":{"post":7,"author":"ann"}}"#;
        assert_eq!(serde_json::to_string(&work(None)).expect("JSON"), plain);
        let context = TraceContext { trace: 0xa, span: 0xb };
        let traced = serde_json::to_string(&work(Some(context))).expect("JSON");
        assert_eq!(traced, plain.replace("}}", &format!(r#","trace":"{context}"}}}}"#)));
        let read = |text: &str| serde_json::from_str::<Work>(text).expect("a job");
        assert_eq!((read(plain), read(&traced)), (work(None), work(Some(context))));
        assert_eq!(read(&traced.replace("00-", "??-")), work(None), "a malformed trace keeps no job from its work");
    }

    #[test]
    fn authors_are_spread_over_all_partitions() {
        let mut counts = [0_u32; FANOUT_PARTITIONS as usize];
        for number in 0..6_400 {
            let author = UserId::parse(&format!("user{number}")).expect("an id");
            counts[usize::from(fanout_partition(&author))] += 1;
        }
        assert!(counts.iter().all(|count| (50..=160).contains(count)), "{counts:?}");
        // A deployment keeps its jobs over an update: the function never changes.
        let partition = |author| fanout_partition(&UserId::parse(author).expect("an id"));
        assert_eq!((partition("ann"), partition("bo")), (33, 57));
    }
}
