//! Settlers: they move batches of likes from the partitions of the queue into the ledger, in order.
//!
//! A settler leases its partition in the queue, so that other settlers do not repeat its work. The ledger ensures that
//! nothing is settled twice: it applies a batch only at the position where the last batch ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::batch_settler::{BatchOutcome, BatchSettler, throttle};
use super::batch_size::BatchSize;
use super::settler_state::SettlerState;
use super::throttle::Throttle;
use super::wakers::SettlerWakers;
use crate::backoff::Backoff;
use crate::broker::{DurableQueue, QueueOffset};
use crate::feed::error::Result;
use crate::feed::lineage::LineageTracker;
use crate::feed::runtime::Runtime;
use crate::metrics::Metrics;

/// How long likes are collected before a partial batch is taken: the likes of a batch share a ledger transaction.
const GATHER_TIME: Duration = Duration::from_millis(50);

/// Under load, when the last batch had more entries than this, likes are collected for longer. Larger batches amortise
/// the write cost, and leave acknowledgements more of the cores.
const LARGE_BATCH: usize = 100;
const GATHER_TIME_UNDER_LOAD: Duration = Duration::from_millis(150);

/// The interval at which a partition is read without a wake-up by this node's intake: other nodes append too.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The interval at which a node tries to lease a partition that another node holds.
const LEASE_ATTEMPT_INTERVAL: Duration = Duration::from_millis(1_000);

/// The first pause after a failure; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// A partition is behind when its last batch had this many entries or more.
const BACKLOG: usize = 1_000;

/// Partitions that a node settles concurrently while they are behind; otherwise it settles one at a time. A higher
/// value would not be faster: partitions contend for the same rows and log, and a database on the same machine would
/// slow acknowledgements down.
const MAX_CONCURRENT_PARTITIONS: u32 = 2;

/// The interval at which the length of the queue is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a poll.
enum SettlerPoll {
    /// There may be more to settle.
    More,
    /// This many entries were settled, and no more are left.
    Settled(usize),
    /// Another node holds the partition.
    LeasedElsewhere,
}

/// The settlers of this node.
pub(crate) struct Settlers {
    queue: Arc<dyn DurableQueue>,
    runtime: Arc<Runtime>,
    lineage: Arc<LineageTracker>,
    wakers: Arc<SettlerWakers>,
    batches: BatchSettler,
    metrics: Arc<Metrics>,
    /// Held while a batch is claimed and settled: all permits, or one of them for a partition that is behind.
    running: Semaphore,
}

impl Settlers {
    /// Settlers that hand the batches of this queue to `batches`: see [`start`](Self::start).
    pub(crate) fn new(wakers: Arc<SettlerWakers>, batches: BatchSettler) -> Self {
        let (queue, runtime, lineage) = (batches.queue.clone(), batches.runtime.clone(), batches.lineage.clone());
        let (metrics, running) = (batches.metrics.clone(), Semaphore::new(MAX_CONCURRENT_PARTITIONS as usize));
        Self { queue, runtime, lineage, wakers, batches, metrics, running }
    }

