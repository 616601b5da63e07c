//! Comments, and the threads they are in.

use async_trait::async_trait;

use super::Result;
use crate::model::{Comment, CommentId, PostId, Tally, UserId};

/// How deep replies to replies go: the last one that can be replied to no more has this many comments above it.
/// A deletion may take a whole line of deleted comments along, so there has to be an end to it.
pub const MAX_COMMENT_DEPTH: u32 = 100;

/// What stands in one list: the comments on a post, or the replies to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The post.
    pub post: PostId,
    /// The comment replied to; `None`: those on the post itself.
    pub parent: Option<CommentId>,
}

/// The result of storing a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentOutcome {
    /// It is stored.
    Stored(Tally),
    /// It was stored before, by a call like this one; it may be deleted since. Nothing changed.
    Before,
    /// The post is not there, or deleted.
    NoPost,
    /// What it replies to is not there, deleted, or under another post.
    NoParent,
    /// What it replies to is [`MAX_COMMENT_DEPTH`] already.
    TooDeep,
}

/// What a deletion did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedComment {
    /// `true`: it had replies, so it stays without its author and its text.
    pub stays: bool,
    /// Deleted comments above it that had stayed, and of which the last reply has gone now: gone too, nearest first.
    pub along: Vec<CommentId>,
    /// The post's counts.
    pub tally: Tally,
}

/// Comments. A post's deletion leaves them as they are: they are not reachable any more.
#[async_trait]
pub trait CommentStore: Send + Sync {
    /// Stores a comment, counts it at its post (`post_counts`: comments and version each grow by one) and at its
    /// parent, in one transaction. [`CommentOutcome::Before`] comes first of all, if its author has a comment with that
    /// id or one with that id stays after its deletion. The caller has made sure that the author exists and that the id
    /// is nobody else's: anything else fails. Its `likes` and `replies` are 0, whatever is said.
    async fn create_comment(&self, comment: &Comment) -> Result<CommentOutcome>;

    /// Those of `ids` that are there, deleted ones that stay among them, each once, in any order. Any number of ids,
    /// one round trip. Their posts may be deleted.
    async fn comments(&self, ids: &[CommentId]) -> Result<Vec<Comment>>;

    /// Of each of `ids` those who wrote it and what it replies to, up to the comment on the post itself; each person
    /// once, in any order. Deleted ones have no author. The cost depends on how deep they are, [`MAX_COMMENT_DEPTH`] at
    /// most. Any number of ids, one round trip.
    async fn lines(&self, ids: &[CommentId]) -> Result<Vec<(CommentId, UserId)>>;

    /// A thread's comments below `before`, newest first, deleted ones that stay among them. The cost depends on
    /// `limit`, not on how many there are.
    async fn comments_in(&self, thread: Thread, before: CommentId, limit: usize) -> Result<Vec<Comment>>;

    /// Deletes a comment, in one transaction with the counts. With replies it loses author, text and mentions and
    /// stays; without, it goes, and with it those above it that were deleted and have no other reply.
    /// The post's `comments` shrinks by one, its version grows by one. `None` if it is not there, or deleted already.
    async fn delete_comment(&self, id: CommentId) -> Result<Option<DeletedComment>>;
}
