//! A bounded queue of calls, and the threads that serve it, each with a connection. Async code reaches SQLite through
//! it without blocking the runtime.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::errors::failure;
use crate::ledger::{LedgerError, Result, metered};
use crate::store_metrics::StoreMeter;
use crate::supervisor::supervise_thread;

/// The maximal number of queued calls, about 200 bytes each. It is much larger than the number of clients that a
/// gateway reconnects at once.
pub(super) const QUEUE_CAPACITY: usize = 16_384;

/// The outcome of a call's statements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallResult {
    /// The call's changes are to be committed.
    Succeeded,
    /// The call's changes are to be rolled back.
    Failed,
}

/// How a call shares a transaction with others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// With the calls that wait at the same time.
    Waiting,
    /// As `Waiting`, but the call may wait a moment for others, because nobody waits for its result.
    Patient,
    /// With none: the call writes much, and has a transaction of its own.
    Alone,
}

/// A queued call, with the channel for its result.
pub(super) trait QueuedCall: Send {
    /// Whether the caller has timed out or gone away.
    fn abandoned(&self) -> bool;

    /// How the call shares a transaction with others.
    fn sharing(&self) -> Sharing;

    /// Runs the statements and keeps the result.
    fn run(&mut self, db: &Connection) -> CallResult;

    /// Sends the result to the caller. `batch` is the error of the surrounding transaction, which was rolled back; it
    /// replaces the result.
    fn answer(self: Box<Self>, batch: Option<LedgerError>);
}

struct LaneCall<T, F> {
    job: Option<F>,
    sharing: Sharing,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<T, F> QueuedCall for LaneCall<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn run(&mut self, db: &Connection) -> CallResult {
        let Some(job) = self.job.take() else { return CallResult::Failed };
        // A panic in one call must not end the thread, which serves all later calls.
        let result = match catch_unwind(AssertUnwindSafe(|| job(db))) {
            Ok(result) => result.map_err(|error| failure(&error)),
            Err(_) => Err(LedgerError::Failed("a query panicked".into())),
        };
        let ran = if result.is_ok() { CallResult::Succeeded } else { CallResult::Failed };
        self.result = Some(result);
        ran
    }

    fn answer(self: Box<Self>, batch: Option<LedgerError>) {
        let result = match (self.result, batch) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(batch)) => Err(batch),
            (Some(result), None) => result,
            (None, None) => return,
        };
        // The caller may have been cancelled.
        let _ = self.answer.send(result);
    }
}

/// A bounded queue of calls that any number of threads serve. A call wakes one thread, and only if one is idle. The
/// channels of the standard library have a single receiver: threads that share one wake each other for every call.
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

impl<C> CallQueue<C> {
    /// An empty queue.
    fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(QueueState { calls: VecDeque::new(), is_closed: false }),
            changed: Condvar::new(),
            capacity,
        }
    }

    /// Adds a call.
    fn push(&self, call: C) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(closed());
        }
        if state.calls.len() >= self.capacity {
            return Err(LedgerError::Busy);
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
    fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// The queue of a lane.
pub(super) type LaneQueue = CallQueue<Box<dyn QueuedCall>>;

/// A queue, and the threads that serve it. The threads end after [`close`](Self::close), or when the lane is dropped,
/// as soon as the queue is empty.
pub(super) struct Lane {
    queue: Arc<LaneQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The time limit of a call.
    timeout: Duration,
}

impl Lane {
    /// A lane without threads, for at most `capacity` queued calls.
    pub(super) fn new(capacity: usize, timeout: Duration) -> (Self, Arc<LaneQueue>) {
        let queue = Arc::new(CallQueue::new(capacity));
        (Self { queue: Arc::clone(&queue), threads: Mutex::default(), timeout }, queue)
    }

    /// Starts a thread that serves the lane, and goes on after a panic. [`close`](Self::close) waits for it.
    pub(super) fn spawn(&self, task: &'static str, name: &str, body: impl FnMut() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                StoreMeter::ledger().opened();
                supervise_thread(task, body);
                StoreMeter::ledger().closed();
            })
            .map_err(|error| LedgerError::Unreachable(format!("cannot start the thread {name}: {error}")))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Runs `job` on a thread of the lane and returns its result.
    pub(super) async fn call<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.call_with(Sharing::Waiting, job).await
    }

    /// As [`call`](Self::call), but the writer shares the job's transaction with others in another way.
    pub(super) async fn call_with<T, F>(&self, sharing: Sharing, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        metered(async {
            let (answer, answered) = oneshot::channel();
            self.queue.push(Box::new(LaneCall { job: Some(job), sharing, result: None, answer }))?;
            match tokio::time::timeout(self.timeout, answered).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(closed()),
                Err(_) => Err(LedgerError::Unreachable(format!("no answer within {:?}", self.timeout))),
            }
        })
        .await
    }

    /// Rejects new calls, lets the threads finish the queued ones, and waits for the threads. Blocks.
    pub(super) fn close(&self) {
        self.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn closed() -> LedgerError {
    LedgerError::Unreachable("the ledger is closed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn serve(queue: &LaneQueue) {
        let db = Connection::open_in_memory().expect("memory");
        while let Some(mut work) = queue.pop() {
            work.run(&db);
            work.answer(None);
        }
    }

    #[tokio::test]
    async fn full_queues_fail_at_once() {
        let (lane, _queue) = Lane::new(1, LONG);
        let waiting = lane.call(|_| Ok(()));
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        assert!(matches!(lane.call(|_| Ok(())).await, Err(LedgerError::Busy)));
    }

    #[tokio::test]
    async fn calls_past_their_timeout_are_abandoned() {
        let (lane, queue) = Lane::new(1, Duration::from_millis(5));
        assert!(matches!(lane.call(|_| Ok(())).await, Err(LedgerError::Unreachable(_))));
        assert!(queue.pop().is_some_and(|work| work.abandoned()));
    }

    #[tokio::test]
    async fn a_panic_fails_one_call_only() {
        let (lane, queue) = Lane::new(9, LONG);
        lane.spawn("test", "test", move || serve(&queue)).expect("a thread");
        let panicked = lane.call(|_| -> rusqlite::Result<()> { panic!("on purpose") }).await;
        assert!(matches!(panicked, Err(LedgerError::Failed(_))));
        assert!(matches!(lane.call(|_| Ok(7)).await, Ok(7)));
    }

    #[tokio::test]
    async fn close_answers_waiting_calls_and_rejects_later_ones() {
        let (lane, queue) = Lane::new(9, LONG);
        let mut waiting = [1, 2, 3].map(|n| Box::pin(lane.call(move |_| Ok(n))));
        for call in &mut waiting {
            assert!(futures::poll!(call).is_pending());
        }
        lane.spawn("test", "test", move || serve(&queue)).expect("a thread");
        lane.close();
        let answers = futures::future::join_all(waiting).await;
        assert_eq!(answers.into_iter().flatten().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(matches!(lane.call(|_| Ok(())).await, Err(LedgerError::Unreachable(_))));
    }

    #[test]
    fn full_and_closed_queues_reject_calls() {
        let queue = CallQueue::new(2);
        assert!(queue.push(1).is_ok() && queue.push(2).is_ok());
        assert!(matches!(queue.push(3), Err(LedgerError::Busy)));
        assert_eq!(queue.pop(), Some(1));
        assert!(queue.push(4).is_ok());
        queue.close();
        assert!(matches!(queue.push(5), Err(LedgerError::Unreachable(_))));
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
