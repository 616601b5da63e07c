//! A bounded queue of calls that any number of threads serve.
//!
//! A call wakes one thread, and only if one is idle. The channels of the standard library have a single receiver:
//! threads that share one wake each other for every call.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The queue.
pub(super) struct CallQueue<C> {
    state: Mutex<QueueState<C>>,
    changed: Condvar,
    /// The maximal number of queued calls.
    capacity: usize,
}

struct QueueState<C> {
    calls: VecDeque<C>,
    is_closed: bool,
}

/// The reason why a call was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushError {
    Full,
    Closed,
}

impl<C> CallQueue<C> {
    /// An empty queue.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(QueueState { calls: VecDeque::new(), is_closed: false }),
            changed: Condvar::new(),
            capacity,
        }
    }

    /// Adds a call.
    pub(super) fn push(&self, call: C) -> Result<(), PushError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(PushError::Closed);
        }
        if state.calls.len() >= self.capacity {
            return Err(PushError::Full);
        }
        state.calls.push_back(call);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The next call, if one waits.
    pub(super) fn try_pop(&self) -> Option<C> {
        self.state.lock().calls.pop_front()
    }

    /// Waits for the next call. `None` if the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<C> {
        let mut state = self.state.lock();
        loop {
            let next = state.calls.pop_front();
            if next.is_some() || state.is_closed {
                return next;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits for the next call until the deadline.
    pub(super) fn pop_until(&self, deadline: Instant) -> Option<C> {
        let mut state = self.state.lock();
        loop {
            let next = state.calls.pop_front();
            if next.is_some() || state.is_closed || self.changed.wait_until(&mut state, deadline).timed_out() {
                return next.or_else(|| state.calls.pop_front());
            }
        }
    }

    /// Rejects further calls. The queued ones are still served.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn full_and_closed_queues_reject_calls() {
        let queue = CallQueue::new(2);
        assert_eq!([1, 2, 3].map(|call| queue.push(call)), [Ok(()), Ok(()), Err(PushError::Full)]);
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(4), Ok(()));
        queue.close();
        assert_eq!(queue.push(5), Err(PushError::Closed));
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.try_pop()], [Some(2), Some(4), None, None]);
    }

    #[test]
    fn every_call_is_served_once_by_any_of_several_threads() {
        let queue = Arc::new(CallQueue::new(10_000));
        let serving: Vec<_> = (0..3)
            .map(|_| {
                let queue = Arc::clone(&queue);
                std::thread::spawn(move || std::iter::from_fn(|| queue.pop()).collect::<Vec<u32>>())
            })
            .collect();
        (0..5_000).for_each(|call| queue.push(call).expect("there is room"));
        queue.close();
        let mut served: Vec<u32> = serving.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect();
        served.sort_unstable();
        assert_eq!(served, (0..5_000).collect::<Vec<_>>());
    }

    #[test]
    fn waits_end_at_their_deadline() {
        let queue: CallQueue<u32> = CallQueue::new(1);
        let begun = Instant::now();
        let patience = Duration::from_millis(20);
        assert_eq!(queue.pop_until(begun + patience), None);
        assert!(begun.elapsed() >= patience);
        queue.push(1).expect("there is room");
        assert_eq!(queue.pop_until(Instant::now()), Some(1));
    }
}
