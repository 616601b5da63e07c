//! How far users have read their timelines.

use async_trait::async_trait;

use super::Result;
use crate::model::{PostId, UserId};

/// Read markers.
#[async_trait]
pub trait ReadMarkerStore: Send + Sync {
    /// Moves a user's marker to `id`, unless it is further already: it never goes back. Answers where it is then. The
    /// caller has made sure that the user exists.
    async fn mark_read(&self, user: &UserId, id: PostId) -> Result<PostId>;

    /// Where a user's marker is; [`PostId::ZERO`] before the first mark.
    async fn read_marker(&self, user: &UserId) -> Result<PostId>;
}
