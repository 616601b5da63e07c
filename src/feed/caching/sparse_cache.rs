//! A cache of what few users have. While no user of the deployment has any, nothing is looked up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::coherent_cache::CoherentCache;
use crate::broker::CacheLease;
use crate::feed::error::Result;
use crate::model::UserId;

/// How long entries are cached. A change is in force on every node before its reply. If the ledger loses its connection
/// during a write that it commits, this limits how long nodes can miss the change.
const TTL: Duration = Duration::from_secs(600);

/// Whether any user of the deployment has something, cached.
pub(crate) struct UsageFlag(CoherentCache<(), bool>);

impl UsageFlag {
    /// An unknown flag.
    pub(crate) fn new(lease: &Arc<CacheLease>) -> Self {
        Self(CoherentCache::new(Arc::clone(lease), 1, TTL))
    }

    /// The flag, from the cache or from `load`.
    ///
    /// # Errors
    /// If `load` fails.
    pub(crate) async fn get(&self, load: impl Future<Output = Result<bool>> + Send) -> Result<bool> {
        if let Some(known) = self.0.reader().get(&()) {
            return Ok(known);
        }
        let ticket = self.0.ticket(&());
        let any = load.await?;
        self.0.fill((), ticket, any);
        Ok(any)
    }

    /// Drops the flag: a user may have begun or ceased to have something.
    pub(crate) fn invalidate(&self) {
        self.0.invalidate(&());
    }

    /// Drops the flag: this node may have missed a change.
    pub(crate) fn clear(&self) {
        self.0.invalidate_all();
    }
}

/// The values of users.
pub(crate) struct SparseCache<V> {
    any: UsageFlag,
    /// `None`: the user has no value.
    values: CoherentCache<UserId, Option<Arc<V>>>,
}

impl<V: Send + Sync + 'static> SparseCache<V> {
    /// An empty cache of `capacity` bytes. `bytes`: the size of a value.
    pub(crate) fn new(lease: &Arc<CacheLease>, capacity: u64, bytes: fn(&V) -> usize) -> Self {
        let weigh = move |user: &UserId, value: &Option<Arc<V>>| {
            let bytes = user.as_str().len() + value.as_ref().map_or(0, |value| bytes(value)) + 256;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let values = CoherentCache::weighing(Arc::clone(lease), capacity, TTL, weigh);
        Self { any: UsageFlag::new(lease), values }
    }

    /// The values of the users among these who have one. `load` gets the users that are not cached, each once.
    ///
    /// # Errors
    /// If `load` or `has_any` fails.
    pub(crate) async fn of_all<'a>(
        &self,
        users: impl IntoIterator<Item = &'a UserId> + Send,
        has_any: impl Future<Output = Result<bool>> + Send,
        load: impl AsyncFnOnce(&[UserId]) -> Result<HashMap<UserId, Option<Arc<V>>>>,
    ) -> Result<HashMap<UserId, Arc<V>>> {
        if !self.is_in_use(has_any).await? {
            return Ok(HashMap::new());
        }
        let found = self.values.get_or_load(users.into_iter().cloned(), load).await?;
        Ok(found.into_iter().filter_map(|(user, value)| Some((user, value?))).collect())
    }

    /// Whether any user has a value.
    ///
    /// # Errors
    /// If `has_any` fails.
    pub(crate) async fn is_in_use(&self, has_any: impl Future<Output = Result<bool>> + Send) -> Result<bool> {
        self.any.get(has_any).await
    }

    /// Drops the value of a user: it changed.
    pub(crate) fn invalidate(&self, user: &UserId) {
        self.values.invalidate(user);
        self.any.invalidate();
    }

    /// Drops everything: this node may have missed changes.
    pub(crate) fn clear(&self) {
        self.values.invalidate_all();
        self.any.clear();
    }
}
