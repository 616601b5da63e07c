//! Fan-out jobs and their leases. The statements that need a job create it.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, json_at, json_text, natural_at, one};
use super::pool::Parameters;
use crate::ledger::quarantine::{report_unreadable, unix_millis};
use crate::ledger::{Backlog, Finished, Job, JobStore, Lease, QuarantineStore as _, Result, Work};
use crate::model::{Millis, UserId};

const CLAIM: &str = "\
    SELECT id, work, cursor, created_at, generation FROM feedline_claim_jobs($1, $2, $3) ORDER BY id";

/// Runs with `synchronous_commit` off: the progress of a job need not be on the disk before other work continues. If a
/// crash of the server loses it, together with all later commits, some work is repeated, as after the crash of a node
/// just before this statement. The writes that the progress depends on precede it in the WAL, so they survive whenever
/// it does.
pub(super) const ADVANCE: &str = "\
    UPDATE jobs SET cursor = $3, lease_until = feedline_clock() + $4
    WHERE id = $1 AND generation = $2 AND lease_until > feedline_clock()
        AND NOT (ordered AND EXISTS (
            SELECT FROM jobs earlier WHERE earlier.author = jobs.author AND earlier.ordered AND earlier.id < jobs.id))
        AND set_config('synchronous_commit', 'off', true) = 'off' RETURNING 1";

/// For each author, `first` is the first job that this holder has no lease of; later jobs of the author are not
/// renewed. If a job is being claimed concurrently, the statement waits; the job then has another generation and is not
/// renewed.
const RENEW: &str = "\
    WITH mine AS MATERIALIZED (
        SELECT jobs.id, jobs.generation, jobs.author, jobs.ordered
        FROM unnest($1::bigint[], $2::bigint[]) AS held (id, generation) JOIN jobs USING (id, generation)
    ), blocked AS MATERIALIZED (
        SELECT author, (
            SELECT other.id FROM jobs other
            WHERE other.author = lanes.author AND other.ordered
                AND (other.holder <> $4 OR other.lease_until <= feedline_clock())
            ORDER BY other.id LIMIT 1
        ) AS first FROM (SELECT DISTINCT author FROM mine WHERE ordered) AS lanes
    )
    UPDATE jobs SET lease_until = feedline_clock() + $3
    FROM mine LEFT JOIN blocked ON mine.ordered AND blocked.author = mine.author
    WHERE jobs.id = mine.id AND jobs.generation = mine.generation AND jobs.lease_until > feedline_clock()
        AND coalesce(jobs.id < blocked.first, true)
        AND set_config('synchronous_commit', 'off', true) = 'off' RETURNING jobs.id";

const RELEASE: &str = "\
    UPDATE jobs SET lease_until = 0
    FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, generation)
    WHERE jobs.id = mine.id AND jobs.generation = mine.generation
        AND set_config('synchronous_commit', 'off', true) = 'off' RETURNING jobs.id";

/// The `SELECT` sees the table as it was before the `DELETE`, so it excludes the jobs by their ids.
pub(super) const FINISH: &str = "\
    WITH gone AS (
        DELETE FROM jobs USING unnest($1::bigint[], $2::bigint[]) AS mine (id, generation)
        WHERE jobs.id = mine.id AND jobs.generation = mine.generation
            AND set_config('synchronous_commit', 'off', true) = 'off'
        RETURNING jobs.id, jobs.generation, jobs.author
    )
    SELECT gone.id, gone.generation, EXISTS (
        SELECT FROM jobs
        WHERE jobs.author = gone.author AND jobs.lease_until <= feedline_clock() AND jobs.id <> ALL ($1)
    ) FROM gone";

pub(super) const CARRIES: &str = "SELECT EXISTS (SELECT FROM jobs WHERE author = $1 AND id < $2 AND carries_post)";

/// Whether jobs have no valid lease: the condition of `feedline_claim_jobs`.
const WAITING: &str = "\
    SELECT EXISTS (SELECT FROM jobs, (SELECT feedline_clock() AS clock OFFSET 0) AS now
        WHERE jobs.lease_until <= now.clock OR jobs.lease_until > now.clock + 660000)";

const BACKLOG: &str = "SELECT count(*), min(created_at) FROM jobs";

