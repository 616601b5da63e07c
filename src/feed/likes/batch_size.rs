//! The size of the batches of a settler: a batch that always fails is halved until the entry at fault is alone.

use crate::feed::error::FeedError;

/// Entries of a full batch.
pub(super) const MAX_BATCH: usize = 4_000;

/// The size of the next batch.
#[derive(Debug)]
pub(super) struct BatchSize {
    limit: usize,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { limit: MAX_BATCH }
    }
}

impl BatchSize {
    /// The maximum number of entries of the next batch.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Records a settled batch: the next one may be larger.
    pub(super) fn succeeded(&mut self) {
        self.limit = (2 * self.limit).min(MAX_BATCH);
    }

    /// Records the failure of a batch of `entries` entries.
    pub(super) fn failed(&mut self, entries: usize, error: &FeedError) -> BatchFailure {
        if error.is_outage() {
            return BatchFailure::Outage;
        }
        self.limit = (entries / 2).max(1);
        if entries > 1 { BatchFailure::Batch } else { BatchFailure::Single }
    }
}

/// The reason why a batch was not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchFailure {
    /// A store is down.
    Outage,
    /// An entry is at fault; the next batch is smaller.
    Batch,
    /// The only entry of the batch failed.
    Single,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_shrinks_to_the_entry_at_fault_and_grows_again() {
        let mut size = BatchSize::default();
        let mut steps = 0;
        while size.limit() > 1 {
            assert_eq!(size.failed(size.limit(), &FeedError::Internal), BatchFailure::Batch);
            steps += 1;
        }
        assert!(steps <= 12, "{steps}");
        assert_eq!(size.failed(1, &FeedError::Unavailable), BatchFailure::Outage);
        assert_eq!(size.failed(1, &FeedError::Internal), BatchFailure::Single);
        size.succeeded();
        assert_eq!(size.limit(), 2);
    }
}
