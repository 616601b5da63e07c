//! Comments and their threads.

use async_trait::async_trait;

use super::Result;
use crate::model::{Comment, CommentId, DomainEvent, Millis, PostId, RemovedComment, Tally, UserId};

/// The maximal depth of replies. A comment with this many comments above it cannot be replied to. The limit bounds the
/// number of deleted comments that one deletion removes.
pub const MAX_COMMENT_DEPTH: u32 = 100;

/// A list of comments: those on a post, or the replies to one comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The post that the comments are on.
    pub post: PostId,
    /// The comment whose replies are listed; `None`: the comments on the post itself.
    pub reply_to: Option<CommentId>,
}

/// The result of storing a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentOutcome {
    /// It is stored.
    Stored(Tally),
    /// It was stored before, by an identical call; it may have been deleted since. Nothing changed.
    Before,
    /// The post does not exist or is deleted.
    NoPost,
    /// The parent comment does not exist, is deleted, or is under another post.
    NoParent,
    /// The parent comment is already at depth [`MAX_COMMENT_DEPTH`].
    TooDeep,
}

/// The result of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentEditOutcome {
    /// The comment is replaced.
    Edited,
    /// Nothing changed: another edit was committed since the comment was read. Read it again, and retry.
    Conflict,
    /// Nothing changed: the author has no such comment, or it is deleted.
    Missing,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedComment {
    /// `true`: it had replies, so it stays without its author and its text.
    pub stays: bool,
    /// Deleted ancestors that had been kept for their replies and have now lost the last one. They are removed as well;
    /// nearest first.
    pub along: Vec<CommentId>,
    /// The counts of the post after the deletion.
    pub tally: Tally,
}

/// Comments. Deleting a post leaves its comments in the store, where they are unreachable.
#[async_trait]
pub trait CommentStore: Send + Sync {
    /// Stores a comment and counts it at its post (`post_counts`: comments and version each grow by one) and at its
    /// parent, in one transaction. Returns [`CommentOutcome::Before`], before any other check, if its author has a
    /// comment with that id, or if a comment with that id stays after its deletion. The caller has checked that the
    /// author exists and that no other comment has the id; otherwise the call fails. Ignores `likes` and `replies` of
    /// the input and stores 0.
    async fn create_comment(&self, comment: &Comment) -> Result<CommentOutcome>;

    /// The existing comments among `ids`, including deleted ones that stay; each once, in any order. Accepts any number
    /// of ids in one round trip. Their posts may be deleted.
    async fn comments(&self, ids: &[CommentId]) -> Result<Vec<Comment>>;

    /// For each of `ids`, the authors of the comment and of its ancestors, up to the comment on the post itself; each
    /// person once, in any order. Deleted comments have no author. The cost depends on the depth of the comments,
    /// [`MAX_COMMENT_DEPTH`] at most. Accepts any number of ids in one round trip.
    async fn lines(&self, ids: &[CommentId]) -> Result<Vec<(CommentId, UserId)>>;

    /// The comments of a thread below `before`, newest first, including deleted ones that stay. The cost depends on
    /// `limit`, not on the size of the thread.
    async fn comments_in(&self, thread: Thread, before: CommentId, limit: usize) -> Result<Vec<Comment>>;

    /// As [`comments_in`](Self::comments_in) above `after`, oldest first.
    async fn comments_after(&self, thread: Thread, after: CommentId, limit: usize) -> Result<Vec<Comment>>;

    /// The comments that a user wrote below `before`, newest first, under any post. Their posts may be deleted. The
    /// cost depends on `limit`, not on the number of comments.
    async fn comments_by(&self, author: &UserId, before: CommentId, limit: usize) -> Result<Vec<Comment>>;

    /// Replaces the text, the mentions and `edited_at` of a comment of `after.author` by those of `after`. A conflict
    /// if the `edited_at` of the stored comment is not that of `before`. As for posts, it is the version of the
    /// comment: every edit must set a greater one.
    ///
    /// `event` is written in the same transaction, if the comment is replaced.
    async fn edit_comment(
        &self,
        before: &Comment,
        after: &Comment,
        event: Option<&DomainEvent>,
    ) -> Result<CommentEditOutcome>;

    /// Removes a comment: its author, text and mentions move to [`removed_comments`](Self::removed_comments), and the
    /// row stays as that of a deleted comment until the comment is restored. The post's `comments` shrinks by one and
    /// its version grows by one, in the same transaction, which also writes `event`. Returns the counts of the post;
    /// `None` if the comment does not exist, or is deleted or removed already.
    async fn remove_comment(
        &self,
        id: CommentId,
        reason: Option<&str>,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<Tally>>;

    /// Restores a removed comment, and updates the counts in the same transaction. Returns the counts of the post;
    /// `None` if the comment is not removed.
    async fn restore_comment(&self, id: CommentId) -> Result<Option<Tally>>;

    /// The removed comments among `ids` as they were, each once, in any order. Accepts any number of ids in one round
    /// trip.
    async fn removed_comments(&self, ids: &[CommentId]) -> Result<Vec<RemovedComment>>;

    /// Deletes a comment, and updates the counts in the same transaction. A comment with replies stays without author,
    /// text and mentions. A comment without replies is removed, together with its deleted ancestors that have no other
    /// reply and are not [removed](Self::remove_comment). The post's `comments` shrinks by one and its version grows by
    /// one. `None` if the comment does not exist or is deleted already.
    ///
    /// `event`, which happened at `now`, is written in the same transaction, if the comment is deleted.
    async fn delete_comment(
        &self,
        id: CommentId,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<DeletedComment>>;
}
