//! Back-pressure: replies to writes wait while much fan-out is under way.
//!
//! A post is stored long before its followers have it. Writers that post as fast as they receive replies would
//! therefore be ahead of the fan-out by more and more jobs, and every delivery would be later than the one before.
//! So a reply is sent when few answered writes are under way, or when its own write is not under way any more. A write
//! is under way until its jobs have ended and the hub of this node has made their deliveries (`delivery_backlog.rs`).
//! The write is durable by then and its job is queued: only the reply waits, for [`MAX_WAIT`] at most, and nothing is
//! locked meanwhile.
//!
//! Jobs that take long do not count: those of authors with many followers, and those that wait for a store. The other
//! jobs of their lane wait for them, so the replies of these writes do not wait either.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::delivery_backlog::DeliveryBacklog;
use super::write_under_way::WriteUnderWay;

/// The number of writes that are answered although they are under way. A writer alone is not held back by it. With 32
/// writers, 16 gave up to 5 % more posts a second, but delivered half of them later, and the last hundredth twice as
/// late.
const MAX_ANSWERED: usize = 4;

/// The longest time for which a reply waits: longer than some hundred writers need in turn, and far below the timeouts
/// of clients.
const MAX_WAIT: Duration = Duration::from_millis(400);

/// Delays replies.
pub(super) struct ReplyGate {
    /// A permit for each write that is answered while its jobs are under way. Waiting replies get them in order.
    answered: Arc<Semaphore>,
    /// Cancelled when the process stops: replies do not wait any more.
    stopping: CancellationToken,
    deliveries: Arc<DeliveryBacklog>,
}

/// Shared by the jobs of one write. When it is dropped, they have ended.
pub(crate) struct UnderWay {
    write: Arc<WriteUnderWay>,
    deliveries: Arc<DeliveryBacklog>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.deliveries.end_after_deliveries(Arc::clone(&self.write));
    }
}

/// A job in its lane or running, as the gate sees it.
pub(crate) struct JobPace {
    under_way: Option<Arc<UnderWay>>,
    /// Whether a job that takes long is running in the lane.
    lane_is_slow: Arc<AtomicBool>,
    is_slow: bool,
}

impl JobPace {
    pub(super) fn new(under_way: Option<Arc<UnderWay>>, lane_is_slow: Arc<AtomicBool>) -> Self {
        Self { under_way, lane_is_slow, is_slow: false }
    }

    /// The job takes long: no reply waits for it, or for those behind it.
    pub(crate) fn takes_long(&mut self) {
        self.is_slow = true;
        self.lane_is_slow.store(true, Ordering::Relaxed);
        self.under_way = None;
    }
}

impl Drop for JobPace {
    fn drop(&mut self) {
        // A lane runs one job at a time.
        if self.is_slow {
            self.lane_is_slow.store(false, Ordering::Relaxed);
        }
    }
}

/// A write whose jobs are queued.
pub(crate) struct Submitted {
    /// `None`: the reply does not wait.
    gate: Option<Arc<ReplyGate>>,
    /// `None` if the jobs wait in the ledger.
    write: Option<Arc<WriteUnderWay>>,
}

impl ReplyGate {
    pub(super) fn new(stopping: CancellationToken, deliveries: Arc<DeliveryBacklog>) -> Arc<Self> {
        Arc::new(Self { answered: Arc::new(Semaphore::new(MAX_ANSWERED)), stopping, deliveries })
    }

    /// A write whose jobs are about to be queued.
    pub(super) fn begin(&self) -> Arc<UnderWay> {
        Arc::new(UnderWay { write: Arc::default(), deliveries: Arc::clone(&self.deliveries) })
    }

    /// The write, once its jobs are queued: here, or in the ledger.
    pub(super) fn submitted(self: &Arc<Self>, under_way: Option<&UnderWay>) -> Submitted {
        Submitted { gate: Some(Arc::clone(self)), write: under_way.map(|jobs| Arc::clone(&jobs.write)) }
    }
}

impl Submitted {
    /// A write whose reply does not wait.
    pub(super) const UNPACED: Self = Self { gate: None, write: None };

    /// Waits until the write may be answered.
    pub(crate) async fn may_answer(self) {
        let Some(gate) = self.gate else { return };
        if let Ok(permit) = Arc::clone(&gate.answered).try_acquire_owned() {
            return keep(self.write.as_deref(), permit);
        }
        tokio::select! {
            biased;
            () = gate.stopping.cancelled() => {}
            Ok(permit) = Arc::clone(&gate.answered).acquire_owned() => keep(self.write.as_deref(), permit),
            () = ended(self.write.as_deref()) => {}
            () = tokio::time::sleep(MAX_WAIT) => {}
        }
    }
}

