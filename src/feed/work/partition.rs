//! A partition of work as this process has it: whether it is owned, by the lease of the process and by the clocks of
//! this machine; and its worker: own, wake, gather, run, back off, stop.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::quarantine_policy::QuarantinePolicy;
use crate::backoff::Backoff;
use crate::feed::error::Result;
use crate::feed::runtime::Runtime;
use crate::ledger::Fence;

/// The first pause after a failure; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The interval at which a worker checks whether a lease that may have run out was renewed late.
const LAPSE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The state of a partition in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This process does not own it.
    #[default]
    Elsewhere,
    /// This process works on it.
    Owned(Fence),
    /// Its worker is to stop, so that another process can take it.
    Draining(Fence),
    /// Its worker has stopped.
    Drained(Fence),
}

impl Ownership {
    pub(super) fn fence(&self) -> Option<&Fence> {
        match self {
            Self::Elsewhere => None,
            Self::Owned(fence) | Self::Draining(fence) | Self::Drained(fence) => Some(fence),
        }
    }
}

/// A partition that this process works on while it owns it. [`Owner::partition`](super::Owner::partition) makes it.
pub(crate) struct Partition {
    pub(super) name: Arc<str>,
    /// Processes share the partitions of one kind equally.
    pub(super) kind: Arc<str>,
    clock: Arc<LeaseClock>,
    state: watch::Sender<Ownership>,
    /// Wakes the owner: a worker has drained its partition.
    round_due: Arc<Notify>,
    /// Wakes the worker: work may wait.
    waiting: Notify,
}

impl Partition {
    pub(super) fn new(name: Arc<str>, kind: &str, clock: Arc<LeaseClock>, round_due: Arc<Notify>) -> Self {
        let (state, _) = watch::channel(Ownership::default());
        Self { name, kind: kind.into(), clock, state, round_due, waiting: Notify::new() }
    }

    /// The ownership, unless the lease may have run out. Checked before each write to a store, without a call.
    pub(crate) fn fence(&self) -> Option<Fence> {
        if self.clock.is_valid() { self.state.borrow().fence().cloned() } else { None }
    }

    /// Whether this ownership is in force, as far as this process knows without a call.
    pub(crate) fn is_owned(&self, fence: &Fence) -> bool {
        self.clock.is_valid() && self.state.borrow().fence() == Some(fence)
    }

    /// Whether this ownership is in force, and the partition is not to be given away.
    pub(crate) fn is_to_run(&self, fence: &Fence) -> bool {
        self.clock.is_valid() && matches!(&*self.state.borrow(), Ownership::Owned(owned) if owned == fence)
    }

    /// Wakes the worker: work waits.
    pub(crate) fn wake(&self) {
        self.waiting.notify_one();
    }

    /// Waits for a [`wake`](Self::wake).
    pub(crate) async fn woken(&self) {
        self.waiting.notified().await;
    }

    /// Waits until this process owns the partition. A worker that calls it has stopped: a partition that is to be given
    /// away can be now.
    pub(crate) async fn owned(&self) -> Fence {
        let mut state = self.state.subscribe();
        loop {
            let owned = state.borrow_and_update().clone();
            match owned {
                Ownership::Owned(fence) if self.clock.is_valid() => return fence,
                Ownership::Owned(_) => {
                    // The lease may have run out. It is renewed late, or the partition is lost.
                    let _ = tokio::time::timeout(LAPSE_POLL_INTERVAL, state.changed()).await;
                    continue;
                }
                Ownership::Draining(fence) => {
                    self.update(|state| {
                        let is_draining = *state == Ownership::Draining(fence.clone());
                        is_draining.then_some(Ownership::Drained(fence))
                    });
                    self.round_due.notify_one();
                }
                Ownership::Drained(_) | Ownership::Elsewhere => {}
            }
            // It cannot fail: this partition holds the sender.
            let _ = state.changed().await;
        }
    }

    /// Waits until the ownership has ended, or the partition is to be given away.
    pub(crate) async fn ended(&self, fence: &Fence) {
        let mut state = self.state.subscribe();
        while self.is_to_run(fence) {
            // It cannot fail: this partition holds the sender.
            let _ = state.changed().await;
        }
    }

    /// Replaces the state, if `next` has another one. Returns whether it has.
    pub(super) fn update(&self, next: impl FnOnce(&Ownership) -> Option<Ownership>) -> bool {
        self.state.send_if_modified(|state| {
            next(state).is_some_and(|next| {
                *state = next;
                true
            })
        })
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// More may wait: the next run begins at once.
    More,
    /// More may wait: the next run begins after this pause.
    Rest(Duration),
    /// Nothing is left. The next run begins when the worker is woken, at the latest at this time, or after the interval
    /// of polls.
    Idle(Option<Instant>),
}

/// The work of one partition in one ownership. A consumer keeps its state between runs.
#[async_trait]
pub(crate) trait Consumer: Send {
    /// Runs what waits, a bounded number of items. Every write to a store checks the fence, or may be repeated.
    ///
    /// # Errors
    /// If a store cannot be reached, or an item failed: the worker backs off and runs again.
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome>;

