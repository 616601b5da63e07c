//! Handles the settlements of all nodes: counts, and receipts to the clients that sent the likes.
//!
//! A settlement may cover thousands of likes. Their clients get their receipts a few at a time, with pauses: each receipt
//! wakes a connection that writes, and a client that reads, and acknowledgements of new likes would wait behind all of
//! them. A late receipt changes nothing that a user sees.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::memory::LikeMemory;
use super::receipts::DirectMessage;
use super::settlement::SettlementEvent;
use super::throttle::Throttle;

/// Settlements that can wait. A node that is further behind drops its counts, and loads them again.
const MAX_WAITING: usize = 64;

/// The most counts that are applied, or clients that are served, in one step.
const MAX_STEP: usize = 128;

/// Receipts are sent in about this many steps, each of at least [`MIN_STEP`], with pauses between them: some 80 ms in all, since a
/// partition is settled every 80 to 150 ms under load. If other settlements wait, the steps are fewer, and past
/// [`UNTHROTTLED_FROM`] of them there are no pauses.
const STEPS: usize = 48;
const MIN_STEP: usize = 8;
const UNTHROTTLED_FROM: usize = 8;

/// Listens for settlements.
pub(crate) struct ReceiptListener {
    memory: Arc<LikeMemory>,
    events: mpsc::Sender<Bytes>,
    /// Held by [`listen`](Self::listen).
    receiver: tokio::sync::Mutex<mpsc::Receiver<Bytes>>,
}

impl ReceiptListener {
    /// A listener that updates this memory.
    pub(crate) fn new(memory: Arc<LikeMemory>) -> Self {
        let (events, receiver) = mpsc::channel(MAX_WAITING);
        Self { memory, events, receiver: tokio::sync::Mutex::new(receiver) }
    }

    /// A settler of any node has settled a batch.
    pub(crate) fn on_settled(&self, message: Bytes) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(message) {
            tracing::warn!("too many likes are settled for this node to follow, it asks for their counts again");
            self.memory.on_resync();
        }
    }

    /// Handles settlements until dropped, and sends receipts to clients of this node.
    pub(crate) async fn listen(&self, send: impl Fn(&DirectMessage) + Send) {
        let mut receiver = self.receiver.lock().await;
        while let Some(message) = receiver.recv().await {
            let Some(event) = std::str::from_utf8(&message).ok().and_then(SettlementEvent::parse) else {
                tracing::debug!("a message about settled likes could not be read");
                continue;
            };
            let SettlementEvent { partition, through, tallies, .. } = &event;
            for (place, (object, tally)) in tallies.iter().enumerate() {
                if place % MAX_STEP == MAX_STEP - 1 {
                    tokio::task::yield_now().await;
                }
                self.memory.counts.settle(*partition, *through, *object, *tally);
            }
            let receipts = self.memory.receipts.settle(&event, &self.memory.counts);
            let waiting = receiver.len();
            let size = receipts.len().div_ceil(STEPS.div_ceil(waiting + 1)).clamp(MIN_STEP, MAX_STEP);
            for (place, step) in receipts.chunks(size).enumerate() {
                if place > 0 {
                    Throttle::off_if(waiting >= UNTHROTTLED_FROM).pause().await;
                }
                step.iter().for_each(&send);
            }
        }
    }
}
