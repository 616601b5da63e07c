//! A job that a worker is running.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::{JobAttempt, JobProgress};
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::work::{JobQueue, QueuedJob};
use crate::ledger::Fence;

/// How often the cursor of a long job is written to the ledger.
const CURSOR_INTERVAL: Duration = Duration::from_secs(2);

/// What allows a job to write: the ownership of its partition, and its attempt.
#[derive(Clone)]
pub(super) struct WriteTokens {
    partition: u16,
    fence: Fence,
    pub(super) attempt: JobAttempt,
}

impl WriteTokens {
    /// Whether the ownership is still in force, as far as this process knows without a call.
    pub(super) fn are_valid(&self, jobs: &JobQueue) -> bool {
        jobs.may_write(self.partition, &self.fence)
    }
}

/// The greatest number of an attempt that is tried after unknown ones.
const MAX_RETRY: u32 = 1 << 18;

/// The state of a worker with a job.
pub(super) struct RunningJob {
    pub(super) tokens: WriteTokens,
    /// The progress that earlier attempts made.
    pub(super) progress: JobProgress,
    /// All followers up to this one have the entry.
    pub(super) cursor: String,
    /// Whether an earlier owner may have begun the job.
    is_loaded: bool,
    /// Whether this process has appended the change to the logs of shared channels. They know a repeat for five minutes
    /// only.
    pub(super) has_published: bool,
    /// When the cursor was last written to the ledger, or the work began.
    advanced: Instant,
}

impl RunningJob {
    /// The state of a job before the first attempt of this process.
    pub(super) fn new(queued: &QueuedJob) -> Self {
        let QueuedJob { job, fence, is_loaded, .. } = queued;
        let attempt = JobAttempt { job: job.id, generation: fence.generation, retry: 0, run: "".into() };
        Self {
            tokens: WriteTokens { partition: job.partition(), fence: fence.clone(), attempt },
            progress: JobProgress::default(),
            cursor: job.cursor.clone(),
            is_loaded: *is_loaded,
            has_published: false,
            advanced: Instant::now(),
        }
    }

    /// Whether the change is still to be appended to the logs of shared channels.
    pub(super) fn is_unpublished(&self) -> bool {
        self.is_fresh() && !self.has_published
    }

    /// Whether no earlier attempt is known to have written anything.
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
    /// The job is finished, or another process owns the partition.
    Lost,
    /// The broker refused a page, or the lease may have run out: another attempt shows whether this process still owns
    /// the partition.
    Fenced,
}

/// Begins attempts, and checks the ownership of running jobs.
pub(super) struct Attempts {
    base: Arc<Base>,
}

impl Attempts {
    /// Attempts at the jobs of this queue.
    pub(super) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Begins an attempt. The first attempt at a job that its write handed over begins without a call. Others ask the
    /// ledger whether the partition is still owned, load the progress from the broker, and fence the pages of earlier
    /// attempts. Returns the outcome of an attempt that cannot begin.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn begin(&self, job: &mut RunningJob) -> Result<Option<JobOutcome>> {
        job.tokens.attempt.run = self.base.broker.run()?;
        if !job.is_loaded && job.tokens.attempt.retry == 0 {
            return Ok((!self.may_write(job)).then_some(JobOutcome::Fenced));
        }
        if !self.advance(job).await? {
            return Ok(Some(JobOutcome::Lost));
        }
        // This process may have attempted the job before, in the same ownership: it was retried from the quarantine, or
        // its removal from the ledger failed. The number of that attempt is not known, so greater ones are tried.
        loop {
            if let Some(progress) = self.base.broker.begin_attempt(&job.tokens.attempt).await? {
                job.progress = progress;
                return Ok(None);
            }
            if job.tokens.attempt.retry >= MAX_RETRY {
                return Ok(Some(JobOutcome::Lost));
            }
            job.tokens.attempt.retry = job.tokens.attempt.retry * 2 + 1;
        }
    }

    /// Returns the outcome of an attempt that must not go on: another process owns the partition. The cursor is written
    /// to the ledger from time to time, which shows that; each page checks whether the lease may have run out.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn check(&self, job: &mut RunningJob) -> Result<Option<JobOutcome>> {
        if job.advanced.elapsed() < CURSOR_INTERVAL || self.advance(job).await? {
            return Ok(None);
        }
        Ok(Some(JobOutcome::Lost))
    }

    /// Whether a write is allowed now.
    pub(super) fn may_write(&self, job: &RunningJob) -> bool {
        job.tokens.are_valid(&self.base.jobs)
    }

    async fn advance(&self, job: &mut RunningJob) -> Result<bool> {
        job.advanced = Instant::now();
        Ok(self.base.ledger.advance_job(job.tokens.attempt.job, &job.tokens.fence, &job.cursor).await?)
    }
}
