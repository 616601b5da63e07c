//! A cache that never serves what an invalidation in force has removed.
//!
//! Three things make it so. Entries are used only while this node holds its [`CacheLease`]. An invalidation removes an
//! entry at once. And a fetch that was under way when its key was invalidated may have read the state before the
//! change, so it must not fill the cache: [`ticket`](CoherentCache::ticket) is taken before the fetch,
//! [`fill`](CoherentCache::fill) compares it under the lock that invalidation takes too.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;

use crate::broker::CacheLease;

/// Keys share this many generation counters: an invalidation keeps one in 256 of the fetches under way from filling.
const SHARDS: usize = 256;

/// The cache.
pub(crate) struct CoherentCache<K, V> {
    /// With the life of the cache in which each was filled.
    entries: Cache<K, (u64, V)>,
    lease: Arc<CacheLease>,
    /// Grows when everything is invalidated.
    life: AtomicU64,
    /// By shard, how often one of its keys was invalidated.
    generations: Box<[Mutex<u64>]>,
    hasher: RandomState,
}

/// Permission to fill a key with what is fetched from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillTicket {
    generation: u64,
    life: u64,
}

/// A look into the cache on behalf of one request.
pub(crate) struct CacheReader<'a, K, V> {
    entries: Option<&'a Cache<K, (u64, V)>>,
    life: u64,
}

impl<K, V> CacheReader<'_, K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// What is cached of a key.
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
    /// An empty cache of at most so many entries, each used for at most so long.
    pub(crate) fn new(lease: Arc<CacheLease>, capacity: u64, ttl: Duration) -> Self {
        Self::build(lease, Cache::builder().max_capacity(capacity).time_to_live(ttl).build())
    }

    /// An empty cache whose entries weigh so much together at most.
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

    /// Looks into the cache. Call it after the request it is for began: what the lease says holds for that moment.
    pub(crate) fn reader(&self) -> CacheReader<'_, K, V> {
        let entries = self.lease.is_held().then_some(&self.entries);
        CacheReader { entries, life: self.life.load(Ordering::SeqCst) }
    }

    /// Takes permission to fill a key. Before the fetch.
    pub(crate) fn ticket(&self, key: &K) -> FillTicket {
        let life = self.life.load(Ordering::SeqCst);
        FillTicket { generation: *self.shard(key).lock(), life }
    }

    /// Whether a key has not been invalidated since the ticket was taken, for all that this node knows. Without its
    /// lease it does not know.
    pub(crate) fn is_current(&self, key: &K, ticket: FillTicket) -> bool {
        let FillTicket { generation, life } = self.ticket(key);
        self.lease.is_held() && (generation, life) == (ticket.generation, ticket.life)
    }

    /// Fills a key with what was fetched, unless it was invalidated since the ticket was taken.
    pub(crate) fn fill(&self, key: K, ticket: FillTicket, value: V) {
        let generation = self.shard(&key).lock();
        if *generation == ticket.generation {
            // Of an earlier life it is not served.
            self.entries.insert(key, (ticket.life, value));
        }
    }

    /// Drops a key, and what is being fetched of it.
    pub(crate) fn invalidate(&self, key: &K) {
        let mut generation = self.shard(key).lock();
        *generation += 1;
        self.entries.invalidate(key);
    }

    /// Drops everything, and whatever is being fetched.
    pub(crate) fn invalidate_all(&self) {
        self.life.fetch_add(1, Ordering::SeqCst);
        self.entries.invalidate_all();
    }

    /// Drops the entries of which it is so, and everything that is being fetched. Looks at all of them.
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
