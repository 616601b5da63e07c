//! Between the ledger and the jobs in memory: loads jobs that wait, removes finished ones, and raises the floors of
//! partitions.
//!
//! A worker does not wait for a removal: the recipients have the entry. If the process dies before it, the next owner
//! of the partition repeats the job, which changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::broker::JobAttempt;
use crate::feed::base::Base;
use crate::feed::runtime::now;
use crate::ledger::{self, FANOUT_PARTITIONS, FailedWork, Fault, Fence, Job, JobId, LoadedJob};
use crate::model::Millis;
use crate::store_outage::OutageLog;

/// The interval at which all owned partitions are loaded without a signal: signals may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a failed load.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The interval at which the backlog is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);

/// The interval at which floors are raised.
const FLOOR_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time after which the ledger may still commit a write: far longer than its timeouts.
const LATEST_COMMIT: Duration = Duration::from_secs(60);

/// How long a finished job waits for others.
const DELAY: Duration = Duration::from_millis(5);

/// Loads jobs, measures the backlog and raises floors until the process stops.
pub(super) fn start(base: &Arc<Base>) {
    base.runtime.supervise("fanout_loader", base, |base| async move { load_all(&base).await });
    base.runtime.supervise("fanout_backlog", base, |base| async move {
        measure(&base).await;
        while base.runtime.sleep(MEASURE_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
            measure(&base).await;
        }
    });
    base.runtime.supervise("fanout_floors", base, |base| async move { raise_floors(&base).await });
}

async fn load_all(base: &Base) {
    let mut poll_at = Instant::now();
    loop {
        let is_poll = tokio::select! {
            () = base.jobs.load_wanted() => Instant::now() >= poll_at,
            () = tokio::time::sleep_until(poll_at) => true,
            () = base.runtime.stopped() => return,
        };
        if is_poll {
            poll_at = Instant::now() + POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
        }
        if let Err(error) = load(base, is_poll).await {
            tracing::warn!(%error, "jobs that wait could not be loaded");
            if !base.runtime.sleep(RETRY_INTERVAL.mul_f64(rand::random_range(0.5..1.5))).await {
                return;
            }
        }
    }
}

async fn load(base: &Base, all: bool) -> ledger::Result<()> {
    let (requests, skip) = base.jobs.requests(all);
    if requests.is_empty() {
        return Ok(());
    }
    let loaded = base.ledger.load_jobs(&requests, &skip).await?;
    for LoadedJob { id, partition, job } in &loaded {
        let request = requests.iter().find(|request| request.partition == *partition);
        let Some((reason, request)) = job.as_ref().err().zip(request) else { continue };
        let work = FailedWork::Job(*id, &request.fence);
        match base.ledger.set_aside(work, &Fault::now(reason.as_str(), 0)).await {
            Ok(_) => tracing::error!(job = %id, reason, "a job cannot be decoded and was quarantined"),
            // The jobs that can be decoded do not wait for it.
            Err(error) => tracing::warn!(%error, job = %id, reason, "a job that cannot be decoded stays"),
        }
    }
    base.jobs.add_loaded(&requests, loaded);
    Ok(())
}

/// Counts the jobs of the partitions that this process owns, so that each job is counted by one process. The owner
/// of the first partition also counts the quarantine. While Redis is away, nobody owns a partition: each process counts
/// all jobs then, so that the backlog does not look empty.
async fn measure(base: &Base) {
    let owned: Vec<u16> = base.jobs.owned().into_iter().map(|(partition, _)| partition).collect();
    let all = (owned.is_empty() && OutageLog::redis().is_away()).then(|| (0..FANOUT_PARTITIONS).collect::<Vec<u16>>());
    match base.ledger.backlog(all.as_deref().unwrap_or(&owned)).await {
        Ok(backlog) => {
            let age = backlog.oldest.map(|oldest| now().saturating_sub(oldest));
            base.metrics.fanout.backlog(backlog.jobs, age);
        }
        Err(error) => tracing::warn!(%error, "the fan-out backlog could not be counted"),
    }
    let size = if owned.contains(&0) { base.ledger.quarantine_size().await } else { Ok(0) };
    match size {
        Ok(size) => base.metrics.quarantine(size),
        Err(error) => tracing::warn!(%error, "the quarantine could not be counted"),
    }
}

/// Raises the floors to the number that was the greatest [`LATEST_COMMIT`] ago: every write with a smaller number
/// has committed or failed since.
async fn raise_floors(base: &Base) {
    let mut seen: VecDeque<(Instant, JobId)> = VecDeque::new();
    let mut raised = JobId(0);
    while base.runtime.sleep(FLOOR_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
        seen.push_back((Instant::now(), base.jobs.greatest_number()));
        let mut candidate = raised;
        while let Some((at, number)) = seen.front()
            && at.elapsed() >= LATEST_COMMIT
        {
            candidate = *number;
            seen.pop_front();
        }
        if candidate > raised {
            match base.ledger.raise_floors(&base.jobs.owned(), candidate).await {
                Ok(()) => raised = candidate,
                Err(error) => tracing::debug!(%error, "floors could not be raised"),
            }
        }
    }
}

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
