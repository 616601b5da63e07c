//! Fan-out jobs. The statements that need a job create it.

use async_trait::async_trait;
use serde::Serialize;
use tokio_postgres::Row;

use super::columns::{at, count, integer, json_at, json_text, natural_at, one};
use super::relations::with_relations;
use super::{PostgresLedger, relations, work};
use crate::ledger::{
    Backlog, Fence, Job, JobId, JobRequest, JobStore, LedgerError, LoadedJob, NewJob, Result, Work, fanout_partition,
};
use crate::model::{Millis, Relation, UserId};

/// Each partition is read from its index, behind the floor. `id + 0` is what the index contains: it leaves the planner
/// no other index. When almost all rows are removed ones that cannot be vacuumed, it expects an empty table, and reads
/// any index that fits whole.
pub(super) const LOAD: &str = "\
    SELECT job.id, mine.partition, job.work, job.created_at
    FROM unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[]) AS mine (partition, name, generation, most)
    JOIN work_partitions owned ON owned.name = mine.name AND owned.generation = mine.generation
    CROSS JOIN LATERAL (
        SELECT id, work, created_at FROM jobs
        WHERE jobs.partition = mine.partition AND jobs.id + 0 > owned.floor AND jobs.author <> ALL ($5)
        ORDER BY jobs.id + 0 LIMIT mine.most
    ) job";

pub(super) const HOLDS: &str = "\
    SELECT 1 FROM jobs
    WHERE id = $1 AND EXISTS (SELECT FROM work_partitions WHERE name = $2 AND generation = $3)";

/// Runs with `synchronous_commit` off: the removal need not be on the disk before other work continues. If a crash of
/// the server loses it, together with all later commits, some work is repeated, as after the crash of a node just
/// before this statement.
pub(super) const FINISH: &str = "\
    DELETE FROM jobs USING unnest($1::bigint[], $2::text[], $3::bigint[]) AS mine (id, name, generation)
    WHERE jobs.id = mine.id AND EXISTS (
        SELECT FROM work_partitions owned WHERE owned.name = mine.name AND owned.generation = mine.generation)
        AND set_config('synchronous_commit', 'off', true) = 'off'
    RETURNING jobs.id";

const REMOVE: &str = concat!(
    "WITH removed AS (DELETE FROM jobs WHERE id = $3 AND set_config('synchronous_commit', 'off', true) = 'off') ",
    with_relations!("", "")
);

pub(super) const RAISE_FLOORS: &str = "\
    UPDATE work_partitions SET floor = least($4, coalesce((
        SELECT min(id + 0) - 1 FROM jobs
        WHERE jobs.partition = mine.partition AND jobs.id + 0 > work_partitions.floor), $4))
    FROM unnest($1::smallint[], $2::text[], $3::bigint[]) AS mine (partition, name, generation)
    WHERE work_partitions.name = mine.name AND work_partitions.generation = mine.generation AND floor < $4
        AND set_config('synchronous_commit', 'off', true) = 'off'";

pub(super) const BACKLOG: &str = "\
    SELECT coalesce(sum(waiting.jobs), 0)::bigint, min(waiting.oldest)
    FROM unnest($1::smallint[]) AS mine (partition)
    LEFT JOIN work_partitions owned ON owned.name = 'fanout/' || mine.partition
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(created_at) AS oldest FROM jobs
        WHERE jobs.partition = mine.partition AND jobs.id + 0 > coalesce(owned.floor, 0)
    ) waiting";

#[async_trait]
impl JobStore for PostgresLedger {
    async fn load_jobs(&self, requests: &[JobRequest], skip: &[UserId]) -> Result<Vec<LoadedJob>> {
        let skip: Vec<&str> = skip.iter().map(UserId::as_str).collect();
        let numbers: Vec<i16> = requests.iter().map(|request| small(request.partition)).collect();
        let limits: Vec<i64> = requests.iter().map(|request| count(request.limit)).collect();
        let fences: Vec<Fence> = requests.iter().map(|request| request.fence.clone()).collect();
        let (names, generations) = work::columns(&fences);
        let rows = self.pool.read(LOAD, &[&numbers, &names, &generations, &limits, &skip]).await?;
        let mut jobs = rows.iter().map(loaded).collect::<Result<Vec<_>>>()?;
        jobs.sort_unstable_by_key(|job| job.id);
        Ok(jobs)
    }

