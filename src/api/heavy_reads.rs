//! Limits the concurrency of expensive reads, so that one user's reads cannot block all others.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::feed::{Caller, FeedError, Origin, Result};

/// Reads with this cost of a page, or more, are expensive.
pub(super) const HEAVY_COST: u32 = 10;

/// Expensive reads that run concurrently on a node. Fewer than PostgreSQL has connections by default.
const MAX_RUNNING: usize = 4;

/// Expensive reads of one caller.
const MAX_PER_CALLER: usize = 2;

/// Lanes of callers; a secret digest assigns callers to lanes.
const LANES: usize = 1_024;

/// How long an expensive read waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Admits expensive reads, a few at a time.
pub(super) struct HeavyReads {
    running: Semaphore,
    lanes: Vec<Semaphore>,
    hasher: RandomState,
}

/// The turn of a read, until this is dropped.
pub(super) struct HeavyReadPermit<'a> {
    _lane: SemaphorePermit<'a>,
    _running: SemaphorePermit<'a>,
}

impl HeavyReads {
    pub(super) fn new() -> Self {
        let lanes = (0..LANES).map(|_| Semaphore::new(MAX_PER_CALLER)).collect();
        Self { running: Semaphore::new(MAX_RUNNING), lanes, hasher: RandomState::new() }
    }

    /// Waits for the turn of this caller.
    ///
    /// # Errors
    /// [`FeedError::TooMany`] if it does not come in time.
    pub(super) async fn turn(&self, caller: &Caller, origin: Origin) -> Result<HeavyReadPermit<'_>> {
        let digest = match (caller, origin) {
            (Caller::User(user), _) => self.hasher.hash_one(user.as_str()),
            (Caller::Anonymous, Origin::Address(address) | Origin::Connection(address)) => {
                self.hasher.hash_one(address)
            }
            (Caller::Anonymous, Origin::Backend) => 0,
        };
        self.turn_in(digest as usize % LANES).await
    }

    async fn turn_in(&self, lane: usize) -> Result<HeavyReadPermit<'_>> {
        let turn = async {
            // The caller's lane first: a waiting caller holds no permit of the node.
            let lane = self.lanes[lane].acquire().await.ok()?;
            Some(HeavyReadPermit { _lane: lane, _running: self.running.acquire().await.ok()? })
        };
        let turn = tokio::time::timeout(MAX_WAIT, turn).await.ok().flatten();
        turn.ok_or(FeedError::TooMany("too many expensive reads at once, try again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_caller_leaves_room_for_others() {
        let heavy = HeavyReads::new();
        let held = [heavy.turn_in(1).await, heavy.turn_in(1).await];
        assert!(held.iter().all(Result::is_ok));
        let mut third = Box::pin(heavy.turn_in(1));
        assert!(futures::poll!(&mut third).is_pending(), "the caller has two");
        assert!(heavy.turn_in(2).await.is_ok(), "and others go on");
        drop(held);
        assert!(third.await.is_ok());
    }
}
