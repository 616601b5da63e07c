//! Likes, and the counts of posts and comments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContentId, Millis, UserId};

/// The counts of an object at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of likes.
    pub likes: u64,
    /// The number of comments under a post, at any depth, or of replies to a comment. Deleted ones do not count.
    pub comments: u64,
    /// The version: of two tallies of an object the one with the larger version is the later one.
    pub version: u64,
}

/// A like, or the removal of a like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LikeChange {
    /// The user.
    pub user: UserId,
    /// The liked object.
    pub object: ContentId,
    /// Whether the user likes the object after the change.
    pub liked: bool,
    /// When it was acknowledged, in Unix milliseconds.
    pub at: Millis,
}

/// The reason why an acknowledged like could not be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RevertReason {
    /// The post or comment was deleted, or the comment's post was deleted.
    Gone,
    /// The user can no longer see the object, because of a restriction or a changed visibility.
    Hidden,
    /// The server cannot store the like, which is in the quarantine.
    Failed,
}

impl RevertReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Gone, Self::Hidden, Self::Failed];

    /// The reason as text, for clients and the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Hidden => "hidden",
            Self::Failed => "failed",
        }
    }

    /// Parses the result of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}
