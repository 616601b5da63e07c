//! Intake: appends concurrent likes to the write-behind queue in one call.
//!
//! One append is under way at a time. Likes that arrive during it are collected, and the next append takes them all:
//! they share a round trip, or a flush, and stay in order.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use super::entry;
use super::memory::LikeMemory;
use crate::broker::{BrokerError, DurableQueue, QueueItem, QueueOffset};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::work::Waker;
use crate::model::LikeChange;

/// The maximal number of likes that wait to be appended. Further likes are rejected.
const MAX_WAITING: usize = 16_384;

/// The maximal number of likes of one append.
const MAX_BATCH: usize = 1_000;

/// A like that waits to be appended.
struct WaitingLike {
    item: QueueItem,
    change: LikeChange,
    /// The client connection of this node that sent the like, if it came over a socket.
    client: Option<Arc<str>>,
    reply: oneshot::Sender<std::result::Result<QueueOffset, AppendFailure>>,
}

/// The reason why a like was not appended.
#[derive(Clone, Copy)]
enum AppendFailure {
    /// Too many likes wait to be settled.
    Full,
    /// The queue could not be reached.
    Unreachable,
    /// The queue failed.
    Failed,
}

impl From<AppendFailure> for FeedError {
    fn from(refusal: AppendFailure) -> Self {
        match refusal {
            AppendFailure::Full => FeedError::Busy("too many likes wait to be settled, try again"),
            AppendFailure::Unreachable => FeedError::Unavailable,
            AppendFailure::Failed => FeedError::Internal,
        }
    }
}

/// Appends likes to the queue.
pub(crate) struct LikeIntake {
    base: Arc<Base>,
    queue: Arc<dyn DurableQueue>,
    memory: Arc<LikeMemory>,
    /// Wake the settlers of the partitions.
    wakers: Vec<Waker>,
    waiting: mpsc::Sender<WaitingLike>,
    /// Held by the task of [`start`](Self::start).
    receiver: Mutex<mpsc::Receiver<WaitingLike>>,
}

impl LikeIntake {
    /// An intake for this queue: see [`start`](Self::start).
    pub(crate) fn new(base: Arc<Base>, queue: Arc<dyn DurableQueue>, memory: Arc<LikeMemory>) -> Self {
        let wakers = (0..queue.partitions()).map(|_| Waker::new()).collect();
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        Self { base, queue, memory, wakers, waiting, receiver: Mutex::new(receiver) }
    }

    /// Wakes the settler of a partition.
    pub(super) fn waker(&self, partition: u16) -> &Waker {
        &self.wakers[usize::from(partition)]
    }

    /// Appends likes until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("like_intake", self, |intake| async move { intake.run().await });
    }

    /// Appends a like together with concurrent ones. When it returns, the like is stored durably.
    ///
    /// # Errors
    /// If too many likes wait, or the queue fails.
    pub(super) async fn enqueue(
        &self,
        partition: u16,
        change: &LikeChange,
        client: Option<Arc<str>>,
    ) -> Result<QueueOffset> {
        let (reply, replied) = oneshot::channel();
        let item = QueueItem { partition, body: entry::encode(change) };
        let like = WaitingLike { item, change: change.clone(), client, reply };
        let full = |_| FeedError::Busy("too many likes come at once, try again");
        self.waiting.try_send(like).map_err(full)?;
        // Without a reply, the process is stopping: the like may or may not be in the queue.
        replied.await.map_err(|_| FeedError::Unavailable)?.map_err(FeedError::from)
    }

    async fn run(&self) {
        let mut receiver = self.receiver.lock().await;
        let mut batch = Vec::with_capacity(MAX_BATCH);
        loop {
            let received = tokio::select! {
                received = receiver.recv_many(&mut batch, MAX_BATCH) => received,
                () = self.base.runtime.stopped() => 0,
            };
            if received == 0 {
                break;
            }
            self.append(&mut batch).await;
        }
        // New likes are refused from now on; waiting likes get a reply.
        receiver.close();
        while receiver.recv_many(&mut batch, MAX_BATCH).await > 0 {
            self.append(&mut batch).await;
        }
    }

    async fn append(&self, batch: &mut Vec<WaitingLike>) {
        // Drops likes of callers that gave up.
        batch.retain(|like| !like.reply.is_closed());
        let items: Vec<QueueItem> = batch.iter().map(|like| like.item.clone()).collect();
        if items.is_empty() {
            return;
        }
        let places = match self.queue.enqueue(&items, self.base.options.likes.queue_length).await {
            Ok(places) => places.into_iter().map(|place| place.ok_or(AppendFailure::Full)).collect(),
            Err(error) => {
                let refusal = match error {
                    BrokerError::Unreachable(_) | BrokerError::Refused(..) => AppendFailure::Unreachable,
                    BrokerError::Failed(_) => AppendFailure::Failed,
                };
                tracing::warn!(%error, likes = items.len(), "likes could not be queued");
                vec![Err(refusal); items.len()]
            }
        };
        self.base.metrics.likes.queued(places.iter().filter(|place| place.is_ok()).count());
        for (like, place) in batch.drain(..).zip(places) {
            let partition = like.item.partition;
            if let (Ok(place), Some(client)) = (place, like.client) {
                self.memory.pending.add(partition, place, client, like.change);
            }
            // If the caller gave up in the meantime, the like is settled anyway.
            let _ = like.reply.send(place);
            self.waker(partition).notify_one();
        }
    }
}
