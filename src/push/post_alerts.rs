//! The job of alerts about posts: queues pushes for the users who asked for them, page by page.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::feed::work::{Consumer, Partition, PollSchedule, RunOutcome, Waker, work};
use crate::feed::{Feed, FeedError, isolate, now as unix_now};
use crate::ledger::{Fence, PostAlertJob, PostAlertPage};
use crate::model::Millis;

/// The name of the partition, and of its kind of work.
const PARTITION: &str = "post_alerts";

/// The jobs that run page by page in turn.
const MAX_JOBS: usize = 8;

/// The users of a page. One transaction queues it.
const USERS: usize = 500;

/// The fan-out, on any node, creates the jobs: they are found at this interval.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: Duration::ZERO };

/// Queues alerts, while this process owns their partition.
pub(super) struct PostAlertWorker {
    feed: Arc<Feed>,
    partition: Partition,
    /// The time from a post to its alerts, in milliseconds (`push.grace`).
    grace: Millis,
}

impl PostAlertWorker {
    /// A worker of this feed, created before the feed starts.
    pub(super) fn new(feed: Arc<Feed>, grace: Millis) -> Self {
        let partition = feed.base.owner.partition(PARTITION, PARTITION);
        Self { feed, partition, grace }
    }

    /// Whether this process owns the partition.
    pub(super) fn is_owner(&self) -> bool {
        self.partition.fence().is_some()
    }

    /// Works until the feed stops.
    pub(super) async fn run(&self) {
        let Self { feed, partition, .. } = self;
        work(partition, &feed.base.runtime, &Waker::new(), SCHEDULE, &feed.post_alert_quarantine, &mut &*self).await;
    }

    /// Returns `false` if another process owns the partition now, or the job is done already.
    async fn queue_page(&self, fence: &Fence, job: &PostAlertJob) -> Result<bool, FeedError> {
        let now = unix_now();
        let due_at = job.created_at.saturating_add(self.grace).max(now);
        let page = PostAlertPage { post: job.post, due_at, users: USERS };
        Ok(self.feed.base.ledger.queue_post_alerts(fence, &page, now).await?)
    }
}

#[async_trait]
impl Consumer for &PostAlertWorker {
    /// Queues a page of each job. One that fails does not hold back the others.
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome, FeedError> {
        let (ledger, policy) = (&self.feed.base.ledger, &self.feed.post_alert_quarantine);
        let jobs = ledger.post_alert_jobs(MAX_JOBS).await?;
        let mut ran = if jobs.is_empty() { Ok(RunOutcome::Idle(None)) } else { Ok(RunOutcome::More) };
        for job in jobs {
            let (queued, cause) = isolate(self.queue_page(fence, &job)).await;
            match queued {
                Ok(true) => policy.succeeded(job.post),
                Ok(false) => return Ok(RunOutcome::Idle(None)),
                Err(error) if error.is_outage() => return Err(error),
                Err(error) => {
                    tracing::warn!(post = %job.post, cause, "the alerts about a post fail");
                    if let Some(fault) = policy.failed(job.post, &error, cause).await {
                        tracing::error!(post = %job.post, "the alerts about a post always fail and were quarantined");
                        ledger.quarantine_post_alert(&job, &fault).await?;
                    }
                    ran = Err(error);
                }
            }
        }
        ran
    }
}
