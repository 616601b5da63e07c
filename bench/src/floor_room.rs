//! The queues of the floor: one for each socket, and the lists of sockets that a message goes to.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The messages queued for one socket.
#[derive(Default)]
pub(super) struct FloorOutbox {
    queue: Mutex<VecDeque<Utf8Bytes>>,
    /// The socket's task.
    waker: AtomicWaker,
}

impl FloorOutbox {
    /// Queues a message and wakes the socket's task.
    pub(super) fn push(&self, message: Utf8Bytes) {
        self.queue.lock().push_back(message);
        self.waker.wake();
    }

    /// Swaps all queued messages into `batch`, which is empty.
    pub(super) fn poll_take(&self, context: &Context<'_>, batch: &mut VecDeque<Utf8Bytes>) -> Poll<()> {
        self.waker.register(context.waker());
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return Poll::Pending;
        }
        std::mem::swap(&mut *queue, batch);
        Poll::Ready(())
    }
}

/// The sockets that joined.
#[derive(Default)]
pub(super) struct FloorRoom {
    all: Mutex<Vec<Arc<FloorOutbox>>>,
    /// The followers of each author.
    followers: Mutex<HashMap<String, Vec<Arc<FloorOutbox>>>>,
}

impl FloorRoom {
    /// Adds a socket. `authors` are the authors it follows, separated by spaces.
    pub(super) fn join(&self, outbox: &Arc<FloorOutbox>, authors: &str) {
        self.all.lock().push(Arc::clone(outbox));
        let mut followers = self.followers.lock();
        for author in authors.split_whitespace() {
            followers.entry(author.to_owned()).or_default().push(Arc::clone(outbox));
        }
    }

    /// Removes a socket.
    pub(super) fn leave(&self, outbox: &Arc<FloorOutbox>) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, outbox));
        for outboxes in self.followers.lock().values_mut() {
            outboxes.retain(|other| !Arc::ptr_eq(other, outbox));
        }
    }

    /// Queues a message for every socket.
    pub(super) fn broadcast(&self, message: &Utf8Bytes) {
        for listener in self.all.lock().iter() {
            listener.push(message.clone());
        }
    }

    /// Queues a message for the followers of an author.
    pub(super) fn post(&self, author: &str, message: &Utf8Bytes) {
        for follower in self.followers.lock().get(author).into_iter().flatten() {
            follower.push(message.clone());
        }
    }
}
