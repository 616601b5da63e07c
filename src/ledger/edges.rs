//! Follows between users.

use async_trait::async_trait;

use super::quarantine::report_unreadable;
use super::{ListPage, NewJob, Result};
use crate::model::{DomainEvent, Millis, PostId, Relation, User, UserId, Visibility};

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

    /// The event of a new follow.
    pub(super) fn followed(&self) -> DomainEvent {
        DomainEvent::Followed { follower: self.reader.clone(), followee: self.author.clone() }
    }

    /// The event of a follow that ended.
    pub(super) fn unfollowed(&self) -> DomainEvent {
        DomainEvent::Unfollowed { follower: self.reader.clone(), followee: self.author.clone() }
    }

    /// The event of a new request to follow.
    pub(super) fn requested(&self) -> DomainEvent {
        DomainEvent::FollowRequested { follower: self.reader.clone(), followee: self.author.clone() }
    }

    /// The event of a request that ended without a follow, or that a follow made superfluous.
    pub(super) fn request_ended(&self) -> DomainEvent {
        DomainEvent::FollowRequestEnded { follower: self.reader.clone(), followee: self.author.clone() }
    }

    /// The event of a request that was accepted.
    pub(super) fn accepted(&self) -> DomainEvent {
        DomainEvent::FollowAccepted { follower: self.reader.clone(), followee: self.author.clone() }
    }
}

/// The outcome of a follow.
#[derive(Debug)]
pub enum FollowOutcome {
    /// It is new, and has created this job.
    New(NewJob),
    /// It exists already. Nothing was written.
    Unchanged,
    /// The account of the followee is locked. There is a request now.
    Requested,
    /// The follower has the maximal number of open requests. Nothing was written.
    TooManyRequests,
    /// The followee was asked by the maximal number of users. Nothing was written.
    AskedTooOften,
    /// The user follows the maximal number of users. Nothing was written.
    Full,
    /// The followee does not exist, or was erased. Nothing was written.
    NoUser,
    /// The followee blocks the follower. Nothing was written.
    Blocked,
    /// The follower blocks the followee. Nothing was written.
    Blocks,
}

impl FollowOutcome {
    /// The job of a follow that is new.
    pub fn job(self) -> Option<NewJob> {
        match self {
            Self::New(job) => Some(job),
            Self::Unchanged
            | Self::Requested
            | Self::TooManyRequests
            | Self::AskedTooOften
            | Self::Full
            | Self::NoUser
            | Self::Blocked
            | Self::Blocks => None,
        }
    }
}

/// What the timeline of a reader may take of an author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeSource {
    /// The relation of the reader and the author.
    pub relation: Relation,
    /// The author's newest posts, newest first. Empty unless the reader follows the author.
    pub posts: Vec<(PostId, Visibility)>,
}

impl MergeSource {
    /// From the posts with their visibility as JSON. A post that cannot be decoded is omitted.
    pub(super) fn new<T: AsRef<str>>(relation: Relation, rows: impl IntoIterator<Item = (PostId, T)>) -> Self {
        let decoded = rows.into_iter().filter_map(|(post, text)| match serde_json::from_str(text.as_ref()) {
            Ok(visibility) => Some((post, visibility)),
            Err(error) => {
                report_unreadable("posts", &post, &error);
                None
            }
        });
        Self { relation, posts: decoded.collect() }
    }
}

/// Edges between two people.
#[async_trait]
pub trait FollowStore: Send + Sync {
    /// Adds a follow, and creates the job that inserts the followee's posts, in the same transaction, unless the
    /// follower has `max_follows` follows, or one of the users blocks the other. If the account of the followee is
    /// locked, the follow becomes a request, see
    /// [`FollowRequestStore`](super::FollowRequestStore). The follower exists.
    async fn follow(
        &self,
        follower: &UserId,
        followee: &UserId,
        now: Millis,
        max_follows: u64,
    ) -> Result<FollowOutcome>;

    /// Removes a follow, and creates the job that removes the posts, in the same transaction. Withdraws a request of
    /// the same follower. `None` if there is no such follow.
    async fn unfollow(&self, follower: &UserId, followee: &UserId, now: Millis) -> Result<Option<NewJob>>;

    /// The sources of some pairs of a reader and an author, in their order, each with at most `limit` posts.
    async fn merge_sources(&self, pairs: &[(UserId, UserId)], limit: usize) -> Result<Vec<MergeSource>>;

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
