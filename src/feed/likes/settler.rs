//! Settlers: they move batches of likes from the partitions of the queue into the ledger, in order.
//!
//! The process that owns a partition settles it (`feed/work/`), so that others do not repeat its work. A settler that
//! has lost its partition without noticing does no harm: the ledger applies a batch only at the position where the last
//! batch ended, counts have versions, reverts have idempotency keys, and the queue refuses to be trimmed by a former
//! owner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::count_publisher::{CountPublisher, PendingCounts};
use super::eligibility::Eligibility;
use super::entry;
use super::intake::LikeIntake;
use super::memory::LikeMemory;
use crate::broker::{DurableQueue, QueueOffset, QueuedEntry};
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::runtime::now;
use crate::feed::work::{Consumer, Owner, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::ledger::Fence;
use crate::model::{Epoch, Millis};

/// Entries of a full batch.
pub(super) const MAX_BATCH: usize = 4_000;

/// Other nodes append too, so a partition is also read without a wake-up by this node's intake. Likes are gathered
/// before a partial batch is read: the likes of a batch share a ledger transaction.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(250), gather: Duration::from_millis(100) };

/// The interval at which the queue is measured, and requests for retries are looked for.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The settlers of this node. `wiring/likes.rs` sets the fields.
pub(crate) struct Settlers {
    pub(crate) base: Arc<Base>,
    pub(crate) queue: Arc<dyn DurableQueue>,
    pub(crate) eligibility: Arc<Eligibility>,
    pub(crate) counts: Arc<CountPublisher>,
    pub(crate) intake: Arc<LikeIntake>,
    pub(crate) memory: Arc<LikeMemory>,
    /// Decides when an entry has failed often enough to be quarantined.
    pub(crate) quarantine: Arc<QuarantinePolicy>,
    /// The same, about reverts that cannot be published.
    pub(crate) revert_quarantine: Arc<QuarantinePolicy>,
    /// The partitions of the queue: see [`partitions`](Self::partitions).
    pub(crate) partitions: Vec<Partition>,
    /// Held while a batch is settled and published: [`CONCURRENCY`](Self::CONCURRENCY).
    pub(crate) running: Semaphore,
}

/// The state of a settler.
pub(super) struct SettlerState {
    pub(super) partition: u16,
    /// The epoch of the queue.
    pub(super) epoch: Epoch,
    /// The incarnation of the ledger that this state belongs to.
    pub(super) incarnation: Arc<str>,
    /// The ledger's position of the partition, as text.
    pub(super) position: String,
    /// Everything up to here is settled.
    pub(super) through: QueueOffset,
    pub(super) counts: PendingCounts,
    /// Whether the ledger may have reverts to be published.
    pub(super) has_reverts: bool,
    /// The queue is trimmed below this offset.
    pub(super) trimmed: QueueOffset,
}

/// The settler of a partition.
struct Settler<'a> {
    settlers: &'a Settlers,
    partition: u16,
    /// `None`: it is to be loaded.
    state: Option<SettlerState>,
    /// The maximum number of entries of the next batch: a batch that fails is halved, until the entry at fault is
    /// alone.
    limit: usize,
}

impl Settlers {
    /// Partitions that a node settles concurrently: one reads the queue while another one writes to the ledger.
    pub(crate) const CONCURRENCY: usize = 2;

    /// The partitions of a queue, of which this process settles those that `owner` gets.
    pub(crate) fn partitions(owner: &Owner, queue: &dyn DurableQueue) -> Vec<Partition> {
        (0..queue.partitions()).map(|number| owner.partition("likes", format!("likes/{number}"))).collect()
    }

