//! Alerts about posts: queued as pushes for the users who asked for them, page by page.
//!
//! The fan-out of a post creates the job, if anyone asked for alerts about its author.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{Fence, Result};
use crate::model::{Millis, PostId, UserId};

/// A post whose alerts are to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostAlertJob {
    /// The post.
    pub post: PostId,
    /// When it was created, in Unix milliseconds.
    pub created_at: Millis,
}

/// A page of alerts to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAlertPage {
    /// The post.
    pub post: PostId,
    /// When the pushes are due, in Unix milliseconds.
    pub due_at: Millis,
    /// The number of users.
    pub users: usize,
}

/// Jobs that queue alerts about posts. The process that owns their partition works on them. A page is queued and
/// recorded in one transaction, so that each user is served once.
#[async_trait]
pub trait PostAlertStore: Send + Sync {
    /// Creates the job of a post, unless there is or was one.
    async fn start_post_alerts(&self, post: PostId, now: Millis) -> Result<()>;

    /// The oldest jobs that are not done.
    async fn post_alert_jobs(&self, limit: usize) -> Result<Vec<PostAlertJob>>;

    /// Queues the next page of alerts. The job is done if no user is left, or the post is deleted. Returns `false`, and
    /// queues nothing, if the job does not exist or is done, or if its partition has another owner.
    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<bool>;

    /// The pairs of a user and an author for which the user has alerts, each with the newest post that the user has
    /// seen: see [`ReadMarkerStore`](super::ReadMarkerStore).
    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), PostId>>;
}
