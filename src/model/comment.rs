//! A comment: on a post, or in reply to a comment.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CommentId, FilterId, Millis, PostId, Removal, UserId};

/// A comment. A deleted comment with replies stays, without its author and its text, so that the thread stays
/// connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comment {
    /// Its id; newer comments have larger ones.
    pub id: CommentId,
    /// The post of the comment.
    pub post: PostId,
    /// The comment that it replies to; absent if it is on the post itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<CommentId>,
    /// Its author; absent if the comment is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<UserId>,
    /// Its text; absent if the comment is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The mentioned users (`@user`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<UserId>,
    /// When it was written, in Unix milliseconds.
    pub created_at: Millis,
    /// When it was last edited, in Unix milliseconds; absent if never. Grows with each edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Millis>,
    /// The number of likes.
    pub likes: u64,
    /// The number of direct replies, including deleted ones that stay.
    pub replies: u64,
    /// Whether the reader likes it; absent for anonymous readers, in pushes and in previews. The ledger does not set
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liked: Option<bool>,
    /// The reader's filters that it has a word of, with the action `warn`; absent if there are none. The ledger does
    /// not set it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filtered: Vec<FilterId>,
    /// That it was removed, and why; absent if it was not. Only its author sees it: for others it is a deleted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removal>,
}
