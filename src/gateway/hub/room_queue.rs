//! The rooms that wait for a delivery worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::room::Room;
use super::room_update::RoomUpdate;
use crate::gateway::wire::outgoing::Outgoing;

/// Rooms that a worker takes at once: the content of their entries is loaded together.
const MAX_BATCH: usize = 256;

/// Rooms with entries to render or gaps to fill. Each room is queued once at most, so the queue is bounded by their
/// number.
pub(crate) struct RoomQueue {
    queue: Mutex<VecDeque<Arc<Room>>>,
    queued: Notify,
    /// Hints may have been lost: all positions are to be compared with the logs.
    resync: AtomicBool,
    resync_requested: Notify,
}

impl RoomQueue {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            queued: Notify::new(),
            resync: AtomicBool::new(false),
            resync_requested: Notify::new(),
        }
    }

    /// Does what an update of a room requires.
    pub(crate) fn apply(&self, room: &Arc<Room>, update: RoomUpdate) {
        match update {
            RoomUpdate::None => {}
            RoomUpdate::Scheduled => self.push(Arc::clone(room)),
            RoomUpdate::Replaced(outboxes) => {
                for outbox in outboxes {
                    outbox.push(Outgoing::Insufficient(Arc::clone(room.name())));
                }
            }
        }
    }

    /// Queues a room that is marked as scheduled.
    pub(super) fn push(&self, room: Arc<Room>) {
        self.queue.lock().push_back(room);
        self.queued.notify_one();
    }

    /// Queues rooms that are marked as scheduled.
    pub(crate) fn push_all(&self, rooms: Vec<Arc<Room>>) {
        if !rooms.is_empty() {
            self.queue.lock().extend(rooms);
            self.queued.notify_one();
        }
    }

    /// Waits until a room may be queued.
    pub(super) async fn wait(&self) {
        self.queued.notified().await;
    }

    /// Takes some rooms; empty if there are none.
    pub(super) fn take(&self) -> Vec<Arc<Room>> {
        let mut queue = self.queue.lock();
        let count = queue.len().min(MAX_BATCH);
        let batch = queue.drain(..count).collect();
        if !queue.is_empty() {
            self.queued.notify_one();
        }
        batch
    }

    /// Requests that all positions are compared with the logs.
    pub(crate) fn request_resync(&self) {
        self.resync.store(true, Ordering::Release);
        self.resync_requested.notify_one();
    }

    /// Waits for [`request_resync`](Self::request_resync).
    pub(super) async fn resync_requested(&self) {
        while !self.resync.swap(false, Ordering::AcqRel) {
            self.resync_requested.notified().await;
        }
    }
}
