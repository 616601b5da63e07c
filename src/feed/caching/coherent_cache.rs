//! A cache that never serves an entry removed by an invalidation in force.
//!
//! Three rules ensure this. Entries are used only while this node holds its [`CacheLease`]. An invalidation removes an
//! entry at once. A fetch that was under way when its key was invalidated may have read the state before the change, so
//! it must not fill the cache: callers take a [`ticket`](CoherentCache::ticket) before the fetch, and
//! [`fill`](CoherentCache::fill) compares it under the lock that invalidation takes too.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;

use crate::broker::CacheLease;

/// The number of generation counters that keys share. An invalidation discards the results of one in 256 of the fetches
/// in progress.
const SHARDS: usize = 256;

/// The cache.
pub(crate) struct CoherentCache<K, V> {
    /// The entries, each with the value of `life` at which it was filled.
    entries: Cache<K, (u64, V)>,
    lease: Arc<CacheLease>,
    /// Incremented when everything is invalidated.
    life: AtomicU64,
    /// For each shard, the number of invalidations of its keys.
    generations: Box<[Mutex<u64>]>,
    hasher: RandomState,
}

/// Permission to fill a key with the result of a fetch that starts after the ticket was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillTicket {
    generation: u64,
    life: u64,
}

/// A reader of the cache for one request.
pub(crate) struct CacheReader<'a, K, V> {
    entries: Option<&'a Cache<K, (u64, V)>>,
    life: u64,
}

impl<K, V> CacheReader<'_, K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The cached value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let (life, value) = self.entries?.get(key)?;
        (life == self.life).then_some(value)
    }

    /// Whether the cache may be used.
    pub(crate) fn is_usable(&self) -> bool {
        self.entries.is_some()
    }
}

