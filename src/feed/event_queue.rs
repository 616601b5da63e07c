//! The event queue: writes put events into it, and workers turn them into notifications.
//!
//! The queue is in the ledger. This is what the workers of this process share with the writes: wake-ups, and how many
//! likes are worth an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::runtime::Runtime;
use crate::ledger::EventConsumer;

/// New likes of one object that get an event, each time some are settled; and the waiting events of likes past which
/// none do.
const LIKES_PER_OBJECT: usize = 500;
const MAX_WAITING_LIKE_EVENTS: u64 = 2_000;

/// The event queue of this process.
pub(crate) struct EventQueue {
    runtime: Arc<Runtime>,
    notifications: Wakers,
    likes: Wakers,
    /// Events of likes that waited when the queue was last read.
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
    /// A queue whose workers sleep.
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        let waiting_likes = AtomicU64::new(0);
        Self { runtime, notifications: Wakers::default(), likes: Wakers::default(), waiting_likes }
    }

    /// This process wrote an event.
    pub(crate) fn wake(&self, consumer: EventConsumer) {
        self.wakers(consumer).written.notify_one();
    }

    /// Another process wrote an event.
    pub(crate) fn on_signal(&self) {
        self.notifications.signalled.notify_one();
        self.likes.signalled.notify_one();
    }

    /// Waits for an event, for at most so long. Returns whether this process wrote one; `None` if the process stops.
    pub(crate) async fn wait(&self, consumer: EventConsumer, at_most: Duration) -> Option<bool> {
        let wakers = self.wakers(consumer);
        tokio::select! {
            () = wakers.written.notified() => Some(true),
            () = wakers.signalled.notified() => Some(false),
            more = self.runtime.sleep(at_most) => more.then_some(false),
        }
    }

    /// The most new likes of one object that get an event; 0 while too many events of likes wait.
    pub(crate) fn max_likes_per_object(&self) -> usize {
        if self.waiting_likes.load(Ordering::Relaxed) < MAX_WAITING_LIKE_EVENTS { LIKES_PER_OBJECT } else { 0 }
    }

    /// Notes how many events of likes wait.
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
        }
    }
}
