//! One fetch for all who wait: what is missing in a cache is asked for together with what others miss by then.

use std::collections::HashSet;
use std::hash::Hash;

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many are fetched at once. A caller who wants more fetches in parts, and others have their turn in between.
pub(super) const AT_ONCE: usize = 500;

/// How many fetches are on their way at once: one that takes long does not keep everybody else waiting.
const MAX_FETCHES: usize = 2;

/// How many may be wanted together. Whoever waits fetches what they miss in any case.
const MOST: usize = 20 * AT_ONCE;

/// What is wanted of a store. Few fetches are on their way at a time; while they are, wishes gather.
pub(super) struct Gather<K> {
    wanted: parking_lot::Mutex<HashSet<K>>,
    /// Held while fetching: a caller who waited finds in the cache what others fetched meanwhile.
    fetching: Semaphore,
}

impl<K: Copy + Eq + Hash> Gather<K> {
    /// Nothing is wanted yet.
    pub(super) fn new() -> Self {
        Self { wanted: parking_lot::Mutex::default(), fetching: Semaphore::new(MAX_FETCHES) }
    }

    /// Says what is missing, and waits for its turn to fetch it. By then it may be there.
    pub(super) async fn turn(&self, missing: &[K]) -> Option<SemaphorePermit<'_>> {
        {
            let mut wanted = self.wanted.lock();
            // Whoever gave up waiting left theirs behind.
            if wanted.len() >= MOST {
                wanted.clear();
            }
            wanted.extend(missing);
        }
        self.fetching.acquire().await.ok()
    }

    /// What to fetch in this turn: `missing`, and with it what others wait for, unless it `is_there` by now. What does not fit
    /// goes along with the next.
    pub(super) fn take(&self, missing: &[K], is_there: impl Fn(&K) -> bool) -> Vec<K> {
        let mut wanted = self.wanted.lock();
        for key in missing {
            wanted.remove(key);
        }
        let mut keys = missing.to_vec();
        wanted.retain(|key| {
            let stays = keys.len() >= AT_ONCE;
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
    async fn a_turn_takes_along_what_others_wait_for() {
        let gather = Gather::new();
        let (first, _slow) = (gather.turn(&[1]).await, gather.turn(&[]).await);
        assert_eq!(gather.take(&[1], |_| false), [1]);
        // They come while the first is on its way.
        let more: Vec<u64> = (2..2 + AT_ONCE as u64).collect();
        let (second, third) = (gather.turn(&[2]), gather.turn(&more));
        let (mut second, mut third) = (Box::pin(second), Box::pin(third));
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending());
        drop(first);
        let turn = second.await;
        let taken = gather.take(&[2], |_| false);
        assert_eq!((taken.len(), taken[0]), (AT_ONCE, 2));
        drop(turn);
        // Had the first of them failed, it would be for the one who waits to ask again.
        let _turn = third.await;
        assert_eq!(gather.take(&more, |_| false).len(), AT_ONCE);
        assert!(gather.take(&[], |_| false).is_empty());
    }

    #[tokio::test]
    async fn what_came_meanwhile_is_not_fetched_again_and_what_is_left_behind_is_bounded() {
        let gather = Gather::new();
        drop(gather.turn(&[1, 2, 3]).await);
        assert_eq!(gather.take(&[1], |key| *key == 2), [1, 3]);
        assert!(gather.take(&[], |_| false).is_empty());
        for key in 0..3 * MOST as u64 {
            drop(gather.turn(&[key]).await);
        }
        assert!(gather.wanted.lock().len() <= MOST);
    }
}
