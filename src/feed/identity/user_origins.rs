//! The origins of user ids. They are cached without expiry, because they never change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::broker::Invalidation;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::feed::runtime::now;
use crate::ledger::Ledger;
use crate::model::{UserId, UserOrigin};

/// Users whose origin is cached. When the cache is full it is cleared, and each user costs a ledger call again.
const CAPACITY: usize = 200_000;

/// The origins of users that are in the ledger.
pub(crate) struct UserOrigins {
    ledger: Arc<dyn Ledger>,
    cached: Mutex<HashMap<UserId, UserOrigin>>,
    /// Users that the ledger did not have at the last look-up. A request in the write-behind queue will record them.
    unrecorded: Mutex<HashSet<UserId>>,
}

impl UserOrigins {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, cached: Mutex::default(), unrecorded: Mutex::default() }
    }

    /// The origin of a user, if it is cached.
    pub(super) fn peek(&self, user: &UserId) -> Option<UserOrigin> {
        self.cached.lock().get(user).copied()
    }

    /// The origin of a user; `None` if the ledger does not have the user.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn get(&self, user: &UserId) -> Result<Option<UserOrigin>> {
        match self.peek(user) {
            Some(origin) => Ok(Some(origin)),
            None => Ok(self.ledger.user_origin(user).await?),
        }
    }

    /// The origin of a user. If the ledger does not have the user, creates one with the application as origin.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn ensure(&self, user: &UserId) -> Result<UserOrigin> {
        match self.peek(user) {
            Some(origin) => Ok(origin),
            None => {
                let origin = self.ledger.ensure_user(user, now()).await?;
                self.insert(user, origin);
                Ok(origin)
            }
        }
    }

    /// Caches the origin of a user.
    pub(super) fn insert(&self, user: &UserId, origin: UserOrigin) {
        let mut cached = self.cached.lock();
        if cached.len() >= CAPACITY {
            cached.clear();
        }
        cached.insert(user.clone(), origin);
        drop(cached);
        self.unrecorded.lock().remove(user);
    }

    /// Records that the ledger does not have a user yet.
    pub(super) fn note_unrecorded(&self, user: &UserId) {
        let mut unrecorded = self.unrecorded.lock();
        if unrecorded.len() >= CAPACITY {
            unrecorded.clear();
        }
        unrecorded.insert(user.clone());
    }

    /// Whether the ledger did not have a user at the last look-up.
    pub(super) fn was_unrecorded(&self, user: &UserId) -> bool {
        self.unrecorded.lock().contains(user)
    }
}

impl Invalidated for UserOrigins {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::User(user) | Invalidation::Erased(user) = change {
            self.cached.lock().remove(user);
            self.unrecorded.lock().remove(user);
        }
    }

    fn clear(&self) {
        self.cached.lock().clear();
        self.unrecorded.lock().clear();
    }
}
