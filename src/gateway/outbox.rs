//! What waits to be written to one socket: a locked queue, a waker and a byte count.
//!
//! Whoever has something for a client puts it here and goes on; the client's own task takes *all* that is queued, and
//! flushes once. A client that reads too slowly overflows its queue and is closed; nobody else waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use super::transport::Framed;
use crate::protocol::Disconnect;

/// Something to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// This message. Shared: one encoding goes to every reader.
    Push(Framed),
    /// That a subscription cannot go on without a gap: how it is said depends on whose it is.
    Insufficient(Arc<str>),
    /// That the backend ended a subscription.
    Unsubscribed(Arc<str>),
    /// That the token of a subscription was revoked.
    Revoked(Arc<str>),
}

impl Outgoing {
    fn bytes(&self) -> usize {
        match self {
            Self::Push(message) => message.len(),
            Self::Insufficient(channel) | Self::Unsubscribed(channel) | Self::Revoked(channel) => channel.len(),
        }
    }
}

/// How much may wait. Over either, the client is closed with 3008.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of messages.
    pub bytes: usize,
    /// Messages.
    pub messages: usize,
}

/// An emptied queue with more capacity than this frees it: a burst must not occupy memory permanently.
pub(super) const KEPT_CAPACITY: usize = 64;

/// The queue of one client.
#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<SendQueue>,
    /// Something is in the queue, or it is closed. Changed under the queue's lock, looked at without it.
    ready: AtomicBool,
    /// The client's task, woken by whatever is put in.
    reader: AtomicWaker,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct SendQueue {
    waiting: VecDeque<Outgoing>,
    bytes: usize,
    closed: Option<Disconnect>,
}

impl Outbox {
    /// An empty queue.
    pub fn new(bounds: Bounds) -> Self {
        Self { queue: Mutex::default(), ready: AtomicBool::new(false), reader: AtomicWaker::new(), bounds }
    }

    /// Queues something. If there is no room the client is closed as slow and what waited is dropped: it comes back and
    /// recovers from the log. `false` of a client that was closed by it.
    pub fn push(&self, item: Outgoing) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed.is_some() {
            return true;
        }
        let bytes = queue.bytes + item.bytes();
        let fits = bytes <= self.bounds.bytes && queue.waiting.len() < self.bounds.messages;
        if fits {
            queue.bytes = bytes;
            queue.waiting.push_back(item);
        } else {
            *queue = SendQueue { closed: Some(Disconnect::SLOW), ..SendQueue::default() };
        }
        self.ready.store(true, Ordering::Release);
        drop(queue);
        self.reader.wake();
        fits
    }

    /// Has the client closed, unless it is being closed already. What is queued is still written first, if it can be.
    pub fn close(&self, why: Disconnect) {
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert(why);
        self.ready.store(true, Ordering::Release);
        drop(queue);
        self.reader.wake();
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Ready when something waits, or the client is to be closed. Only the client's own task may poll.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |outbox| outbox.ready.load(Ordering::Acquire))
    }

    /// Ready when the client is to be closed. Only the client's own task may poll.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |outbox| outbox.queue.lock().closed.is_some())
    }

    fn poll(&self, cx: &mut Context<'_>, is_ready: impl Fn(&Self) -> bool) -> Poll<()> {
        if is_ready(self) {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        // Between the look and the registration something may have come.
        if is_ready(self) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes all that waits into `taken`, which must be empty, and says whether the client is to be closed after it.
    pub fn take(&self, taken: &mut VecDeque<Outgoing>) -> Option<Disconnect> {
        if taken.capacity() > KEPT_CAPACITY {
            *taken = VecDeque::new();
        }
        let mut queue = self.queue.lock();
        std::mem::swap(&mut queue.waiting, taken);
        queue.bytes = 0;
        self.ready.store(queue.closed.is_some(), Ordering::Release);
        queue.closed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Outgoing {
        Outgoing::Push(Framed::text(text.as_bytes()))
    }

    #[test]
    fn items_come_out_in_order_at_once() {
        let outbox = Outbox::new(Bounds { bytes: 100, messages: 10 });
        assert!(outbox.push(message("a")) && outbox.push(message("b")));
        let mut taken = VecDeque::new();
        assert_eq!(outbox.take(&mut taken), None);
        assert_eq!(taken, [message("a"), message("b")]);
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn slow_readers_are_closed_and_release_memory() {
        for bounds in [Bounds { bytes: 20, messages: 100 }, Bounds { bytes: 100, messages: 3 }] {
            let outbox = Outbox::new(bounds);
            assert_eq!((0..4).filter(|_| !outbox.push(message("four"))).count(), 1, "closed once: {bounds:?}");
            let mut taken = VecDeque::new();
            assert_eq!(outbox.take(&mut taken), Some(Disconnect::SLOW));
            assert!(taken.is_empty() && outbox.bytes() == 0);
        }
    }

    #[test]
    fn the_first_close_reason_wins() {
        let outbox = Outbox::new(Bounds { bytes: 10, messages: 1 });
        outbox.close(Disconnect::SHUTDOWN);
        outbox.close(Disconnect::SLOW);
        assert_eq!(outbox.take(&mut VecDeque::new()), Some(Disconnect::SHUTDOWN));
    }
}
