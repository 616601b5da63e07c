//! Which history of the data a ledger holds, so that a restored one is recognised.
//!
//! The broker is full of things that are named by numbers of the ledger: pages of a fan-out by job, inboxes by mark of
//! the pulled log, versions of counts. A ledger that was restored, or that failed over and lost its tail, gives these
//! numbers out again. So the broker remembers the ledger's identity and the greatest of each kind of number that was
//! used in it; see [`LedgerRecord`](crate::broker::LedgerRecord).

use async_trait::async_trait;

use super::Result;

/// How far a new incarnation moves the numbers beyond the greatest known one. A process may hold jobs that it never
/// told the broker of; their numbers must not be given out again while it works on them.
pub const NUMBERS_SKIPPED: u64 = 1_000_000;

/// Numbers of the ledger, each kind by its name. Those of one kind compare as text.
pub type HighWaterMarks = Vec<(String, String)>;

/// A number as [`HighWaterMarks`] hold it.
pub fn high_water(number: u64) -> String {
    format!("{number:020}")
}

/// The kind of number that names fan-out jobs.
pub const JOBS: &str = "jobs";

/// The kind of number that orders the pulled log.
pub const PULLED: &str = "pulled";

/// The kind of number that names likes that could not be settled.
pub const REVERTS: &str = "reverts";

/// What a ledger is, and how far it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// Random letters and digits, stored in the ledger and copied with it. Rewritten when the ledger is found to have
    /// lost its tail.
    pub incarnation: String,
    /// What cannot be copied: of PostgreSQL the system identifier, the timeline and the database. It changes when a
    /// standby is promoted, and after point-in-time recovery. Empty where the store has nothing of the kind.
    pub place: String,
    /// The greatest numbers given out: of [`JOBS`], [`PULLED`] and [`REVERTS`]. Absent is 0.
    pub numbers: Vec<(&'static str, u64)>,
    /// How far each partition of the queue of likes is settled: partition, and the position as it was written.
    pub positions: Vec<(u16, String)>,
}

impl Lineage {
    /// What the broker compares: it is another one whenever the ledger cannot be the same any more.
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
    /// What the ledger is at this moment.
    async fn lineage(&self) -> Result<Lineage>;

    /// Begins a new incarnation, in one transaction: replaces the stored name `from` by `to`, and moves the numbers
    /// beyond `least` by [`NUMBERS_SKIPPED`]. `false`, and nothing changes, if the stored name is not `from` any more.
    async fn begin_incarnation(&self, from: &str, to: &str, least: &[(&'static str, u64)]) -> Result<bool>;

    /// Waits until the store may have become another one: every connection was lost and one came back, or one leads to
    /// another server. Never returns where that cannot happen.
    async fn replaced(&self);

    /// Begins a comparison with the broker, for [`admit`](Self::admit). From the first one on, a store that may have
    /// become another one answers only [`lineage`](Self::lineage) and [`begin_incarnation`](Self::begin_incarnation)
    /// until it is admitted; other calls wait for a moment, then fail at once with
    /// [`LedgerError::Unreachable`](super::LedgerError::Unreachable).
    fn begin_comparison(&self) -> u64;

    /// The store was compared with the broker by the comparison that began with this answer of
    /// [`begin_comparison`](Self::begin_comparison). `false` if it may have become another one since: it is to be
    /// compared again.
    fn admit(&self, comparison: u64) -> bool;
}
