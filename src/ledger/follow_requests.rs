//! Locked accounts, and the requests to follow them.

use async_trait::async_trait;

use super::{ListPage, NewJob, Result};
use crate::model::{Millis, PostId, User, UserId};

/// The open requests of one user.
pub const MAX_REQUESTS_BY: u64 = 1_000;

/// The open requests to one user.
pub const MAX_REQUESTS_TO: u64 = 10_000;

/// The delay after a rejection before another request of the same user is shown, in milliseconds.
pub const REQUEST_QUIET: Millis = 24 * 60 * 60 * 1_000;

/// The result of a change of a user's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// It is stored. The job updates topics; after an unlock it accepts the requests.
    Changed(NewJob),
    /// The account has this state already.
    Unchanged,
    /// The user does not exist, or is erased.
    NoUser,
}

/// An open request, as the job of an unlock reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// Its number. Later requests to one user have greater numbers.
    pub seq: u64,
    /// The user who sent it.
    pub follower: UserId,
}

/// A post whose topics are compared with the lock of its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPost {
    /// The post.
    pub post: PostId,
    /// Its topics.
    pub topics: Vec<String>,
}

/// Locked accounts and requests. A request is made by [`follow`](super::FollowStore::follow), and withdrawn by
/// [`unfollow`](super::FollowStore::unfollow).
///
/// A request is *open* until it is accepted, rejected or withdrawn. Its recipient sees it when it is *shown*: at once,
/// or [`REQUEST_QUIET`] after the rejection of an earlier request of the same user.
#[async_trait]
pub trait FollowRequestStore: Send + Sync {
    /// Locks or unlocks the account of a user, and creates the job ([`Work::LockChanged`](super::Work::LockChanged)) in
    /// the same transaction. A follow either comes before the change, or is decided by the new state.
    async fn set_locked(&self, user: &UserId, locked: bool, now: Millis) -> Result<LockOutcome>;

    /// The users with a request to `user` that is shown at `now`, latest first; `before` is a
    /// [`ListPage::next`].
    async fn requests_to(
        &self,
        user: &UserId,
        now: Millis,
        before: Option<i64>,
        limit: usize,
    ) -> Result<ListPage<User>>;

    /// The users that `user` has requested to follow, latest first; `before` is a [`ListPage::next`].
    async fn requests_by(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// The users among `followers` with an open request to `user` that is shown at `now`.
    async fn requests_among(&self, user: &UserId, followers: &[UserId], now: Millis) -> Result<Vec<UserId>>;

    /// Makes an open request a follow, and creates the job of the follow, in the same transaction. `None`: there is no
    /// open request that is shown at `now` (`None`: shown or not).
    async fn accept_request(
        &self,
        follower: &UserId,
        user: &UserId,
        now: Millis,
        shown_at: Option<Millis>,
    ) -> Result<Option<NewJob>>;

    /// Removes an open request that is shown at `now`. Returns whether there was one.
    async fn reject_request(&self, follower: &UserId, user: &UserId, now: Millis) -> Result<bool>;

    /// The first open requests to a user with a number up to `through`, the oldest first.
    async fn oldest_requests(&self, user: &UserId, through: u64, limit: usize) -> Result<Vec<OpenRequest>>;

    /// Of the `limit` newest posts of an author before a post: those that [`sync_topics`](Self::sync_topics) would
    /// change, newest first, and the last of all (`None`: no post is left).
    async fn posts_out_of_sync(
        &self,
        author: &UserId,
        before: PostId,
        limit: usize,
    ) -> Result<(Vec<TopicPost>, Option<PostId>)>;

    /// Counts a public post in its topics if its author's account is open, and not if it is locked. Changes nothing if
    /// the post has other topics by now.
    async fn sync_topics(&self, author: &UserId, post: &TopicPost) -> Result<()>;
}
