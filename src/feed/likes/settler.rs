//! Settlers: they move batches of likes from the partitions of the queue into the ledger, in order.
//!
//! A settler leases its partition in the queue, so that others do not do the same work. The ledger makes sure that
//! nothing is settled twice: a batch is applied only where the last one ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::batch_size::{BatchSize, BatchFailure, MAX_BATCH};
use super::count_publisher::{CountPublisher, PendingCounts};
use super::eligibility::Eligibility;
use super::entry;
use super::like_quarantine::LikeQuarantine;
use super::reverts::{PendingReverts, RevertPublisher};
use super::settler_state::{SettlerState, parse_position, position};
use super::throttle::Throttle;
use super::wakers::SettlerWakers;
use crate::broker::{Broker, Claim, DurableQueue, QueueOffset, SettlementEvent, Signal};
use crate::feed::error::{Result, isolate};
use crate::feed::event_queue::EventQueue;
use crate::feed::lineage::LineageTracker;
use crate::feed::quarantine::QuarantinePolicy;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{EventConsumer, Ledger, LikeBatch, SettledLikes};
use crate::metrics::Metrics;
use crate::model::{LikeChange, Object};

/// How long likes gather before a batch that is not full is taken: they share a transaction of the ledger.
const GATHER_TIME: Duration = Duration::from_millis(50);

/// Under load, when the last batch had more entries than this, likes gather for longer. Larger batches amortise the
/// write cost.
const LARGE_BATCH: usize = 500;
const GATHER_TIME_UNDER_LOAD: Duration = Duration::from_millis(150);

/// How often a partition is read without a wake-up by this node's intake: other nodes append too.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How often a node tries to lease a partition that another node has.
const LEASE_ATTEMPT_INTERVAL: Duration = Duration::from_millis(1_000);

/// The first pause after a failure; it doubles up to [`MAX_BACK_OFF`].
const MIN_BACK_OFF: Duration = Duration::from_millis(50);
const MAX_BACK_OFF: Duration = Duration::from_secs(2);

/// Partitions that a node settles concurrently. More would not be faster: they contend for the same rows and log, and a
/// database on this machine would slow acknowledgements down.
const MAX_CONCURRENT_PARTITIONS: usize = 2;

/// Likes whose eligibility is checked in one step.
const ELIGIBILITY_STEP: usize = 500;

/// How often the length of the queue is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a poll.
enum SettlerPoll {
    /// There may be more to settle.
    More,
    /// So many were settled, and nothing is left.
    Settled(usize),
    /// Another node has the partition.
    LeasedElsewhere,
}

/// The outcome of a batch.
enum BatchOutcome {
    /// The ledger has applied it.
    Applied,
    /// The ledger's position differs from this settler's.
    Moved,
}

/// What a settler submits its results to.
pub(crate) struct SettlerOutputs {
    /// Publishes counts.
    pub(crate) counts: Arc<CountPublisher>,
    /// Publishes reverts to the users.
    pub(crate) reverts: RevertPublisher,
    /// Takes the events of new likes, for their notifications.
    pub(crate) events: Arc<EventQueue>,
    /// Sets entries aside that always fail.
    pub(crate) like_quarantine: LikeQuarantine,
    /// Decides when an entry has failed often enough.
    pub(crate) quarantine: Arc<QuarantinePolicy>,
}

/// The settlers of this node.
pub(crate) struct Settlers {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    queue: Arc<dyn DurableQueue>,
    runtime: Arc<Runtime>,
    lineage: Arc<LineageTracker>,
    eligibility: Arc<Eligibility>,
    wakers: Arc<SettlerWakers>,
    outputs: SettlerOutputs,
    metrics: Arc<Metrics>,
    /// Publications of one object's counts (`likes.counts_per_second`).
    counts_per_second: u32,
    /// Held while a batch is claimed and settled.
    running: Semaphore,
    /// By partition, when the oldest like of the batch under way was acknowledged; 0: no batch.
    oldest: Vec<AtomicU64>,
}