    /// Settles until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for number in 0..self.queue.partitions() {
            self.base.runtime.supervise("like_settlers", self, move |settlers| async move {
                let partition = &settlers.partitions[usize::from(number)];
                let waker = settlers.intake.waker(number);
                let mut settler = Settler { settlers: &settlers, partition: number, state: None, limit: MAX_BATCH };
                let Settlers { base, quarantine, .. } = &*settlers;
                work(partition, &base.runtime, waker, SCHEDULE, quarantine, &mut settler).await;
            });
        }
        self.base.runtime.supervise("like_upkeep", self, |settlers| async move {
            while settlers.base.runtime.sleep(UPKEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                if let Err(error) = settlers.measure().await {
                    tracing::debug!(%error, "the queue of likes could not be measured");
                }
                if let Err(error) = settlers.carry_out_retries().await {
                    tracing::warn!(%error, "retries of likes wait for their stores");
                }
            }
        });
    }

    async fn measure(&self) -> Result<()> {
        let length = self.queue.length().await?;
        let mut oldest = None::<Millis>;
        for partition in (0..self.queue.partitions()).take_while(|_| length > 0) {
            let first = self.queue.read(partition, QueueOffset::ZERO, 1).await?.items.pop();
            let at = first.and_then(|first| entry::decode(&first.body)).map(|change| change.at);
            oldest = oldest.into_iter().chain(at).min();
        }
        self.base.metrics.likes.waiting(length, oldest.map_or(0, |at| now().saturating_sub(at)));
        Ok(())
    }

    /// Publishes the counts that are due, and removes settled and published entries from the queue.
    async fn publish_and_trim(&self, fence: &Fence, state: &mut SettlerState) -> Result<()> {
        self.counts.publish_due(&mut state.counts).await?;
        let before = state.counts.unpublished().unwrap_or_else(|| state.through.next());
        if before > state.trimmed
            && state.through > QueueOffset::ZERO
            && self.queue.trim(state.partition, fence.generation, &state.epoch, before).await?
        {
            state.trimmed = before;
        }
        Ok(())
    }
}

#[async_trait]
impl Consumer for Settler<'_> {
    async fn begin(&mut self, _: &Fence) -> Result<()> {
        (self.state, self.limit) = (None, MAX_BATCH);
        Ok(())
    }

    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let settlers = self.settlers;
        let _turn = settlers.running.acquire().await;
        let Some(state) = &mut self.state else {
            self.state = Some(settlers.take_over(self.partition).await?);
            return Ok(RunOutcome::More);
        };
        let limit = self.limit;
        let page = settlers.queue.read(self.partition, state.through, limit).await?;
        if state.epoch != page.life || state.incarnation != settlers.base.lineage.incarnation() {
            // The queue was lost and restarted, or the ledger was replaced: the queue is read from its beginning.
            self.state = None;
            return Ok(RunOutcome::More);
        }
        if !page.items.is_empty() {
            let settled = settle(settlers, state, &page.items, &mut self.limit).await;
            if !matches!(settled, Ok(true)) {
                // Another node settled the batch, or this node did and missed the reply: the state is loaded again.
                self.state = None;
                return settled.map(|_| RunOutcome::More);
            }
        }
        settlers.publish_and_trim(fence, state).await?;
        // Last: a revert that fails does not hold up the counts.
        settlers.publish_reverts(self.partition, &mut state.has_reverts).await?;
        let is_full = page.items.len() == limit;
        Ok(if is_full { RunOutcome::More } else { RunOutcome::Idle(state.counts.next_due()) })
    }

    /// The next owner publishes the remaining counts, but it has to load them first.
    async fn end(&mut self, fence: &Fence) {
        let Some(state) = &mut self.state else { return };
        if let Err(error) = self.settlers.publish_and_trim(fence, state).await {
            tracing::debug!(%error, partition = self.partition, "the last counts are left to the next settler");
        }
    }
}

/// Settles a batch of entries, at least one. Returns `false` if the state is to be loaded again. A batch that always
/// fails is halved, and an entry that always fails is quarantined.
async fn settle(
    settlers: &Settlers,
    state: &mut SettlerState,
    entries: &[QueuedEntry],
    limit: &mut usize,
) -> Result<bool> {
    let (settled, cause) = isolate(settlers.settle_batch(state, entries)).await;
    let item = format!("{} {}", state.partition, entries[0].place);
    match settled {
        Ok(true) => {
            settlers.quarantine.succeeded(item);
            *limit = (2 * *limit).min(MAX_BATCH);
            Ok(true)
        }
        Ok(false) => Ok(false),
        Err(error) if error.is_outage() => Err(error),
        Err(error) => {
            *limit = (entries.len() / 2).max(1);
            if entries.len() == 1 {
                let fault = settlers.quarantine.failed(item, &error, cause).await;
                let Some(fault) = fault else { return Err(error) };
                settlers.skip(state, &entries[0], fault).await?;
            }
            // The ledger may be ahead of this node.
            Ok(false)
        }
    }
}
