//! Limits the concurrency of expensive reads, so that one user's reads cannot block all others.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::feed::{Caller, FeedError, Origin, Result};

/// Reads whose page costs this many units or more are expensive.
pub(super) const HEAVY_COST: u32 = 10;

/// Expensive reads that run concurrently on a node. Fewer than the default number of PostgreSQL connections.
const MAX_RUNNING: usize = 4;

/// Expensive reads of one caller that run concurrently.
const MAX_PER_CALLER: usize = 2;

/// Semaphores for callers. A keyed digest assigns each caller to one.
const LANES: usize = 1_024;

/// How long an expensive read waits for a permit.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Limits expensive reads, per caller and per node.
pub(super) struct HeavyReads {
    running: Semaphore,
    lanes: Vec<Semaphore>,
    hasher: RandomState,
}

/// The permit of a running read. Dropping it lets the next one run.
pub(super) struct HeavyReadPermit<'a> {
    _lane: SemaphorePermit<'a>,
    _running: SemaphorePermit<'a>,
}

impl HeavyReads {
    pub(super) fn new() -> Self {
        let lanes = (0..LANES).map(|_| Semaphore::new(MAX_PER_CALLER)).collect();
        Self { running: Semaphore::new(MAX_RUNNING), lanes, hasher: RandomState::new() }
    }

    /// Waits for a permit for this caller.
    ///
    /// # Errors
    /// [`FeedError::TooMany`] if there is none within [`MAX_WAIT`].
    pub(super) async fn acquire(&self, caller: &Caller, origin: Origin) -> Result<HeavyReadPermit<'_>> {
        let digest = match (caller, origin) {
            (Caller::User(user), _) => self.hasher.hash_one(user.as_str()),
            (Caller::Anonymous, Origin::Address(address) | Origin::Connection(address)) => {
                self.hasher.hash_one(address)
            }
            (Caller::Anonymous, Origin::Backend) => 0,
        };
        self.acquire_in(digest as usize % LANES).await
    }

    async fn acquire_in(&self, lane: usize) -> Result<HeavyReadPermit<'_>> {
        let permit = async {
            // The caller's lane first: a waiting caller holds no permit of the node.
            let lane = self.lanes[lane].acquire().await.ok()?;
            Some(HeavyReadPermit { _lane: lane, _running: self.running.acquire().await.ok()? })
        };
        let permit = tokio::time::timeout(MAX_WAIT, permit).await.ok().flatten();
        permit.ok_or(FeedError::TooMany("too many expensive reads at once, try again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_caller_cannot_use_all_slots() {
        let heavy = HeavyReads::new();
        let held = [heavy.acquire_in(1).await, heavy.acquire_in(1).await];
        assert!(held.iter().all(Result::is_ok));
        let mut third = Box::pin(heavy.acquire_in(1));
        assert!(futures::poll!(&mut third).is_pending(), "the caller has two");
        assert!(heavy.acquire_in(2).await.is_ok(), "and others go on");
        drop(held);
        assert!(third.await.is_ok());
    }
}
