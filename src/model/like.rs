//! Likes, and what came of what can be liked.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Millis, Object, UserId};

/// What came of an object, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many like it.
    pub likes: u64,
    /// How many comments are under a post, at any depth, or how many replies a comment has; those that were deleted do
    /// not count.
    pub comments: u64,
    /// Of two tallies of an object the one with the larger version is the later one.
    pub version: u64,
}

/// Somebody likes something, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LikeChange {
    /// Who.
    pub user: UserId,
    /// What.
    pub object: Object,
    /// Whether they like it from then on.
    pub liked: bool,
    /// When it was acknowledged, in Unix milliseconds.
    pub at: Millis,
}

/// Why an acknowledged like could not be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RevertReason {
    /// The post or comment was deleted, or the post that the comment is under.
    Gone,
    /// The user can no longer see it: a restriction, or another visibility.
    Hidden,
    /// The server cannot store the like: it is in the quarantine.
    Failed,
}

impl RevertReason {
    /// The reason as clients and the ledger read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Hidden => "hidden",
            Self::Failed => "failed",
        }
    }

    /// Parses what [`as_str`](Self::as_str) returned.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Gone, Self::Hidden, Self::Failed].into_iter().find(|reason| reason.as_str() == text)
    }
}
