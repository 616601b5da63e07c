//! The job of alerts about posts: queues pushes for the users who asked for them, page by page.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::feed::{Feed, FeedError, now as unix_now};
use crate::ledger::{PostAlertJob, PostAlertPage, PostAlertProgress, PushLease};
use crate::model::Millis;

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
        let mut held = Vec::new();
        loop {
            let pause = match self.turn(&mut held).await {
                Ok(()) => {
                    backoff.reset();
                    if held.is_empty() { POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2)) } else { Duration::ZERO }
                }
                Err(error) => {
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

    /// Leases jobs, and queues a page of each.
    async fn turn(&self, held: &mut Vec<HeldJob>) -> Result<(), FeedError> {
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
            if self.feed.ledger.queue_post_alerts(&page, now).await? == PostAlertProgress::More {
                left.push(HeldJob { job, lease: next });
            }
        }
        *held = left;
        Ok(())
    }

    fn lease(&self) -> PushLease {
        PushLease { holder: Arc::clone(self.feed.runtime.holder()), until: unix_now().saturating_add(LEASE) }
    }
}
