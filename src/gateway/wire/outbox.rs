//! The send queue of one socket: a locked queue, a waker and a byte count.
//!
//! A sender adds a message here and does not wait. The task of the client takes *all* queued messages and flushes once.
//! If a client reads too slowly, its queue overflows and the client is closed; no other client is delayed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use super::message_format::MessageFormat;
use super::outgoing::Outgoing;
use super::spare_queues;
use super::write_pacer::WritePacer;
use crate::protocol::Disconnect;

/// The capacity of a queue. A client whose queue exceeds either bound is closed with 3008.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum total size of the queued messages, in bytes.
    pub bytes: usize,
    /// The maximum number of queued messages.
    pub messages: usize,
}

/// The part of its [`Bounds`] at which a queue may not wait for its turn: all connections are woken.
const URGENT_PART: usize = 8;

/// The queue of one client.
#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<SendQueue>,
    /// Whether the queue is not empty, or is closed. Written under the lock of the queue, read without it.
    ready: AtomicBool,
    /// The waker of the client's task. While the task waits in the pacer, its waker is there.
    reader: AtomicWaker,
    bounds: Bounds,
    /// The format of the messages for this client.
    format: MessageFormat,
    pacer: Arc<WritePacer>,
}

#[derive(Debug, Default)]
struct SendQueue {
    /// Without capacity while it is empty.
    waiting: VecDeque<Outgoing>,
    bytes: usize,
    closed: Option<Disconnect>,
}

/// The result of adding an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    /// It is queued, or the client is being closed.
    Queued,
    /// It is queued, and from now on the queue may not wait for its turn.
    Urgent,
    /// It did not fit, and this call closed the client.
    Overflow,
}

impl Outbox {
    /// An empty queue of a client that receives messages in this format.
    pub fn new(bounds: Bounds, format: MessageFormat, pacer: Arc<WritePacer>) -> Self {
        let queue = Mutex::default();
        let ready = AtomicBool::new(false);
        let reader = AtomicWaker::new();
        Self { queue, ready, reader, bounds, format, pacer }
    }

    /// The format of the messages for this client.
    pub fn format(&self) -> MessageFormat {
        self.format
    }

    /// Adds an item. If it does not fit, the client is closed as slow and all queued items are dropped; the client
    /// reconnects and recovers them from the log. Returns `false` if this call closed the client.
    pub fn push(&self, item: Outgoing) -> bool {
        let added = self.add(item);
        self.schedule();
        if added == Added::Urgent {
            self.pacer.hurry();
        }
        added != Added::Overflow
    }

    /// As [`push`](Self::push), but does not wake the client: the item is written together with the next one, or after
    /// [`flush`](Self::flush).
    pub fn push_for_later(&self, item: Outgoing) -> bool {
        let added = self.add(item);
        if added != Added::Queued {
            self.schedule();
            self.pacer.hurry();
        }
        added != Added::Overflow
    }

    /// Wakes the client if items are queued.
    pub fn flush(&self) {
        if self.is_ready() {
            self.schedule();
        }
    }

