//! Muted conversations: posts of which a user wants no notifications.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, PostId, UserId};

/// Muted conversations. Flags of posts show them to their user: see
/// [`CountStore::hydrate`](super::CountStore::hydrate).
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// Mutes what happens under a post. Idempotent: muting again keeps the first time. The caller has checked that the
    /// user exists.
    async fn mute_conversation(&self, user: &UserId, post: PostId, now: Millis) -> Result<()>;

    /// Ends it. Returns whether the post was muted.
    async fn unmute_conversation(&self, user: &UserId, post: PostId) -> Result<bool>;

    /// Those of these pairs of a user and a post in which the user muted the post, in any order. One look-up for each
    /// pair, all in one round trip.
    async fn muted_conversations(&self, pairs: &[(UserId, PostId)]) -> Result<Vec<(UserId, PostId)>>;
}
