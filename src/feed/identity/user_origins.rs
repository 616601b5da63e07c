//! The origins of user ids, and their spellings. They are cached without expiry, because they never change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::broker::Invalidation;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::feed::runtime::now;
use crate::ledger::{KnownUser, Ledger};
use crate::model::{UserId, UserOrigin};

/// Users whose origin is cached. When the cache is full it is cleared, and each user costs a ledger call again.
const CAPACITY: usize = 200_000;

/// The origins of users that are in the ledger. The ids are as first written.
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

    /// A user with the origin, if they are cached.
    pub(super) fn peek(&self, user: &UserId) -> Option<KnownUser> {
        let cached = self.cached.lock();
        let (id, origin) = cached.get_key_value(user)?;
        Some(KnownUser { id: id.clone(), origin: *origin })
    }

    /// A user with the origin; `None` if the ledger does not have the user.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn get(&self, user: &UserId) -> Result<Option<KnownUser>> {
        match self.peek(user) {
            Some(known) => Ok(Some(known)),
            None => Ok(self.ledger.user_origin(user).await?),
        }
    }

    /// A user with the origin. If the ledger does not have the user, creates one with the application as origin.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn ensure(&self, user: &UserId) -> Result<KnownUser> {
        match self.peek(user) {
            Some(known) => Ok(known),
            None => {
                let known = self.ledger.ensure_user(user, now()).await?;
                self.insert(&known);
                Ok(known)
            }
        }
    }

    /// Those of these users that exist, with their ids as first written. One ledger call, if some are not cached.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn spellings<'a>(&self, ids: impl Iterator<Item = &'a UserId>) -> Result<HashSet<UserId>> {
        let mut known = HashSet::new();
        let mut missing = Vec::new();
        for id in ids {
            match self.peek(id) {
                Some(user) => known.extend([user.id]),
                None => missing.push(id.clone()),
            }
        }
        if !missing.is_empty() {
            known.extend(self.ledger.users(&missing).await?.into_iter().map(|user| user.id));
        }
        Ok(known)
    }

    /// Caches a user with the origin.
    pub(super) fn insert(&self, known: &KnownUser) {
        let mut cached = self.cached.lock();
        if cached.len() >= CAPACITY {
            cached.clear();
        }
        cached.insert(known.id.clone(), known.origin);
        drop(cached);
        self.unrecorded.lock().remove(&known.id);
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
