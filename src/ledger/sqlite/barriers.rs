//! What people put between themselves and others.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::edges;
use super::rows::user_id_at;
use super::{SqliteLedger, integer, jobs, json_text, readable};
use crate::ledger::{Barriers, Job, Lease, Result, job_plan};
use crate::model::{Barrier, Millis, Relation, UserId};

#[async_trait]
impl Barriers for SqliteLedger {
    async fn bar(
        &self,
        barrier: Barrier,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>> {
        let (between, lease) = (Between::new(barrier, maker, whom), lease.clone());
        self.write(move |db| bar(db, &between, now, &lease)).await
    }

    async fn unbar(
        &self,
        barrier: Barrier,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>> {
        let (between, lease) = (Between::new(barrier, maker, whom), lease.clone());
        self.write(move |db| unbar(db, &between, now, &lease)).await
    }

    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let pairs = pairs.to_vec();
        self.read(move |db| relations(db, &pairs)).await
    }

    async fn barred_among(&self, authors: &[UserId]) -> Result<Vec<UserId>> {
        let authors = authors.to_vec();
        self.read(move |db| barred_among(db, &authors)).await
    }
}

/// A barrier between two people.
struct Between {
    barrier: Barrier,
    maker: UserId,
    whom: UserId,
}

impl Between {
    fn new(barrier: Barrier, maker: &UserId, whom: &UserId) -> Self {
        Self { barrier, maker: maker.clone(), whom: whom.clone() }
    }
}

fn bar(db: &Connection, between: &Between, now: Millis, lease: &Lease) -> rusqlite::Result<Option<Vec<Job>>> {
    let sql = "INSERT INTO barriers (maker, kind, whom, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let row = params![between.maker.as_str(), between.barrier.as_str(), between.whom.as_str(), integer(now)];
    if db.prepare_cached(sql)?.execute(row)? == 0 {
        return Ok(None);
    }
    let mut made = Vec::new();
    for edge in job_plan::restricted_inboxes(between.barrier, &between.maker, &between.whom) {
        if job_plan::ends_follows(between.barrier) {
            edges::end(db, &edge)?;
        }
        made.push(jobs::create(db, job_plan::restricted(&edge), now, lease)?);
    }
    Ok(Some(made))
}

fn unbar(db: &Connection, between: &Between, now: Millis, lease: &Lease) -> rusqlite::Result<Option<Vec<Job>>> {
    let sql = "DELETE FROM barriers WHERE maker = ?1 AND kind = ?2 AND whom = ?3";
    let row = [between.maker.as_str(), between.barrier.as_str(), between.whom.as_str()];
    if db.prepare_cached(sql)?.execute(row)? == 0 {
        return Ok(None);
    }
    let mut made = Vec::new();
    for edge in job_plan::restricted_inboxes(between.barrier, &between.maker, &between.whom) {
        if !edges::followed_among(db, &edge.reader, std::slice::from_ref(&edge.author))?.is_empty() {
            made.push(jobs::create(db, job_plan::followed(&edge), now, lease)?);
        }
    }
    Ok(Some(made))
}

/// Six look-ups in indexes a pair.
pub(super) const RELATIONS: &str = "WITH pair AS MATERIALIZED \
        (SELECT key AS place, value ->> 0 AS reader, value ->> 1 AS author FROM json_each(?1)) \
    SELECT EXISTS (SELECT 1 FROM follows WHERE follower = reader AND followee = author), \
        EXISTS (SELECT 1 FROM follows WHERE follower = author AND followee = reader), \
        EXISTS (SELECT 1 FROM barriers WHERE maker = author AND kind = 'hide' AND whom = reader), \
        EXISTS (SELECT 1 FROM barriers WHERE maker = reader AND kind = 'mute' AND whom = author), \
        EXISTS (SELECT 1 FROM barriers WHERE maker = reader AND kind = 'block' AND whom = author), \
        EXISTS (SELECT 1 FROM barriers WHERE maker = author AND kind = 'block' AND whom = reader) \
    FROM pair ORDER BY place";

fn relations(db: &Connection, pairs: &[(UserId, UserId)]) -> rusqlite::Result<Vec<Relation>> {
    db.prepare_cached(RELATIONS)?.query_map([json_text(pairs)?], relation)?.collect()
}

fn relation(row: &Row<'_>) -> rusqlite::Result<Relation> {
    Ok(Relation {
        follows: row.get(0)?,
        followed: row.get(1)?,
        hidden: row.get(2)?,
        muted: row.get(3)?,
        blocks: row.get(4)?,
        blocked: row.get(5)?,
    })
}

pub(super) const BARRED: &str = "WITH author AS MATERIALIZED (SELECT DISTINCT value AS id FROM json_each(?1)) \
    SELECT id FROM author \
    WHERE EXISTS (SELECT 1 FROM barriers WHERE maker = id AND kind IN ('hide', 'block')) \
        OR EXISTS (SELECT 1 FROM barriers WHERE whom = id AND kind IN ('mute', 'block'))";

fn barred_among(db: &Connection, authors: &[UserId]) -> rusqlite::Result<Vec<UserId>> {
    readable("barriers", db.prepare_cached(BARRED)?.query([json_text(authors)?])?, |row| user_id_at(row, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, SqliteOptions};

    #[tokio::test]
    async fn relations_are_look_ups_in_indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [RELATIONS, BARRED] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                db.prepare(&explain)?.query_map(["[]"], |row| row.get(3))?.collect()
            });
            for step in plan.await.expect("a plan") {
                let scans = step.starts_with("SCAN") && (step.contains("follows") || step.contains("barriers"));
                assert!(!scans, "{step} in {sql}");
            }
        }
        ledger.close().await;
    }
}