fn keep(write: Option<&WriteUnderWay>, permit: OwnedSemaphorePermit) {
    if let Some(write) = write {
        write.keep(permit);
    }
}

async fn ended(write: Option<&WriteUnderWay>) {
    match write {
        Some(write) => write.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::time::Instant;

    use super::*;

    fn gate() -> Arc<ReplyGate> {
        ReplyGate::new(CancellationToken::new(), Arc::default())
    }

    /// Answers writes until the gate is closed. Returns their jobs.
    async fn fill(gate: &Arc<ReplyGate>) -> Vec<Arc<UnderWay>> {
        let mut jobs = Vec::new();
        for _ in 0..MAX_ANSWERED {
            let under_way = gate.begin();
            let begun = Instant::now();
            gate.submitted(Some(&under_way)).may_answer().await;
            assert!(begun.elapsed() < MAX_WAIT);
            jobs.push(under_way);
        }
        jobs
    }

    #[tokio::test]
    async fn replies_wait_while_many_jobs_of_answered_writes_are_left() {
        let gate = gate();
        let mut jobs = fill(&gate).await;
        let next = gate.begin();
        let mut first = Box::pin(gate.submitted(Some(&next)).may_answer());
        let mut second = Box::pin(gate.submitted(None).may_answer());
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        jobs.pop();
        assert!(poll!(&mut second).is_pending(), "replies are sent in order");
        assert!(poll!(&mut first).is_ready());
        assert!(poll!(&mut second).is_pending(), "the job of the first has not ended");
        drop(next);
        assert!(poll!(&mut second).is_ready(), "its job waits in the ledger");
        jobs.clear();
        fill(&gate).await;
    }

    #[tokio::test]
    async fn a_reply_waits_for_a_bounded_time() {
        let gate = gate();
        let _jobs = fill(&gate).await;
        let next = gate.begin();
        let begun = Instant::now();
        gate.submitted(Some(&next)).may_answer().await;
        assert!(begun.elapsed() >= MAX_WAIT);
    }

    #[tokio::test]
    async fn a_reply_waits_neither_for_others_once_its_own_jobs_have_ended_nor_while_the_process_stops() {
        let gate = gate();
        let _jobs = fill(&gate).await;
        let next = gate.begin();
        let begun = Instant::now();
        let reply = gate.submitted(Some(&next));
        let (first, second) = (Arc::clone(&next), next);
        let ends = async {
            drop(first);
            tokio::time::sleep(Duration::from_millis(7)).await;
            drop(second);
        };
        tokio::join!(reply.may_answer(), ends);
        let waited = begun.elapsed();
        assert!((Duration::from_millis(7)..MAX_WAIT).contains(&waited), "until all jobs of the write have ended");
        gate.stopping.cancel();
        assert!(poll!(Box::pin(gate.submitted(None).may_answer())).is_ready());
    }

    #[tokio::test]
    async fn a_write_is_under_way_until_its_deliveries_are_made() {
        let gate = gate();
        let jobs = fill(&gate).await;
        gate.deliveries.queued(9);
        drop(jobs);
        let next = gate.begin();
        let mut reply = Box::pin(gate.submitted(Some(&next)).may_answer());
        assert!(poll!(&mut reply).is_pending(), "the jobs have ended, nothing is delivered");
        // Rooms that are queued after the jobs do not delay the reply.
        gate.deliveries.queued(90);
        gate.deliveries.served(8);
        assert!(poll!(&mut reply).is_pending());
        gate.deliveries.served(1);
        assert!(poll!(&mut reply).is_ready());
        drop(next);
        assert_eq!(gate.answered.available_permits(), MAX_ANSWERED - 1, "90 rooms are left");
        gate.deliveries.served(90);
        assert_eq!(gate.answered.available_permits(), MAX_ANSWERED);
    }

    #[tokio::test]
    async fn no_reply_waits_for_a_job_that_takes_long() {
        let gate = gate();
        let lane_is_slow = Arc::new(AtomicBool::new(false));
        let mut jobs = fill(&gate).await;
        let mut pace = JobPace::new(jobs.pop(), Arc::clone(&lane_is_slow));
        let next = gate.begin();
        let mut reply = Box::pin(gate.submitted(Some(&next)).may_answer());
        assert!(poll!(&mut reply).is_pending());
        pace.takes_long();
        assert!(poll!(&mut reply).is_ready() && lane_is_slow.load(Ordering::Relaxed));
        drop(pace);
        assert!(!lane_is_slow.load(Ordering::Relaxed), "the lane continues");
    }
}
