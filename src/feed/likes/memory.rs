//! The like state that this node caches: acknowledged states, counts, and pending likes of its clients. Settlements of
//! all nodes update it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::pending::{PendingLikes, ProvisionalCounts, SettledLike};
use crate::broker::SettlementEvent;
use crate::feed::caching::GenerationalCache;
use crate::feed::lineage::DerivedState;
use crate::model::{ContentId, Tally, UserId};

/// The number of cached acknowledged states, and how long they are cached.
const MAX_STATES: usize = 200_000;
const STATE_TTL: Duration = Duration::from_secs(600);

/// The maximal number of queued settlements. A node that is further behind drops its counts and loads them again.
const MAX_WAITING: usize = 64;

/// The maximal number of counts applied without yielding: a settlement may cover thousands of likes.
const MAX_COUNTS_PER_STEP: usize = 128;

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

/// The likes of a settlement, for the clients of this node.
#[derive(Debug, Default)]
pub(crate) struct SettlementNews {
    /// The likes that clients of this node sent.
    pub(crate) receipts: Vec<SettledLike>,
    /// All likes of the settlement, for the other connections of their users.
    pub(crate) likes: Vec<UserLike>,
}

/// The settled state of a user's like.
#[derive(Debug)]
pub(crate) struct UserLike {
    pub(crate) user: UserId,
    /// The post or comment.
    pub(crate) object: ContentId,
    /// Whether the user likes it now.
    pub(crate) liked: bool,
    /// The counts of the object.
    pub(crate) tally: Tally,
}

/// Listens for settlements.
pub(crate) struct SettlementListener {
    memory: Arc<LikeMemory>,
    /// Settlements that [`next`](Self::next) has not handled yet.
    waiting: mpsc::Sender<SettlementEvent>,
    /// Held by [`next`](Self::next).
    receiver: tokio::sync::Mutex<mpsc::Receiver<SettlementEvent>>,
}

impl SettlementListener {
    /// A listener that updates this memory.
    pub(crate) fn new(memory: Arc<LikeMemory>) -> Self {
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        Self { memory, waiting, receiver: tokio::sync::Mutex::new(receiver) }
    }

    /// Handles a batch that any node has settled.
    pub(crate) fn on_settled(&self, settlement: SettlementEvent) {
        if let Err(TrySendError::Full(_)) = self.waiting.try_send(settlement) {
            tracing::warn!("settlements of likes arrive faster than this node handles them: it loads the counts again");
            self.memory.on_resync();
        }
    }

    /// Waits for the next settlement and applies its counts. Returns its likes. Must be called in a loop by a single
    /// task, because it applies the counts.
    pub(crate) async fn next(&self) -> SettlementNews {
        let mut receiver = self.receiver.lock().await;
        // The sender lives as long as `self`.
        let Some(mut settlement) = receiver.recv().await else { return std::future::pending().await };
        let SettlementEvent { partition, through, tallies, .. } = &settlement;
        for (index, (object, tally)) in tallies.iter().enumerate() {
            if index % MAX_COUNTS_PER_STEP == MAX_COUNTS_PER_STEP - 1 {
                tokio::task::yield_now().await;
            }
            self.memory.counts.settle(*partition, *through, *object, *tally);
        }
        let receipts = self.memory.pending.settle(&settlement, &self.memory.counts);
        let likes = std::mem::take(&mut settlement.likes).into_iter().filter_map(|(user, object, liked)| {
            let tally = *settlement.tallies.get(&object)?;
            Some(UserLike { user, object, liked, tally })
        });
        SettlementNews { receipts, likes: likes.collect() }
    }

    /// The number of settlements that wait for [`next`](Self::next).
    pub(crate) fn backlog(&self) -> usize {
        MAX_WAITING - self.waiting.capacity()
    }
}
