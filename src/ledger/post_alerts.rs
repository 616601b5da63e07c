//! Alerts about posts: queued as pushes for the users who asked for them, page by page.
//!
//! The fan-out of a post creates the job, if anyone asked for alerts about its author.

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

/// The state of a job after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostAlertProgress {
    /// More users are left.
    More,
    /// All users are served, or the post is deleted.
    Done,
    /// There is no such job, or its partition has another owner. Nothing was queued.
    Lost,
}

/// A user with alerts about an author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAlertReader {
    /// The user.
    pub user: UserId,
    /// The author.
    pub author: UserId,
    /// The newest post that the user has seen: see [`ReadMarkerStore`](super::ReadMarkerStore).
    pub seen: PostId,
}

/// Jobs that queue alerts about posts. The process that owns their partition works on them. A page is queued and
/// recorded in one transaction, so that each user is served once.
#[async_trait]
pub trait PostAlertStore: Send + Sync {
    /// Creates the job of a post, unless there is or was one.
    async fn start_post_alerts(&self, post: PostId, now: Millis) -> Result<()>;

    /// The oldest jobs that are not done.
    async fn post_alert_jobs(&self, limit: usize) -> Result<Vec<PostAlertJob>>;

    /// Queues a page of alerts.
    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<PostAlertProgress>;

    /// The pairs of a user and an author for which the user has alerts.
    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<PostAlertReader>>;
}
