//! A job that a worker is running, and its attempts.

use std::sync::Arc;

use crate::broker::{JobAttempt, JobProgress};
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::work::{Partition, QueuedJob};
use crate::ledger::Fence;
use crate::model::TraceContext;

/// The greatest number of an attempt that is tried after unknown ones.
const MAX_RETRY: u32 = 1 << 18;

/// What allows a job to write: the ownership of its partition, and its attempt.
#[derive(Clone)]
pub(super) struct WriteTokens {
    partition: Arc<Partition>,
    fence: Fence,
    pub(super) attempt: JobAttempt,
}

impl WriteTokens {
    /// Whether the ownership is still in force, as far as this process knows without a call.
    pub(super) fn are_valid(&self) -> bool {
        self.partition.is_owned(&self.fence)
    }
}

/// The state of a worker with a job.
pub(super) struct RunningJob {
    pub(super) tokens: WriteTokens,
    /// The progress that earlier attempts made.
    pub(super) progress: JobProgress,
    /// Whether an earlier owner may have begun the job.
    is_loaded: bool,
    /// The span of the job, if its trace is recorded.
    pub(super) trace: Option<TraceContext>,
    /// Whether this process has appended the change to the logs of shared channels. They know a repeat for five minutes
    /// only.
    pub(super) has_published: bool,
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

impl RunningJob {
    /// The state of a job of a partition before the first attempt of this process.
    pub(super) fn new(queued: &QueuedJob, partition: &Arc<Partition>, trace: Option<TraceContext>) -> Self {
        let QueuedJob { job, fence, is_loaded, .. } = queued;
        let attempt = JobAttempt { job: job.id, generation: fence.generation, retry: 0, run: "".into() };
        Self {
            tokens: WriteTokens { partition: partition.clone(), fence: fence.clone(), attempt },
            progress: JobProgress::default(),
            is_loaded: *is_loaded,
            trace,
            has_published: false,
        }
    }

    /// Whether the change is still to be appended to the logs of shared channels.
    pub(super) fn is_unpublished(&self) -> bool {
        self.is_fresh() && !self.has_published
    }

    /// Whether no earlier attempt is known to have written anything.
    pub(super) fn is_fresh(&self) -> bool {
        self.progress.is_empty()
    }

    /// Begins an attempt. The first attempt at a job that its write handed over begins without a call. Others ask the
    /// ledger whether the partition is still owned, load the progress from the broker, and fence the pages of earlier
    /// attempts. Returns the outcome of an attempt that cannot begin.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn begin(&mut self, base: &Base) -> Result<Option<JobOutcome>> {
        self.tokens.attempt.run = base.broker.run()?;
        if !self.is_loaded && self.tokens.attempt.retry == 0 {
            return Ok((!self.tokens.are_valid()).then_some(JobOutcome::Fenced));
        }
        if !base.ledger.holds_job(self.tokens.attempt.job, &self.tokens.fence).await? {
            return Ok(Some(JobOutcome::Lost));
        }
        // This process may have attempted the job before, in the same ownership: it was retried from the quarantine, or
        // its removal from the ledger failed. The number of that attempt is not known, so greater ones are tried.
        loop {
            let attempt = &mut self.tokens.attempt;
            if let Some(progress) = base.broker.begin_attempt(attempt).await? {
                self.progress = progress;
                return Ok(None);
            }
            if attempt.retry >= MAX_RETRY {
                return Ok(Some(JobOutcome::Lost));
            }
            attempt.retry = attempt.retry * 2 + 1;
        }
    }
}
