//! A bounded queue of calls for the threads that own the connections. Async code reaches SQLite through it without
//! blocking the runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::call_queue::{CallQueue, PushError};
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
        metered(self.submit_and_wait(job, Sharing::Waiting)).await
    }

    /// As [`call`](Self::call), but the writer shares the job's transaction with others in another way.
    pub(super) async fn call_with<T, F>(&self, sharing: Sharing, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        metered(self.submit_and_wait(job, sharing)).await
    }

    async fn submit_and_wait<T, F>(&self, job: F, sharing: Sharing) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.submit(Box::new(LaneCall { job: Some(job), sharing, result: None, answer }))?;
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(closed()),
            Err(_) => Err(LedgerError::Unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    fn submit(&self, work: Box<dyn QueuedCall>) -> Result<()> {
        self.queue.push(work).map_err(|error| match error {
            PushError::Full => LedgerError::Busy,
            PushError::Closed => closed(),
        })
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
}