    /// Whether items are queued, or the client must be closed.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    fn add(&self, item: Outgoing) -> Added {
        let mut queue = self.queue.lock();
        if queue.closed.is_some() {
            return Added::Queued;
        }
        let was_urgent = self.is_urgent(&queue);
        let bytes = queue.bytes + item.bytes();
        let fits = bytes <= self.bounds.bytes && queue.waiting.len() < self.bounds.messages;
        if fits {
            queue.bytes = bytes;
            if queue.waiting.capacity() == 0 {
                queue.waiting = spare_queues::take_items();
            }
            queue.waiting.push_back(item);
        } else {
            *queue = SendQueue { closed: Some(Disconnect::SLOW), ..SendQueue::default() };
        }
        let is_urgent = !was_urgent && self.is_urgent(&queue);
        self.ready.store(true, Ordering::Release);
        match (fits, is_urgent) {
            (false, _) => Added::Overflow,
            (true, true) => Added::Urgent,
            (true, false) => Added::Queued,
        }
    }

    fn schedule(&self) {
        if let Some(waker) = self.reader.take() {
            self.pacer.schedule(waker);
        }
    }

    fn is_urgent(&self, queue: &SendQueue) -> bool {
        let Bounds { bytes, messages } = self.bounds;
        queue.bytes >= (bytes / URGENT_PART).max(1) || queue.waiting.len() >= (messages / URGENT_PART).max(1)
    }

    /// Requests that the client is closed. The first request determines the code. Queued items are still written first,
    /// if possible.
    pub fn close(&self, why: Disconnect) {
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert(why);
        self.ready.store(true, Ordering::Release);
        drop(queue);
        self.reader.wake();
    }

    /// The total size of the queued items, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Ready if items are queued or the client must be closed. Only the client's own task may poll.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, Self::is_ready)
    }

    /// Ready if the client must be closed. Only the client's own task may poll.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |outbox| outbox.queue.lock().closed.is_some())
    }

    fn poll(&self, cx: &mut Context<'_>, is_ready: impl Fn(&Self) -> bool) -> Poll<()> {
        if is_ready(self) {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        // An item may have arrived between the check and the registration.
        if is_ready(self) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes all queued items, and the close code if the client must be closed after them.
    pub fn take(&self) -> (VecDeque<Outgoing>, Option<Disconnect>) {
        let mut queue = self.queue.lock();
        let taken = std::mem::take(&mut queue.waiting);
        queue.bytes = 0;
        self.ready.store(queue.closed.is_some(), Ordering::Release);
        (taken, queue.closed.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::wire::framed::{FrameKind, Framed};

    fn message(text: &str) -> Outgoing {
        Outgoing::Push(Framed::new(FrameKind::Text, text.as_bytes()))
    }

    #[test]
    fn items_come_out_in_order_at_once() {
        let outbox = Outbox::new(Bounds { bytes: 100, messages: 10 }, MessageFormat::WebSocketJson, Arc::default());
        assert!(outbox.push(message("a")) && outbox.push(message("b")));
        let (taken, end) = outbox.take();
        assert_eq!(end, None);
        assert_eq!(taken, [message("a"), message("b")]);
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn slow_readers_are_closed_and_release_memory() {
        for bounds in [Bounds { bytes: 20, messages: 100 }, Bounds { bytes: 100, messages: 3 }] {
            let outbox = Outbox::new(bounds, MessageFormat::WebSocketJson, Arc::default());
            assert_eq!((0..4).filter(|_| !outbox.push(message("four"))).count(), 1, "closed once: {bounds:?}");
            let (taken, end) = outbox.take();
            assert_eq!(end, Some(Disconnect::SLOW));
            assert!(taken.is_empty() && outbox.bytes() == 0);
        }
    }

    #[test]
    fn items_for_later_wait_for_a_flush_or_another_item() {
        for wakes in [|outbox: &Outbox| outbox.flush(), |outbox: &Outbox| _ = outbox.push(message("b"))] {
            let pacer = Arc::new(WritePacer::default());
            let bounds = Bounds { bytes: 1_000, messages: 80 };
            let outbox = Outbox::new(bounds, MessageFormat::WebSocketJson, Arc::clone(&pacer));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(outbox.poll_ready(&mut cx).is_pending());
            outbox.flush();
            assert_eq!(pacer.waiting(), 0, "nothing is queued");
            assert!(outbox.push_for_later(message("a")));
            assert_eq!(pacer.waiting(), 0);
            assert!(outbox.poll_ready(&mut cx).is_ready(), "a client that is awake takes it along");
            wakes(&outbox);
            assert_eq!(pacer.waiting(), 1);
            assert_eq!(outbox.take().0[0], message("a"));
        }
    }

    #[test]
    fn items_for_later_wake_a_client_that_must_be_closed() {
        let pacer = Arc::new(WritePacer::default());
        let bounds = Bounds { bytes: 20, messages: 80 };
        let outbox = Outbox::new(bounds, MessageFormat::WebSocketJson, Arc::clone(&pacer));
        assert!(outbox.poll_ready(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        assert_eq!((0..9).filter(|_| !outbox.push_for_later(message("four"))).count(), 1);
        assert_eq!((pacer.waiting(), outbox.take().1), (1, Some(Disconnect::SLOW)));
    }

    #[test]
    fn the_first_close_reason_wins() {
        let outbox = Outbox::new(Bounds { bytes: 10, messages: 1 }, MessageFormat::WebSocketJson, Arc::default());
        outbox.close(Disconnect::SHUTDOWN);
        outbox.close(Disconnect::SLOW);
        assert_eq!(outbox.take().1, Some(Disconnect::SHUTDOWN));
    }

    #[test]
    fn filling_queues_are_urgent() {
        // Each message takes 6 bytes with its header.
        let many = 1 << 20;
        for (bytes, messages, calm) in [(many, 80, 9), (480, many, 9), (many, 1, 0), (6, many, 0)] {
            let pacer = Arc::new(WritePacer::default());
            let outbox = Outbox::new(Bounds { bytes, messages }, MessageFormat::WebSocketJson, Arc::clone(&pacer));
            let push = || {
                assert!(outbox.push(message("four")));
                pacer.is_urgent()
            };
            assert_eq!((0..=calm).map(|_| push()).filter(|is_urgent| !is_urgent).count(), calm);
        }
    }
}
