//! A job that a worker is running, and its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::finisher::Finisher;
use crate::broker::{Broker, JobAttempt, JobProgress};
use crate::feed::error::Result;
use crate::feed::jobs::{JobPace, JobQueue, LostLease, RenewalTime};
use crate::ledger::{Job, Lease, Ledger};

/// A job that serves connected followers for longer than this takes long: no reply waits for it. On a busy machine, a
/// job of 100 followers takes tens of milliseconds, and replies must wait then.
const SHORT: Duration = Duration::from_millis(200);

/// The state of a worker with a job.
pub(super) struct RunningJob {
    pub(super) attempt: JobAttempt,
    /// The progress that earlier attempts made.
    pub(super) progress: JobProgress,
    /// All followers up to this one have the entry.
    pub(super) cursor: String,
    /// Replies wait for the job while it is short.
    pub(super) pace: JobPace,
    begun: Instant,
    /// When the cursor was last written to the ledger, or the work began.
    advanced: Instant,
}

impl RunningJob {
    /// The state of a job before the first attempt of this process.
    pub(super) fn new(job: &Job, pace: JobPace) -> Self {
        let begun = Instant::now();
        Self {
            attempt: JobAttempt { job: job.id, generation: job.generation, retry: 0, run: "".into() },
            progress: JobProgress::default(),
            cursor: job.cursor.clone(),
            pace,
            begun,
            advanced: begun,
        }
    }

    /// Stops to hold replies back if the job has been running for long.
    pub(super) fn check_pace(&mut self) {
        if self.begun.elapsed() > SHORT {
            self.pace.takes_long();
        }
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
    finisher: Arc<Finisher>,
}

impl JobLeases {
    /// The leases of the jobs in this queue.
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        jobs: Arc<JobQueue>,
        finisher: Arc<Finisher>,
    ) -> Self {
        Self { ledger, broker, jobs, finisher }
    }

    /// Begins an attempt. The first attempt under the first lease starts without a call. Later attempts ask the ledger
    /// whether the job is still held, load the progress from the broker, and fence the pages of earlier attempts.
    /// `false` if another worker has the job.
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

    /// Whether this worker still holds the job, and no earlier job of the author is left. Writes the cursor to the
    /// ledger from time to time, and asks the ledger if the lease cannot be trusted, for example after a pause of the
    /// process.
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

    /// Writes the cursor to the ledger and renews the lease. `false` if the lease is lost, or if an earlier job of the
    /// author is left. In the second case the job is released, to be claimed after that one.
    async fn advance(&self, job: &mut RunningJob) -> Result<bool> {
        // An earlier job of the author may be done, but still in the ledger.
        self.finisher.flush().await;
        let (id, generation, asked) = (job.attempt.job, job.attempt.generation, RenewalTime::now());
        let is_held = self.ledger.advance_job(id, generation, &job.cursor, &self.jobs.lease()).await?;
        job.advanced = Instant::now();
        if is_held {
            self.jobs.held().note_first(id, generation, asked);
        } else {
            let lost = self.jobs.held().note_renewals(&[(id, generation)], &[], asked);
            self.give_up(&lost).await;
        }
        Ok(is_held)
    }

    /// Renews the leases of all jobs held here.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(super) async fn renew_all(&self) -> Result<()> {
        let held = self.jobs.held().all();
        if held.is_empty() {
            return Ok(());
        }
        let asked = RenewalTime::now();
        let renewed = self.ledger.renew_jobs(&held, &self.jobs.lease()).await?;
        let lost = self.jobs.held().note_renewals(&held, &renewed, asked);
        self.give_up(&lost).await;
        Ok(())
    }

    /// Releases lost leases in the ledger. The ledger does not renew the lease of a job behind an earlier one that
    /// waits, but counts the job as held until its lease expires; later jobs would overtake it until then.
    async fn give_up(&self, lost: &[LostLease]) {
        if lost.is_empty() {
            return;
        }
        let jobs: Vec<(i64, u64)> = lost.iter().map(|lease| lease.job).collect();
        self.release(&jobs).await;
        self.jobs.held().note_released(lost);
    }

    /// Releases leases, so that other nodes can claim these jobs.
    pub(super) async fn release(&self, jobs: &[(i64, u64)]) {
        let released = Lease { length: Duration::ZERO, ..self.jobs.lease() };
        if !jobs.is_empty()
            && let Err(error) = self.ledger.renew_jobs(jobs, &released).await
        {
            tracing::warn!(%error, jobs = jobs.len(), "jobs wait until their leases run out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{InboxOptions, MemoryBroker};
    use crate::feed::options::FanoutOptions;
    use crate::feed::quarantine::QuarantinePolicy;
    use crate::feed::runtime::Runtime;
    use crate::ledger::{PeopleStore, SqliteLedger, SqliteOptions};
    use crate::metrics::Metrics;
    use crate::model::{Post, PostId, UserId, Visibility};

    const MINUTE: Duration = Duration::from_secs(60);

    fn post(number: u64, author: &UserId) -> Post {
        Post {
            id: PostId(number),
            author: author.clone(),
            text: String::new(),
            media: Vec::new(),
            location: None,
            topics: Vec::new(),
            mentions: Vec::new(),
            platform: None,
            visibility: Visibility::Public,
            data: None,
            created_at: 0,
            edited_at: None,
        }
    }

    #[tokio::test]
    async fn leases_that_are_not_renewed_are_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let ann = UserId::parse("ann").expect("an id");
        ledger.ensure_user(&ann, 0).await.expect("a user");
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(InboxOptions { length: 10, idle: MINUTE }));
        let options = FanoutOptions { push_limit: 10, page: 10, workers: 1, lease: MINUTE, post_alerts: false };
        let runtime = Runtime::new();
        let jobs = Arc::new(JobQueue::new(options, &runtime));
        let quarantine = Arc::new(QuarantinePolicy::new(ledger.clone(), broker.clone()));
        let metrics = Arc::new(Metrics::new());
        let finisher = Finisher::new(ledger.clone(), broker.clone(), runtime, jobs.clone(), quarantine, metrics);
        let leases = JobLeases::new(Arc::clone(&ledger), broker, Arc::clone(&jobs), Arc::new(finisher));
        let mut ids = Vec::new();
        for number in 1..=2 {
            let reserved = jobs.reserve(&ann);
            let post = post(number, &ann);
            let job = ledger.create_post(&post, reserved.lease()).await.expect("a post").expect("a job");
            ids.push((job.id, job.generation));
            jobs.offer([job], reserved);
        }
        // The first job is released, so the second one must not run before it.
        let lost = jobs.held().note_renewals(&ids[..1], &[], RenewalTime::now());
        leases.give_up(&lost).await;
        leases.renew_all().await.expect("a renewal");
        assert_eq!(jobs.held().all(), []);
        let claimed = ledger.claim_jobs(&jobs.lease(), 9).await.expect("a claim");
        assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[0].0, ids[1].0]);
        ledger.close().await;
    }
}
