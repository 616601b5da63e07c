//! What is promised now and done later: a durable queue in a few partitions, each in order.
//!
//! An entry that was [enqueued](DurableQueue::enqueue) survives the end of any process. One reader at a time has a partition;
//! whoever reads keeps how far it came in the same transaction as what it made of the entries, in the ledger. So the
//! queue needs no acknowledgements: who takes a partition over asks the ledger where to go on, and an entry that is read
//! twice changes nothing. (A consumer group of Redis would hand one partition's entries to several readers, out of order,
//! and keep a second opinion on what is done.)
//!
//! [`RedisBroker`](super::RedisBroker) keeps it in Streams, for any number of processes; [`Journal`](super::Journal) in
//! files, for one. A Redis whose append-only file is flushed every second (its default) loses up to a second of
//! acknowledged entries to a loss of power, and none to the end of its process; with `appendfsync always` it loses none.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::Epoch;

/// How long a reader has a partition without a sign of life.
pub const PARTITION_LEASE: Duration = Duration::from_secs(5);

/// Where an entry is in its partition. Later entries have greater places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueOffset {
    /// What counts first.
    pub major: u64,
    /// What counts where that is the same.
    pub minor: u64,
}

impl QueueOffset {
    /// Before every entry.
    pub const ZERO: Self = Self { major: 0, minor: 0 };

    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self.minor.checked_add(1) {
            Some(minor) => Self { minor, ..self },
            None => Self { major: self.major + 1, minor: 0 },
        }
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('-')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for QueueOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.major, self.minor)
    }
}

/// An entry on its way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// Its partition, below [`DurableQueue::partitions`]. Entries of one partition stay in order.
    pub partition: u16,
    /// What it says; not empty.
    pub body: Bytes,
}

/// An entry that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEntry {
    /// Where it is.
    pub place: QueueOffset,
    /// What it says.
    pub body: Bytes,
}

/// What a reader gets of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Names this life of the partition. When it was lost and begins anew it has another, and places of two lives
    /// cannot be compared.
    pub life: Epoch,
    /// Entries in order.
    pub items: Vec<QueuedEntry>,
}

/// A durable queue. Every method answers within the broker's timeout, with an error if need be.
#[async_trait]
pub trait DurableQueue: Send + Sync + 'static {
    /// How many partitions there are, at least 1.
    fn partitions(&self) -> u16;

    /// Appends entries, in one step. From when this returns they survive the process (and a loss of power as far as the
    /// engine is set up to). Answers with the place of each, `None` for those that found `most` entries waiting in
    /// all partitions together. After an `Unreachable` each of them may be there or not.
    async fn enqueue(&self, items: &[QueueItem], most: u64) -> Result<Vec<Option<QueueOffset>>>;

    /// Has `holder` hold a partition for [`PARTITION_LEASE`] from now, and reads up to `limit` entries after a place.
    /// `None` if somebody else holds it.
    async fn claim(&self, partition: u16, holder: &str, after: QueueOffset, limit: usize) -> Result<Option<Claim>>;

    /// Lets a partition go, if `holder` holds it.
    async fn release(&self, partition: u16, holder: &str) -> Result<()>;

    /// Drops the entries below a place, if the partition is still in this life and `holder` still holds it: one that
    /// lost its lease without noticing drops nothing.
    async fn trim(&self, partition: u16, holder: &str, life: &Epoch, before: QueueOffset) -> Result<()>;

    /// How many entries are kept, in all partitions.
    async fn length(&self) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_and_survive_the_store() {
        let places = [
            QueueOffset::ZERO,
            QueueOffset { major: 0, minor: 9 },
            QueueOffset { major: 9, minor: 0 },
            QueueOffset { major: 10, minor: 0 },
        ];
        assert!(places.is_sorted());
        for place in places {
            assert_eq!(QueueOffset::parse(&place.to_string()), Some(place));
            assert!(place.next() > place);
        }
        let last = QueueOffset { major: 1, minor: u64::MAX };
        assert_eq!(last.next(), QueueOffset { major: 2, minor: 0 });
        assert_eq!(QueueOffset::parse("7"), None);
    }
}
