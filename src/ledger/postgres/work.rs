//! Owners of durable work.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::PostgresLedger;
use super::columns::{at, integer, json_at, natural_at, one};
use crate::ledger::work::LONGEST_LEASE;
use crate::ledger::{Fence, Result, WorkLease, WorkStore, WorkView};

const RENEW: &str = "SELECT feedline_renew_work_lease($1, $2, $3)";

const TAKE: &str = "SELECT name, generation FROM feedline_take_partitions($1, $2, $3)";

const RELEASE: &str = "\
    UPDATE work_partitions SET holder = NULL
    FROM unnest($2::text[], $3::bigint[]) AS given (name, generation)
    WHERE work_partitions.name = given.name AND work_partitions.generation = given.generation AND holder = $1";

const OWNED: &str = "\
    SELECT n.holder, count(*)
    FROM work_nodes n JOIN work_partitions p ON p.holder = n.holder, (SELECT feedline_clock() AS now) clock
    WHERE n.lease_until > now AND n.lease_until <= now + $1
    GROUP BY n.holder";

const END: &str = "SELECT feedline_end_work_lease($1)";

const END_OTHERS: &str = "DELETE FROM work_nodes WHERE holder <> $1";

#[async_trait]
impl WorkStore for PostgresLedger {
    async fn renew_work_lease(&self, lease: &WorkLease) -> Result<WorkView> {
        let rows = self.pool.write(RENEW, &[&&*lease.holder, &lease.millis(), &lease.kinds]).await?;
        json_at(one(&rows)?, 0)
    }

    async fn take_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<Vec<Fence>> {
        let (names, generations) = columns(partitions);
        let rows = self.pool.write(TAKE, &[&holder, &names, &generations]).await?;
        let taken =
            rows.iter().map(|row| Ok(Fence { partition: at::<&str>(row, 0)?.into(), generation: natural_at(row, 1)? }));
        taken.collect()
    }

    async fn release_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<()> {
        let (names, generations) = columns(partitions);
        self.pool.write(RELEASE, &[&holder, &names, &generations]).await.map(drop)
    }

    async fn owned_partitions(&self) -> Result<BTreeMap<String, u64>> {
        let longest = i64::try_from(LONGEST_LEASE.as_millis()).unwrap_or(i64::MAX);
        let rows = self.pool.read(OWNED, &[&longest]).await?;
        rows.iter().map(|row| Ok((at(row, 0)?, natural_at(row, 1)?))).collect()
    }

    async fn end_work_lease(&self, holder: &str) -> Result<()> {
        self.pool.write(END, &[&holder]).await.map(drop)
    }

    async fn end_other_work_leases(&self, holder: &str) -> Result<()> {
        self.pool.write(END_OTHERS, &[&holder]).await.map(drop)
    }
}

/// Fences as two parameters of a statement.
pub(super) fn columns(fences: &[Fence]) -> (Vec<&str>, Vec<i64>) {
    fences.iter().map(|fence| (&*fence.partition, integer(fence.generation))).unzip()
}
