//! Loading many rows at once, past the jobs and events that single writes submit.

use async_trait::async_trait;

use super::{Ledger, Result};
use crate::model::{Millis, Post, UserId};

/// Rows that one transaction writes.
pub(super) const ROWS_PER_TRANSACTION: usize = 2_000;

/// Fills a ledger before a server uses it: for `feedline-bench` and for tests. Behind the feature `bulk`.
///
/// A load submits no jobs and no events, so nothing is delivered to inboxes, and no limits apply. It runs in
/// transactions of 2,000 rows; after an error the rows of finished transactions stay, and a load of users or follows
/// can be repeated.
#[async_trait]
pub trait BulkLoad: Ledger {
    /// Creates users named like their ids at the time `now`. Skips users that exist.
    ///
    /// # Errors
    ///
    /// As for any write.
    async fn load_users(&self, ids: &[UserId], now: Millis) -> Result<()>;

    /// Creates edges (follower, followee) at the time `now`. Skips edges that exist. All users must exist. PostgreSQL
    /// does not check for blocks.
    ///
    /// # Errors
    ///
    /// As for any write.
    async fn load_follows(&self, edges: &[(UserId, UserId)], now: Millis) -> Result<()>;

    /// Stores posts. Their authors must exist, and their ids must be new. PostgreSQL stores them in no topic.
    ///
    /// # Errors
    ///
    /// As for any write.
    async fn load_posts(&self, posts: &[Post]) -> Result<()>;
}
