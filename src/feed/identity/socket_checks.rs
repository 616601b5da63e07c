//! The sockets that are to be checked again: a token was revoked, or a user was blocked or erased.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ledger::{Revocation, RevocationKind};
use crate::model::UserId;

/// Users whose sockets are checked one by one; past it all sockets are.
const MAX_PENDING_USERS: usize = 1_000;

/// The sockets that new revocations may concern.
#[derive(Debug, Default)]
pub struct PendingChecks {
    /// The sockets of these users.
    pub users: HashSet<UserId>,
    /// All sockets.
    pub all: bool,
}

/// Submits checks to the gateway.
#[derive(Default)]
pub(crate) struct SocketChecks {
    pending: Mutex<PendingChecks>,
    changed: Notify,
}

impl SocketChecks {
    /// Waits for checks, and takes them.
    pub(crate) async fn next(&self) -> PendingChecks {
        self.changed.notified().await;
        std::mem::take(&mut *self.pending.lock())
    }

    /// Submits the sockets that entries of the ledger's log concern.
    pub(super) fn check_entries(&self, entries: &[(u64, Revocation)]) {
        let mut pending = self.pending.lock();
        for (_, entry) in entries {
            let user = match entry.kind {
                RevocationKind::Token => entry.owner.clone(),
                _ => UserId::parse(&entry.subject),
            };
            pending.add(user);
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Submits the sockets of a user.
    pub(super) fn check_user(&self, user: &UserId) {
        self.pending.lock().add(Some(user.clone()));
        self.changed.notify_one();
    }

    /// Submits all sockets.
    pub(super) fn check_all(&self) {
        self.pending.lock().all = true;
        self.changed.notify_one();
    }
}

impl PendingChecks {
    fn add(&mut self, user: Option<UserId>) {
        match user {
            Some(user) if self.users.len() < MAX_PENDING_USERS => drop(self.users.insert(user)),
            _ => self.all = true,
        }
    }
}
