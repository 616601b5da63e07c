//! The identity of the data in a ledger, which detects a restored ledger.
//!
//! The broker holds data named by numbers of the ledger: pages of a fan-out by job, inboxes by mark of the pull log,
//! versions of counts. A ledger that was restored, or that lost its last writes in a failover, issues these numbers
//! again. The broker therefore stores the ledger's identity and the greatest number of each kind used in it; see
//! [`LedgerRecord`](crate::broker::LedgerRecord).

use async_trait::async_trait;

use super::Result;

/// The distance by which a new incarnation moves the numbers beyond the greatest known one. A process may hold jobs
/// that the broker does not know about; their numbers must not be issued again while the process works on them.
pub const NUMBERS_SKIPPED: u64 = 1_000_000;

/// Numbers of the ledger, each with the name of its kind. Numbers of one kind compare as text.
pub type HighWaterMarks = Vec<(String, String)>;

/// Formats a number for [`HighWaterMarks`].
pub fn high_water(number: u64) -> String {
    format!("{number:020}")
}

/// The kind of number that names fan-out jobs.
pub const JOBS: &str = "jobs";

/// The kind of number that orders the pull log.
pub const PULLED: &str = "pulled";

/// The identity of a ledger, and its greatest numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// Random letters and digits, stored in the ledger and copied with it. Replaced when the ledger is found to have
    /// lost its last writes.
    pub incarnation: String,
    /// The part of the identity that cannot be copied: for PostgreSQL the system identifier, the timeline and the
    /// database. It changes when a standby is promoted, and after point-in-time recovery. Empty for stores without such
    /// an identifier.
    pub place: String,
    /// The greatest numbers issued: of [`JOBS`] and [`PULLED`]. Absent means 0.
    pub numbers: Vec<(&'static str, u64)>,
    /// The position up to which each partition of the queue of likes is settled: partition, and the position as it was
    /// written.
    pub positions: Vec<(u16, String)>,
}

impl Lineage {
    /// The identity that the broker compares. It changes whenever the ledger may hold other data.
    pub fn identity(&self) -> String {
        format!("{} {}", self.incarnation, self.place)
    }

    /// The greatest number of a kind.
    pub fn number(&self, kind: &str) -> u64 {
        self.numbers.iter().find(|(name, _)| *name == kind).map_or(0, |(_, number)| *number)
    }
}

/// The ledger's identity.
#[async_trait]
pub trait LineageStore: Send + Sync {
    /// The current lineage of the ledger.
    async fn lineage(&self) -> Result<Lineage>;

    /// Begins a new incarnation, in one transaction: replaces the stored name `from` by `to`, and moves the numbers
    /// beyond `least` by [`NUMBERS_SKIPPED`]. Returns `false` and changes nothing if the stored name is not `from` any
    /// more.
    async fn begin_incarnation(&self, from: &str, to: &str, least: &[(&'static str, u64)]) -> Result<bool>;

    /// Waits until the store may have been replaced: all connections were lost and one was restored, or one leads to
    /// another server. Never returns for stores that cannot be replaced.
    async fn replaced(&self);

    /// Begins a comparison with the broker, for [`admit`](Self::admit). After the first comparison, a store that may
    /// have been replaced accepts only [`lineage`](Self::lineage) and [`begin_incarnation`](Self::begin_incarnation)
    /// until it is admitted. Other calls wait for a moment, then fail at once with
    /// [`LedgerError::Unreachable`](super::LedgerError::Unreachable).
    fn begin_comparison(&self) -> u64;

    /// Admits the store after a comparison with the broker. `comparison` is the result of
    /// [`begin_comparison`](Self::begin_comparison). Returns `false` if the store may have been replaced since then and
    /// must be compared again.
    fn admit(&self, comparison: u64) -> bool;
}