    async fn holds_job(&self, id: JobId, fence: &Fence) -> Result<bool> {
        let name = &*fence.partition;
        let generation = integer(fence.generation);
        Ok(!self.pool.read(HOLDS, &[&integer(id.0), &name, &generation]).await?.is_empty())
    }

    /// The rows are removed in the order of their numbers, since connections join by nested loops only: two calls at
    /// once do not deadlock.
    async fn finish_jobs(&self, jobs: &[(JobId, Fence)]) -> Result<Vec<JobId>> {
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable_by_key(|(id, _)| *id);
        let (ids, fences): (Vec<i64>, Vec<Fence>) = jobs.into_iter().map(|(id, fence)| (integer(id.0), fence)).unzip();
        let (names, generations) = work::columns(&fences);
        let rows = self.pool.write(FINISH, &[&ids, &names, &generations]).await?;
        rows.iter().map(|row| Ok(JobId(natural_at(row, 0)?))).collect()
    }

    async fn remove_job(&self, id: JobId, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let (readers, authors) = relations::columns(pairs);
        let rows = self.pool.write(REMOVE, &[&readers, &authors, &integer(id.0)]).await?;
        rows.iter().map(relations::relation).collect()
    }

    async fn raise_floors(&self, partitions: &[(u16, Fence)], candidate: JobId) -> Result<()> {
        let (numbers, fences): (Vec<i16>, Vec<Fence>) =
            partitions.iter().map(|(partition, fence)| (small(*partition), fence.clone())).unzip();
        let (names, generations) = work::columns(&fences);
        self.pool.write(RAISE_FLOORS, &[&numbers, &names, &generations, &integer(candidate.0)]).await.map(drop)
    }

    async fn backlog(&self, partitions: &[u16]) -> Result<Backlog> {
        let partitions: Vec<i16> = partitions.iter().copied().map(small).collect();
        let rows = self.pool.read(BACKLOG, &[&partitions]).await?;
        let row = one(&rows)?;
        let oldest = at::<Option<i64>>(row, 1)?.map(|oldest| u64::try_from(oldest).unwrap_or_default());
        Ok(Backlog { jobs: natural_at(row, 0)?, oldest })
    }
}

/// A partition as a column.
fn small(partition: u16) -> i16 {
    i16::try_from(partition).unwrap_or(i16::MAX)
}

fn loaded(row: &Row) -> Result<LoadedJob> {
    let id = JobId(natural_at(row, 0)?);
    let partition: i16 = at(row, 1)?;
    let job = || -> Result<Job> { Ok(Job { id, work: json_at(row, 2)?, created_at: natural_at(row, 3)? }) };
    let partition = u16::try_from(partition).unwrap_or_default();
    Ok(LoadedJob { id, partition, job: job().map_err(|error| error.to_string()) })
}

/// A job as the parameter of `feedline_submit_job`.
#[derive(Serialize)]
struct SubmittedJob<'a> {
    partition: u16,
    author: &'a str,
    work: String,
}

/// Encodes a job for a function that submits it.
pub(super) fn new_job(work: &Work) -> Result<String> {
    let author = work.author();
    json_text(&SubmittedJob { partition: fanout_partition(author), author: author.as_str(), work: json_text(work)? })
}

/// The job that a function has just submitted, from the result of `feedline_submit_job`.
pub(super) fn submitted(numbers: &[i64], work: Work, now: Millis) -> Result<NewJob> {
    let &[id, previous] = numbers else {
        return Err(LedgerError::Failed("feedline_submit_job returned something else".to_owned()));
    };
    let [id, previous] = [id, previous].map(|number| JobId(u64::try_from(number).unwrap_or_default()));
    let job = Job { id, work, created_at: now };
    Ok(NewJob { job, previous: (previous.0 > 0).then_some(previous) })
}
