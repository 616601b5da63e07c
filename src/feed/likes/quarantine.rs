//! Entries of the queue that cannot be settled.
//!
//! A batch that always fails is halved until the entry at fault is alone. That one is set aside with the reason, its
//! user is informed that the like is reverted, and the partition goes on behind it. An entry that is not a like is set
//! aside as well.

use super::super::{Feed, FeedError, Result, now};
use super::entry;
use super::settler::{BATCH, Seat};
use crate::broker::{Place, Waiting};
use crate::ledger::{LIKE, Quarantined, REVERT, Reverted, SettledLikes, SkippedLike};

/// The size of the next batch: smaller after one that failed.
#[derive(Debug)]
pub(super) struct BatchSize {
    limit: usize,
    /// How often in a row a batch of one entry failed.
    failures: u32,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { limit: BATCH, failures: 0 }
    }
}

impl BatchSize {
    /// Entries of the next batch, at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A batch was settled: the next one may be larger.
    pub(super) fn succeeded(&mut self) {
        *self = Self { limit: (2 * self.limit).min(BATCH), failures: 0 };
    }

    /// A batch of so many entries failed.
    pub(super) fn failed(&mut self, entries: usize, error: &FeedError) -> Failure {
        if error.is_outage() {
            return Failure::Outage;
        }
        self.limit = (entries / 2).max(1);
        if entries > 1 {
            self.failures = 0;
            return Failure::Batch;
        }
        self.failures += 1;
        Failure::Single(self.failures)
    }
}

/// Why a batch was not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A store is away.
    Outage,
    /// An entry is at fault; the next batch is smaller.
    Batch,
    /// Its only entry is at fault, so many times in a row.
    Single(u32),
}

impl Feed {
    /// Sets an entry aside that always fails, and goes on behind it.
    pub(super) async fn skip_like(&self, partition: u16, seat: &mut Seat, entry: Waiting, cause: String) -> Result<()> {
        tracing::error!(partition, place = %entry.place, cause, "a like always fails and was quarantined");
        let like = entry::decode(&entry.body);
        let (from, to) = (seat.position.clone(), format!("{} {}", seat.life, entry.place));
        let skipped = SkippedLike {
            partition,
            from,
            to: to.clone(),
            content: text(&entry),
            reason: cause,
            like: like.clone().filter(|like| like.liked),
            now: now(),
        };
        // Another node went on meanwhile: nothing is left to do.
        let Some(reverted) = self.ledger.skip_like(&skipped).await? else { return Ok(()) };
        let objects: Vec<_> = like.iter().map(|like| like.object).collect();
        // The count may be what cannot be read. Other nodes ask for it again after a while.
        let tallies = self.ledger.like_tallies(&objects).await.unwrap_or_default();
        let settled = SettledLikes { tallies, added: Vec::new(), reverted };
        self.move_on(partition, seat, to, (entry.place, entry.place), settled).await
    }

    /// Sets a note of a reverted like aside of which its user cannot be informed.
    pub(super) async fn quarantine_revert(&self, reverted: &Reverted, cause: String) -> Result<()> {
        tracing::error!(?reverted, cause, "the note of a reverted like always fails and was quarantined");
        let Reverted { id, user, object, reason } = reverted;
        let content = format!("{user} {} {}", object.to_text(), reason.as_str());
        let entry = Quarantined::new(REVERT, id.to_string(), content, cause);
        self.ledger.quarantine(&[entry]).await?;
        Ok(self.ledger.reverts_told(&[*id]).await?)
    }

    /// Sets those entries of a batch aside that are not likes. The batch then settles without them.
    pub(super) async fn quarantine_unreadable(&self, partition: u16, life: &str, batch: &[Waiting]) -> Result<()> {
        let unreadable = batch.iter().filter(|item| entry::decode(&item.body).is_none()).map(|item| {
            tracing::error!(partition, place = %item.place, "an entry of the queue of likes cannot be decoded");
            let reason = "it is not a like that this version knows".to_owned();
            Quarantined::new(LIKE, name(partition, life, item.place), text(item), reason)
        });
        let unreadable: Vec<_> = unreadable.collect();
        if unreadable.is_empty() {
            return Ok(());
        }
        Ok(self.ledger.quarantine(&unreadable).await?)
    }
}

fn name(partition: u16, life: &str, place: Place) -> String {
    format!("{partition} {life} {place}")
}

/// The longest content that is kept, in bytes.
const MAX_CONTENT: usize = 1_000;

fn text(item: &Waiting) -> String {
    String::from_utf8_lossy(&item.body[..item.body.len().min(MAX_CONTENT)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_shrinks_to_the_entry_at_fault_and_grows_again() {
        let mut size = BatchSize::default();
        let mut steps = 0;
        while size.limit() > 1 {
            assert_eq!(size.failed(size.limit(), &FeedError::Internal), Failure::Batch);
            steps += 1;
        }
        assert!(steps <= 12, "{steps}");
        assert_eq!(size.failed(1, &FeedError::Unavailable), Failure::Outage);
        assert_eq!(size.failed(1, &FeedError::Internal), Failure::Single(1));
        assert_eq!(size.failed(1, &FeedError::Internal), Failure::Single(2));
        size.succeeded();
        assert_eq!((size.limit(), size.failures), (2, 0));
    }
}
