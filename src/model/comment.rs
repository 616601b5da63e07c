//! A comment: on a post, or in reply to a comment.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CommentId, Millis, PostId, UserId};

/// A comment. One that was deleted while others had replied to it stays, without its author and its text, so that the
/// thread holds together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comment {
    /// Its id; newer comments have larger ones.
    pub id: CommentId,
    /// The post that it is under.
    pub post: PostId,
    /// The comment that it replies to; absent of one on the post itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CommentId>,
    /// Who wrote it; absent of a deleted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<UserId>,
    /// What it says; absent of a deleted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whom it names (`@user`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<UserId>,
    /// When it was written, in Unix milliseconds.
    pub created_at: Millis,
    /// How many like it.
    pub likes: u64,
    /// How many comments reply to it directly, deleted ones that stay among them.
    pub replies: u64,
}
