//! The job of alerts about posts: queues pushes for the users who asked for them, page by page.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::feed::{Feed, FeedError, now as unix_now};
use crate::ledger::{Fault, PostAlertJob, PostAlertPage, PostAlertProgress, PushLease};
use crate::model::{Millis, PostId};

/// The jobs that a process works on, page by page in turn.
const MAX_JOBS: usize = 8;

/// The users of a page. One transaction queues it.
const USERS: usize = 500;

/// How long a process may take for a page. After a crash, another process continues after this time.
const LEASE: Millis = 10_000;

/// The longest time without a look for jobs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The pauses between two attempts while the ledger cannot be reached.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The failing jobs that a process counts.
const MAX_FAILING: usize = 1_000;

/// Queues alerts. Any number of processes can run one.
pub(super) struct PostAlertWorker {
    feed: Arc<Feed>,
    /// The time from a post to its alerts, in milliseconds (`push.grace`).
    grace: Millis,
}

/// A job that this process holds.
struct HeldJob {
    job: PostAlertJob,
    lease: PushLease,
}

impl PostAlertWorker {
    /// A worker of this feed.
    pub(super) fn new(feed: Arc<Feed>, grace: Millis) -> Self {
        Self { feed, grace }
    }

    /// Works until the feed stops. Unfinished jobs are continued when their leases end.
    pub(super) async fn run(&self) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        let (mut held, mut failing) = (Vec::new(), HashMap::new());
        loop {
            let pause = match self.turn(&mut held, &mut failing).await {
                Ok(()) => {
                    backoff.reset();
                    if held.is_empty() { POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2)) } else { Duration::ZERO }
                }
                Err(error) => {
                    self.feed.post_alert_quarantine.note_outage(&error);
                    tracing::warn!(%error, "alerts about posts wait for the ledger");
                    // A page may have been queued and its lease renewed: the jobs are leased again.
                    held.clear();
                    backoff.next_delay()
                }
            };
            if !self.feed.runtime.sleep(pause).await {
                return;
            }
        }
    }

    /// Leases jobs, and queues a page of each. `failing`: the consecutive failures of jobs while the stores worked.
    async fn turn(&self, held: &mut Vec<HeldJob>, failing: &mut HashMap<PostId, u32>) -> Result<(), FeedError> {
        if held.len() < MAX_JOBS {
            let lease = self.lease();
            let jobs = self.feed.ledger.lease_post_alerts(unix_now(), &lease, MAX_JOBS - held.len()).await?;
            held.extend(jobs.into_iter().map(|job| HeldJob { job, lease: lease.clone() }));
        }
        let mut left = Vec::with_capacity(held.len());
        for HeldJob { job, lease } in held.drain(..) {
            let next = self.lease();
            let now = unix_now();
            let due_at = job.created_at.saturating_add(self.grace).max(now);
            let page = PostAlertPage { post: job.post, lease, renewed_until: next.until, due_at, users: USERS };
            match self.feed.ledger.queue_post_alerts(&page, now).await.map_err(FeedError::from) {
                Ok(progress) => {
                    self.feed.post_alert_quarantine.succeeded();
                    failing.remove(&job.post);
                    if progress == PostAlertProgress::More {
                        left.push(HeldJob { job, lease: next });
                    }
                }
                Err(error) if error.is_outage() => return Err(error),
                Err(error) => self.failed(&job, &error, failing).await?,
            }
        }
        *held = left;
        Ok(())
    }

    /// Records the failure of a job, which is tried again when its lease ends, and sets it aside if it is at fault.
    async fn failed(
        &self,
        job: &PostAlertJob,
        error: &FeedError,
        failing: &mut HashMap<PostId, u32>,
    ) -> Result<(), FeedError> {
        if failing.len() >= MAX_FAILING {
            failing.clear();
        }
        let failures = failing.entry(job.post).or_insert(0);
        *failures += 1;
        tracing::warn!(post = %job.post, failures, "the alerts about a post fail");
        if self.feed.post_alert_quarantine.admits(*failures, error).await {
            tracing::error!(post = %job.post, "the alerts about a post always fail and were quarantined");
            let fault = Fault::now(error.reason(), *failures);
            self.feed.ledger.quarantine_post_alert(job, &fault).await?;
            failing.remove(&job.post);
        }
        Ok(())
    }

    fn lease(&self) -> PushLease {
        PushLease { holder: Arc::clone(self.feed.runtime.holder()), until: unix_now().saturating_add(LEASE) }
    }
}
