//! Owners of durable work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{SqliteLedger, integer, json_text, natural};
use crate::ledger::work::LONGEST_LEASE;
use crate::ledger::{Fence, PartitionRow, Result, WorkLease, WorkStore, WorkView};

#[async_trait]
impl WorkStore for SqliteLedger {
    async fn renew_work_lease(&self, lease: &WorkLease) -> Result<WorkView> {
        let lease = lease.clone();
        self.write(move |db| renew(db, &lease)).await
    }

    async fn take_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<Vec<Fence>> {
        let holder = holder.to_owned();
        let partitions = partitions.to_vec();
        self.write(move |db| take(db, &holder, &partitions)).await
    }

    async fn release_partitions(&self, holder: &str, partitions: &[Fence]) -> Result<()> {
        let holder = holder.to_owned();
        let partitions = partitions.to_vec();
        self.write(move |db| {
            let sql = "UPDATE work_partitions SET holder = NULL WHERE name = ?1 AND generation = ?2 AND holder = ?3";
            for fence in &partitions {
                let row = params![&*fence.partition, integer(fence.generation), holder];
                db.prepare_cached(sql)?.execute(row)?;
            }
            Ok(())
        })
        .await
    }

    async fn owned_partitions(&self) -> Result<BTreeMap<String, u64>> {
        self.read(|db| {
            let sql = "SELECT holder, count(*) FROM work_partitions JOIN work_nodes USING (holder) \
                       WHERE lease_until BETWEEN ?1 AND ?2 GROUP BY holder";
            let clock = clock();
            let mut statement = db.prepare_cached(sql)?;
            let counts =
                statement.query_map([clock + 1, longest(clock)], |row| Ok((row.get(0)?, natural(row.get(1)?))))?;
            counts.collect()
        })
        .await
    }

    async fn end_work_lease(&self, holder: &str) -> Result<()> {
        let holder = holder.to_owned();
        self.write(move |db| {
            disown(db, &holder)?;
            db.prepare_cached("DELETE FROM work_nodes WHERE holder = ?1")?.execute([holder]).map(drop)
        })
        .await
    }

    async fn end_other_work_leases(&self, holder: &str) -> Result<()> {
        let holder = holder.to_owned();
        self.write(move |db| {
            db.prepare_cached("DELETE FROM work_nodes WHERE holder <> ?1")?.execute([holder]).map(drop)
        })
        .await
    }
}

/// The clock that measures leases, in Unix milliseconds: that of the machine with the file.
pub(super) fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The latest end of a valid lease.
fn longest(clock: i64) -> i64 {
    clock.saturating_add(i64::try_from(LONGEST_LEASE.as_millis()).unwrap_or(i64::MAX))
}

fn renew(db: &Connection, lease: &WorkLease) -> rusqlite::Result<WorkView> {
    let clock = clock();
    let sql = "SELECT 1 FROM work_nodes WHERE holder = ?1 AND lease_until BETWEEN ?2 AND ?3";
    if !db.prepare_cached(sql)?.exists(params![&*lease.holder, clock + 1, longest(clock)])? {
        disown(db, &lease.holder)?;
        // Nobody asks for the rows of processes that ended long ago.
        db.prepare_cached("DELETE FROM work_nodes WHERE lease_until <= ?1")?.execute([clock - 3_600_000])?;
    }
    let sql = "INSERT INTO work_nodes (holder, lease_until, kinds) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET lease_until = excluded.lease_until, kinds = excluded.kinds";
    let until = clock.saturating_add(lease.millis());
    db.prepare_cached(sql)?.execute(params![&*lease.holder, until, json_text(&lease.kinds)?])?;
    view(db, clock)
}

fn disown(db: &Connection, holder: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE work_partitions SET holder = NULL WHERE holder = ?1")?.execute([holder]).map(drop)
}

fn view(db: &Connection, clock: i64) -> rusqlite::Result<WorkView> {
    let valid = [clock + 1, longest(clock)];
    let sql = "SELECT kinds FROM work_nodes WHERE lease_until BETWEEN ?1 AND ?2";
    let mut statement = db.prepare_cached(sql)?;
    let kinds = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let nodes = statement.query_map(valid, kinds)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let nodes = nodes.iter().map(|kinds| serde_json::from_str(kinds).unwrap_or_default()).collect();
    let sql = "SELECT name, (SELECT holder FROM work_nodes \
                   WHERE holder = work_partitions.holder AND lease_until BETWEEN ?1 AND ?2), generation \
               FROM work_partitions";
    let mut statement = db.prepare_cached(sql)?;
    let partition = |row: &rusqlite::Row<'_>| {
        Ok(PartitionRow { name: row.get(0)?, owner: row.get(1)?, generation: natural(row.get(2)?) })
    };
    let partitions = statement.query_map(valid, partition)?.collect::<rusqlite::Result<_>>()?;
    Ok(WorkView { nodes, partitions })
}

fn take(db: &Connection, holder: &str, partitions: &[Fence]) -> rusqlite::Result<Vec<Fence>> {
    let clock = clock();
    let valid = "SELECT 1 FROM work_nodes WHERE holder = ?1 AND lease_until BETWEEN ?2 AND ?3";
    if !db.prepare_cached(valid)?.exists(params![holder, clock + 1, longest(clock)])? {
        return Ok(Vec::new());
    }
    let sql = "INSERT INTO work_partitions (name, holder, generation) VALUES (?1, ?2, 1) \
               ON CONFLICT DO UPDATE SET holder = ?2, generation = generation + 1 \
               WHERE generation = ?3 AND NOT EXISTS (SELECT 1 FROM work_nodes \
                   WHERE holder = work_partitions.holder AND lease_until BETWEEN ?4 AND ?5) \
               RETURNING generation";
    let mut taken = Vec::new();
    for Fence { partition, generation } in partitions {
        let row = params![&**partition, holder, integer(*generation), clock + 1, longest(clock)];
        let generation: Option<i64> = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
        taken.extend(generation.map(|it| Fence { partition: Arc::clone(partition), generation: natural(it) }));
    }
    Ok(taken)
}

/// Whether a partition still has this owner.
pub(super) fn is_owned(db: &Connection, fence: &Fence) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM work_partitions WHERE name = ?1 AND generation = ?2";
    db.prepare_cached(sql)?.exists(params![&*fence.partition, integer(fence.generation)])
}