#[async_trait]
impl JobStore for PostgresLedger {
    async fn claim_jobs(&self, lease: &Lease, limit: usize) -> Result<Vec<Job>> {
        let rows = self.pool.write(CLAIM, &[&&*lease.holder, &integer(lease.millis()), &count(limit)]).await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            match job(row) {
                Ok(job) => jobs.push(job),
                Err(error) => {
                    let (id, generation): (i64, _) = (at(row, 0)?, natural_at(row, 4)?);
                    report_unreadable("jobs", &id, &error);
                    // The other jobs are leased, so the claim has not failed. This one is claimed again.
                    let reason = error.to_string();
                    if let Err(error) = self.quarantine_job(id, generation, &reason, unix_millis()).await {
                        tracing::warn!(job = id, %error, "an unreadable job could not be quarantined");
                    }
                }
            }
        }
        Ok(jobs)
    }

    async fn has_waiting_jobs(&self) -> Result<bool> {
        let rows = self.pool.read(WAITING, &[]).await?;
        at(one(&rows)?, 0)
    }

    async fn advance_job(&self, id: i64, generation: u64, cursor: &str, lease: &Lease) -> Result<bool> {
        let parameters: Parameters<'_> = &[&id, &integer(generation), &cursor, &integer(lease.millis())];
        Ok(!self.pool.write(ADVANCE, parameters).await?.is_empty())
    }

    async fn renew_jobs(&self, jobs: &[(i64, u64)], lease: &Lease) -> Result<Vec<i64>> {
        let (ids, generations) = in_order(jobs);
        let rows = if lease.length.is_zero() {
            self.pool.write(RELEASE, &[&ids, &generations]).await?
        } else {
            self.pool.write(RENEW, &[&ids, &generations, &integer(lease.millis()), &&*lease.holder]).await?
        };
        rows.iter().map(|row| at(row, 0)).collect()
    }

    async fn finish_jobs(&self, jobs: &[(i64, u64)]) -> Result<Vec<Finished>> {
        let (ids, generations) = in_order(jobs);
        let rows = self.pool.write(FINISH, &[&ids, &generations]).await?;
        let more: HashMap<(i64, u64), bool> =
            rows.iter().map(|row| Ok(((at(row, 0)?, natural_at(row, 1)?), at(row, 2)?))).collect::<Result<_>>()?;
        let outcome = |job| Finished { was_held: more.contains_key(job), more: more.get(job) == Some(&true) };
        Ok(jobs.iter().map(outcome).collect())
    }

    /// Jobs of one author become visible in the order of their ids: once a job is visible, no job with a lower id
    /// appears.
    async fn carries_posts(&self, author: &UserId, before: i64) -> Result<bool> {
        at(one(&self.pool.read(CARRIES, &[&author.as_str(), &before]).await?)?, 0)
    }

    async fn backlog(&self) -> Result<Backlog> {
        let rows = self.pool.read(BACKLOG, &[]).await?;
        let row = one(&rows)?;
        let oldest = at::<Option<i64>>(row, 1)?.map(|oldest| u64::try_from(oldest).unwrap_or_default());
        Ok(Backlog { jobs: natural_at(row, 0)?, oldest })
    }
}

/// The parameters of a statement that changes these jobs, by id. The statements change the rows in the order of the
/// parameters, since connections join by nested loops only: two of them at once do not deadlock.
fn in_order(jobs: &[(i64, u64)]) -> (Vec<i64>, Vec<i64>) {
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    jobs.into_iter().map(|(id, generation)| (id, integer(generation))).unzip()
}

fn job(row: &Row) -> Result<Job> {
    let (created_at, generation) = (natural_at(row, 3)?, natural_at(row, 4)?);
    Ok(Job { id: at(row, 0)?, work: json_at(row, 1)?, cursor: at(row, 2)?, created_at, generation })
}

/// A job as the parameter of `feedline_submit_job`.
#[derive(Serialize)]
struct NewJob<'a> {
    work: String,
    author: &'a UserId,
    carries_post: bool,
    ordered: bool,
}

/// Encodes a job for a function that submits it.
pub(super) fn new_job(work: &Work) -> Result<String> {
    let (author, carries_post, ordered) = (work.author(), work.carries_post(), work.is_ordered());
    json_text(&NewJob { work: json_text(work)?, author, carries_post, ordered })
}

/// The job that a function has just created. `id` is negative if the job has no lease and waits for a claim.
pub(super) fn made(id: i64, work: Work, now: Millis) -> Job {
    let generation = u64::from(id > 0);
    Job { id: id.saturating_abs(), work, cursor: String::new(), created_at: now, generation }
}