impl<K, V> CoherentCache<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty cache of at most `capacity` entries, each valid for `ttl`.
    pub(crate) fn new(lease: Arc<CacheLease>, capacity: u64, ttl: Duration) -> Self {
        Self::build(lease, Cache::builder().max_capacity(capacity).time_to_live(ttl).build())
    }

    /// An empty cache bounded by the total weight of its entries.
    pub(crate) fn weighing(
        lease: Arc<CacheLease>,
        capacity: u64,
        ttl: Duration,
        weigh: impl Fn(&K, &V) -> u32 + Send + Sync + 'static,
    ) -> Self {
        let weigher = move |key: &K, (_, value): &(u64, V)| weigh(key, value);
        Self::build(lease, Cache::builder().max_capacity(capacity).weigher(weigher).time_to_live(ttl).build())
    }

    fn build(lease: Arc<CacheLease>, entries: Cache<K, (u64, V)>) -> Self {
        let generations = std::iter::repeat_with(Mutex::default).take(SHARDS).collect();
        Self { entries, lease, life: AtomicU64::new(0), generations, hasher: RandomState::new() }
    }

    /// Returns a reader of the cache. Call it after the request began: the reader checks the lease at this moment.
    pub(crate) fn reader(&self) -> CacheReader<'_, K, V> {
        let entries = self.lease.is_held().then_some(&self.entries);
        CacheReader { entries, life: self.life.load(Ordering::SeqCst) }
    }

    /// Takes a ticket to fill a key. Call it before the fetch.
    pub(crate) fn ticket(&self, key: &K) -> FillTicket {
        let life = self.life.load(Ordering::SeqCst);
        FillTicket { generation: *self.shard(key).lock(), life }
    }

    /// Whether no known invalidation affected a key since the ticket was taken. Always false while this node does not
    /// hold its cache lease.
    pub(crate) fn is_current(&self, key: &K, ticket: FillTicket) -> bool {
        let FillTicket { generation, life } = self.ticket(key);
        self.lease.is_held() && (generation, life) == (ticket.generation, ticket.life)
    }

    /// Fills a key with a fetched value, unless the key was invalidated since the ticket was taken.
    pub(crate) fn fill(&self, key: K, ticket: FillTicket, value: V) {
        let generation = self.shard(&key).lock();
        if *generation == ticket.generation {
            // An entry of an earlier `life` is not served.
            self.entries.insert(key, (ticket.life, value));
        }
    }

    /// The values of these keys, from the cache or from `load`, which gets the missing keys, each once. A key that it
    /// returns no value of has the default one.
    pub(crate) async fn get_or_load<E, S>(
        &self,
        keys: impl IntoIterator<Item = K>,
        load: impl AsyncFnOnce(&[K]) -> Result<HashMap<K, V, S>, E>,
    ) -> Result<HashMap<K, V, S>, E>
    where
        V: Default,
        S: BuildHasher + Default,
    {
        let mut found = HashMap::default();
        let mut missing = HashSet::new();
        let cached = self.reader();
        for key in keys {
            match cached.get(&key) {
                Some(value) => drop(found.insert(key, value)),
                None => drop(missing.insert(key)),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let missing = Vec::from_iter(missing);
        let tickets: Vec<FillTicket> = missing.iter().map(|key| self.ticket(key)).collect();
        let mut loaded = load(&missing).await?;
        for (key, ticket) in missing.into_iter().zip(tickets) {
            let value = loaded.remove(&key).unwrap_or_default();
            self.fill(key.clone(), ticket, value.clone());
            found.insert(key, value);
        }
        Ok(found)
    }

    /// Drops a key, and discards fetches of it that are under way.
    pub(crate) fn invalidate(&self, key: &K) {
        let mut generation = self.shard(key).lock();
        *generation += 1;
        self.entries.invalidate(key);
    }

    /// Drops all keys, and discards all fetches under way.
    pub(crate) fn invalidate_all(&self) {
        self.life.fetch_add(1, Ordering::SeqCst);
        self.entries.invalidate_all();
    }

    /// Drops the entries that match the predicate, and discards all fetches under way. Scans the whole cache.
    pub(crate) fn invalidate_where(&self, is_so: impl Fn(&K, &V) -> bool) {
        self.generations.iter().for_each(|generation| *generation.lock() += 1);
        for (key, (_, value)) in &self.entries {
            if is_so(&key, &value) {
                self.entries.invalidate(&*key);
            }
        }
    }

    fn shard(&self, key: &K) -> &Mutex<u64> {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        &self.generations[hash]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(lease: CacheLease) -> CoherentCache<u32, &'static str> {
        CoherentCache::new(Arc::new(lease), 100, Duration::from_secs(60))
    }

    fn fill(cache: &CoherentCache<u32, &'static str>, key: u32, value: &'static str) {
        cache.fill(key, cache.ticket(&key), value);
    }

    #[test]
    fn overtaken_fetches_do_not_fill_the_cache() {
        let cache = cache(CacheLease::unlimited());
        let ticket = cache.ticket(&1);
        cache.invalidate(&1);
        cache.fill(1, ticket, "old");
        assert_eq!(cache.reader().get(&1), None);
        fill(&cache, 1, "new");
        assert_eq!(cache.reader().get(&1), Some("new"));

        let ticket = cache.ticket(&2);
        cache.invalidate_all();
        cache.fill(2, ticket, "old");
        assert_eq!((cache.reader().get(&1), cache.reader().get(&2)), (None, None));
        fill(&cache, 2, "new");
        assert_eq!(cache.reader().get(&2), Some("new"));

        let ticket = cache.ticket(&3);
        fill(&cache, 4, "stays");
        cache.invalidate_where(|_, value| *value == "new");
        cache.fill(3, ticket, "old");
        assert_eq!([2, 3, 4].map(|key| cache.reader().get(&key)), [None, None, Some("stays")]);
    }

    #[test]
    fn without_a_lease_nothing_is_served() {
        let cache = cache(CacheLease::lapsed());
        fill(&cache, 1, "cached");
        assert!(!cache.reader().is_usable());
        assert_eq!(cache.reader().get(&1), None);
        cache.lease.renew(CacheLease::clocks());
        assert_eq!(cache.reader().get(&1), Some("cached"));
    }

    #[test]
    fn readers_see_no_earlier_invalidated_value() {
        let cache = cache(CacheLease::unlimited());
        let truth = AtomicU64::new(0);
        let cache: &CoherentCache<u32, &'static str> = &cache;
        let confirmed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while truth.load(Ordering::SeqCst) < 2_000 {
                        let ticket = cache.ticket(&1);
                        let read = truth.load(Ordering::SeqCst);
                        cache.fill(1, ticket, NAMES[(read % 4) as usize]);
                        let before = confirmed.load(Ordering::SeqCst);
                        if let Some(found) = cache.reader().get(&1) {
                            let now = truth.load(Ordering::SeqCst);
                            let fresh = (before..=now).any(|it| NAMES[(it % 4) as usize] == found);
                            assert!(fresh, "{found} between {before} and {now}");
                        }
                    }
                });
            }
            for version in 1..=2_000 {
                truth.store(version, Ordering::SeqCst);
                cache.invalidate(&1);
                confirmed.store(version, Ordering::SeqCst);
            }
        });
    }

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
}
