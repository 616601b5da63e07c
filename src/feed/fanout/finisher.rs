//! Removes finished jobs from the ledger, several in one call.
//!
//! A worker does not wait for the ledger: the recipients have the entry. If the process dies before the removal, the
//! next owner of the partition repeats the job, which changes nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::JobAttempt;
use crate::feed::base::Base;
use crate::feed::runtime::now;
use crate::ledger::{Fence, Job, JobId};
use crate::model::Millis;

/// How long a finished job waits for others.
const DELAY: Duration = Duration::from_millis(5);

/// A job whose recipients have the entry.
pub(super) struct FinishedJob {
    pub(super) job: Job,
    pub(super) fence: Fence,
    pub(super) attempt: JobAttempt,
    pub(super) finished_at: Millis,
}

/// Finished jobs that are still in the ledger. Bounded by the jobs in memory: these stay known until they are removed.
pub(super) struct Finisher {
    base: Arc<Base>,
    waiting: Mutex<Vec<FinishedJob>>,
    queued: Notify,
}

impl Finisher {
    /// Removes jobs from this ledger: see [`run`](Self::run).
    pub(super) fn new(base: Arc<Base>) -> Self {
        Self { base, waiting: Mutex::default(), queued: Notify::new() }
    }

    /// Adds a finished job.
    pub(super) fn add(&self, job: Job, fence: Fence, attempt: JobAttempt) {
        self.waiting.lock().push(FinishedJob { job, fence, attempt, finished_at: now() });
        self.queued.notify_one();
    }

    /// Removes jobs until the process stops. Those that are left need a [`flush`](Self::flush).
    pub(super) async fn run(&self) {
        loop {
            tokio::select! {
                () = self.queued.notified() => {}
                () = self.base.runtime.stopped() => return,
            }
            if !self.base.runtime.sleep(DELAY).await {
                return;
            }
            self.flush().await;
        }
    }

    /// Removes all finished jobs from the ledger. Jobs that could not be removed are repeated.
    pub(super) async fn flush(&self) {
        let finished = std::mem::take(&mut *self.waiting.lock());
        if finished.is_empty() {
            return;
        }
        let ids: Vec<(JobId, Fence)> = finished.iter().map(|it| (it.job.id, it.fence.clone())).collect();
        let removed = self.base.ledger.finish_jobs(&ids).await.unwrap_or_else(|error| {
            tracing::warn!(%error, jobs = ids.len(), "finished jobs could not be removed, they will be repeated");
            Vec::new()
        });
        let mut retired = Vec::new();
        for FinishedJob { job, attempt, finished_at, .. } in finished {
            self.base.jobs.removed(&job);
            if removed.contains(&job.id) {
                self.base.metrics.fanout.done(finished_at.saturating_sub(job.created_at));
                // A job for one inbox begins no attempt.
                retired.extend((!attempt.run.is_empty()).then_some(attempt));
            }
        }
        // Nobody waits for the broker: if a call fails, it keeps the state of the job for a day.
        let broker = Arc::clone(&self.base.broker);
        self.base.runtime.spawn(async move {
            for attempt in retired {
                if let Err(error) = broker.retire_job(&attempt).await {
                    tracing::debug!(%error, job = %attempt.job, "the broker remembers a finished job for a day");
                }
            }
        });
    }
}
