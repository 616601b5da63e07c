//! Settlers: they move batches of likes from the partitions of the queue into the ledger, in order.
//!
//! The process that owns a partition settles it (`feed/work/`), so that others do not repeat its work. A settler that
//! has lost its partition without noticing does no harm: the ledger applies a batch only at the position where the last
//! batch ended, counts have versions, reverts have idempotency keys, and the queue refuses to be trimmed by a former
//! owner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::batch_settler::{BatchOutcome, BatchSettler, throttle};
use super::batch_size::BatchSize;
use super::entry;
use super::settler_state::SettlerState;
use super::throttle::Throttle;
use crate::broker::QueueOffset;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::feed::work::{Consumer, Owner, Partition, PollSchedule, RunOutcome, Waker, work};
use crate::ledger::Fence;
use crate::model::Millis;

/// The kind of work in the names of partitions.
const KIND: &str = "likes";

/// Other nodes append too, so a partition is also read without a wake-up by this node's intake. Likes are gathered
/// before a partial batch is read: the likes of a batch share a ledger transaction.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(250), gather: Duration::from_millis(50) };

/// Under load, when the last batch had more entries than this, likes gather for longer. Larger batches amortise the
/// write cost, and leave acknowledgements more of the cores.
const LARGE_BATCH: usize = 100;
const GATHER_TIME_UNDER_LOAD: Duration = Duration::from_millis(150);

/// A partition is behind when its last batch had this many entries or more.
const BACKLOG: usize = 1_000;

/// Partitions that a node settles concurrently while they are behind; otherwise it settles one at a time. A higher
/// value would not be faster: partitions contend for the same rows and log, and a database on the same machine would
/// slow acknowledgements down.
const MAX_CONCURRENT_PARTITIONS: u32 = 2;

/// The interval at which the length of the queue is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The settlers of this node.
pub(crate) struct Settlers {
    partitions: Vec<Partition>,
    wakers: Arc<[Waker]>,
    batches: BatchSettler,
    /// Held while a batch is read and settled: all permits, or one of them for a partition that is behind.
    running: Semaphore,
}

/// The settler of a partition.
struct Settler {
    settlers: Arc<Settlers>,
    partition: u16,
    /// `None`: it is to be loaded.
    state: Option<SettlerState>,
    size: BatchSize,
    /// The number of entries of the last batch.
    last: usize,
}

impl Settlers {
    /// Settlers of the partitions that `owner` gets, with a waker for each: see [`start`](Self::start).
    pub(crate) fn new(owner: &Owner, wakers: Arc<[Waker]>, batches: BatchSettler) -> Self {
        let numbers = 0..batches.queue.partitions();
        let partitions = numbers.map(|number| owner.partition(KIND, format!("{KIND}/{number}"))).collect();
        Self { partitions, wakers, batches, running: Semaphore::new(MAX_CONCURRENT_PARTITIONS as usize) }
    }

