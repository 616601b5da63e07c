//! Settles one batch of likes: checks them, applies them to the ledger, and publishes the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::batch_size::{BatchFailure, BatchSize, MAX_BATCH};
use super::count_publisher::{CountPublisher, PendingCounts};
use super::eligibility::Eligibility;
use super::entry;
use super::like_quarantine::LikeQuarantine;
use super::reverts::{PendingReverts, RevertPublisher};
use super::settler_state::{SettlerState, parse_position, position};
use super::throttle::Throttle;
use crate::broker::{DurableQueue, QueueOffset, QueuePage, QueuedEntry, SettlementEvent, Signal};
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::runtime::now;
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{EventConsumer, LikeBatch, SettledLikes};
use crate::model::{ContentId, LikeChange, UserId};

/// Likes whose eligibility is checked in one step.
const ELIGIBILITY_STEP: usize = 500;

/// The outcome of a batch.
pub(super) enum BatchOutcome {
    /// The ledger has applied it.
    Applied,
    /// The ledger's position differs from this settler's.
    Moved,
}

/// Settles batches. `wiring/likes.rs` sets the fields.
pub(crate) struct BatchSettler {
    pub(crate) base: Arc<Base>,
    pub(crate) queue: Arc<dyn DurableQueue>,
    pub(crate) eligibility: Arc<Eligibility>,
    /// Publishes counts.
    pub(crate) counts: Arc<CountPublisher>,
    /// Publishes reverts to the users concerned.
    pub(crate) reverts: Arc<RevertPublisher>,
    /// Quarantines entries that always fail.
    pub(crate) like_quarantine: LikeQuarantine,
    /// Decides when an entry has failed often enough to be quarantined.
    pub(crate) quarantine: Arc<QuarantinePolicy>,
    /// Publications of one object's counts per second (`likes.counts_per_second`).
    pub(crate) counts_per_second: u32,
}

impl BatchSettler {
    /// Takes over a partition, starting at the ledger's position and with the counts that the last settler may not have
    /// published.
    pub(super) async fn take_over(&self, partition: u16) -> Result<SettlerState> {
        let incarnation = self.base.lineage.incarnation();
        let position = self.base.ledger.like_position(partition).await?;
        let QueuePage { life: epoch, mut items } = self.queue.read(partition, QueueOffset::ZERO, MAX_BATCH).await?;
        let through = parse_position(&position, &epoch).unwrap_or(QueueOffset::ZERO);
        let mut unpublished: HashMap<ContentId, QueueOffset> = HashMap::new();
        while let Some(last) = items.last() {
            let reached = last.place;
            let settled = items.iter().take_while(|item| item.place <= through);
            for (place, change) in settled.filter_map(|item| Some((item.place, entry::decode(&item.body)?))) {
                unpublished.entry(change.object).or_insert(place);
            }
            if reached >= through {
                break;
            }
            let next = self.queue.read(partition, reached, MAX_BATCH).await?;
            items = if next.life == epoch { next.items } else { Vec::new() };
        }
        let mut counts = PendingCounts::new(self.counts_per_second);
        let objects: Vec<ContentId> = unpublished.keys().copied().collect();
        for objects in objects.chunks(MAX_BATCH) {
            for (object, tally) in self.base.ledger.like_tallies(objects).await? {
                counts.inherited(object, tally, unpublished.get(&object).copied().unwrap_or(through));
            }
        }
        tracing::debug!(partition, %through, unpublished = objects.len(), "settles likes here from now on");
        let (reverts, trimmed) = (PendingReverts::unknown(), QueueOffset::ZERO);
        let is_behind = false;
        Ok(SettlerState { epoch, incarnation, position, through, counts, reverts, trimmed, is_behind })
    }

