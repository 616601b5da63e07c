//! The read markers of users in their timelines.

use async_trait::async_trait;

use super::{ClearPlan, Result};
use crate::model::{PostId, UserId};

/// Read markers.
#[async_trait]
pub trait ReadMarkerStore: Send + Sync {
    /// Moves a user's marker to `id`, unless the marker is further already: it never moves back. Returns its position
    /// after the call. The caller has checked that the user exists. If the marker moves, `clear` queues it for the
    /// devices of the user that were sent pushes of these posts.
    async fn mark_read(&self, user: &UserId, id: PostId, clear: Option<&ClearPlan>) -> Result<PostId>;

    /// The position of a user's marker; [`PostId::ZERO`] before the first mark.
    async fn read_marker(&self, user: &UserId) -> Result<PostId>;
}
