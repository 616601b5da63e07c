//! Who follows whom.

use async_trait::async_trait;

use super::{Job, Lease, ListPage, Result};
use crate::model::{Millis, User, UserId};

/// A follow, or an inbox and an author whose posts may be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// The follower, whose inbox it is.
    pub(super) reader: UserId,
    /// The followee.
    pub(super) author: UserId,
}

impl Edge {
    pub(super) fn new(reader: &UserId, author: &UserId) -> Self {
        Self { reader: reader.clone(), author: author.clone() }
    }
}

/// Edges between two people.
#[async_trait]
pub trait FollowStore: Send + Sync {
    /// `follower` follows `followee` from now on; makes the job that brings the posts in, held by `lease`, in the same
    /// transaction. `None` if it was so already, or if one of the two blocks the other. The caller has checked that
    /// both exist.
    async fn follow(&self, follower: &UserId, followee: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>>;

    /// Ends it; makes the job that takes the posts out, held by `lease`, in the same transaction. `None` if there was
    /// nothing to end.
    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>>;

    /// How many `follower` follows.
    async fn following_count(&self, follower: &UserId) -> Result<u64>;

    /// Who follows `user`, latest first; `before` is a [`ListPage::next`].
    async fn followers(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// Whom `user` follows, latest first; `before` is a [`ListPage::next`].
    async fn following(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// The ids of those whom `reader` follows, `limit` at most, in ascending order of id, byte by byte.
    async fn followees(&self, reader: &UserId, limit: usize) -> Result<Vec<UserId>>;

    /// The ids of followers in ascending order of id, byte by byte, after `cursor` (empty for the first): what a
    /// fan-out walks.
    async fn followers_after(&self, author: &UserId, cursor: &str, limit: usize) -> Result<Vec<UserId>>;
}
