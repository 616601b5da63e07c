//! Removes finished jobs from the ledger, several in one call.
//!
//! A worker does not wait for the ledger: the recipients have the entry. Until the ledger has removed the job, this
//! process keeps its lease and its slot. If the process dies before that, another node repeats the job, which changes
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::broker::{Broker, JobAttempt};
use crate::feed::jobs::JobQueue;
use crate::feed::quarantine::QuarantinePolicy;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{Finished, Job, Ledger};
use crate::metrics::Metrics;
use crate::model::Millis;

/// How long a finished job waits for others. A node that takes over the author's jobs waits as long.
const DELAY: Duration = Duration::from_millis(5);

/// The number of jobs that do not wait any longer.
const MAX_WAITING: usize = 32;

/// A job whose recipients have the entry.
pub(super) struct FinishedJob {
    pub(super) job: Job,
    pub(super) attempt: JobAttempt,
    /// Freed when the ledger has removed the job.
    pub(super) slot: Option<OwnedSemaphorePermit>,
}

/// Finished jobs that are still in the ledger. Their slots bound their number.
pub(super) struct Finisher {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    jobs: Arc<JobQueue>,
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
    /// With the times at which they were finished.
    waiting: Mutex<Vec<(FinishedJob, Millis)>>,
    queued: Notify,
    is_full: Notify,
    /// Held during the call of the ledger.
    flushing: tokio::sync::Mutex<()>,
}

impl Finisher {
    /// Removes jobs from this ledger: see [`run`](Self::run).
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        jobs: Arc<JobQueue>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (waiting, flushing) = (Mutex::default(), tokio::sync::Mutex::default());
        let (queued, is_full) = (Notify::new(), Notify::new());
        Self { ledger, broker, runtime, jobs, quarantine, metrics, waiting, queued, is_full, flushing }
    }

    /// Adds a finished job.
    pub(super) fn add(&self, finished: FinishedJob) {
        self.jobs.held().note_done(finished.job.id, finished.job.generation);
        let mut waiting = self.waiting.lock();
        waiting.push((finished, now()));
        match waiting.len() {
            1 => self.queued.notify_one(),
            MAX_WAITING => self.is_full.notify_one(),
            _ => {}
        }
    }

    /// Removes jobs until the process stops. Those that are left need a [`flush`](Self::flush).
    pub(super) async fn run(&self) {
        loop {
            tokio::select! {
                () = self.queued.notified() => {}
                () = self.runtime.stopped() => return,
            }
            tokio::select! {
                more = self.runtime.sleep(DELAY) => if !more { return },
                () = self.is_full.notified() => {}
            }
            self.flush().await;
        }
    }

    /// Removes all finished jobs from the ledger, and waits for removals under way.
    pub(super) async fn flush(&self) {
        let _turn = self.flushing.lock().await;
        let finished = std::mem::take(&mut *self.waiting.lock());
        if finished.is_empty() {
            return;
        }
        let ids: Vec<(i64, u64)> = finished.iter().map(|(it, _)| (it.job.id, it.job.generation)).collect();
        match self.ledger.finish_jobs(&ids).await {
            Ok(outcomes) => self.note(&finished, &outcomes),
            Err(error) => {
                tracing::warn!(%error, jobs = ids.len(), "finished jobs could not be removed, they will be repeated");
            }
        }
        for (FinishedJob { job, slot, .. }, _) in finished {
            self.jobs.release(&job, slot);
        }
    }

    /// Records the ledger's answer for finished jobs. After that the broker can forget them soon.
    fn note(&self, finished: &[(FinishedJob, Millis)], outcomes: &[Finished]) {
        let mut retired = Vec::new();
        for ((FinishedJob { job, attempt, .. }, at), outcome) in finished.iter().zip(outcomes) {
            if outcome.was_held {
                self.quarantine.succeeded();
                self.metrics.fanout.done(at.saturating_sub(job.created_at));
                // A job for one inbox begins no attempt.
                retired.extend((!attempt.run.is_empty()).then(|| attempt.clone()));
            } else {
                // Another worker repeats the job: the author's later jobs wait for it.
                self.jobs.held().note_loss(job);
            }
            if outcome.more {
                self.jobs.more_wait(job.work.author());
            }
        }
        self.retire(retired);
    }

    /// Removes the state of jobs from the broker. Nobody waits for the calls: if one fails, the broker keeps the state
    /// of the job for a day.
    fn retire(&self, attempts: Vec<JobAttempt>) {
        let broker = Arc::clone(&self.broker);
        self.runtime.spawn(async move {
            let calls: Vec<_> = attempts.iter().map(|attempt| broker.retire_job(attempt)).collect();
            for (outcome, attempt) in futures::future::join_all(calls).await.into_iter().zip(&attempts) {
                if let Err(error) = outcome {
                    tracing::debug!(%error, job = attempt.job, "the broker remembers a finished job for a day");
                }
            }
        });
    }
}
