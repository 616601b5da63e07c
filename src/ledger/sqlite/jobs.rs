//! Fan-out jobs and their leases.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, integer, json_text, natural, quarantine};
use crate::ledger::quarantine::report_unreadable;
use crate::ledger::{Backlog, CLAIM_WINDOW, Finished, Job, JobStore, Lease, MAX_JOBS_OF_AUTHOR, Result, Work};
use crate::model::{Millis, UserId};

#[async_trait]
impl JobStore for SqliteLedger {
    async fn claim_jobs(&self, lease: &Lease, limit: usize) -> Result<Vec<Job>> {
        let lease = lease.clone();
        self.write(move |db| claim(db, &lease, limit)).await
    }

    async fn has_waiting_jobs(&self) -> Result<bool> {
        self.read(has_waiting).await
    }

    async fn advance_job(&self, id: i64, generation: u64, cursor: &str, lease: &Lease) -> Result<bool> {
        let (lease, cursor) = (lease.clone(), cursor.to_owned());
        self.write(move |db| advance(db, (id, generation), &cursor, &lease)).await
    }

    async fn renew_jobs(&self, jobs: &[(i64, u64)], lease: &Lease) -> Result<Vec<i64>> {
        let (jobs, lease) = (jobs.to_vec(), lease.clone());
        self.write(move |db| renew(db, &jobs, &lease)).await
    }

    async fn finish_jobs(&self, jobs: &[(i64, u64)]) -> Result<Vec<Finished>> {
        let jobs = jobs.to_vec();
        self.write_patiently(move |db| {
            // Whether others wait is asked when all of these jobs are gone.
            let authors = jobs.iter().map(|job| finish(db, *job)).collect::<rusqlite::Result<Vec<_>>>()?;
            authors.into_iter().map(|author| finished(db, author)).collect()
        })
        .await
    }

    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool> {
        let author = author.clone();
        self.read(move |db| carries_posts(db, &author, before)).await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.read(backlog).await
    }
}

/// The clock that measures leases, in Unix milliseconds: that of the machine with the file.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A lease that ends later than this many milliseconds from now was created before the clock was set back, and counts
/// as expired: `fanout.lease` is at most 10 minutes.
const LONGEST: i64 = 660_000;

/// The end of a lease that begins now.
fn until(clock: i64, lease: &Lease) -> i64 {
    clock.saturating_add(integer(lease.millis()))
}

pub(super) fn create(db: &Connection, work: Work, now: Millis, lease: &Lease) -> rusqlite::Result<Job> {
    let (author, is_ordered, clock) = (work.author().as_str(), work.is_ordered(), clock());
    let mut is_held = !lease.length.is_zero();
    if is_held && is_ordered {
        let sql = "SELECT 1 FROM jobs WHERE author = ?1 AND ordered AND (holder <> ?2 OR lease_until <= ?3)";
        is_held = !db.prepare_cached(sql)?.exists(params![author, &*lease.holder, clock])?;
    }
    let sql = "INSERT INTO jobs (work, author, carries_post, ordered, created_at, holder, lease_until, generation) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let lease_until = if is_held { until(clock, lease) } else { 0 };
    let row = params![
        json_text(&work)?,
        author,
        work.carries_post(),
        is_ordered,
        integer(now),
        &*lease.holder,
        lease_until,
        is_held
    ];
    let id = db.prepare_cached(sql)?.insert(row)?;
    Ok(Job { id, work, cursor: String::new(), created_at: now, generation: u64::from(is_held) })
}

pub(super) fn claim(db: &Connection, lease: &Lease, limit: usize) -> rusqlite::Result<Vec<Job>> {
    let sql = "WITH held AS MATERIALIZED (SELECT DISTINCT author FROM jobs \
                   WHERE lease_until > ?3 AND lease_until <= ?5 AND holder <> ?1 AND ordered), \
               mine AS MATERIALIZED (SELECT author, count(*) AS jobs FROM jobs \
                   WHERE lease_until > ?3 AND lease_until <= ?5 AND holder = ?1 GROUP BY author), \
               due AS MATERIALIZED (SELECT id, author FROM jobs WHERE (lease_until <= ?3 OR lease_until > ?5) \
                   AND NOT (ordered AND author IN (SELECT author FROM held)) ORDER BY id LIMIT ?6), \
               ranked AS (SELECT id, author, row_number() OVER (PARTITION BY author ORDER BY id) AS place FROM due) \
               UPDATE jobs SET holder = ?1, lease_until = ?2, generation = generation + 1 \
               WHERE id IN (SELECT id FROM ranked LEFT JOIN mine USING (author) \
                   WHERE place + coalesce(mine.jobs, 0) <= ?7 ORDER BY id LIMIT ?4) \
               RETURNING id, work, cursor, created_at, generation";
    let clock = clock();
    let longest = clock.saturating_add(LONGEST);
    let (window, of_author) = (count(CLAIM_WINDOW), count(MAX_JOBS_OF_AUTHOR));
    let claim = params![&*lease.holder, until(clock, lease), clock, count(limit), longest, window, of_author];
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(claim, |row| Ok((row.get::<_, i64>(0)?, natural(row.get(4)?), job(row))))?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut jobs = Vec::with_capacity(rows.len());
    for (id, generation, job) in rows {
        match job {
            Ok(job) => jobs.push(job),
            Err(error) => {
                report_unreadable("jobs", &id, &error);
                quarantine::job(db, (id, generation), &error.to_string(), natural(clock))?;
            }
        }
    }
    // `RETURNING` does not guarantee an order.
    jobs.sort_unstable_by_key(|job| job.id);
    Ok(jobs)
}

