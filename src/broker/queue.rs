//! A durable write-behind queue in a few partitions, each in order.
//!
//! An entry that was [enqueued](DurableQueue::enqueue) survives the end of any process. The process that owns a
//! partition in the ledger (`feed/work/`) reads it, and stores its offset in the ledger, in the transaction that
//! processes the entries. So the queue needs no leases and no acknowledgements: a new owner of a partition continues at
//! the offset in the ledger, and processing an entry again has no effect. (A consumer group of Redis would deliver the
//! entries of one partition to several readers, out of order, and have a second record of what is processed.)
//!
//! [`RedisBroker`](super::RedisBroker) keeps it in Streams, for any number of processes; [`Journal`](super::Journal) in
//! files, for one. A Redis whose append-only file is flushed every second (its default) loses up to a second of
//! acknowledged entries to a loss of power, and none to the end of its process; with `appendfsync always` it loses
//! none.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::{Epoch, Millis};

/// The offset of an entry in its partition. Later entries have greater offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueOffset {
    /// The first key of the order: in Redis the Unix milliseconds of the Stream id, in a [`Journal`](super::Journal)
    /// the number of the entry.
    pub major: u64,
    /// The second key of the order: in Redis the sequence number of the Stream id, in a [`Journal`](super::Journal) 0.
    pub minor: u64,
}

impl QueueOffset {
    /// The offset before every entry.
    pub const ZERO: Self = Self { major: 0, minor: 0 };

    /// The offset after this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self.minor.checked_add(1) {
            Some(minor) => Self { minor, ..self },
            None => Self { major: self.major + 1, minor: 0 },
        }
    }

    /// Parses the text form of [`Display`](fmt::Display).
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

/// An entry to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// Its partition, below [`DurableQueue::partitions`]. Entries of one partition stay in order.
    pub partition: u16,
    /// The content of the entry; not empty.
    pub body: Bytes,
}

/// An entry in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEntry {
    /// The offset of the entry in its partition.
    pub place: QueueOffset,
    /// The content of the entry.
    pub body: Bytes,
}

/// The entries that wait in all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBacklog {
    /// Their number.
    pub entries: u64,
    /// When the oldest was appended, in Unix milliseconds; `None`: there is none.
    pub oldest: Option<Millis>,
}

/// Entries of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePage {
    /// The epoch of the partition. A partition that was lost and begins again has another one. Offsets of two epochs
    /// cannot be compared.
    pub life: Epoch,
    /// The entries in the order of their offsets.
    pub items: Vec<QueuedEntry>,
}

/// A durable queue. Every method returns within the broker's timeout, if necessary with an error.
#[async_trait]
pub trait DurableQueue: Send + Sync + 'static {
    /// The number of partitions, at least 1.
    fn partitions(&self) -> u16;

    /// Appends entries atomically. Once this has returned, they survive the process (and a power failure, if the engine
    /// is configured for it). Returns the offset of each; `None` for entries that were refused because all partitions
    /// together had `most` entries. After `Unreachable`, each entry may have been appended or not.
    async fn enqueue(&self, items: &[QueueItem], most: u64) -> Result<Vec<Option<QueueOffset>>>;

    /// Reads up to `limit` entries of a partition after an offset.
    async fn read(&self, partition: u16, after: QueueOffset, limit: usize) -> Result<QueuePage>;

    /// Removes the entries below an offset. Returns `false` and removes nothing if the partition has another epoch, or
    /// an owner of a greater generation has trimmed it: the caller lost the partition without noticing.
    async fn trim(&self, partition: u16, generation: u64, life: &Epoch, before: QueueOffset) -> Result<bool>;

    /// The number of entries in all partitions.
    async fn length(&self) -> Result<u64>;

    /// The backlog. `None` if the engine does not know when entries were appended.
    async fn backlog(&self) -> Result<Option<QueueBacklog>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_ordered_and_round_trip() {
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
