//! Previews of posts: the newest likers and comments that a page shows.

use async_trait::async_trait;

use super::Result;
use crate::model::{Comment, PostId, UserId};

/// The maximal numbers for each post; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewLimits {
    /// Likers.
    pub likers: usize,
    /// Comments on the post itself.
    pub comments: usize,
}

/// The newest likers and comments of some posts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviewRows {
    /// Each liker with the post; those of one post latest first.
    pub likers: Vec<(PostId, UserId)>,
    /// Comments on them, deleted ones that stay among them; those on the same post newest first.
    pub comments: Vec<Comment>,
}

/// Previews of many posts at once.
#[async_trait]
pub trait PreviewStore: Send + Sync {
    /// Of each of `posts` what [`LikeStore::likers`](super::LikeStore::likers) and
    /// [`CommentStore::comments_in`](super::CommentStore::comments_in) begin with. Whether a post is deleted does not
    /// matter. The cost depends on how many posts there are and on `most`, not on how much is under them. Any number of
    /// posts, one round trip.
    async fn newest_previews(&self, posts: &[PostId], most: PreviewLimits) -> Result<PreviewRows>;
}
