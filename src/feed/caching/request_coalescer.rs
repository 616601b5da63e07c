//! Coalesces the cache misses of concurrent requests into one fetch.

use std::collections::HashSet;
use std::hash::Hash;

use tokio::sync::{Semaphore, SemaphorePermit};

/// The maximal number of keys of one fetch. A caller with more keys fetches in several turns; other callers fetch in
/// between.
pub(crate) const MAX_BATCH: usize = 500;

/// The maximal number of concurrent fetches: with two, a slow one does not block the other callers.
const MAX_FETCHES: usize = 2;

/// The number of waiting keys at which the list is cleared. A caller fetches its own keys in any case.
const MAX_WANTED: usize = 20 * MAX_BATCH;

/// The keys that callers wait for. While fetches are under way, keys gather for the next one.
pub(crate) struct RequestCoalescer<K> {
    wanted: parking_lot::Mutex<HashSet<K>>,
    /// Held during a fetch. After waiting, a caller checks the cache again before it fetches.
    fetching: Semaphore,
}

impl<K: Copy + Eq + Hash> RequestCoalescer<K> {
    /// An empty coalescer.
    pub(crate) fn new() -> Self {
        Self { wanted: parking_lot::Mutex::default(), fetching: Semaphore::new(MAX_FETCHES) }
    }

    /// Adds missing keys, and waits for a turn to fetch. The cache may have the keys by then.
    pub(crate) async fn turn(&self, missing: &[K]) -> Option<SemaphorePermit<'_>> {
        {
            let mut wanted = self.wanted.lock();
            // Callers that gave up left their keys in the list.
            if wanted.len() >= MAX_WANTED {
                wanted.clear();
            }
            wanted.extend(missing);
        }
        self.fetching.acquire().await.ok()
    }

    /// The keys to fetch in this turn: `missing`, and the keys that other callers wait for, except keys that are cached
    /// by now (`is_there`). Keys beyond [`MAX_BATCH`] wait for the next turn.
    pub(crate) fn take(&self, missing: &[K], is_there: impl Fn(&K) -> bool) -> Vec<K> {
        let mut wanted = self.wanted.lock();
        for key in missing {
            wanted.remove(key);
        }
        let mut keys = missing.to_vec();
        wanted.retain(|key| {
            let stays = keys.len() >= MAX_BATCH;
            if !stays && !is_there(key) {
                keys.push(*key);
            }
            stays
        });
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fetch_includes_the_keys_of_waiting_callers() {
        let coalescer = RequestCoalescer::new();
        let first = coalescer.turn(&[1]).await;
        let _slow = coalescer.turn(&[]).await;
        assert_eq!(coalescer.take(&[1], |_| false), [1]);
        // These keys arrive during the first fetch.
        let more: Vec<u64> = (2..2 + MAX_BATCH as u64).collect();
        let second = coalescer.turn(&[2]);
        let third = coalescer.turn(&more);
        let mut second = Box::pin(second);
        let mut third = Box::pin(third);
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending());
        drop(first);
        let turn = second.await;
        let taken = coalescer.take(&[2], |_| false);
        assert_eq!((taken.len(), taken[0]), (MAX_BATCH, 2));
        drop(turn);
        // If the first fetch had failed, the waiting caller would fetch its keys.
        let _turn = third.await;
        assert_eq!(coalescer.take(&more, |_| false).len(), MAX_BATCH);
        assert!(coalescer.take(&[], |_| false).is_empty());
    }

    #[tokio::test]
    async fn cached_keys_are_not_fetched_again_and_abandoned_keys_are_bounded() {
        let coalescer = RequestCoalescer::new();
        drop(coalescer.turn(&[1, 2, 3]).await);
        assert_eq!(coalescer.take(&[1], |key| *key == 2), [1, 3]);
        assert!(coalescer.take(&[], |_| false).is_empty());
        for key in 0..3 * MAX_WANTED as u64 {
            drop(coalescer.turn(&[key]).await);
        }
        assert!(coalescer.wanted.lock().len() <= MAX_WANTED);
    }
}
