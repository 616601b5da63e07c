//! Reads that take long: how many of them run at once, so that no user's keep everybody else waiting.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::operations::Request;
use super::{Caller, FeedError, Origin, Result};

/// From which cost of a page on a read is a heavy one.
pub(super) const HEAVY_COST: u32 = 10;

/// How many heavy reads run at once on a node. Fewer than PostgreSQL has connections by default.
const MAX_RUNNING: usize = 4;

/// How many of those are one caller's.
const MAX_OF_ONE: usize = 2;

/// Callers are told apart by a secret digest, into so many lanes.
const LANES: usize = 1_024;

/// How long a heavy read waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets heavy reads run, few at a time.
pub(super) struct HeavyReads {
    running: Semaphore,
    lanes: Vec<Semaphore>,
    hasher: RandomState,
}

/// A turn; it ends when this is dropped.
pub(super) struct Turn<'a> {
    _lane: SemaphorePermit<'a>,
    _running: SemaphorePermit<'a>,
}

impl HeavyReads {
    pub(super) fn new() -> Self {
        let lanes = (0..LANES).map(|_| Semaphore::new(MAX_OF_ONE)).collect();
        Self { running: Semaphore::new(MAX_RUNNING), lanes, hasher: RandomState::new() }
    }

    /// Waits for a turn of this caller.
    ///
    /// # Errors
    /// [`FeedError::TooMany`] if it does not come in time.
    pub(super) async fn turn(&self, asked: &Request) -> Result<Turn<'_>> {
        let digest = match (&asked.caller, asked.origin) {
            (Caller::User(user), _) => self.hasher.hash_one(user.as_str()),
            (Caller::Anonymous, Origin::Address(address) | Origin::Socket(address)) => self.hasher.hash_one(address),
            (Caller::Anonymous, Origin::Backend) => 0,
        };
        self.turn_in(digest as usize % LANES).await
    }

    async fn turn_in(&self, lane: usize) -> Result<Turn<'_>> {
        let turn = async {
            // The caller's own turn first: who waits for it takes none of the node's.
            let lane = self.lanes[lane].acquire().await.ok()?;
            Some(Turn { _lane: lane, _running: self.running.acquire().await.ok()? })
        };
        let turn = tokio::time::timeout(PATIENCE, turn).await.ok().flatten();
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
