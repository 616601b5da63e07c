//! Users whose open subscriptions must be checked again, because a relation of theirs changed.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::Invalidation;
use crate::feed::invalidation::Invalidated;
use crate::model::UserId;

/// Users, and authors, that are checked individually; beyond this number, all connections are checked.
const MAX_PENDING_USERS: usize = 10_000;

/// The users whose access to posts and profiles may have changed.
#[derive(Debug, Default)]
pub(crate) struct PendingAccessChecks {
    /// These users: all of their subscriptions.
    pub(crate) users: HashSet<UserId>,
    /// The subscribers of the profiles and posts of these authors.
    pub(crate) authors: HashSet<UserId>,
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
    /// Submits both users of a relation, or the author whose standing or lock changed. A changed post needs no check:
    /// its channel says that it is gone.
    fn apply(&self, change: &Invalidation) {
        let mut pending = self.pending.lock();
        match change {
            Invalidation::Relation(one, other) => pending.users.extend([one.clone(), other.clone()]),
            // A list of the user may be deleted.
            Invalidation::Lists(user) => pending.users.extend([user.clone()]),
            Invalidation::Standing(author) | Invalidation::Locked(author) => pending.authors.extend([author.clone()]),
            _ => return,
        }
        pending.all |= pending.users.len().max(pending.authors.len()) > MAX_PENDING_USERS;
        drop(pending);
        self.changed.notify_one();
    }

    /// This node may have missed changes between any users.
    fn clear(&self) {
        self.check_all();
    }
}
