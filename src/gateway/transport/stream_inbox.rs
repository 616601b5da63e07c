//! The commands that arrive for one stream: a locked queue and a waker, with bounds.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::protocol::EmulatedData;

/// Requests that may wait for the commands before them. SDKs send the next batch without waiting for a reply, but a
/// client that has this many under way is far beyond its rate of commands.
const MAX_BATCHES: usize = 64;

/// How many of the largest requests fit.
const MAX_LARGE_BATCHES: usize = 4;

/// The commands that wait for the connection of a stream.
#[derive(Debug)]
pub(crate) struct StreamInbox {
    queue: Mutex<WaitingBatches>,
    reader: AtomicWaker,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct WaitingBatches {
    batches: VecDeque<EmulatedData>,
    bytes: usize,
    has_overflowed: bool,
}

/// More commands arrived than may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl StreamInbox {
    /// An empty inbox of a client whose requests have this many bytes at most.
    pub(crate) fn new(message_bytes: usize) -> Self {
        let max_bytes = message_bytes.saturating_mul(MAX_LARGE_BATCHES);
        Self { queue: Mutex::default(), reader: AtomicWaker::new(), max_bytes }
    }

    /// Adds the commands of a request, behind those that arrived before. If they do not fit, everything that waits is
    /// dropped and the connection ends: without some commands, the others would not mean the same.
    pub(crate) fn push(&self, data: EmulatedData) {
        let mut queue = self.queue.lock();
        if queue.has_overflowed {
            return;
        }
        let bytes = queue.bytes + data.len();
        if bytes > self.max_bytes || queue.batches.len() >= MAX_BATCHES {
            *queue = WaitingBatches { has_overflowed: true, ..WaitingBatches::default() };
        } else {
            queue.bytes = bytes;
            queue.batches.push_back(data);
        }
        drop(queue);
        self.reader.wake();
    }

    /// Takes the oldest commands. Only the task of the connection may poll.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<EmulatedData, Overflow>> {
        if let Some(taken) = self.take() {
            return Poll::Ready(taken);
        }
        self.reader.register(cx.waker());
        // Commands may have arrived between the check and the registration.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn take(&self) -> Option<Result<EmulatedData, Overflow>> {
        let mut queue = self.queue.lock();
        if queue.has_overflowed {
            return Some(Err(Overflow));
        }
        let Some(data) = queue.batches.pop_front() else {
            // Most clients send nothing for hours.
            queue.batches = VecDeque::new();
            return None;
        };
        queue.bytes -= data.len();
        Some(Ok(data))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn batch(size: usize) -> EmulatedData {
        EmulatedData::Text("x".repeat(size))
    }

    fn poll(inbox: &StreamInbox) -> Poll<Result<EmulatedData, Overflow>> {
        inbox.poll_take(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn commands_come_out_in_order() {
        let inbox = StreamInbox::new(10);
        (1..=3).for_each(|size| inbox.push(batch(size)));
        for size in 1..=3 {
            assert_eq!(poll(&inbox), Poll::Ready(Ok(batch(size))));
        }
        assert!(poll(&inbox).is_pending());
        // What was taken makes room.
        for _ in 0..1_000 {
            inbox.push(batch(10));
            assert_eq!(poll(&inbox), Poll::Ready(Ok(batch(10))));
        }
    }

    #[test]
    fn both_bounds_end_the_connection_and_release_memory() {
        for (size, fitting) in [(10, MAX_LARGE_BATCHES), (0, MAX_BATCHES)] {
            let inbox = StreamInbox::new(10);
            (0..fitting).for_each(|_| inbox.push(batch(size)));
            assert!(!inbox.queue.lock().has_overflowed);
            inbox.push(batch(size));
            inbox.push(batch(1));
            assert!(inbox.queue.lock().batches.is_empty());
            assert_eq!(poll(&inbox), Poll::Ready(Err(Overflow)));
        }
    }
}
