//! Follows the settlements of all nodes: applies their counts, and finds the likes of this node's clients that they
//! cover.

use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::memory::LikeMemory;
use super::pending_likes::SettledLike;
use crate::broker::SettlementEvent;
use crate::model::{ContentId, Tally, UserId};

/// The maximal number of queued settlements. A node that is further behind drops its counts and loads them again.
const MAX_WAITING: usize = 64;

/// The maximal number of counts applied without yielding: a settlement may cover thousands of likes.
const MAX_COUNTS_PER_STEP: usize = 128;

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
