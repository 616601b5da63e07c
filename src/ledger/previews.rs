//! Previews of posts: the newest likers and comments that a page shows.

use async_trait::async_trait;

use super::Result;
use crate::model::{Comment, PostId, UserId};

/// The maximal numbers of preview items for each post; 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewLimits {
    /// The maximal number of likers.
    pub likers: usize,
    /// The maximal number of comments on the post itself.
    pub comments: usize,
}

/// The newest likers and comments of some posts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviewRows {
    /// Each liker with the post. The likers of one post are ordered latest first.
    pub likers: Vec<(PostId, UserId)>,
    /// Comments on the posts, including deleted ones that stay. The comments on one post are ordered newest first.
    pub comments: Vec<Comment>,
}

/// Previews of many posts at once.
#[async_trait]
pub trait PreviewStore: Send + Sync {
    /// For each of `posts`, the first rows of [`LikeStore::likers`](super::LikeStore::likers) and
    /// [`CommentStore::comments_in`](super::CommentStore::comments_in). Deleted posts are treated alike. The cost
    /// depends on the number of posts and on `most`, not on the number of likes and comments. Accepts any number of
    /// posts in one round trip.
    async fn newest_previews(&self, posts: &[PostId], most: PreviewLimits) -> Result<PreviewRows>;
}
