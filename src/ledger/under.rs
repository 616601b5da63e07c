//! The newest of what is under posts: what a page of them brings along.

use async_trait::async_trait;

use super::Result;
use crate::model::{Comment, PostId, UserId};

/// How much is wanted of each post, at most; 0: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Those who like it.
    pub likers: usize,
    /// Comments on the post itself.
    pub comments: usize,
}

/// The newest of what is under some posts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// Who likes which of them; those who like the same post, latest first.
    pub likers: Vec<(PostId, UserId)>,
    /// Comments on them, deleted ones that stay among them; those on the same post newest first.
    pub comments: Vec<Comment>,
}

/// What is under many posts at once.
#[async_trait]
pub trait Under: Send + Sync {
    /// Of each of `posts` what [`Likes::likers`](super::Likes::likers) and
    /// [`Comments::comments_in`](super::Comments::comments_in) begin with. Whether a post is deleted does not matter. The cost
    /// depends on how many posts there are and on `most`, not on how much is under them. Any number of posts, one round
    /// trip.
    async fn newest_under(&self, posts: &[PostId], most: Most) -> Result<Newest>;
}
