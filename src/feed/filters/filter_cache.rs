//! The filters of readers, compiled and cached. While no user of the deployment has a filter, nothing is looked up.

use std::collections::HashMap;
use std::sync::Arc;

use super::word_search::ReaderFilters;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::SparseCache;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::Ledger;
use crate::model::{Filter, UserId};

/// The size of the cache, in bytes: some 5,000 readers with 50 words, and 100,000 without filters.
const CAPACITY: u64 = 64 << 20;

/// The maximal number of readers of one ledger call.
const MAX_READERS_PER_CALL: usize = 1_000;

/// The filters of readers, with a cache.
pub(crate) struct FilterCache {
    ledger: Arc<dyn Ledger>,
    cache: SparseCache<ReaderFilters>,
}

impl FilterCache {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: &Arc<CacheLease>) -> Self {
        Self { ledger, cache: SparseCache::new(lease, CAPACITY, ReaderFilters::bytes) }
    }

    /// The filters of the readers among these who have any.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn of_all<'a>(
        &self,
        readers: impl IntoIterator<Item = &'a UserId> + Send,
    ) -> Result<HashMap<UserId, Arc<ReaderFilters>>> {
        self.cache.of_all(readers, self.load_any(), async |missing| self.load(missing).await).await
    }

    /// Whether any user has a filter.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn has_any(&self) -> Result<bool> {
        self.cache.is_in_use(self.load_any()).await
    }

    async fn load_any(&self) -> Result<bool> {
        Ok(self.ledger.has_filters().await?)
    }

    async fn load(&self, readers: &[UserId]) -> Result<HashMap<UserId, Option<Arc<ReaderFilters>>>> {
        let mut stored: HashMap<UserId, Vec<Filter>> = HashMap::new();
        for some in readers.chunks(MAX_READERS_PER_CALL) {
            for (owner, filter) in self.ledger.filters_of(some).await? {
                stored.entry(owner).or_default().push(filter);
            }
        }
        let compile = |(reader, filters)| Ok((reader, Some(Arc::new(ReaderFilters::compile(filters)?))));
        stored.into_iter().map(compile).collect()
    }
}

impl Invalidated for FilterCache {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Filters(user) | Invalidation::User(user) = change {
            self.cache.invalidate(user);
        }
    }

    fn clear(&self) {
        self.cache.clear();
    }
}
