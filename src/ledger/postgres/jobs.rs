//! Fan-out jobs and their leases. They are made by the statements that need them.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::{PostgresLedger, at, count, integer, json_at, natural_at, one};
use crate::ledger::{Backlog, Job, Jobs, Lease, Result};
use crate::model::{Millis, UserId};

/// Who claims at the same moment passes over what another is claiming.
const CLAIM: &str = "\
    WITH due AS MATERIALIZED (
        SELECT id FROM jobs WHERE lease_until <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE jobs SET holder = $3, lease_until = $4 FROM due WHERE jobs.id = due.id
    RETURNING jobs.id, jobs.work, jobs.cursor, jobs.created_at";

/// That some of a job, or all of it, is done need not be on the disk before anything else goes on: if the server loses it,
/// with all that came after it, some is done again, as after the crash of a node just before it said so. What comes before
/// it in the server's log is what it depends on, so that is there if this is.
pub(super) const ADVANCE: &str = "\
    UPDATE jobs SET cursor = $3, lease_until = $4
    WHERE id = $1 AND holder = $2 AND set_config('synchronous_commit', 'off', true) = 'off' RETURNING 1";

pub(super) const FINISH: &str = "\
    DELETE FROM jobs WHERE id = $1 AND holder = $2 AND set_config('synchronous_commit', 'off', true) = 'off'";

pub(super) const CARRIES: &str = "SELECT EXISTS (SELECT FROM jobs WHERE author = $1 AND id < $2 AND carries_post)";

const BACKLOG: &str = "SELECT count(*), min(created_at) FROM jobs";

#[async_trait]
impl Jobs for PostgresLedger {
    async fn claim_jobs(&self, now: Millis, lease: &Lease, limit: usize) -> Result<Vec<Job>> {
        let (until, due) = (integer(lease.until), integer(now));
        let rows = self.pool.write(CLAIM, &[&due, &count(limit), &&*lease.holder, &until]).await?;
        let mut jobs = rows.iter().map(job).collect::<Result<Vec<_>>>()?;
        // RETURNING promises no order.
        jobs.sort_unstable_by_key(|job| job.id);
        Ok(jobs)
    }

    async fn advance_job(&self, id: i64, cursor: &str, lease: &Lease) -> Result<bool> {
        let rows = self.pool.write(ADVANCE, &[&id, &&*lease.holder, &cursor, &integer(lease.until)]).await?;
        Ok(!rows.is_empty())
    }

    async fn finish_job(&self, id: i64, holder: &str) -> Result<()> {
        self.pool.write(FINISH, &[&id, &holder]).await.map(drop)
    }

    /// The author's jobs become visible in the order of their ids: none that is lower shows up after this one.
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

fn job(row: &Row) -> Result<Job> {
    Ok(Job { id: at(row, 0)?, work: json_at(row, 1)?, cursor: at(row, 2)?, created_at: natural_at(row, 3)? })
}
