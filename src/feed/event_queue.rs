//! The event queue: writes put events into it, and workers turn them into notifications and into entries of the outlet.
//!
//! The ledger stores the queue. This module holds the state that workers of this process share with writes: wake-ups,
//! and the number of likes that get an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::runtime::Runtime;
use crate::ledger::EventConsumer;

/// The maximal number of new likes of one object that get an event in one settlement. Also the number of waiting like
/// events at which new likes get none.
const LIKES_PER_OBJECT: usize = 500;
const MAX_WAITING_LIKE_EVENTS: u64 = 2_000;

/// The event queue of this process.
pub(crate) struct EventQueue {
    runtime: Arc<Runtime>,
    notifications: Wakers,
    likes: Wakers,
    /// Nobody waits for it without an outlet.
    outlet: Wakers,
    /// Like events that waited when the queue was last read.
    waiting_likes: AtomicU64,
}

/// The wake-ups of one consumer.
#[derive(Default)]
struct Wakers {
    /// This process wrote an event.
    written: Notify,
    /// Another process wrote an event.
    signalled: Notify,
}

impl EventQueue {
    /// An empty queue: its workers sleep.
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        let waiting_likes = AtomicU64::new(0);
        let [notifications, likes, outlet] = std::array::from_fn(|_| Wakers::default());
        Self { runtime, notifications, likes, outlet, waiting_likes }
    }

    /// Wakes the consumer: this process wrote an event. The outlet gets most events of the others, and wakes with them.
    pub(crate) fn wake(&self, consumer: EventConsumer) {
        self.wakers(consumer).written.notify_one();
        self.outlet.written.notify_one();
    }

    /// Wakes the consumers: another process wrote an event.
    pub(crate) fn on_signal(&self) {
        self.notifications.signalled.notify_one();
        self.likes.signalled.notify_one();
        self.outlet.signalled.notify_one();
    }

    /// Waits up to `at_most` for an event. Returns whether this process wrote it; `None` if the process stops.
    pub(crate) async fn wait(&self, consumer: EventConsumer, at_most: Duration) -> Option<bool> {
        let wakers = self.wakers(consumer);
        tokio::select! {
            () = wakers.written.notified() => Some(true),
            () = wakers.signalled.notified() => Some(false),
            more = self.runtime.sleep(at_most) => more.then_some(false),
        }
    }

    /// The maximal number of new likes of one object that get an event; 0 while too many like events wait.
    pub(crate) fn max_likes_per_object(&self) -> usize {
        if self.waiting_likes.load(Ordering::Relaxed) < MAX_WAITING_LIKE_EVENTS { LIKES_PER_OBJECT } else { 0 }
    }

    /// Records the number of waiting like events.
    pub(crate) fn set_waiting_likes(&self, waiting: u64) {
        let before = self.waiting_likes.swap(waiting, Ordering::Relaxed);
        if before < MAX_WAITING_LIKE_EVENTS && waiting >= MAX_WAITING_LIKE_EVENTS {
            tracing::warn!(waiting, "likes come too fast for all of them to be notified of");
        }
    }

    fn wakers(&self, consumer: EventConsumer) -> &Wakers {
        match consumer {
            EventConsumer::Notifications => &self.notifications,
            EventConsumer::Likes => &self.likes,
            EventConsumer::Outlet => &self.outlet,
        }
    }
}
