//! Settles one batch of likes: checks them, applies them to the ledger, and publishes the result.

use std::collections::{HashMap, HashSet};

use super::count_publisher::PendingCounts;
use super::entry;
use super::settler::{MAX_BATCH, SettlerState, Settlers};
use crate::broker::{QueueOffset, QueuePage, QueuedEntry, SettlementEvent, Signal};
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::ledger::{EventConsumer, Fault, LikeBatch, SettledLikes, SkippedLike};
use crate::model::{ContentId, LikeChange, UserId};

/// Likes whose eligibility is checked in one step.
const ELIGIBILITY_STEP: usize = 500;

impl Settlers {
    /// Takes over a partition, starting at the ledger's position and with the counts that the last settler may not have
    /// published.
    pub(super) async fn take_over(&self, partition: u16) -> Result<SettlerState> {
        let incarnation = self.base.lineage.incarnation();
        let position = self.base.ledger.like_position(partition).await?;
        let QueuePage { life: epoch, mut items } = self.queue.read(partition, QueueOffset::ZERO, MAX_BATCH).await?;
        let through = entry::parse_position(&position, &epoch).unwrap_or(QueueOffset::ZERO);
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
        let mut counts = PendingCounts::new(self.base.options.likes.counts_per_second);
        let objects: Vec<ContentId> = unpublished.keys().copied().collect();
        for objects in objects.chunks(MAX_BATCH) {
            for (object, tally) in self.base.ledger.like_tallies(objects).await? {
                counts.inherited(object, tally, unpublished.get(&object).copied().unwrap_or(through));
            }
        }
        tracing::debug!(partition, %through, unpublished = objects.len(), "settles likes here from now on");
        // The last settler may have left reverts.
        let has_reverts = true;
        let trimmed = QueueOffset::ZERO;
        Ok(SettlerState { partition, epoch, incarnation, position, through, counts, has_reverts, trimmed })
    }

    /// Settles entries. Returns `false` if the ledger's position is not that of the state.
    pub(super) async fn settle_batch(&self, state: &mut SettlerState, entries: &[QueuedEntry]) -> Result<bool> {
        let Some(last) = entries.last() else { return Ok(true) };
        let (merged, oldest) = entry::merge(entries);
        self.set_unreadable_aside(state, entries).await?;
        let many = merged.len();
        let (changes, unseen) = self.split_by_eligibility(merged).await?;
        let (partition, from, to) =
            (state.partition, state.position.clone(), entry::position(&state.epoch, last.place));
        let noted = self.base.events.max_likes_per_object();
        let likes: Vec<_> = changes.iter().map(|change| (change.user.clone(), change.object, change.liked)).collect();
        let batch = LikeBatch { partition, from, to, changes, unseen, noted, now: now() };
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
    pub(super) async fn skip(&self, state: &mut SettlerState, item: &QueuedEntry, fault: Fault) -> Result<()> {
        let partition = state.partition;
        let cause = &fault.reason;
        tracing::error!(partition, place = %item.place, cause, "a like always fails and was quarantined");
        let like = entry::decode(&item.body);
        let objects: Vec<_> = like.iter().map(|like| like.object).collect();
        let skipped = SkippedLike {
            partition,
            from: state.position.clone(),
            to: entry::position(&state.epoch, item.place),
            content: entry::text(item),
            like: like.filter(|like| like.liked),
            fault,
        };
        let Some(reverted) = self.base.ledger.skip_like(&skipped).await? else { return Ok(()) };
        // The count itself may be unreadable. Other nodes load it again later.
        let tallies = self.base.ledger.like_tallies(&objects).await.unwrap_or_default();
        let settled = SettledLikes { tallies, added: Vec::new(), reverted };
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
        (state.position, state.through) = (entry::position(&state.epoch, last.place), last.place);
        for (object, tally) in &settled.tallies {
            // An object without a version has never had counts.
            if tally.version > 0 {
                state.counts.changed(*object, *tally, first.place);
            }
        }
        for reverted in &settled.reverted {
            self.base.metrics.likes.reverted(reverted.reason.as_str());
            state.has_reverts = true;
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