    /// Prepares the partition for another owner. Not called if the ownership was lost.
    async fn end(&mut self, _fence: &Fence) {}
}

/// When a worker runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSchedule {
    /// The interval of runs without a wake-up: other processes add work, too.
    pub(crate) poll: Duration,
    /// After a wake-up, the worker waits until this time has passed since the last run began, so that items share a
    /// run.
    pub(crate) gather: Duration,
}

/// Runs a partition whenever this process owns it, until the process stops: each ownership has a new consumer, so
/// nothing is left of former ones. `policy` learns of failed runs.
pub(crate) async fn work<C: Consumer>(
    partition: &Partition,
    runtime: &Runtime,
    schedule: PollSchedule,
    policy: &QuarantinePolicy,
    consumer: impl Fn() -> C,
) {
    while let Some(fence) = runtime.stopping().run_until_cancelled(partition.owned()).await {
        let mut consumer = consumer();
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        while partition.is_to_run(&fence) && !runtime.stopping().is_cancelled() {
            let started = Instant::now();
            let ran = consumer.run(&fence).await;
            let pause = match &ran {
                Ok(RunOutcome::More) => Duration::ZERO,
                Ok(RunOutcome::Rest(pause)) => *pause,
                Ok(RunOutcome::Idle(due)) => {
                    let poll = started + schedule.poll.mul_f64(rand::random_range(0.8..1.2));
                    tokio::select! {
                        () = partition.woken() => {}
                        () = tokio::time::sleep_until(due.map_or(poll, |due| due.min(poll))) => {}
                        () = partition.ended(&fence) => {}
                        () = runtime.stopped() => {}
                    }
                    schedule.gather.saturating_sub(started.elapsed())
                }
                Err(error) => {
                    policy.note_failure(error);
                    let pause = backoff.next_delay();
                    tracing::warn!(%error, partition = %partition.name, ?pause, "durable work waits");
                    pause
                }
            };
            if ran.is_ok() {
                backoff.reset();
            }
            runtime.sleep(pause).await;
        }
        // The process stops, or gives the partition away.
        if partition.is_owned(&fence) {
            consumer.end(&fence).await;
        }
    }
}

/// A time by two clocks: the monotonic clock, which adjustments of the wall clock do not affect, and the wall clock,
/// which continues while a virtual machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenewalTime {
    monotonic: Instant,
    wall: SystemTime,
}

impl RenewalTime {
    pub(super) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// The elapsed time, by the clock that shows more. If the wall clock was set back behind the renewal, the lease
    /// counts as expired.
    fn elapsed(&self) -> Duration {
        self.wall.elapsed().map_or(Duration::MAX, |wall| wall.max(self.monotonic.elapsed()))
    }
}

/// The last renewal of the lease of this process.
#[derive(Debug)]
pub(super) struct LeaseClock {
    /// How long the lease lasts without a renewal.
    length: Duration,
    /// A time before the last successful renewal was requested; `None`: there is no lease.
    renewed: Mutex<Option<RenewalTime>>,
}

impl LeaseClock {
    /// A process without a lease.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, renewed: Mutex::new(None) }
    }

    /// How long the lease lasts without a renewal.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Records a renewal that was requested after `asked`.
    pub(super) fn renew(&self, asked: RenewalTime) {
        *self.renewed.lock() = Some(asked);
    }

    /// Forgets the lease.
    pub(super) fn end(&self) {
        *self.renewed.lock() = None;
    }

    /// Whether the lease is in force. The ledger starts it when the renewal arrives, so it ends later there.
    pub(super) fn is_valid(&self) -> bool {
        self.renewed.lock().is_some_and(|renewed| renewed.elapsed() < self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_without_a_renewal() {
        let clock = LeaseClock::new(Duration::from_secs(5));
        assert!(!clock.is_valid());
        let now = RenewalTime::now();
        clock.renew(now);
        assert!(clock.is_valid());
        let ago = |time| RenewalTime { monotonic: now.monotonic.checked_sub(time).unwrap_or(now.monotonic), ..now };
        clock.renew(ago(Duration::from_millis(4_500)));
        assert!(clock.is_valid());
        clock.renew(ago(Duration::from_millis(5_100)));
        assert!(!clock.is_valid());
        clock.renew(now);
        clock.end();
        assert!(!clock.is_valid());
    }

    #[test]
    fn a_suspended_machine_counts() {
        let clock = LeaseClock::new(Duration::from_secs(5));
        let asked = RenewalTime { wall: SystemTime::now() - Duration::from_secs(9), ..RenewalTime::now() };
        clock.renew(asked);
        assert!(!clock.is_valid());
    }

    #[tokio::test]
    async fn nothing_is_owned_while_the_lease_may_have_run_out() {
        let clock = Arc::new(LeaseClock::new(Duration::from_secs(60)));
        let fence = Fence { partition: "a".into(), generation: 1 };
        let partition = Partition::new("a".into(), "a", Arc::clone(&clock), Arc::default());
        partition.update(|_| Some(Ownership::Owned(fence.clone())));
        // If `owned` returned here, the worker would loop without a pause and block the threads of the runtime.
        let owned = partition.owned();
        tokio::pin!(owned);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut owned).await.is_err());
        assert_eq!(partition.fence(), None);
        // The renewal arrives late.
        clock.renew(RenewalTime::now());
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), owned).await.expect("it is owned"), fence);
    }
}
