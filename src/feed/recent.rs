//! What was said lately, for a while: a bounded map that costs little more than a map.
//!
//! Entries are in one of two generations. When the young one is full, or has had half the time that entries are kept, it
//! becomes the old one, and what was in the old one goes. So an entry is kept for at least half of that time if there is
//! room, and never longer than all of it after it was last said, or kept. A cache that knows which entries are asked for most keeps better ones; each
//! look at it costs several times as much, and here each is looked at a few times at most.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use parking_lot::RwLock;

/// Such a map.
pub(super) struct Recent<K, V> {
    /// How many entries a generation may hold, and for how long it is the young one.
    most: usize,
    youth: Duration,
    /// Entries of the young generation; more than there are where some were removed.
    count: AtomicUsize,
    generations: RwLock<Generations<K, V>>,
}

struct Generations<K, V> {
    young: DashMap<K, V>,
    old: DashMap<K, V>,
    since: Instant,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// Holds at most so many, each for at most so long.
    pub(super) fn new(most: usize, life: Duration) -> Self {
        let generations = Generations { young: DashMap::new(), old: DashMap::new(), since: Instant::now() };
        Self { most: most / 2, youth: life / 2, count: AtomicUsize::new(0), generations: RwLock::new(generations) }
    }

    /// What was said of `key` last.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.turn(usize::MAX);
        let generations = self.generations.read();
        let found = generations.young.get(key).or_else(|| generations.old.get(key));
        found.map(|value| value.clone())
    }

    /// What was said of `key` last, which is as good as said again.
    pub(super) fn keep(&self, key: &K) -> Option<V>
    where
        K: Clone,
    {
        self.turn(self.most);
        let generations = self.generations.read();
        if let Some(young) = generations.young.get(key) {
            return Some(young.clone());
        }
        let old = generations.old.get(key)?.clone();
        // It stays in the old one too, so that whoever looks meanwhile finds it in one of them.
        let begin = || {
            self.count.fetch_add(1, Ordering::Relaxed);
            old
        };
        Some(generations.young.entry(key.clone()).or_insert_with(begin).clone())
    }

    /// Says something of `key`. What was said of it before.
    pub(super) fn insert(&self, key: K, value: V) -> Option<V> {
        self.turn(self.most);
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

    /// What was said of `key`, or what is said now if nothing was.
    pub(super) fn get_or_insert(&self, key: K, value: impl FnOnce() -> V) -> V {
        self.turn(self.most);
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

    /// Forgets what was said of `key`.
    pub(super) fn remove(&self, key: &K) {
        let generations = self.generations.read();
        generations.young.remove(key);
        generations.old.remove(key);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let mut generations = self.generations.write();
        *generations = Generations { young: DashMap::new(), old: DashMap::new(), since: Instant::now() };
        self.count.store(0, Ordering::Relaxed);
    }

    /// Begins a new generation if it is time, or this one has `most` entries.
    fn turn(&self, most: usize) {
        let due = |generations: &Generations<K, V>| {
            self.count.load(Ordering::Relaxed) >= most || generations.since.elapsed() >= self.youth
        };
        if !due(&self.generations.read()) {
            return;
        }
        let mut generations = self.generations.write();
        // Somebody else may have been quicker.
        if !due(&generations) {
            return;
        }
        // Nobody came for so long that the young ones have had all their time too.
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
    fn the_last_word_counts_in_either_generation() {
        let recent = Recent::new(4, LONG);
        assert_eq!((recent.insert(1, 'a'), recent.insert(1, 'b')), (None, Some('a')));
        // Two are a generation: the next one begins another.
        recent.insert(2, 'c');
        recent.insert(3, 'd');
        assert_eq!([1, 2, 3].map(|key| recent.get(&key)), [Some('b'), Some('c'), Some('d')]);
        assert_eq!(recent.insert(1, 'e'), Some('b'));
        assert_eq!(recent.get(&1), Some('e'));
        assert_eq!(recent.get_or_insert(1, || 'x'), 'e');
        assert_eq!(recent.get_or_insert(9, || 'x'), 'x');
        recent.remove(&9);
        assert_eq!(recent.get(&9), None);
        recent.clear();
        assert_eq!(recent.get(&1), None);
    }

    #[test]
    fn what_is_kept_lives_on() {
        let recent = Recent::new(4, LONG);
        recent.insert(1, 'a');
        recent.insert(2, 'b');
        recent.insert(3, 'c');
        assert_eq!((recent.keep(&1), recent.keep(&9)), (Some('a'), None));
        // The third generation: what the first held and was not kept is gone.
        recent.insert(4, 'd');
        assert_eq!([1, 2, 3, 4].map(|key| recent.get(&key)), [Some('a'), None, Some('c'), Some('d')]);
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        let recent = Recent::new(100, LONG);
        for key in 0..1_000 {
            recent.insert(key, ());
        }
        let kept = (0..1_000).filter(|key| recent.get(key).is_some()).count();
        assert!((50..=100).contains(&kept), "{kept}");
        assert!(recent.get(&999).is_some());
    }

    #[test]
    fn none_is_kept_for_longer_than_may_be() {
        let recent = Recent::new(100, Duration::from_millis(40));
        recent.insert(1, ());
        assert!(recent.get(&1).is_some());
        std::thread::sleep(Duration::from_millis(41));
        assert!(recent.get(&1).is_none());
    }
}