    /// Settles until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for number in 0..self.batches.queue.partitions() {
            self.batches.base.runtime.supervise("like_settlers", self, move |settlers| async move {
                let (size, index) = (BatchSize::default(), usize::from(number));
                let mut settler =
                    Settler { settlers: Arc::clone(&settlers), partition: number, state: None, size, last: 0 };
                let (partition, waker) = (&settlers.partitions[index], &settlers.wakers[index]);
                let BatchSettler { base, quarantine, .. } = &settlers.batches;
                work(partition, &base.runtime, waker, SCHEDULE, quarantine, &mut settler).await;
            });
        }
        self.batches.base.runtime.supervise("like_metrics", self, |settlers| async move {
            while settlers.batches.base.runtime.sleep(MEASURE_INTERVAL).await {
                if let Err(error) = settlers.measure().await {
                    tracing::debug!(%error, "the queue of likes could not be measured");
                }
            }
        });
    }

    async fn measure(&self) -> Result<()> {
        let queue = &self.batches.queue;
        let (length, mut oldest) = (queue.length().await?, None::<Millis>);
        for partition in (0..queue.partitions()).take_while(|_| length > 0) {
            let first = queue.read(partition, QueueOffset::ZERO, 1).await?.items.pop();
            let at = first.and_then(|first| entry::decode(&first.body)).map(|change| change.at);
            oldest = oldest.into_iter().chain(at).min();
        }
        self.batches.base.metrics.likes.waiting(length, oldest.map_or(0, |at| now().saturating_sub(at)));
        Ok(())
    }

    /// Waits for a turn. `None`: the process stops.
    async fn turn(&self, is_behind: bool) -> Option<SemaphorePermit<'_>> {
        let permits = if is_behind { 1 } else { MAX_CONCURRENT_PARTITIONS };
        let permit = self.batches.base.runtime.stopping().run_until_cancelled(self.running.acquire_many(permits)).await;
        permit.and_then(std::result::Result::ok)
    }

    /// Removes settled and published entries from the queue.
    async fn trim(&self, partition: u16, fence: &Fence, state: &mut SettlerState) -> Result<()> {
        let before = state.counts.unpublished().unwrap_or_else(|| state.through.next());
        if before > state.trimmed
            && state.through > QueueOffset::ZERO
            && self.batches.queue.trim(partition, fence.generation, &state.epoch, before).await?
        {
            state.trimmed = before;
        }
        Ok(())
    }
}

#[async_trait]
impl Consumer for Settler {
    async fn begin(&mut self, _: &Fence) -> Result<()> {
        (self.state, self.size) = (None, BatchSize::default());
        Ok(())
    }

    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let Settlers { batches, .. } = &*self.settlers;
        let is_behind = self.state.as_ref().is_some_and(|state| state.is_behind);
        let Some(turn) = self.settlers.turn(is_behind).await else { return Ok(RunOutcome::Idle(None)) };
        let Some(state) = &mut self.state else {
            self.state = Some(batches.take_over(self.partition).await?);
            return Ok(RunOutcome::More);
        };
        let limit = self.size.limit();
        let page = batches.queue.read(self.partition, state.through, limit).await?;
        if state.epoch != page.life || state.incarnation != batches.base.lineage.incarnation() {
            // The queue was lost and restarted, or the ledger was replaced: the queue is read from its beginning.
            self.state = None;
            return Ok(RunOutcome::More);
        }
        let many = page.items.len();
        self.last = many;
        if many > 0 {
            let settled = batches.settle(self.partition, state, &page.items, &mut self.size).await;
            if !matches!(settled, Ok(BatchOutcome::Applied)) {
                // Another node settled the batch, or this node did and missed the reply: the state is loaded again.
                self.state = None;
                return settled.map(|_| RunOutcome::More);
            }
        }
        drop(turn);
        state.is_behind = many >= BACKLOG;
        batches.counts.publish_due(&mut state.counts, throttle(many)).await?;
        self.settlers.trim(self.partition, fence, state).await?;
        // Last: a revert that fails does not hold up the counts.
        batches.reverts.publish(self.partition, &mut state.reverts).await?;
        Ok(if many == limit { RunOutcome::More } else { RunOutcome::Idle(state.counts.next_due()) })
    }

    fn gather_time(&self, schedule: PollSchedule) -> Duration {
        if self.last > LARGE_BATCH { GATHER_TIME_UNDER_LOAD } else { schedule.gather }
    }

    /// The next owner publishes the remaining counts, but it has to load them first.
    async fn end(&mut self, fence: &Fence) {
        let Some(state) = &mut self.state else { return };
        let published = self.settlers.batches.counts.publish_due(&mut state.counts, Throttle::Unthrottled).await;
        let trimmed = self.settlers.trim(self.partition, fence, state).await;
        if let Err(error) = published.and(trimmed) {
            tracing::debug!(%error, partition = self.partition, "the last counts are left to the next settler");
        }
    }
}
