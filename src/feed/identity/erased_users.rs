//! The erased users known to this node: all of their data is hidden at once, before it is removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::authorization_checks::AuthorizationChecks;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::error::FeedError;
use crate::feed::invalidation::Invalidated;
use crate::model::UserId;

/// The reason for refusing a token of an erased user.
pub(super) const ERASED_USER: FeedError =
    FeedError::Unauthorized("this user was erased, and the id is not given out again");

/// All erased users, at some 100 bytes each. Rendering looks up each post and user here: in memory, and at the cost of
/// one flag check if no user was ever erased.
pub(crate) struct ErasedUsers {
    any: AtomicBool,
    /// For each erased user, whether the erasure log of this node has the user.
    users: RwLock<HashMap<UserId, bool>>,
    /// Counts a hidden user as an invalidation.
    lease: Arc<CacheLease>,
    /// Closes the connections of hidden users.
    checks: Arc<AuthorizationChecks>,
    /// Wakes the follower of the ledger's revocation log, which also has the erasures.
    log_grown: Arc<Notify>,
}

impl ErasedUsers {
    /// An empty list. The ledger's log fills it.
    pub(crate) fn new(lease: Arc<CacheLease>, checks: Arc<AuthorizationChecks>, log_grown: Arc<Notify>) -> Self {
        Self { any: AtomicBool::new(false), users: RwLock::default(), lease, checks, log_grown }
    }

    /// Whether a user was erased.
    pub(crate) fn contains(&self, user: &UserId) -> bool {
        self.any.load(Ordering::Acquire) && self.users.read().contains_key(user)
    }

    /// Hides everything of a user on this node, and makes the gateway close the user's connections.
    pub(crate) fn hide(&self, user: &UserId) {
        if self.insert(user) {
            // Entries that are being rendered are rendered again.
            self.lease.count_invalidation(&Invalidation::Erased(user.clone()));
            self.checks.check_user(user);
            // The entry in the ledger's log arrives later, or is read now.
            self.log_grown.notify_one();
        }
    }

    /// Adds a user. `false` if the user was known.
    fn insert(&self, user: &UserId) -> bool {
        let mut users = self.users.write();
        let is_new = !users.contains_key(user);
        if is_new {
            users.insert(user.clone(), false);
            self.any.store(true, Ordering::Release);
        }
        is_new
    }

    /// Whether a user is in the erasure log of this node.
    pub(super) fn is_logged(&self, user: &UserId) -> bool {
        self.users.read().get(user) == Some(&true)
    }

    /// Notes that a user is in the erasure log of this node.
    pub(super) fn set_logged(&self, user: &UserId) {
        self.users.write().insert(user.clone(), true);
    }
}

impl Invalidated for ErasedUsers {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Erased(user) = change {
            self.hide(user);
        }
    }

    /// Erased users stay in the list. The log may have grown.
    fn clear(&self) {
        self.log_grown.notify_one();
    }
}
