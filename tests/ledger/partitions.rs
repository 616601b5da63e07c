//! Ownership of partitions of work.

use std::time::Duration;

use feedline::ledger::{Fence, Ledger, WorkLease};

/// Takes a partition for a process that has no lease, or a lease without it. No other process may own the partition.
pub(crate) async fn own(ledger: &dyn Ledger, holder: &str, partition: &str) -> Fence {
    let lease = WorkLease { holder: holder.into(), length: Duration::from_secs(60), kinds: Vec::new() };
    let view = ledger.renew_work_lease(&lease).await.expect("a lease");
    let last = view.partitions.iter().find(|row| row.name == partition).map_or(0, |row| row.generation);
    let wanted = Fence { partition: partition.into(), generation: last };
    ledger.take_partitions(holder, &[wanted]).await.expect("an answer").pop().expect("the partition is free")
}

/// Moves a partition to another process.
pub(crate) async fn hand_over(ledger: &dyn Ledger, from: &str, to: &str, partition: &str) -> Fence {
    ledger.end_work_lease(from).await.expect("an answer");
    own(ledger, to, partition).await
}
