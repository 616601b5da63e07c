//! What came of posts, and what a reader did with them: what a page of posts needs besides the posts.

use async_trait::async_trait;

use super::Result;
use crate::model::{PostCounts, PostFlags, PostId, UserId};

/// What came of posts. The counts are kept by the writes that change them, in the same transaction.
#[async_trait]
pub trait Counts: Send + Sync {
    /// The counts of those of `ids` that something came of, each once, in any order; of the others all are zero. Any
    /// number of ids, one round trip.
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>>;

    /// What `reader` did with those of `ids` that they did something with, each once, in any order. Any number of ids,
    /// one round trip.
    async fn flags(&self, reader: &UserId, ids: &[PostId]) -> Result<Vec<(PostId, PostFlags)>>;
}
