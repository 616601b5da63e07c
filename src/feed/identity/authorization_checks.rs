//! Connections whose authorization must be checked again: a token was revoked, or a user was blocked or erased.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ledger::{Revocation, RevocationKind};
use crate::model::UserId;

/// Users that are checked individually; beyond this number, the connections of all users are checked.
const MAX_PENDING_USERS: usize = 1_000;

/// The connections that new revocations may concern.
#[derive(Debug, Default)]
pub struct PendingChecks {
    /// The connections of these users.
    pub users: HashSet<UserId>,
    /// The connections of all users, anonymous clients included.
    pub all: bool,
}

/// Passes checks to the gateway.
#[derive(Default)]
pub(crate) struct AuthorizationChecks {
    pending: Mutex<PendingChecks>,
    changed: Notify,
}

impl AuthorizationChecks {
    /// Waits for checks, and returns them.
    pub(crate) async fn next(&self) -> PendingChecks {
        self.changed.notified().await;
        std::mem::take(&mut *self.pending.lock())
    }

    /// Submits the users that entries of the ledger's log concern.
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

    /// Submits a user.
    pub(super) fn check_user(&self, user: &UserId) {
        self.pending.lock().add(Some(user.clone()));
        self.changed.notify_one();
    }

    /// Submits all users.
    pub(crate) fn check_all(&self) {
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
