//! The like state that this node caches: acknowledged states, counts, and pending likes of its clients.

use std::time::Duration;

use super::pending_likes::PendingLikes;
use super::provisional::ProvisionalCounts;
use crate::feed::caching::GenerationalCache;
use crate::feed::lineage::DerivedState;
use crate::model::{ContentId, UserId};

/// The number of cached acknowledged states, and how long they are cached.
const MAX_STATES: usize = 200_000;
const STATE_TTL: Duration = Duration::from_secs(600);

/// The like state cached on this node.
pub(crate) struct LikeMemory {
    partitions: u16,
    /// The last state acknowledged on this node. With it, a repeated like is counted once.
    pub(super) states: GenerationalCache<(UserId, ContentId), bool>,
    /// Counts, including likes that are acknowledged but not settled yet.
    pub(super) counts: ProvisionalCounts,
    /// Likes of this node's clients: the clients are informed once they are settled.
    pub(super) pending: PendingLikes,
}

impl LikeMemory {
    /// An empty memory for a queue with this many partitions.
    pub(crate) fn new(partitions: u16) -> Self {
        Self {
            partitions,
            states: GenerationalCache::new(MAX_STATES, STATE_TTL),
            counts: ProvisionalCounts::new(),
            pending: PendingLikes::new(partitions),
        }
    }

    /// The partition of an object. Every node computes the same one.
    pub(super) fn partition(&self, object: ContentId) -> u16 {
        // Ids made in different milliseconds often share their low bits: Fibonacci hashing uses all of them.
        let mixed = object.number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        u16::try_from(mixed % u64::from(self.partitions)).unwrap_or_default()
    }

    /// Handles missed settlements: counts are loaded again, and pending likes are dropped.
    pub(crate) fn on_resync(&self) {
        self.counts.clear();
        self.pending.clear();
    }
}

impl DerivedState for LikeMemory {
    /// States and counts of another ledger are meaningless.
    fn reset(&self) {
        self.states.clear();
        self.on_resync();
    }
}