    /// Settles until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for partition in 0..self.queue.partitions() {
            let run = move |settlers: Arc<Self>| async move { settlers.run(partition).await };
            self.runtime.supervise("like_settlers", self, run);
        }
        self.runtime.supervise("like_metrics", self, |settlers| async move {
            while settlers.runtime.sleep(MEASURE_INTERVAL).await {
                settlers.measure().await;
            }
        });
    }

    async fn measure(&self) {
        match self.queue.length().await {
            Ok(length) => self.metrics.likes.waiting(length, self.batches.oldest.age()),
            Err(error) => tracing::debug!(%error, "the queue of likes could not be measured"),
        }
    }

    /// Settles a partition while this node holds it, until the process stops.
    async fn run(&self, partition: u16) {
        let mut state = None;
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut size = BatchSize::default();
        loop {
            let begun = Instant::now();
            let pause = match self.poll(partition, &mut state, &mut size).await {
                Ok(outcome) => {
                    backoff.reset();
                    match outcome {
                        SettlerPoll::More => Duration::ZERO,
                        SettlerPoll::Settled(many) => self.wait_for_work(partition, &state, begun, many).await,
                        SettlerPoll::LeasedElsewhere => LEASE_ATTEMPT_INTERVAL.mul_f64(rand::random_range(0.8..1.2)),
                    }
                }
                Err(error) => {
                    self.batches.quarantine.note_outage(&error);
                    let pause = backoff.next_delay();
                    tracing::warn!(%error, partition, ?pause, "the settling of likes waits for its stores");
                    pause
                }
            };
            if !self.runtime.sleep(pause).await {
                break;
            }
        }
        if let Some(mut state) = state {
            // The next settler publishes the remaining counts, but not before this node's lease would have expired.
            let published = self.batches.counts.publish_due(&mut state.counts, Throttle::Unthrottled).await;
            let trimmed = self.trim(partition, &mut state).await;
            if let Err(error) = published.and(trimmed) {
                tracing::debug!(%error, partition, "the last counts are left to the next settler");
            }
            if let Err(error) = self.queue.release(partition, self.runtime.holder()).await {
                tracing::debug!(%error, partition, "a partition was not released, its lease will run out");
            }
        }
    }

    /// Waits until there may be something to settle or to publish. Returns the remaining time to collect likes.
    async fn wait_for_work(
        &self,
        partition: u16,
        state: &Option<SettlerState>,
        begun: Instant,
        many: usize,
    ) -> Duration {
        let poll = begun + POLL_INTERVAL;
        let until = state.as_ref().and_then(|state| state.counts.next_due()).map_or(poll, |due| due.min(poll));
        tokio::select! {
            () = self.wakers.wait(partition) => {}
            () = tokio::time::sleep_until(until) => {}
            () = self.runtime.stopped() => {}
        }
        let gather = if many > LARGE_BATCH { GATHER_TIME_UNDER_LOAD } else { GATHER_TIME };
        gather.saturating_sub(begun.elapsed())
    }

    async fn poll(
        &self,
        partition: u16,
        state: &mut Option<SettlerState>,
        size: &mut BatchSize,
    ) -> Result<SettlerPoll> {
        // Acquired before the claim: while this task waits for the permits, other nodes may settle the batch.
        let is_behind = state.as_ref().is_some_and(|state| state.is_behind);
        let permits = if is_behind { 1 } else { MAX_CONCURRENT_PARTITIONS };
        let permit = tokio::select! {
            permit = self.running.acquire_many(permits) => permit,
            () = self.runtime.stopped() => return Ok(SettlerPoll::Settled(0)),
        };
        let (after, limit) = (state.as_ref().map_or(QueueOffset::ZERO, |state| state.through), size.limit());
        let claim = self.queue.claim(partition, self.runtime.holder(), after, limit).await?;
        let Some(claim) = claim else {
            *state = None;
            return Ok(SettlerPoll::LeasedElsewhere);
        };
        let incarnation = self.lineage.incarnation();
        if state.as_ref().is_some_and(|state| state.epoch != claim.life || state.incarnation != incarnation) {
            // The queue was lost and restarted, or the ledger was replaced: the queue is read from its beginning.
            *state = None;
            return Ok(SettlerPoll::More);
        }
        let Some(current) = state.as_mut() else {
            *state = Some(self.batches.take_over(partition, claim).await?);
            return Ok(SettlerPoll::More);
        };
        let many = claim.items.len();
        if many > 0 {
            match self.batches.settle(partition, current, claim, size).await {
                Ok(BatchOutcome::Applied) => {}
                // Another node settled the batch, or this node did and missed the reply: the state is loaded again.
                Ok(BatchOutcome::Moved) => {
                    *state = None;
                    return Ok(SettlerPoll::More);
                }
                Err(error) => {
                    *state = None;
                    return Err(error);
                }
            }
        }
        drop(permit);
        current.is_behind = many >= BACKLOG;
        self.batches.reverts.publish(partition, &mut current.reverts).await?;
        self.batches.counts.publish_due(&mut current.counts, throttle(many)).await?;
        self.trim(partition, current).await?;
        Ok(if many == limit { SettlerPoll::More } else { SettlerPoll::Settled(many) })
    }

    /// Removes settled and published entries from the queue.
    async fn trim(&self, partition: u16, state: &mut SettlerState) -> Result<()> {
        let before = state.counts.unpublished().unwrap_or_else(|| state.through.next());
        if before > state.trimmed && state.through > QueueOffset::ZERO {
            self.queue.trim(partition, self.runtime.holder(), &state.epoch, before).await?;
            state.trimmed = before;
        }
        Ok(())
    }
}
