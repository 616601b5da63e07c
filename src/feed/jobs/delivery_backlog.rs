//! What the hub of this node has still to deliver, so that replies to writes can wait for it.
//!
//! When a job has ended, its entries are in the logs, and the rooms of connected followers wait in the hub's queue. A
//! write is under way until the hub has served the rooms that waited at that moment. Rooms on other nodes are not
//! counted: with the job's last call its hints are on their way to them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::write_under_way::WriteUnderWay;

/// The maximal number of writes that wait for the hub. Replies to further writes do not wait for it.
const MAX_WAITING: usize = 4_096;

/// Counts the rooms that the hub queues and serves.
#[derive(Default)]
pub(crate) struct DeliveryBacklog {
    /// Rooms queued since the start of the process. A room is counted each time.
    queued: AtomicU64,
    /// Those of them that were served.
    served: AtomicU64,
    /// Writes whose jobs have ended, each with the value of `served` that it waits for.
    waiting: Mutex<VecDeque<(u64, Arc<WriteUnderWay>)>>,
}

impl DeliveryBacklog {
    /// The hub has queued this many rooms.
    pub(crate) fn queued(&self, rooms: usize) {
        self.queued.fetch_add(rooms as u64, Ordering::Relaxed);
    }

    /// The hub has served this many rooms.
    pub(crate) fn served(&self, rooms: usize) {
        self.served.fetch_add(rooms as u64, Ordering::SeqCst);
        self.end_served();
    }

    /// Ends a write when the hub has served the rooms that wait now. Workers of the hub serve rooms concurrently, so
    /// it may be early by a batch.
    pub(super) fn end_after_deliveries(&self, write: Arc<WriteUnderWay>) {
        let queued = self.queued.load(Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        if self.served.load(Ordering::SeqCst) >= queued || waiting.len() >= MAX_WAITING {
            drop(waiting);
            return write.end();
        }
        waiting.push_back((queued, write));
        drop(waiting);
        // The last room may have been served before the write was in the list.
        self.end_served();
    }

    fn end_served(&self) {
        let mut waiting = self.waiting.lock();
        let served = self.served.load(Ordering::SeqCst);
        let count = waiting.iter().take_while(|(queued, _)| *queued <= served).count();
        let ended: Vec<_> = waiting.drain(..count).collect();
        drop(waiting);
        ended.into_iter().for_each(|(_, write)| write.end());
    }
}