    /// Settles a batch of entries, at least one. A batch that always fails is halved, and an entry that always fails is
    /// quarantined.
    pub(super) async fn settle(
        &self,
        partition: u16,
        state: &mut SettlerState,
        entries: &[QueuedEntry],
        size: &mut BatchSize,
    ) -> Result<BatchOutcome> {
        let (many, first) = (entries.len(), entries[0].clone());
        let item = |entry: &QueuedEntry| format!("{partition} {}", entry.place);
        let (settled, cause) = isolate(self.settle_batch(partition, state, entries)).await;
        match settled {
            Ok(BatchOutcome::Applied) => {
                self.quarantine.succeeded(item(&first));
                size.succeeded();
                Ok(BatchOutcome::Applied)
            }
            Ok(BatchOutcome::Moved) => Ok(BatchOutcome::Moved),
            Err(error) => match size.failed(many, &error) {
                BatchFailure::Outage => Err(error),
                // The ledger may be ahead of this node.
                BatchFailure::Batch => Ok(BatchOutcome::Moved),
                BatchFailure::Single => {
                    let fault = self.quarantine.failed(item(&first), &error, cause).await;
                    let Some(fault) = fault else { return Err(error) };
                    let place = first.place;
                    let to = position(&state.epoch, place);
                    let skipped = self.like_quarantine.skip(partition, &state.position, &to, first, fault).await?;
                    if let Some(settled) = skipped {
                        self.advance(partition, state, to, (place, place), (settled, Vec::new())).await?;
                    }
                    Ok(BatchOutcome::Moved)
                }
            },
        }
    }

    async fn settle_batch(
        &self,
        partition: u16,
        state: &mut SettlerState,
        entries: &[QueuedEntry],
    ) -> Result<BatchOutcome> {
        let Some((first, last)) = entries.first().zip(entries.last()) else { return Ok(BatchOutcome::Applied) };
        let (first, through) = (first.place, last.place);
        let (merged, oldest) = entry::merge(entries);
        self.like_quarantine.set_unreadable_aside(partition, &state.epoch, entries).await?;
        let many = merged.len();
        let (changes, unseen) = self.split_by_eligibility(merged, throttle(entries.len())).await?;
        let (from, to) = (state.position.clone(), position(&state.epoch, through));
        let noted = self.base.events.max_likes_per_object();
        let likes = changes.iter().map(|change| (change.user.clone(), change.object, change.liked)).collect();
        let batch = LikeBatch { partition, from, to: to.clone(), changes, unseen, noted, now: now() };
        let Some(mut settled) = self.base.ledger.settle_likes(batch).await? else { return Ok(BatchOutcome::Moved) };
        if !std::mem::take(&mut settled.added).is_empty() {
            self.base.events.wake(EventConsumer::Likes);
        }
        let age = oldest.map_or(0, |at| now().saturating_sub(at));
        self.base.metrics.likes.settled(entries.len(), many, age);
        self.advance(partition, state, to, (first, through), (settled, likes)).await?;
        Ok(BatchOutcome::Applied)
    }

    /// Applies the result of the entries from `first` through `through` and their settled likes, publishes both to all
    /// nodes, and advances behind these entries.
    async fn advance(
        &self,
        partition: u16,
        state: &mut SettlerState,
        position: String,
        (first, through): (QueueOffset, QueueOffset),
        (settled, likes): (SettledLikes, Vec<(UserId, ContentId, bool)>),
    ) -> Result<()> {
        self.base.lineage.note_settled(partition, &state.epoch, through).await?;
        (state.position, state.through) = (position, through);
        for (object, tally) in &settled.tallies {
            // An object without a version has never had counts.
            if tally.version > 0 {
                state.counts.changed(*object, *tally, first);
            }
        }
        for reverted in &settled.reverted {
            self.base.metrics.likes.reverted(reverted.reason.as_str());
            state.reverts.added();
        }
        self.publish(partition, through, settled, likes).await;
        Ok(())
    }

    /// Separates likes of objects that their users may no longer like from the other changes: such likes were accepted
    /// unchecked, or the user was blocked after the like. Unlikes are always allowed.
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
    /// the next message brings the counts, and acknowledgements stay valid.
    async fn publish(
        &self,
        partition: u16,
        through: QueueOffset,
        settled: SettledLikes,
        mut likes: Vec<(UserId, ContentId, bool)>,
    ) {
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

/// No pauses after a full batch: the next batch follows at once.
pub(super) fn throttle(many: usize) -> Throttle {
    Throttle::off_if(many == MAX_BATCH)
}
