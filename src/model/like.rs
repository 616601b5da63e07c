//! Likes, and what came of what can be liked.

use super::{Millis, Object, UserId};

/// What came of an object, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many like it.
    pub likes: u64,
    /// How many comments are under a post, at any depth, or how many replies a comment has; those that were deleted do not
    /// count.
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
