//! The erasure of users: tombstones, and the removal of all their data in steps of bounded size.

use async_trait::async_trait;

use super::{Fence, Result};
use crate::model::{ContentId, Millis, NotificationId, Tally, UserId};

/// An erasure that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// The user to erase.
    pub user: UserId,
    /// When the erasure began, in Unix milliseconds.
    pub at: Millis,
    /// The time since which no more rows of the user were found, in Unix milliseconds; `None` if the last pass found
    /// some.
    pub quiet_since: Option<Millis>,
}

/// The erasures that are not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureBacklog {
    /// Their number, those that wait for their next pass included.
    pub erasures: u64,
    /// When the oldest of them began, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// Erasures. Each `erase_…` method removes up to `limit` rows in one transaction, so that other writes can run in
/// between. Any node may call it, in any order, until it finds nothing: the remaining rows are the only record of
/// progress.
///
/// Posts, comments, favourites and follows of the user are removed by the methods that remove those of any user; they
/// are listed by [`PersonalDataStore`](super::PersonalDataStore).
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Turns a user into a tombstone and begins the erasure, in one transaction. Removes the profile, the search terms
    /// of the user, and the account with its password. [`users`](super::PeopleStore::users) and
    /// [`profile`](super::PeopleStore::profile) no longer return the id. The log of revocations gets an entry
    /// ([`RevocationKind::Erased`](super::RevocationKind::Erased)). An unused id becomes a tombstone as well. Returns
    /// `false` and changes nothing if the user is a tombstone already.
    async fn begin_erasure(&self, user: &UserId, now: Millis) -> Result<bool>;

    /// The erasures that are due at `now`, the longest waiting first. The process that owns the partition of erasures
    /// works on them.
    async fn due_erasures(&self, now: Millis, limit: usize) -> Result<Vec<Erasure>>;

    /// Counts the erasures that are not finished.
    async fn erasure_backlog(&self) -> Result<ErasureBacklog>;

    /// Ends a pass: stores the `quiet_since` of the erasure, and when it is due again; `None`: it is finished. Returns
    /// `false` and changes nothing if the partition has another owner.
    async fn end_erasure_pass(&self, fence: &Fence, erasure: &Erasure, due_at: Option<Millis>) -> Result<bool>;

    /// Removes posts of the user that were deleted before a time, with all comments, likes and favourites under them,
    /// including those of other users. Returns the number of rows; fewer than `limit` means that no more are left.
    async fn erase_deleted_posts(&self, user: &UserId, before: Millis, limit: usize) -> Result<usize>;

    /// Removes likes of the user. Returns the tallies of the liked objects; empty if no likes are left.
    async fn erase_likes(&self, user: &UserId, limit: usize) -> Result<Vec<(ContentId, Tally)>>;

    /// Removes the user from the notifications of others. Returns the groups that changed or were removed, with their
    /// owners; empty if none are left.
    async fn erase_notices(&self, user: &UserId, limit: usize) -> Result<Vec<(UserId, NotificationId)>>;

    /// Removes restrictions, requests to follow and post alerts in both directions, filters, followed topics, lists and
    /// the user from lists of others, notifications to the user, the read marker, muted conversations, devices,
    /// preferences, pushes, idempotency keys, counters of favourites, the standing, removed comments, and reports by
    /// and about the user. Returns the number of rows; 0 if none are left.
    async fn erase_rest(&self, user: &UserId, limit: usize) -> Result<usize>;
}
