//! Owners of durable work.
//!
//! Work is divided into *partitions* with names, such as `fanout/17` or `events/outlet`. A process owns a partition
//! while its row names the process, and the process has a valid lease. The lease is one row for each process, so its
//! renewals cost the same however many partitions the process owns. The clock of the ledger measures leases (the clock
//! of PostgreSQL, or of the machine with the SQLite file), so the clocks of nodes do not matter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;

/// A lease that ends later than this from now was created before the clock was set back, and counts as expired. It is
/// longer than any lease.
pub(super) const LONGEST_LEASE: Duration = Duration::from_secs(660);

/// The ownership of a partition. Statements that need it change nothing once another process has taken the partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The name of the partition.
    pub partition: Arc<str>,
    /// Counts the owners of the partition: each one that takes it increments the number.
    pub generation: u64,
}

/// A process that asks for partitions, and its lease.
#[derive(Clone, Debug)]
pub struct WorkLease {
    /// The name of the process, new at each start.
    pub holder: Arc<str>,
    /// How long the lease lasts without a renewal.
    pub length: Duration,
    /// The kinds of work that the process does.
    pub kinds: Vec<String>,
}

impl WorkLease {
    /// The length in milliseconds.
    pub(super) fn millis(&self) -> i64 {
        i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The processes that have a valid lease, and the partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkView {
    /// The kinds of work of each process with a valid lease.
    pub nodes: Vec<Vec<String>>,
    /// All partitions that were ever owned.
    pub partitions: Vec<PartitionRow>,
}

/// A partition, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRow {
    /// Its name.
    pub name: String,
    /// The process that owns it; `None`: nobody, or a process whose lease has expired.
    pub owner: Option<String>,
    /// The generation of its last owner.
    pub generation: u64,
}

/// Owners of durable work.
#[async_trait]
pub trait WorkStore: Send + Sync {
    /// Begins or renews the lease of a process, and reads all partitions. If the lease had expired, the process owns
    /// nothing from now on.
    async fn renew_work_lease(&self, lease: &WorkLease) -> Result<WorkView>;

    /// Takes partitions that nobody owns, each given with the generation of its last owner (0: it was never owned).
    /// Returns the ownership of those that were taken. Nothing is taken without a valid lease.
    async fn take_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<Vec<Fence>>;

    /// Gives partitions back.
    async fn release_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<()>;

    /// The number of partitions of each process with a valid lease; a process without partitions is omitted.
    async fn owned_partitions(&self) -> Result<BTreeMap<String, u64>>;

    /// Ends the lease of a process: another one may take its partitions at once.
    async fn end_work_lease(&self, holder: &str) -> Result<()>;

    /// Ends the leases of all other processes: the caller knows that none of them is alive.
    async fn end_other_work_leases(&self, holder: &str) -> Result<()>;
}
