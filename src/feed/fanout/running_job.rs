//! A job that a worker is running, and its lease.

use std::sync::Arc;

use tokio::time::Instant;

use crate::broker::{Broker, JobAttempt, JobProgress};
use crate::feed::error::Result;
use crate::feed::jobs::{JobQueue, RenewalTime};
use crate::ledger::{Job, Lease, Ledger};

/// The state of a worker with a job.
pub(super) struct RunningJob {
    pub(super) attempt: JobAttempt,
    /// What earlier attempts wrote.
    pub(super) progress: JobProgress,
    /// All followers up to this one have the entry.
    pub(super) cursor: String,
    /// When the cursor was last written to the ledger, or the work began.
    advanced: Instant,
}

impl RunningJob {
    /// Before the first attempt of this process.
    pub(super) fn new(job: &Job) -> Self {
        Self {
            attempt: JobAttempt { job: job.id, generation: job.generation, retry: 0, run: "".into() },
            progress: JobProgress::default(),
            cursor: job.cursor.clone(),
            advanced: Instant::now(),
        }
    }

    /// Whether no attempt has written anything, as far as is known.
    pub(super) fn is_fresh(&self) -> bool {
        self.cursor.is_empty() && self.progress.is_empty()
    }
}

/// The outcome of an attempt.
pub(super) enum JobOutcome {
    /// All recipients have the entry.
    Done,
    /// The job has to be repeated later.
    Repeat,
    /// The lease ran out, and another worker has the job.
    Lost,
    /// The broker refused a page: another attempt shows whether the job is still held.
    Fenced,
}

/// Begins attempts, and renews the leases of running jobs.
pub(super) struct JobLeases {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    jobs: Arc<JobQueue>,
}

impl JobLeases {
    /// The leases of the jobs in this queue.
    pub(super) fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>, jobs: Arc<JobQueue>) -> Self {
        Self { ledger, broker, jobs }
    }

    /// Begins an attempt. The first one under the first lease just begins. Later ones ask the ledger whether the job is
    /// still held, and the broker what was written, and fence the pages of earlier attempts. `false` if another worker
    /// has the job.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn begin(&self, job: &mut RunningJob) -> Result<bool> {
        job.attempt.run = self.broker.run()?;
        if job.attempt.retry > 0 && !self.advance(job).await? {
            return Ok(false);
        }
        if job.attempt.generation <= 1 && job.attempt.retry == 0 {
            return Ok(true);
        }
        let Some(progress) = self.broker.begin_attempt(&job.attempt).await? else { return Ok(false) };
        job.progress = progress;
        Ok(true)
    }

    /// Whether this worker still holds the job, as the first of its author's. Writes the cursor to the ledger now and
    /// then, and asks it if the lease cannot be trusted, as after a pause of the process.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn still_holds(&self, job: &mut RunningJob) -> Result<bool> {
        let Some(age) = self.jobs.held().age(job.attempt.job, job.attempt.generation) else { return Ok(false) };
        let lease = self.jobs.lease_length();
        if job.advanced.elapsed() <= lease / 3 && age <= lease / 2 {
            return Ok(true);
        }
        self.advance(job).await
    }

    /// Writes the cursor to the ledger and renews the lease. `false` if it is lost, or an earlier job of the author is
    /// left: then the job is released, to be claimed after that one.
    async fn advance(&self, job: &mut RunningJob) -> Result<bool> {
        let (id, generation, asked) = (job.attempt.job, job.attempt.generation, RenewalTime::now());
        let is_held = self.ledger.advance_job(id, generation, &job.cursor, &self.jobs.lease()).await?;
        job.advanced = Instant::now();
        if is_held {
            self.jobs.held().note_first(id, generation, asked);
        } else {
            self.jobs.held().note_renewals(&[(id, generation)], &[], asked);
            self.release(&[(id, generation)]).await;
        }
        Ok(is_held)
    }

    /// Gives leases up, so that other nodes can have these jobs.
    pub(super) async fn release(&self, jobs: &[(i64, u64)]) {
        let released = Lease { length: std::time::Duration::ZERO, ..self.jobs.lease() };
        if !jobs.is_empty()
            && let Err(error) = self.ledger.renew_jobs(jobs, &released).await
        {
            tracing::warn!(%error, jobs = jobs.len(), "jobs wait until their leases run out");
        }
    }
}
