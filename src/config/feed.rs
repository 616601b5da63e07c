//! `[timeline]`, `[fanout]` and `[likes]`: the distribution of posts and likes.

use std::time::Duration;

use super::layers::SectionReader;
use super::parse;

/// `[timeline]`: the inboxes of users.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineConfig {
    /// The minimum number of entries that an inbox keeps.
    pub length: u64,
    /// Days after which the inbox of an inactive user is removed.
    pub idle_days: u32,
    /// The maximum number of posts that a follow adds to the inbox.
    pub follow_merge: usize,
}

impl TimelineConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self {
            length: section.read("length", parse::integer(1..=100_000)),
            idle_days: section.read("idle_days", parse::integer(1..=3650)),
            follow_merge: section.read("follow_merge", parse::integer(0..=10_000)),
        }
    }
}

/// `[fanout]`: the jobs that write posts to inboxes.
#[derive(Clone, Debug, PartialEq)]
pub struct FanoutConfig {
    /// The maximum number of followers whose inboxes fan-out writes. Posts of authors with more followers are pulled.
    pub push_limit: u64,
    /// The number of followers in one step of a job.
    pub page: usize,
    /// The number of jobs that a node runs concurrently.
    pub workers: usize,
    /// How long a process owns partitions of work without renewing its lease.
    pub lease: Duration,
}

impl FanoutConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self {
            push_limit: section.read("push_limit", parse::integer(0..=1_000_000_000)),
            page: section.read("page", parse::integer(1..=10_000)),
            workers: section.read("workers", parse::integer(1..=256)),
            lease: section.read("lease", parse::duration("100ms"..="10m")),
        }
    }
}

/// `[likes]`: the write-behind queue of likes.
#[derive(Clone, Debug, PartialEq)]
pub struct LikesConfig {
    /// The maximum number of likes that wait to be settled.
    pub queue_length: u64,
    /// The maximum number of count events per second for one post.
    pub counts_per_second: u32,
}

impl LikesConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self {
            queue_length: section.read("queue_length", parse::integer(1..=100_000_000)),
            counts_per_second: section.read("counts_per_second", parse::integer(1..=1000)),
        }
    }
}
