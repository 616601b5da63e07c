//! Delivery workers: they read logs where hints were lost, load the content of entries, and deliver them to the members
//! of rooms who may receive them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::broadcaster::Broadcaster;
use super::deliveries::Deliveries;
use super::log_tracker::WaitingEntries;
use super::room::Room;
use super::room_queue::RoomQueue;
use crate::broker::Span;
use crate::feed::{Audience, Base, EventRenderer, FeedError, RenderContext, RenderedEvent};
use crate::model::{Entry, Position, UserId};
use crate::supervisor::OnPanic;

/// Entries that are read in one call where hints were lost.
const MAX_READ: usize = 500;

/// How long a room waits after a store did not answer.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// How often content that changes while it is loaded is loaded again, before it is delivered as it was a moment ago.
const MAX_LOADS: usize = 5;

/// Serves the rooms of the queue.
pub(super) struct DeliveryWorker {
    queue: Arc<RoomQueue>,
    base: Arc<Base>,
    renderer: Arc<EventRenderer>,
    broadcaster: Arc<Broadcaster>,
}

/// A room, and its entries that wait.
type WaitingRoom<'a> = (&'a Room, WaitingEntries);

impl DeliveryWorker {
    pub(super) fn new(
        queue: Arc<RoomQueue>,
        base: Arc<Base>,
        renderer: Arc<EventRenderer>,
        broadcaster: Arc<Broadcaster>,
    ) -> Self {
        Self { queue, base, renderer, broadcaster }
    }

    /// Serves rooms until `stopping`.
    pub(super) async fn run(&self, stopping: &CancellationToken) {
        while stopping.run_until_cancelled(self.queue.wait()).await.is_some() {
            loop {
                let batch = self.queue.take();
                if batch.is_empty() {
                    break;
                }
                let served = {
                    let _retried = OnPanic(|| self.release(batch.clone(), Err(FeedError::Internal)));
                    self.serve(&batch).await
                };
                self.release(batch, served);
            }
        }
    }

    /// Queues rooms again that have more to do: at once, or after a delay if a store did not answer.
    fn release(&self, batch: Vec<Arc<Room>>, served: Result<(), FeedError>) {
        let again: Vec<_> = batch.into_iter().filter(|room| room.release()).collect();
        match served {
            Ok(()) => again.into_iter().for_each(|room| self.queue.push(room)),
            Err(error) => {
                tracing::warn!(%error, rooms = again.len(), "deliveries wait for a store");
                let queue = Arc::clone(&self.queue);
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY_DELAY.mul_f64(rand::random_range(0.5..1.5))).await;
                    again.into_iter().for_each(|room| queue.push(room));
                });
            }
        }
    }

    async fn serve(&self, batch: &[Arc<Room>]) -> Result<(), FeedError> {
        for room in batch {
            if let Some(position) = room.gap() {
                self.fill(room, &position).await?;
            }
        }
        self.deliver(batch).await
    }

    /// Reads the entries that a room missed.
    async fn fill(&self, room: &Arc<Room>, after: &Position) -> Result<(), FeedError> {
        let slice = self.base.broker.read(room.name(), Span::After(after.offset, MAX_READ)).await?;
        self.base.metrics.gap();
        self.queue.apply(room, room.fill(after, slice));
        Ok(())
    }

    /// Loads the content of all entries that wait in these rooms with one fetch, the relations that decide who may
    /// receive them with another, and delivers.
    async fn deliver(&self, batch: &[Arc<Room>]) -> Result<(), FeedError> {
        let waiting: Vec<WaitingRoom<'_>> = batch.iter().filter_map(|room| Some((&**room, room.waiting()?))).collect();
        let entries = waiting.iter().map(|(_, entries)| entries);
        let mut deliveries = Deliveries::begin(&self.broadcaster, &self.base.tracer, entries);
        let addressed: Vec<(&Audience, &Entry)> = waiting
            .iter()
            .flat_map(|(room, waiting)| waiting.entries.iter().map(|(_, entry)| (room.audience(), entry)))
            .collect();
        let mut context = self.load(&waiting, &addressed).await?;
        for _ in 0..MAX_LOADS {
            // What changed while the stores answered is loaded again: a delivery is right at its moment.
            if self.renderer.is_current(&context, &addressed) {
                break;
            }
            context = self.load(&waiting, &addressed).await?;
        }
        waiting.iter().for_each(|(room, entries)| room.deliver(entries, &context, &mut deliveries));
        deliveries.end();
        Ok(())
    }

    /// Loads what the waiting entries need: content, relations and filters. `addressed`: the entries, each with its
    /// audience.
    async fn load(
        &self,
        waiting: &[WaitingRoom<'_>],
        addressed: &[(&Audience, &Entry)],
    ) -> Result<RenderContext, FeedError> {
        let mut context = self.renderer.prepare(addressed).await?;
        let mut filtering = HashSet::new();
        for (room, waiting) in waiting {
            if waiting.entries.iter().any(|(_, entry)| context.may_filter(room.audience(), entry)) {
                room.with_readers(|readers| filtering.extend(readers.into_iter().cloned()));
            }
        }
        self.renderer.load_filters(&mut context, &filtering).await?;
        let mut pairs = HashSet::new();
        for (room, waiting) in waiting.iter().filter(|(room, _)| !room.audience().is_unconditional()) {
            let rendered = waiting.entries.iter().filter_map(|(_, entry)| context.render(room.audience(), entry));
            let restricted: Vec<RenderedEvent<'_>> = rendered.filter(|event| !event.is_public).collect();
            let authors: HashSet<&UserId> = restricted.iter().flat_map(RenderedEvent::authors).collect();
            if !authors.is_empty() {
                room.with_readers(|readers| {
                    for reader in readers {
                        pairs.extend(authors.iter().map(|author| (reader.clone(), (*author).clone())));
                    }
                });
            }
        }
        self.renderer.load_relations(&mut context, pairs).await?;
        Ok(context)
    }
}
