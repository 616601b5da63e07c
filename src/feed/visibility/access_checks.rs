//! Users whose open subscriptions must be checked again, because a relation of theirs changed.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::Invalidation;
use crate::feed::invalidation::Invalidated;
use crate::model::UserId;

/// Users that are checked individually; beyond this number, all connections are checked.
const MAX_PENDING_USERS: usize = 10_000;

/// The users whose access to posts and profiles may have changed.
#[derive(Debug, Default)]
pub(crate) struct PendingAccessChecks {
    /// These users.
    pub(crate) users: HashSet<UserId>,
    /// All users.
    pub(crate) all: bool,
}

/// Passes checks to the gateway. Every node receives the invalidations of a change, so every node checks its own
/// connections.
#[derive(Default)]
pub(crate) struct AccessChecks {
    pending: Mutex<PendingAccessChecks>,
    changed: Notify,
}

impl AccessChecks {
    /// Waits for checks, and returns them.
    pub(crate) async fn next(&self) -> PendingAccessChecks {
        self.changed.notified().await;
        std::mem::take(&mut *self.pending.lock())
    }

    /// Submits all users.
    pub(crate) fn check_all(&self) {
        self.pending.lock().all = true;
        self.changed.notify_one();
    }
}

impl Invalidated for AccessChecks {
    /// Submits both users of a relation, or all users after a change of a standing. A changed post needs no check: its
    /// channel says that it is gone.
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Standing(_) = change {
            // Anybody may be subscribed to the user's posts.
            return self.check_all();
        }
        let Invalidation::Relation(one, other) = change else { return };
        let mut pending = self.pending.lock();
        if pending.users.len() < MAX_PENDING_USERS {
            pending.users.extend([one.clone(), other.clone()]);
        } else {
            pending.all = true;
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// This node may have missed changes between any users.
    fn clear(&self) {
        self.check_all();
    }
}
