//! Fan-out jobs. The statements that need a job create it.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::rows::ids_json;
use super::{SqliteLedger, count, integer, json_text, natural, relations, work};
use crate::ledger::{
    Backlog, Fence, Job, JobId, JobRequest, JobStore, LoadedJob, NewJob, Result, Work, fanout_partition,
};
use crate::model::{Millis, Relation, UserId};

#[async_trait]
impl JobStore for SqliteLedger {
    async fn load_jobs(&self, requests: &[JobRequest], skip: &[UserId]) -> Result<Vec<LoadedJob>> {
        let requests = requests.to_vec();
        let skip = skip.to_vec();
        self.read(move |db| load(db, &requests, &skip)).await
    }

    async fn holds_job(&self, id: JobId, fence: &Fence) -> Result<bool> {
        let fence = fence.clone();
        self.read(move |db| {
            let sql = "SELECT 1 FROM jobs WHERE id = ?1";
            Ok(work::is_owned(db, &fence)? && db.prepare_cached(sql)?.exists([integer(id.0)])?)
        })
        .await
    }

    async fn finish_jobs(&self, jobs: &[(JobId, Fence)]) -> Result<Vec<JobId>> {
        let jobs = jobs.to_vec();
        self.write_patiently(move |db| {
            let mut finished = Vec::with_capacity(jobs.len());
            for (id, fence) in jobs {
                if work::is_owned(db, &fence)? && remove(db, id)? {
                    finished.push(id);
                }
            }
            Ok(finished)
        })
        .await
    }

    async fn remove_job(&self, id: JobId, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let pairs = pairs.to_vec();
        self.write_patiently(move |db| {
            remove(db, id)?;
            if pairs.is_empty() { Ok(Vec::new()) } else { relations::read(db, &pairs) }
        })
        .await
    }

    /// Removed rows cost nothing here.
    async fn raise_floors(&self, _: &[(u16, Fence)], _: JobId) -> Result<()> {
        Ok(())
    }

    async fn backlog(&self, partitions: &[u16]) -> Result<Backlog> {
        let partitions = partitions.to_vec();
        self.read(move |db| backlog(db, &partitions)).await
    }
}

/// Creates a job. Writes of one transaction at a time, so no job of the author is created meanwhile.
pub(super) fn create(db: &Connection, work: Work, now: Millis) -> rusqlite::Result<NewJob> {
    let author = work.author();
    let previous = "SELECT id FROM jobs WHERE author = ?1 ORDER BY id DESC LIMIT 1";
    let previous: Option<i64> =
        db.prepare_cached(previous)?.query_row([author.as_str()], |row| row.get(0)).optional()?;
    let sql = "INSERT INTO jobs (partition, author, work, created_at) VALUES (?1, ?2, ?3, ?4)";
    let row = params![fanout_partition(author), author.as_str(), json_text(&work)?, integer(now)];
    let id = JobId(natural(db.prepare_cached(sql)?.insert(row)?));
    let job = Job { id, work, created_at: now };
    Ok(NewJob { job, previous: previous.map(|id| JobId(natural(id))) })
}

fn load(db: &Connection, requests: &[JobRequest], skip: &[UserId]) -> rusqlite::Result<Vec<LoadedJob>> {
    let sql = "SELECT id, work, created_at FROM jobs \
               WHERE partition = ?1 AND author NOT IN (SELECT value FROM json_each(?2)) ORDER BY id LIMIT ?3";
    let skip = ids_json(skip)?;
    let mut jobs = Vec::new();
    for JobRequest { partition, fence, limit } in requests {
        if work::is_owned(db, fence)? {
            let loaded = |row: &Row<'_>| {
                let id = JobId(natural(row.get(0)?));
                let partition = *partition;
                Ok(LoadedJob { id, partition, job: job(id, row).map_err(|error| error.to_string()) })
            };
            let rows = params![partition, skip, count(*limit)];
            for row in db.prepare_cached(sql)?.query_map(rows, loaded)? {
                jobs.push(row?);
            }
        }
    }
    Ok(jobs)
}

fn job(id: JobId, row: &Row<'_>) -> rusqlite::Result<Job> {
    let work = serde_json::from_str(row.get_ref(1)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into()))?;
    Ok(Job { id, work, created_at: natural(row.get(2)?) })
}

/// Removes a job. Returns whether it existed.
pub(super) fn remove(db: &Connection, id: JobId) -> rusqlite::Result<bool> {
    Ok(db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([integer(id.0)])? == 1)
}

fn backlog(db: &Connection, partitions: &[u16]) -> rusqlite::Result<Backlog> {
    let sql = "SELECT count(*), min(created_at) FROM jobs WHERE partition IN (SELECT value FROM json_each(?1))";
    db.prepare_cached(sql)?.query_row([json_text(partitions)?], |row| {
        Ok(Backlog { jobs: natural(row.get(0)?), oldest: row.get::<_, Option<i64>>(1)?.map(natural) })
    })
}
