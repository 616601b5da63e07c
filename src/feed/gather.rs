//! One fetch for all who wait: what is missing in a cache is asked for together with what others miss by then.

use std::collections::HashSet;
use std::hash::Hash;

use tokio::sync::{Mutex, MutexGuard};

/// How many are fetched at once, unless one caller wants more.
const AT_ONCE: usize = 500;

/// What is wanted of a store. One fetch is on its way at a time; while it is, wishes gather.
pub(super) struct Gather<K> {
    wanted: parking_lot::Mutex<HashSet<K>>,
    /// Held while fetching: whoever comes second finds the first one's catch in the cache.
    fetching: Mutex<()>,
}

impl<K: Copy + Eq + Hash> Gather<K> {
    /// Nothing is wanted yet.
    pub(super) fn new() -> Self {
        Self { wanted: parking_lot::Mutex::default(), fetching: Mutex::new(()) }
    }

    /// Says what is missing, and waits for its turn to fetch it. By then it may be there.
    pub(super) async fn turn(&self, missing: &[K]) -> MutexGuard<'_, ()> {
        self.wanted.lock().extend(missing);
        self.fetching.lock().await
    }

    /// What to fetch in this turn: `missing`, and with it what others wait for. What does not fit goes along with the next.
    pub(super) fn take(&self, missing: &[K]) -> Vec<K> {
        let mut wanted = self.wanted.lock();
        for key in missing {
            wanted.remove(key);
        }
        let others = wanted.iter().copied().take(AT_ONCE.saturating_sub(missing.len()));
        let keys: Vec<K> = missing.iter().copied().chain(others).collect();
        for key in &keys {
            wanted.remove(key);
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_takes_along_what_others_wait_for() {
        let gather = Gather::new();
        let first = gather.turn(&[1]).await;
        assert_eq!(gather.take(&[1]), [1]);
        // They come while the first is on its way.
        let more: Vec<u64> = (2..2 + AT_ONCE as u64).collect();
        let (second, third) = (gather.turn(&[2]), gather.turn(&more));
        let (mut second, mut third) = (Box::pin(second), Box::pin(third));
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending());
        drop(first);
        let turn = second.await;
        let taken = gather.take(&[2]);
        assert_eq!((taken.len(), taken[0]), (AT_ONCE, 2));
        drop(turn);
        // Had the first of them failed, it would be for the one who waits to ask again.
        let _turn = third.await;
        assert_eq!(gather.take(&more).len(), AT_ONCE);
        assert!(gather.take(&[]).is_empty());
    }
}
