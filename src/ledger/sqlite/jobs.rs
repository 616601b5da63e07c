//! Fan-out jobs and their leases.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use super::{SqliteLedger, count, integer, json_text, natural};
use crate::ledger::{Backlog, Job, Jobs, Lease, Result, Work};
use crate::model::{Millis, UserId};

#[async_trait]
impl Jobs for SqliteLedger {
    async fn claim_jobs(&self, now: Millis, lease: &Lease, limit: usize) -> Result<Vec<Job>> {
        let lease = lease.clone();
        self.write(move |db| claim(db, now, &lease, limit)).await
    }

    async fn advance_job(&self, id: i64, cursor: &str, lease: &Lease) -> Result<bool> {
        let (lease, cursor) = (lease.clone(), cursor.to_owned());
        self.write(move |db| advance(db, id, &cursor, &lease)).await
    }

    async fn finish_job(&self, id: i64, holder: &str) -> Result<()> {
        let holder = holder.to_owned();
        self.write(move |db| finish(db, id, &holder)).await
    }

    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool> {
        let author = author.clone();
        self.read(move |db| carries_posts(db, &author, before)).await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.read(backlog).await
    }
}

pub(super) fn create(db: &Connection, work: Work, now: Millis, lease: &Lease) -> rusqlite::Result<Job> {
    let sql = "INSERT INTO jobs (work, created_at, holder, lease_until) VALUES (?1, ?2, ?3, ?4)";
    let row = params![json_text(&work)?, integer(now), &*lease.holder, integer(lease.until)];
    let id = db.prepare_cached(sql)?.insert(row)?;
    Ok(Job { id, work, cursor: String::new(), created_at: now })
}

pub(super) fn claim(db: &Connection, now: Millis, lease: &Lease, limit: usize) -> rusqlite::Result<Vec<Job>> {
    let sql = "UPDATE jobs SET holder = ?1, lease_until = ?2 \
               WHERE id IN (SELECT id FROM jobs WHERE lease_until <= ?3 ORDER BY id LIMIT ?4) \
               RETURNING id, work, cursor, created_at";
    let claim = params![&*lease.holder, integer(lease.until), integer(now), count(limit)];
    let mut jobs = db.prepare_cached(sql)?.query_map(claim, job)?.collect::<rusqlite::Result<Vec<_>>>()?;
    // RETURNING promises no order.
    jobs.sort_unstable_by_key(|job| job.id);
    Ok(jobs)
}

pub(super) fn advance(db: &Connection, id: i64, cursor: &str, lease: &Lease) -> rusqlite::Result<bool> {
    let sql = "UPDATE jobs SET cursor = ?3, lease_until = ?4 WHERE id = ?1 AND holder = ?2";
    Ok(db.prepare_cached(sql)?.execute(params![id, &*lease.holder, cursor, integer(lease.until)])? == 1)
}

pub(super) fn finish(db: &Connection, id: i64, holder: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM jobs WHERE id = ?1 AND holder = ?2")?.execute(params![id, holder])?;
    Ok(())
}

pub(super) fn carries_posts(db: &Connection, author: &UserId, before: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE id < ?1 AND ?2 IN (work ->> '$.post.author', work ->> '$.widen.author'))";
    db.prepare_cached(sql)?.query_row(params![before, author.as_str()], |row| row.get(0))
}

pub(super) fn backlog(db: &Connection) -> rusqlite::Result<Backlog> {
    db.prepare_cached("SELECT count(*), min(created_at) FROM jobs")?.query_row([], |row| {
        Ok(Backlog { jobs: natural(row.get(0)?), oldest: row.get::<_, Option<i64>>(1)?.map(natural) })
    })
}

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let work = serde_json::from_str(row.get_ref(1)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into()))?;
    Ok(Job { id: row.get(0)?, work, cursor: row.get(2)?, created_at: natural(row.get(3)?) })
}
