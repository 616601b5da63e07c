//! The hub's workers: they read logs where hints were lost, put bodies to ids, and tell the rooms' members.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Hub;
use super::room::{Accepted, Room};
use crate::broker::Span;
use crate::feed::{FeedError, now};
use crate::model::{Entry, Epoch, Position};

/// Rooms that a worker takes at once: their bodies are fetched together.
const BATCH: usize = 256;

/// Entries read at once where hints were lost.
const READ: usize = 500;

/// How long a room waits that could not be served because a store did not answer.
const PAUSE: Duration = Duration::from_millis(250);

/// Rooms to be looked at. Each is in here once at most (`scheduled`), so there are no more than rooms.
#[derive(Debug, Default)]
pub(super) struct Work {
    queue: Mutex<VecDeque<Arc<Room>>>,
    queued: Notify,
    /// Positions are to be compared with the logs.
    resync: AtomicBool,
    resyncing: Notify,
}

impl Work {
    pub(super) fn push(&self, room: Arc<Room>) {
        self.queue.lock().push_back(room);
        self.queued.notify_one();
    }

    fn take(&self) -> Vec<Arc<Room>> {
        let mut queue = self.queue.lock();
        let many = queue.len().min(BATCH);
        let batch = queue.drain(..many).collect();
        if !queue.is_empty() {
            self.queued.notify_one();
        }
        batch
    }

    pub(super) fn resync(&self) {
        self.resync.store(true, Ordering::Release);
        self.resyncing.notify_one();
    }

    /// Waits until positions are to be compared.
    pub(super) async fn resync_asked(&self) {
        while !self.resync.swap(false, Ordering::AcqRel) {
            self.resyncing.notified().await;
        }
    }
}

/// What waits in a room, and of which life of its log it is.
struct Waiting<'a> {
    room: &'a Arc<Room>,
    epoch: Epoch,
    entries: Vec<(u64, Entry)>,
}

impl Hub {
    /// Serves rooms until `stopping`.
    pub(super) async fn serve_rooms(self: Arc<Self>, stopping: CancellationToken) {
        while stopping.run_until_cancelled(self.work.queued.notified()).await.is_some() {
            loop {
                let batch = self.work.take();
                if batch.is_empty() {
                    break;
                }
                let served = self.serve(&batch).await;
                self.release(batch, served);
            }
        }
    }

    /// Puts rooms back that have more to do: at once, or after a pause if a store did not answer.
    fn release(self: &Arc<Self>, batch: Vec<Arc<Room>>, served: Result<(), FeedError>) {
        let again: Vec<_> = batch.into_iter().filter(|room| room.state.lock().release()).collect();
        match served {
            Ok(()) => again.into_iter().for_each(|room| self.work.push(room)),
            Err(error) => {
                tracing::warn!(%error, rooms = again.len(), "deliveries wait for a store");
                let hub = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
                    again.into_iter().for_each(|room| hub.work.push(room));
                });
            }
        }
    }

    async fn serve(&self, batch: &[Arc<Room>]) -> Result<(), FeedError> {
        for room in batch {
            let gap = room.state.lock().gap();
            if let Some(position) = gap {
                self.fill(room, &position).await?;
            }
        }
        self.tell(batch).await
    }

    /// Reads what a room has not heard of.
    async fn fill(&self, room: &Arc<Room>, after: &Position) -> Result<(), FeedError> {
        let slice = self.broker.read(&room.name, Span::After(after.offset, READ)).await?;
        self.metrics.gap();
        let mut state = room.state.lock();
        let filled = slice.is_some_and(|slice| {
            // A log that ends before what was told is not the log that was told.
            slice.top.offset >= after.offset && state.fill(slice.entries, &slice.top)
        });
        let accepted = if filled { Accepted::Nothing } else { state.replace(None) };
        drop(state);
        self.after(room, accepted);
        Ok(())
    }

    /// Puts bodies to all that waits in these rooms, with one fetch, and tells it.
    async fn tell(&self, batch: &[Arc<Room>]) -> Result<(), FeedError> {
        let waiting: Vec<Waiting<'_>> = batch
            .iter()
            .filter_map(|room| room.state.lock().waiting().map(|(epoch, entries)| Waiting { room, epoch, entries }))
            .collect();
        let entries: Vec<Entry> =
            waiting.iter().flat_map(|waiting| waiting.entries.iter().map(|(_, entry)| entry.clone())).collect();
        let mut members = self.feed.publications(&entries).await?.into_iter();
        let now = now();
        for Waiting { room, epoch, entries } in waiting {
            let mut state = room.state.lock();
            for ((offset, entry), members) in entries.into_iter().zip(members.by_ref()) {
                if state.told(&epoch, offset) {
                    let position = Position { offset, epoch: epoch.clone() };
                    self.deliver(&state, &room.name, &members, Some(&position));
                    if let Entry::Post(id) = entry {
                        self.metrics.published_to_socket(now.saturating_sub(id.time()));
                    }
                }
            }
        }
        Ok(())
    }
}
