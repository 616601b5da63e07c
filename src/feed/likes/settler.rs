//! Settlers: they move batches of likes from the partitions of the queue into the ledger, in order.
//!
//! The process that owns a partition settles it (`feed/work/`), so that others do not repeat its work. A settler that
//! has lost its partition without noticing does no harm: the ledger applies a batch only at the position where the last
//! batch ended, counts have versions, reverts have idempotency keys, and the queue refuses to be trimmed by a former
//! owner.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::count_publisher::{CountPublisher, PendingCounts};
use super::eligibility::Eligibility;
use super::intake::{self, LikeIntake};
use super::memory::LikeMemory;
use crate::broker::{DurableQueue, QueueOffset, QueuePage, QueuedEntry, SettlementEvent, Signal};
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::runtime::now;
use crate::feed::work::{Consumer, Owner, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::ledger::{
    EventConsumer, Fault, Fence, LIKE, LedgerError, LikeBatch, Quarantined, Reverted, SettledLikes, like_name,
};
use crate::model::{ContentId, Epoch, LikeChange, Millis, UserId};

/// Entries of a full batch.
pub(super) const MAX_BATCH: usize = 4_000;

/// Other nodes append too, so a partition is also read without a wake-up by this node's intake. Likes are gathered
/// before a partial batch is read: the likes of a batch share a ledger transaction.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(250), gather: Duration::from_millis(100) };

/// Likes whose eligibility is checked in one step.
const ELIGIBILITY_STEP: usize = 500;

/// Why an entry that cannot be decoded is set aside.
const UNKNOWN: &str = "it is not a like that this version knows";

/// The requests for retries of one step.
const MAX_RETRIES: usize = 100;

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
    /// The partitions of the queue: see [`partitions`](Self::partitions).
    pub(crate) partitions: Vec<Arc<Partition>>,
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
    pub(crate) fn partitions(owner: &Owner, queue: &dyn DurableQueue) -> Vec<Arc<Partition>> {
        (0..queue.partitions()).map(|number| owner.partition("likes", format!("likes/{number}"))).collect()
    }

    /// Settles until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for number in 0..self.queue.partitions() {
            self.base.runtime.supervise("like_settlers", self, move |settlers| async move {
                let partition = &settlers.partitions[usize::from(number)];
                let settler = || Settler { settlers: &settlers, partition: number, state: None, limit: MAX_BATCH };
                work(partition, &settlers.base.runtime, SCHEDULE, &settlers.quarantine, settler).await;
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
            let at = first.and_then(|first| intake::decode(&first.body)).map(|change| change.at);
            oldest = oldest.into_iter().chain(at).min();
        }
        self.base.metrics.likes.waiting(length, oldest.map_or(0, |at| now().saturating_sub(at)));
        Ok(())
    }

    /// Appends likes to the queue again whose retry an operator has requested in the ledger. Any node does it; two that
    /// do so at once change nothing more.
    async fn carry_out_retries(&self) -> Result<()> {
        let ledger = &self.base.ledger;
        for Quarantined { kind, name, content, .. } in ledger.requested_retries(MAX_RETRIES).await? {
            // One that fails again does not hold up the others.
            let (retried, cause) = isolate(self.retry(&content)).await;
            match retried {
                Ok(()) => drop(ledger.drop_quarantined(&kind, &name).await?),
                Err(error) if error.is_outage() => return Err(error),
                Err(_) => ledger.refuse_retry(&kind, &name, &cause).await?,
            }
        }
        Ok(())
    }

    async fn retry(&self, content: &str) -> Result<()> {
        let change = intake::decode(content.as_bytes()).ok_or_else(|| LedgerError::Failed(UNKNOWN.to_owned()))?;
        self.intake.enqueue(self.memory.partition(change.object), &change, None).await?;
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

/// Settling of one batch: it is checked, applied to the ledger, and published.
impl Settlers {
    /// Takes over a partition, starting at the ledger's position and with the counts that the last settler may not have
    /// published.
    async fn take_over(&self, partition: u16) -> Result<SettlerState> {
        let incarnation = self.base.lineage.incarnation();
        let position = self.base.ledger.like_position(partition).await?;
        let QueuePage { life: epoch, mut items } = self.queue.read(partition, QueueOffset::ZERO, MAX_BATCH).await?;
        let through = intake::parse_position(&position, &epoch).unwrap_or(QueueOffset::ZERO);
        let mut unpublished: HashMap<ContentId, QueueOffset> = HashMap::new();
        while let Some(last) = items.last() {
            let reached = last.place;
            let settled = items.iter().take_while(|item| item.place <= through);
            for (place, change) in settled.filter_map(|item| Some((item.place, intake::decode(&item.body)?))) {
                unpublished.entry(change.object).or_insert(place);
            }
            if reached >= through {
                break;
            }
            let next = self.queue.read(partition, reached, MAX_BATCH).await?;
            items = if next.life == epoch { next.items } else { Vec::new() };
        }
        let mut counts = PendingCounts::new(self.base.options.likes.counts_per_second);
        let objects: Vec<ContentId> = unpublished.keys().copied().collect();
        for objects in objects.chunks(MAX_BATCH) {
            for (object, tally) in self.base.ledger.like_tallies(objects).await? {
                counts.inherited(object, tally, unpublished.get(&object).copied().unwrap_or(through));
            }
        }
        tracing::debug!(partition, %through, unpublished = objects.len(), "settles likes here from now on");
        let trimmed = QueueOffset::ZERO;
        Ok(SettlerState { partition, epoch, incarnation, position, through, counts, trimmed })
    }

    /// Settles entries. Returns `false` if the ledger's position is not that of the state.
    async fn settle_batch(&self, state: &mut SettlerState, entries: &[QueuedEntry]) -> Result<bool> {
        let Some(last) = entries.last() else { return Ok(true) };
        let (merged, oldest) = intake::merge(entries);
        let quarantined = unreadable(state, entries);
        let many = merged.len();
        let (changes, unseen) = self.split_by_eligibility(merged).await?;
        let (partition, from, to) =
            (state.partition, state.position.clone(), intake::position(&state.epoch, last.place));
        let noted = self.base.events.max_likes_per_object();
        let likes: Vec<_> = changes.iter().map(|change| (change.user.clone(), change.object, change.liked)).collect();
        let batch = LikeBatch { partition, from, to, changes, unseen, failed: None, quarantined, noted, now: now() };
        let Some(mut settled) = self.base.ledger.settle_likes(batch).await? else { return Ok(false) };
        let has_unlikes = likes.iter().any(|(_, _, liked)| !liked);
        if !std::mem::take(&mut settled.added).is_empty() || has_unlikes {
            self.base.events.wake(EventConsumer::Likes);
        }
        let age = oldest.map_or(0, |at| now().saturating_sub(at));
        self.base.metrics.likes.settled(entries.len(), many, age);
        self.advance(state, entries, settled, likes).await?;
        Ok(true)
    }

    /// Quarantines an entry that always fails, and moves the ledger's position past it. Nothing changes if another node
    /// has moved the position.
    async fn skip(&self, state: &mut SettlerState, item: &QueuedEntry, fault: Fault) -> Result<()> {
        let partition = state.partition;
        let cause = &fault.reason;
        tracing::error!(partition, place = %item.place, cause, "a like always fails and was quarantined");
        let like = intake::decode(&item.body);
        let objects: Vec<_> = like.iter().map(|like| like.object).collect();
        let batch = LikeBatch {
            partition,
            from: state.position.clone(),
            to: intake::position(&state.epoch, item.place),
            failed: like.filter(|like| like.liked),
            quarantined: vec![set_aside(state, item, fault)],
            now: now(),
            ..LikeBatch::default()
        };
        let Some(mut settled) = self.base.ledger.settle_likes(batch).await? else { return Ok(()) };
        // The count itself may be unreadable. Other nodes load it again later.
        settled.tallies = self.base.ledger.like_tallies(&objects).await.unwrap_or_default();
        self.advance(state, std::slice::from_ref(item), settled, Vec::new()).await
    }

    /// Applies the result of entries and their settled likes, publishes both to all nodes, and advances behind these
    /// entries.
    async fn advance(
        &self,
        state: &mut SettlerState,
        entries: &[QueuedEntry],
        settled: SettledLikes,
        likes: Vec<(UserId, ContentId, bool)>,
    ) -> Result<()> {
        let Some((first, last)) = entries.first().zip(entries.last()) else { return Ok(()) };
        self.base.lineage.note_settled(state.partition, &state.epoch, last.place).await?;
        (state.position, state.through) = (intake::position(&state.epoch, last.place), last.place);
        for (object, tally) in &settled.tallies {
            // An object without a version has never had counts.
            if tally.version > 0 {
                state.counts.changed(*object, *tally, first.place);
            }
        }
        for Reverted { user, object, reason } in &settled.reverted {
            self.base.metrics.likes.reverted(*reason);
            self.memory.states.remove(&(user.clone(), *object));
        }
        if !settled.reverted.is_empty() {
            self.base.events.wake(EventConsumer::Notifications);
        }
        self.publish(state, settled, likes).await;
        Ok(())
    }

    /// Separates likes of objects that their users may no longer like from the other changes: such likes were accepted
    /// unchecked, or the user was blocked after the like. Unlikes are always allowed.
    async fn split_by_eligibility(&self, changes: Vec<LikeChange>) -> Result<(Vec<LikeChange>, Vec<LikeChange>)> {
        let likes = changes.iter().filter(|change| change.liked);
        let pairs: Vec<_> = likes.map(|like| (like.user.clone(), like.object)).collect();
        let mut eligible = Vec::with_capacity(pairs.len());
        for step in pairs.chunks(ELIGIBILITY_STEP) {
            eligible.append(&mut self.eligibility.may_like(step).await?);
        }
        let mut eligible = eligible.into_iter();
        Ok(changes.into_iter().partition(|change| !change.liked || eligible.next() == Some(true)))
    }

    /// Publishes a settlement to all nodes: they update their counts and inform clients. A lost message does no harm:
    /// the next message brings the counts, and acknowledgements stay valid.
    async fn publish(&self, state: &SettlerState, settled: SettledLikes, mut likes: Vec<(UserId, ContentId, bool)>) {
        let partition = state.partition;
        let through = state.through;
        let tallies = settled.tallies.into_iter().collect();
        let reverted: Vec<_> = settled.reverted.into_iter().map(|it| (it.user, it.object)).collect();
        if !reverted.is_empty() {
            let reverted: HashSet<_> = reverted.iter().map(|(user, object)| (user, *object)).collect();
            likes.retain(|(user, object, _)| !reverted.contains(&(user, *object)));
        }
        let settlement = SettlementEvent { partition, through, tallies, reverted, likes };
        if let Err(error) = self.base.broker.signal(Signal::LikesSettled(settlement)).await {
            tracing::debug!(%error, partition, "a settlement was not published");
        }
    }
}

/// The entries of a batch that are not likes. The batch settles without them.
fn unreadable(state: &SettlerState, batch: &[QueuedEntry]) -> Vec<Quarantined> {
    let partition = state.partition;
    let unreadable = batch.iter().filter(|item| intake::decode(&item.body).is_none()).map(|item| {
        tracing::error!(partition, place = %item.place, "an entry of the queue of likes cannot be decoded");
        set_aside(state, item, Fault::now(UNKNOWN, 1))
    });
    unreadable.collect()
}

fn set_aside(state: &SettlerState, item: &QueuedEntry, fault: Fault) -> Quarantined {
    let name = like_name(state.partition, &intake::position(&state.epoch, item.place));
    Quarantined::new(LIKE, name, intake::content(item), fault)
}
