//! Follows between users.

use async_trait::async_trait;

use super::{ListPage, NewJob, Result};
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

/// The outcome of a follow.
#[derive(Debug)]
pub enum FollowOutcome {
    /// It is new, and has created this job.
    New(NewJob),
    /// It exists already, or one of the users blocks the other. Nothing was written.
    Unchanged,
    /// The user follows the maximal number of users. Nothing was written.
    Full,
}

impl FollowOutcome {
    /// The job of a follow that is new.
    pub fn job(self) -> Option<NewJob> {
        match self {
            Self::New(job) => Some(job),
            Self::Unchanged | Self::Full => None,
        }
    }
}

/// Edges between two people.
#[async_trait]
pub trait FollowStore: Send + Sync {
    /// Adds a follow, and creates the job that inserts the followee's posts, in the same transaction, unless the
    /// follower has `max_follows` follows. The caller has checked that both users exist.
    async fn follow(
        &self,
        follower: &UserId,
        followee: &UserId,
        now: Millis,
        max_follows: u64,
    ) -> Result<FollowOutcome>;

    /// Removes a follow, and creates the job that removes the posts, in the same transaction. `None`
    /// if there is no such follow.
    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis) -> Result<Option<NewJob>>;

    /// The followers of `user`, latest first; `before` is a [`ListPage::next`].
    async fn followers(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// The users that `user` follows, latest first; `before` is a [`ListPage::next`].
    async fn following(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// The users that `reader` follows and that follow `user`, in the order in which the reader followed them, latest
    /// first; `before` is a [`ListPage::next`]. If both are the same user, these are the user's friends. Reads follows
    /// of the reader until the page is full, with a look-up for each.
    async fn shared_followers(
        &self,
        reader: &UserId,
        user: &UserId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>>;

    /// The ids of the users that `reader` follows, `limit` at most, in ascending order of id, byte by byte.
    async fn followees(&self, reader: &UserId, limit: usize) -> Result<Vec<UserId>>;

    /// The ids of followers in ascending order of id, byte by byte, after `cursor` (empty for the first page). Fan-out
    /// jobs iterate over followers with it.
    async fn followers_after(&self, author: &UserId, cursor: &str, limit: usize) -> Result<Vec<UserId>>;
}
