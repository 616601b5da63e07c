//! The erasure of users: tombstones, and the removal of everything that was theirs, in steps of bounded size.

use std::sync::Arc;

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, NotificationId, Object, Tally, UserId};

/// The right of one process to work on an erasure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureLease {
    /// Names the worker's process.
    pub holder: Arc<str>,
    /// When it ends, in Unix milliseconds.
    pub until: Millis,
}

/// An erasure that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Whose.
    pub user: UserId,
    /// When it began, in Unix milliseconds.
    pub at: Millis,
    /// Since when the user was found to have nothing left; `None` if something was found since.
    pub quiet_since: Option<Millis>,
}

/// Erasures. Each `erase_…` method removes up to `limit` rows in one transaction, so that other writes go between; it
/// is called until it finds nothing, by any node, in any order: the rows that are left say how far an erasure is.
///
/// Posts, comments, favourites and follows of the user are removed by the methods that remove those of any user; they
/// are listed by [`PersonalDataStore`](super::PersonalDataStore).
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Makes a user a tombstone and begins the erasure, in one transaction: the profile, what people find the user by,
    /// and the account with its password go, [`users`](super::PeopleStore::users) and
    /// [`profile`](super::PeopleStore::profile) do not answer the id any more, and the log of revocations gets an entry
    /// ([`RevocationKind::Erased`](super::RevocationKind::Erased)). An unused id becomes a tombstone, too. `false`, and
    /// nothing changes, if the user is a tombstone already.
    async fn begin_erasure(&self, user: &UserId, now: Millis) -> Result<bool>;

    /// Claims the erasure without a lease at `now` that waited longest.
    async fn claim_erasure(&self, now: Millis, lease: &ErasureLease) -> Result<Option<Erasure>>;

    /// Holds an erasure for longer and notes since when nothing was found. `false` if another than the lease's holder
    /// holds it by now: stop.
    async fn advance_erasure(&self, erasure: &Erasure, lease: &ErasureLease) -> Result<bool>;

    /// The erasure is finished. Nothing happens if another holds it by now.
    async fn finish_erasure(&self, user: &UserId, holder: &str) -> Result<()>;

    /// Removes posts of the user that were deleted before a time, with the comments, likes and favourites under them,
    /// whoever made those. How many rows: fewer than `limit` means that there are no more.
    async fn erase_deleted_posts(&self, user: &UserId, before: Millis, limit: usize) -> Result<usize>;

    /// Takes back likes of the user. The tallies of what was liked; empty if there are no more.
    async fn erase_likes(&self, user: &UserId, limit: usize) -> Result<Vec<(Object, Tally)>>;

    /// Takes the user out of the notifications of others. The groups that changed or went, with their owners; empty if
    /// there are no more.
    async fn erase_notices(&self, user: &UserId, limit: usize) -> Result<Vec<(UserId, NotificationId)>>;

    /// Removes restrictions and post alerts both ways, notifications to the user, the read marker and idempotency keys.
    /// How many rows: 0 if there are no more.
    async fn erase_rest(&self, user: &UserId, limit: usize) -> Result<usize>;
}
