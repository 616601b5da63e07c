//! The hub's workers: they read logs where hints were lost, put bodies to ids, and tell those of the rooms' members who may
//! hear it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Hub;
use super::room::{Accepted, Room};
use crate::broker::Span;
use crate::feed::{Audience, FeedError, RenderContext, RenderedEvent, now};
use crate::model::{Entry, Epoch, Position, UserId};
use crate::protocol::push_publication;

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

/// How often it is looked again at what changes all the time, before it is told as it was a moment ago.
const TRIES: usize = 5;

/// What waits in a room, and of which life of its log it is.
struct Waiting<'a> {
    room: &'a Arc<Room>,
    epoch: Epoch,
    entries: Vec<(u64, Entry)>,
}

impl Waiting<'_> {
    fn entries_with_audience(&self) -> impl Iterator<Item = (&Audience, &Entry)> {
        self.entries.iter().map(|(_, entry)| (&self.room.audience, entry))
    }
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

    /// Puts bodies to all that waits in these rooms, with one fetch, finds out who may hear it, with another, and tells it.
    async fn tell(&self, batch: &[Arc<Room>]) -> Result<(), FeedError> {
        let waiting: Vec<Waiting<'_>> = batch
            .iter()
            .filter_map(|room| room.state.lock().waiting().map(|(epoch, entries)| Waiting { room, epoch, entries }))
            .collect();
        let mut context = self.prepare(&waiting).await?;
        for _ in 0..TRIES {
            // What changed while the stores were asked is looked at again: what is told holds at that moment.
            if self.feed.event_renderer.is_current(&context) {
                break;
            }
            context = self.prepare(&waiting).await?;
        }
        waiting.iter().for_each(|waiting| self.tell_room(waiting, &context));
        Ok(())
    }

    async fn prepare(&self, waiting: &[Waiting<'_>]) -> Result<RenderContext, FeedError> {
        let entries: Vec<_> = waiting.iter().flat_map(Waiting::entries_with_audience).collect();
        let mut context = self.feed.event_renderer.prepare(&entries).await?;
        let mut pairs = HashSet::new();
        for waiting in waiting {
            let told = waiting.entries_with_audience().filter_map(|(audience, entry)| context.render(audience, entry));
            let closed: Vec<RenderedEvent<'_>> = told.filter(|told| !told.is_public).collect();
            let authors: HashSet<&UserId> = closed.iter().flat_map(RenderedEvent::authors).collect();
            if !authors.is_empty() {
                let state = waiting.room.state.lock();
                let readers: HashSet<&UserId> = state.members().filter_map(|member| member.reader.as_ref()).collect();
                let strangers = |reader: &UserId| {
                    authors.iter().map(|author| (reader.clone(), (*author).clone())).collect::<Vec<_>>()
                };
                pairs.extend(readers.into_iter().flat_map(strangers));
            }
        }
        self.feed.event_renderer.load_relations(&mut context, pairs).await?;
        Ok(context)
    }

    /// Tells what waits in a room. Where somebody came meanwhile of whom it is not known what they may hear, the rest waits
    /// for the next look at the room.
    fn tell_room(&self, waiting: &Waiting<'_>, context: &RenderContext) {
        let Waiting { room, epoch, entries } = waiting;
        let now = now();
        let mut state = room.state.lock();
        // Whoever waits for it wakes up when the lock is free.
        room.moved.notify_waiters();
        for (offset, entry) in entries {
            let told = context.render(&room.audience, entry);
            let hearers = match &told {
                Some(told) if !told.is_public => {
                    state.members_who(|member| context.can_receive(told, member.reader.as_ref()))
                }
                _ => Some(Vec::new()),
            };
            let Some(hearers) = hearers else { return };
            if !state.told(epoch, *offset) {
                continue;
            }
            let Some(told) = told else { continue };
            let push = push_publication(&room.name, &told.members, Some((*offset, epoch)));
            if told.is_public {
                self.broadcast(state.members(), &push);
            } else if !hearers.is_empty() {
                self.broadcast(hearers.into_iter().filter_map(|key| state.member(key)), &push);
            }
            if let Entry::Post(id) = entry {
                self.metrics.published_to_socket(now.saturating_sub(id.time()));
            }
        }
    }
}
