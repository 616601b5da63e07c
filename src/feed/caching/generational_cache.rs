//! A bounded cache of recent values that costs little more than a map.
//!
//! Recent values live in two generations. When the young generation is full, or half of the time to live has passed, it
//! becomes the old generation, and the former old generation is dropped. Given enough room, an entry lives for at least
//! half of its time to live. It never lives longer than the full time to live after its last write or
//! [`keep`](GenerationalCache::keep). An LRU cache selects entries better, but each look-up costs several times as
//! much; here each entry is read a few times at most.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use parking_lot::RwLock;

/// The cache.
pub(crate) struct GenerationalCache<K, V> {
    /// Entries that a generation may hold.
    capacity: usize,
    /// The period in which a generation is the young one: half of the time to live.
    youth: Duration,
    /// Entries written to the young generation. Removals are not subtracted.
    count: AtomicUsize,
    generations: RwLock<Generations<K, V>>,
}

struct Generations<K, V> {
    young: DashMap<K, V>,
    old: DashMap<K, V>,
    since: Instant,
}

impl<K: Eq + Hash, V: Clone> GenerationalCache<K, V> {
    /// An empty cache of at most `capacity` entries, each kept for at most `ttl`.
    pub(crate) fn new(capacity: usize, ttl: Duration) -> Self {
        let generations = Generations { young: DashMap::new(), old: DashMap::new(), since: Instant::now() };
        Self {
            capacity: capacity / 2,
            youth: ttl / 2,
            count: AtomicUsize::new(0),
            generations: RwLock::new(generations),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.rotate(usize::MAX);
        let generations = self.generations.read();
        let found = generations.young.get(key).or_else(|| generations.old.get(key));
        found.map(|value| value.clone())
    }

    /// The value of a key. Extends its life as a new write would.
    pub(crate) fn keep(&self, key: &K) -> Option<V>
    where
        K: Clone,
    {
        self.rotate(self.capacity);
        let generations = self.generations.read();
        if let Some(young) = generations.young.get(key) {
            return Some(young.clone());
        }
        let old = generations.old.get(key)?.clone();
        // The entry stays in the old generation too, so that concurrent readers find it in one of the two.
        let begin = || {
            self.count.fetch_add(1, Ordering::Relaxed);
            old
        };
        Some(generations.young.entry(key.clone()).or_insert_with(begin).clone())
    }

    /// Writes a value. Returns the former one.
    pub(crate) fn insert(&self, key: K, value: V) -> Option<V> {
        self.rotate(self.capacity);
        let generations = self.generations.read();
        let old = generations.old.remove(&key).map(|(_, value)| value);
        match generations.young.insert(key, value) {
            Some(before) => Some(before),
            None => {
                self.count.fetch_add(1, Ordering::Relaxed);
                old
            }
        }
    }

    /// The value of a key; without one, writes `value` and returns it.
    pub(crate) fn get_or_insert(&self, key: K, value: impl FnOnce() -> V) -> V {
        self.rotate(self.capacity);
        let generations = self.generations.read();
        if let Some(old) = generations.old.get(&key) {
            return old.clone();
        }
        let entry = generations.young.entry(key).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            value()
        });
        entry.clone()
    }

    /// Removes a key.
    pub(crate) fn remove(&self, key: &K) {
        let generations = self.generations.read();
        generations.young.remove(key);
        generations.old.remove(key);
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) {
        let mut generations = self.generations.write();
        *generations = Generations { young: DashMap::new(), old: DashMap::new(), since: Instant::now() };
        self.count.store(0, Ordering::Relaxed);
    }

    /// Starts a new generation if the young one has expired or has `capacity` entries.
    fn rotate(&self, capacity: usize) {
        let due = |generations: &Generations<K, V>| {
            self.count.load(Ordering::Relaxed) >= capacity || generations.since.elapsed() >= self.youth
        };
        if !due(&self.generations.read()) {
            return;
        }
        let mut generations = self.generations.write();
        // Another thread may have rotated already.
        if !due(&generations) {
            return;
        }
        // The cache was idle for so long that the young generation has expired too.
        let all = generations.since.elapsed() >= 2 * self.youth;
        let young = std::mem::take(&mut generations.young);
        generations.old = if all { DashMap::new() } else { young };
        generations.since = Instant::now();
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn the_last_write_wins_in_either_generation() {
        let cache = GenerationalCache::new(4, LONG);
        assert_eq!((cache.insert(1, 'a'), cache.insert(1, 'b')), (None, Some('a')));
        // A generation holds two entries: the next insert starts another.
        cache.insert(2, 'c');
        cache.insert(3, 'd');
        assert_eq!([1, 2, 3].map(|key| cache.get(&key)), [Some('b'), Some('c'), Some('d')]);
        assert_eq!(cache.insert(1, 'e'), Some('b'));
        assert_eq!(cache.get(&1), Some('e'));
        assert_eq!(cache.get_or_insert(1, || 'x'), 'e');
        assert_eq!(cache.get_or_insert(9, || 'x'), 'x');
        cache.remove(&9);
        assert_eq!(cache.get(&9), None);
        cache.clear();
        assert_eq!(cache.get(&1), None);
    }

    #[test]
    fn keep_extends_the_life_of_an_entry() {
        let cache = GenerationalCache::new(4, LONG);
        cache.insert(1, 'a');
        cache.insert(2, 'b');
        cache.insert(3, 'c');
        assert_eq!((cache.keep(&1), cache.keep(&9)), (Some('a'), None));
        // The third generation: entries of the first that were not kept are gone.
        cache.insert(4, 'd');
        assert_eq!([1, 2, 3, 4].map(|key| cache.get(&key)), [Some('a'), None, Some('c'), Some('d')]);
    }

    #[test]
    fn the_capacity_is_a_bound() {
        let cache = GenerationalCache::new(100, LONG);
        for key in 0..1_000 {
            cache.insert(key, ());
        }
        let kept = (0..1_000).filter(|key| cache.get(key).is_some()).count();
        assert!((50..=100).contains(&kept), "{kept}");
        assert!(cache.get(&999).is_some());
    }

    #[test]
    fn the_time_to_live_is_a_bound() {
        let cache = GenerationalCache::new(100, Duration::from_millis(40));
        cache.insert(1, ());
        assert!(cache.get(&1).is_some());
        std::thread::sleep(Duration::from_millis(41));
        assert!(cache.get(&1).is_none());
    }
}
