//! The loop of a partition: own, wake, gather, run, back off, stop.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::partition::Partition;
use super::quarantine::QuarantinePolicy;
use crate::backoff::Backoff;
use crate::feed::error::Result;
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
