//! The erased users as this node knows them. The ledger's log of revocations says who they are; every node follows
//! it, see `feed/revocations.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::ErasureLog;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::invalidation::Invalidated;
use crate::feed::revocations::Revocations;
use crate::ledger::{Revocation, RevocationKind};
use crate::model::{Millis, UserId};

/// Everyone who was ever erased: some 100 bytes each. It is asked for each post and person that is shown, so that it is in
/// memory, and costs one look at a flag where nobody was erased.
#[derive(Default)]
pub(crate) struct ErasedUsers {
    any: AtomicBool,
    /// Whether each is in the erasure log of this node.
    users: RwLock<HashMap<UserId, bool>>,
}

impl ErasedUsers {
    /// Whether a user was erased.
    pub(in crate::feed) fn contains(&self, user: &UserId) -> bool {
        self.any.load(Ordering::Acquire) && self.users.read().contains_key(user)
    }

    /// Adds a user. `false` if they were known.
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

/// What erasures need.
pub(in crate::feed) struct Erasures {
    pub(in crate::feed) users: Arc<ErasedUsers>,
    /// There may be an erasure to work on.
    pub(in crate::feed) wake: Notify,
    /// Entries of the ledger's log that may not be in the erasure log of this node yet.
    pub(in crate::feed) unlogged: Mutex<Vec<(UserId, Millis)>>,
    pub(super) log: ErasureLog,
    /// Counts what is hidden as an invalidation.
    lease: Arc<CacheLease>,
    /// Follows the log, and closes sockets.
    revocations: Arc<Revocations>,
}

impl Erasures {
    pub(in crate::feed) fn new(log: ErasureLog, lease: Arc<CacheLease>, revocations: Arc<Revocations>) -> Self {
        Self { users: Arc::default(), wake: Notify::new(), unlogged: Mutex::default(), log, lease, revocations }
    }

    /// Hides everything of an erased user on this node.
    pub(in crate::feed) fn hide(&self, user: &UserId) {
        if self.users.insert(user) {
            // What is being put together now is looked at again.
            self.lease.count_invalidation();
            // The entry in the log comes later, or is read now.
            self.revocations.check_user(user);
            self.revocations.grown.notify_one();
        }
    }

    /// Hides the users whom entries of the ledger's log erase. Answers who they are, and when they were erased.
    pub(in crate::feed) fn hide_in(&self, entries: &[(u64, Revocation)]) -> Vec<(UserId, Millis)> {
        let erased = entries.iter().filter(|(_, entry)| entry.kind == RevocationKind::Erased);
        let erased: Vec<_> = erased.filter_map(|(_, entry)| Some((UserId::parse(&entry.subject)?, entry.at))).collect();
        erased.iter().for_each(|(user, _)| self.hide(user));
        if !erased.is_empty() {
            self.wake.notify_one();
        }
        erased
    }
}

impl Invalidated for Erasures {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Erased(user) = change {
            self.hide(user);
        }
    }

    /// The log may have grown.
    fn clear(&self) {
        self.revocations.grown.notify_one();
    }
}
