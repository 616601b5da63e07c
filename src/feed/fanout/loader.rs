//! Loads jobs that wait in the ledger, and raises the floors of partitions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::feed::base::Base;
use crate::feed::runtime::now;
use crate::ledger::{self, FailedWork, Fault, JobId, LoadedJob};

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
/// of the first partition also counts the quarantine.
async fn measure(base: &Base) {
    let owned: Vec<u16> = base.jobs.owned().into_iter().map(|(partition, _)| partition).collect();
    match base.ledger.backlog(&owned).await {
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
