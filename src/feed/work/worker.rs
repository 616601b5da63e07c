//! The loop of a partition: own, wake, gather, run, back off, stop.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::owner::{Partition, Tenure};
use super::quarantine::QuarantinePolicy;
use crate::backoff::Backoff;
use crate::feed::error::{FeedError, Result};
use crate::feed::runtime::Runtime;
use crate::ledger::Fence;

/// The first pause after a failure; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

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

/// The work of one partition. A consumer keeps its state between runs. The worker calls `begin` and `end` when an
/// ownership begins and ends.
#[async_trait]
pub(crate) trait Consumer: Send {
    /// Loads the state for a new ownership. Nothing is left of former ones.
    async fn begin(&mut self, _fence: &Fence) -> Result<()> {
        Ok(())
    }

    /// Runs what waits, a bounded number of items. Every write to a store checks the fence, or may be repeated.
    ///
    /// # Errors
    /// If a store cannot be reached, or an item failed: the worker backs off and runs again.
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome>;

    /// Prepares the partition for another owner. Not called if the ownership was lost.
    async fn end(&mut self, _fence: &Fence) {}
}

/// Wakes the worker of a partition.
pub(crate) type Waker = Notify;

/// When a worker runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSchedule {
    /// The interval of runs without a wake-up: other processes add work, too.
    pub(crate) poll: Duration,
    /// After a wake-up, the worker waits until this time has passed since the last run began, so that items share a
    /// run.
    pub(crate) gather: Duration,
}

/// Runs a partition whenever this process owns it, until the process stops. `policy` learns of failed runs.
pub(crate) async fn work(
    partition: &Partition,
    runtime: &Runtime,
    waker: &Waker,
    schedule: PollSchedule,
    policy: &QuarantinePolicy,
    consumer: &mut impl Consumer,
) {
    loop {
        let mut tenure = tokio::select! {
            tenure = partition.owned() => tenure,
            () = runtime.stopped() => return,
        };
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut has_begun = false;
        while let Some(fence) = tenure.fence().cloned() {
            let started = Instant::now();
            let ran = run(consumer, &fence, &mut has_begun).await;
            let pause = match ran {
                Ok(RunOutcome::More) => Duration::ZERO,
                Ok(RunOutcome::Rest(pause)) => pause,
                Ok(RunOutcome::Idle(due)) => {
                    let poll = started + schedule.poll.mul_f64(rand::random_range(0.8..1.2));
                    tokio::select! {
                        () = waker.notified() => {}
                        () = tokio::time::sleep_until(due.map_or(poll, |due| due.min(poll))) => {}
                        () = tenure.ended() => {}
                        () = runtime.stopped() => {}
                    }
                    schedule.gather.saturating_sub(started.elapsed())
                }
                Err(ref error) => {
                    policy.note_failure(error);
                    report(partition, error, backoff.next_delay())
                }
            };
            if ran.is_ok() {
                backoff.reset();
            }
            if !runtime.sleep(pause).await || runtime.stopping().is_cancelled() {
                return finish(tenure, consumer, has_begun).await;
            }
        }
        finish(tenure, consumer, has_begun).await;
    }
}

async fn run(consumer: &mut impl Consumer, fence: &Fence, has_begun: &mut bool) -> Result<RunOutcome> {
    if !*has_begun {
        consumer.begin(fence).await?;
        *has_begun = true;
    }
    consumer.run(fence).await
}

fn report(partition: &Partition, error: &FeedError, pause: Duration) -> Duration {
    tracing::warn!(%error, partition = %partition.name(), ?pause, "durable work waits");
    pause
}

/// Ends an ownership that was not lost: the process stops, or gives the partition away.
async fn finish(tenure: Tenure, consumer: &mut impl Consumer, has_begun: bool) {
    if let Some(fence) = tenure.held_fence().filter(|_| has_begun) {
        consumer.end(&fence).await;
    }
}