fn has_waiting(db: &Connection) -> rusqlite::Result<bool> {
    let clock = clock();
    let sql = "SELECT 1 FROM jobs WHERE lease_until <= ?1 OR lease_until > ?2 LIMIT 1";
    db.prepare_cached(sql)?.exists([clock, clock.saturating_add(LONGEST)])
}

fn advance(db: &Connection, (id, generation): (i64, u64), cursor: &str, lease: &Lease) -> rusqlite::Result<bool> {
    let sql = "UPDATE jobs SET cursor = ?3, lease_until = ?4 WHERE id = ?1 AND generation = ?2 AND lease_until > ?5 \
               AND NOT (ordered AND EXISTS (SELECT 1 FROM jobs AS earlier \
                   WHERE earlier.author = jobs.author AND earlier.id < jobs.id AND earlier.ordered))";
    let clock = clock();
    let row = params![id, integer(generation), cursor, until(clock, lease), clock];
    Ok(db.prepare_cached(sql)?.execute(row)? == 1)
}

fn renew(db: &Connection, jobs: &[(i64, u64)], lease: &Lease) -> rusqlite::Result<Vec<i64>> {
    let clock = clock();
    if lease.length.is_zero() {
        let sql = "UPDATE jobs SET lease_until = 0 \
                   WHERE (id, generation) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1)) RETURNING id";
        return db.prepare_cached(sql)?.query_map([json_text(jobs)?], |row| row.get(0))?.collect();
    }
    // For each author, `first` is the first job that this holder has no lease of; later jobs of the author are not
    // renewed.
    let sql = "WITH mine AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS generation FROM json_each(?2)), \
               blocked AS MATERIALIZED (SELECT author, (SELECT other.id FROM jobs AS other \
                       WHERE other.author = lanes.author AND other.ordered \
                           AND (other.holder <> ?3 OR other.lease_until <= ?4) ORDER BY other.id LIMIT 1) AS first \
                   FROM (SELECT DISTINCT author FROM jobs WHERE id IN (SELECT id FROM mine) AND ordered) AS lanes) \
               UPDATE jobs SET lease_until = ?1 \
               WHERE (id, generation) IN (SELECT id, generation FROM mine) AND lease_until > ?4 \
                   AND NOT (ordered AND EXISTS (SELECT 1 FROM blocked \
                       WHERE blocked.author = jobs.author AND blocked.first < jobs.id)) \
               RETURNING id";
    let renewal = params![until(clock, lease), json_text(jobs)?, &*lease.holder, clock];
    db.prepare_cached(sql)?.query_map(renewal, |row| row.get(0))?.collect()
}

/// Removes a job. Returns its author if the job had this generation.
pub(super) fn finish(db: &Connection, (id, generation): (i64, u64)) -> rusqlite::Result<Option<String>> {
    let sql = "DELETE FROM jobs WHERE id = ?1 AND generation = ?2 RETURNING author";
    db.prepare_cached(sql)?.query_row(params![id, integer(generation)], |row| row.get(0)).optional()
}

/// The outcome of a removal: see [`finish`].
pub(super) fn finished(db: &Connection, author: Option<String>) -> rusqlite::Result<Finished> {
    let Some(author) = author else { return Ok(Finished { was_held: false, more: false }) };
    let waits = "SELECT 1 FROM jobs WHERE author = ?1 AND lease_until <= ?2";
    Ok(Finished { was_held: true, more: db.prepare_cached(waits)?.exists(params![author, clock()])? })
}

pub(super) fn carries_posts(db: &Connection, author: &UserId, before: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE author = ?2 AND id < ?1 AND carries_post)";
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
    let (created_at, generation) = (natural(row.get(3)?), natural(row.get(4)?));
    Ok(Job { id: row.get(0)?, work, cursor: row.get(2)?, created_at, generation })
}