impl Settlers {
    /// Settlers for this queue: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        queue: Arc<dyn DurableQueue>,
        runtime: Arc<Runtime>,
        lineage: Arc<LineageTracker>,
        eligibility: Arc<Eligibility>,
        wakers: Arc<SettlerWakers>,
        outputs: SettlerOutputs,
        metrics: Arc<Metrics>,
        counts_per_second: u32,
    ) -> Self {
        let oldest = (0..queue.partitions()).map(|_| AtomicU64::new(0)).collect();
        let running = Semaphore::new(MAX_CONCURRENT_PARTITIONS);
        Self {
            ledger,
            broker,
            queue,
            runtime,
            lineage,
            eligibility,
            wakers,
            outputs,
            metrics,
            counts_per_second,
            running,
            oldest,
        }
    }

    /// Settles until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for partition in 0..self.queue.partitions() {
            let settlers = Arc::clone(self);
            self.runtime.spawn(async move { settlers.run(partition).await });
        }
        let settlers = Arc::clone(self);
        self.runtime.spawn(async move {
            while settlers.runtime.sleep(MEASURE_INTERVAL).await {
                settlers.measure().await;
            }
        });
    }

    async fn measure(&self) {
        let oldest = self.oldest.iter().map(|at| at.load(Ordering::Relaxed)).filter(|at| *at > 0).min();
        let age = oldest.map_or(0, |at| now().saturating_sub(at));
        match self.queue.length().await {
            Ok(length) => self.metrics.likes_waiting(length, age),
            Err(error) => tracing::debug!(%error, "the queue of likes could not be measured"),
        }
    }

    /// Settles a partition while this node has it, until the process stops.
    async fn run(&self, partition: u16) {
        let mut state = None;
        let mut back_off = MIN_BACK_OFF;
        let mut size = BatchSize::default();
        loop {
            let begun = Instant::now();
            let pause = match self.poll(partition, &mut state, &mut size).await {
                Ok(outcome) => {
                    back_off = MIN_BACK_OFF;
                    match outcome {
                        SettlerPoll::More => Duration::ZERO,
                        SettlerPoll::Settled(many) => self.wait_for_work(partition, &state, begun, many).await,
                        SettlerPoll::LeasedElsewhere => LEASE_ATTEMPT_INTERVAL.mul_f64(rand::random_range(0.8..1.2)),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, partition, pause = ?back_off, "the settling of likes waits for its stores");
                    let pause = back_off.mul_f64(rand::random_range(0.5..1.5));
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    pause
                }
            };
            if !self.runtime.sleep(pause).await {
                break;
            }
        }
        if let Some(mut state) = state {
            // The next settler publishes the rest, but not before this node's lease would have ended.
            let published = self.outputs.counts.publish_due(&mut state.counts, Throttle::Unthrottled).await;
            let trimmed = self.trim(partition, &mut state).await;
            if let Err(error) = published.and(trimmed) {
                tracing::debug!(%error, partition, "the last counts are left to the next settler");
            }
            if let Err(error) = self.queue.release(partition, self.runtime.holder()).await {
                tracing::debug!(%error, partition, "a partition was not released, its lease will run out");
            }
        }
    }

    /// Waits until there may be something to settle or to publish. Returns how much longer likes are to gather.
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
        // Acquired before the claim: by the time of the permit, others may have settled the batch.
        let permit = tokio::select! {
            permit = self.running.acquire() => permit,
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
            // The queue was lost and begins anew, or the ledger was replaced: the queue is read from its beginning.
            *state = None;
            return Ok(SettlerPoll::More);
        }
        let Some(current) = state.as_mut() else {
            *state = Some(self.take_over(partition, claim).await?);
            return Ok(SettlerPoll::More);
        };
        let many = claim.items.len();
        if many > 0 {
            match self.settle(partition, current, claim, size).await {
                Ok(BatchOutcome::Applied) => {}
                // Another node settled meanwhile, or this node did and missed the reply: the state is loaded again.
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
        self.outputs.reverts.publish(partition, &mut current.reverts).await?;
        self.outputs.counts.publish_due(&mut current.counts, throttle(many)).await?;
        self.trim(partition, current).await?;
        Ok(if many == limit { SettlerPoll::More } else { SettlerPoll::Settled(many) })
    }

    /// Settles a claimed batch. A batch that always fails is halved, and an entry that always fails is quarantined.
    async fn settle(
        &self,
        partition: u16,
        state: &mut SettlerState,
        claim: Claim,
        size: &mut BatchSize,
    ) -> Result<BatchOutcome> {
        let oldest = claim.items.iter().find_map(|item| entry::decode(&item.body)).map_or(0, |change| change.at);
        self.oldest[usize::from(partition)].store(oldest, Ordering::Relaxed);
        let (many, first) = (claim.items.len(), claim.items[0].clone());
        let (settled, cause) = isolate(self.settle_batch(partition, state, claim)).await;
        match settled {
            Ok(BatchOutcome::Applied) => {
                self.outputs.quarantine.succeeded();
                size.succeeded();
                self.oldest[usize::from(partition)].store(0, Ordering::Relaxed);
                Ok(BatchOutcome::Applied)
            }
            Ok(BatchOutcome::Moved) => Ok(BatchOutcome::Moved),
            Err(error) => match size.failed(many, &error) {
                BatchFailure::Outage => Err(error),
                // The ledger may be further than this node knows.
                BatchFailure::Batch => Ok(BatchOutcome::Moved),
                BatchFailure::Single(failures) if self.outputs.quarantine.admits(failures, &error).await => {
                    let place = first.place;
                    let to = position(&state.epoch, place);
                    let skipped =
                        self.outputs.like_quarantine.skip(partition, &state.position, &to, first, cause).await?;
                    if let Some(settled) = skipped {
                        self.advance(partition, state, to, (place, place), settled).await?;
                    }
                    Ok(BatchOutcome::Moved)
                }
                BatchFailure::Single(_) => Err(error),
            },
        }
    }

    /// Begins at the ledger's position of the partition, and with the counts that the last settler may not have
    /// published.
    async fn take_over(&self, partition: u16, first: Claim) -> Result<SettlerState> {
        let incarnation = self.lineage.incarnation();
        let position = self.ledger.like_position(partition).await?;
        let through = parse_position(&position, &first.life).unwrap_or(QueueOffset::ZERO);
        let mut unpublished: HashMap<Object, QueueOffset> = HashMap::new();
        let (epoch, mut items) = (first.life, first.items);
        while let Some(last) = items.last() {
            let reached = last.place;
            let settled = items.iter().take_while(|item| item.place <= through);
            for (place, change) in settled.filter_map(|item| Some((item.place, entry::decode(&item.body)?))) {
                unpublished.entry(change.object).or_insert(place);
            }
            if reached >= through {
                break;
            }
            let next = self.queue.claim(partition, self.runtime.holder(), reached, MAX_BATCH).await?;
            items = next.filter(|next| next.life == epoch).map_or_else(Vec::new, |next| next.items);
        }
        let mut counts = PendingCounts::new(self.counts_per_second);
        let objects: Vec<Object> = unpublished.keys().copied().collect();
        for objects in objects.chunks(MAX_BATCH) {
            for (object, tally) in self.ledger.like_tallies(objects).await? {
                counts.inherited(object, tally, unpublished.get(&object).copied().unwrap_or(through));
            }
        }
        tracing::debug!(partition, %through, unpublished = objects.len(), "settles likes here from now on");
        let (reverts, trimmed) = (PendingReverts::unknown(), QueueOffset::ZERO);
        Ok(SettlerState { epoch, incarnation, position, through, counts, reverts, trimmed })
    }

    async fn settle_batch(&self, partition: u16, state: &mut SettlerState, claim: Claim) -> Result<BatchOutcome> {
        let Some((first, last)) = claim.items.first().zip(claim.items.last()) else { return Ok(BatchOutcome::Applied) };
        let (first, through) = (first.place, last.place);
        let (merged, oldest) = entry::merge(&claim.items);
        self.outputs.like_quarantine.set_unreadable_aside(partition, &state.epoch, &claim.items).await?;
        let many = merged.len();
        let (changes, unseen) = self.split_by_eligibility(merged, throttle(claim.items.len())).await?;
        let (from, to) = (state.position.clone(), position(&state.epoch, through));
        let noted = self.outputs.events.max_likes_per_object();
        let batch = LikeBatch { partition, from, to: to.clone(), changes, unseen, noted, now: now() };
        let Some(mut settled) = self.ledger.settle_likes(batch).await? else { return Ok(BatchOutcome::Moved) };
        if !std::mem::take(&mut settled.added).is_empty() {
            self.outputs.events.wake(EventConsumer::Likes);
        }
        let age = oldest.map_or(0, |at| now().saturating_sub(at));
        self.metrics.likes_settled(claim.items.len(), many, age);
        self.advance(partition, state, to, (first, through), settled).await?;
        Ok(BatchOutcome::Applied)
    }

    /// Takes the result of the entries from `first` through `through`, publishes it to all nodes, and moves on behind
    /// them.
    async fn advance(
        &self,
        partition: u16,
        state: &mut SettlerState,
        position: String,
        (first, through): (QueueOffset, QueueOffset),
        settled: SettledLikes,
    ) -> Result<()> {
        self.lineage.note_settled(partition, &state.epoch, through).await?;
        (state.position, state.through) = (position, through);
        for (object, tally) in &settled.tallies {
            // An object without a version never had counts.
            if tally.version > 0 {
                state.counts.changed(*object, *tally, first);
            }
        }
        for reverted in &settled.reverted {
            self.metrics.like_reverted(reverted.reason.as_str());
            state.reverts.added();
        }
        self.publish(partition, through, settled).await;
        Ok(())
    }

    /// Splits likes of objects that their users may not like by now from the other changes: they were accepted
    /// unchecked, or the user was blocked meanwhile. Unlikes are always allowed.
    async fn split_by_eligibility(
        &self,
        changes: Vec<LikeChange>,
        throttle: Throttle,
    ) -> Result<(Vec<LikeChange>, Vec<LikeChange>)> {
        let pairs: Vec<_> = changes.iter().map(|change| (change.user.clone(), change.object)).collect();
        let mut eligible = Vec::with_capacity(pairs.len());
        for step in pairs.chunks(ELIGIBILITY_STEP) {
            if !eligible.is_empty() {
                throttle.pause().await;
            }
            eligible.append(&mut self.eligibility.may_like(step).await?);
        }
        let mut eligible = eligible.into_iter();
        Ok(changes.into_iter().partition(|change| eligible.next() == Some(true) || !change.liked))
    }

    /// Publishes a settlement to all nodes: they update their counts and inform clients. A lost message does no harm:
    /// the counts follow with the next one, and acknowledgements stay true.
    async fn publish(&self, partition: u16, through: QueueOffset, settled: SettledLikes) {
        let tallies = settled.tallies.into_iter().collect();
        let reverted = settled.reverted.into_iter().map(|reverted| (reverted.user, reverted.object)).collect();
        let settlement = SettlementEvent { partition, through, tallies, reverted };
        if let Err(error) = self.broker.signal(Signal::LikesSettled(settlement)).await {
            tracing::debug!(%error, partition, "a settlement was not published");
        }
    }

    /// Removes entries from the queue that are settled and published.
    async fn trim(&self, partition: u16, state: &mut SettlerState) -> Result<()> {
        let before = state.counts.unpublished().unwrap_or_else(|| state.through.next());
        if before > state.trimmed && state.through > QueueOffset::ZERO {
            self.queue.trim(partition, self.runtime.holder(), &state.epoch, before).await?;
            state.trimmed = before;
        }
        Ok(())
    }
}

/// No pauses after a full batch: the next one follows at once.
fn throttle(many: usize) -> Throttle {
    Throttle::off_if(many == MAX_BATCH)
}
