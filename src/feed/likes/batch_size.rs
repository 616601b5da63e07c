//! The size of the batches of a settler: a batch that always fails is halved until the entry at fault is alone.

use crate::feed::error::FeedError;

/// Entries of a full batch.
pub(super) const MAX_BATCH: usize = 4_000;

/// The size of the next batch.
#[derive(Debug)]
pub(super) struct BatchSize {
    limit: usize,
    /// How often in a row a batch of one entry failed.
    failures: u32,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { limit: MAX_BATCH, failures: 0 }
    }
}

impl BatchSize {
    /// The most entries of the next batch.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A batch was settled: the next one may be larger.
    pub(super) fn succeeded(&mut self) {
        *self = Self { limit: (2 * self.limit).min(MAX_BATCH), failures: 0 };
    }

    /// A batch of so many entries failed.
    pub(super) fn failed(&mut self, entries: usize, error: &FeedError) -> BatchFailure {
        if error.is_outage() {
            return BatchFailure::Outage;
        }
        self.limit = (entries / 2).max(1);
        if entries > 1 {
            self.failures = 0;
            return BatchFailure::Batch;
        }
        self.failures += 1;
        BatchFailure::Single(self.failures)
    }
}

/// Why a batch was not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchFailure {
    /// A store is away.
    Outage,
    /// An entry is at fault; the next batch is smaller.
    Batch,
    /// Its only entry is at fault, so many times in a row.
    Single(u32),
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
        assert_eq!(size.failed(1, &FeedError::Internal), BatchFailure::Single(1));
        assert_eq!(size.failed(1, &FeedError::Internal), BatchFailure::Single(2));
        size.succeeded();
        assert_eq!((size.limit(), size.failures), (2, 0));
    }
}
