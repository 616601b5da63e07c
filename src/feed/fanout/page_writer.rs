//! Writes pages of inboxes. All fan-out to followers goes through this module.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::scan::FollowerScan;
use crate::broker::{self, Broker, FanOut, FannedOut, JobAttempt, PageRecipients};
use crate::feed::error::{FeedError, Result};
use crate::feed::jobs::JobQueue;
use crate::feed::runtime::Runtime;
use crate::feed::visibility::VisibilityPolicy;
use crate::metrics::Metrics;
use crate::model::UserId;

/// A page that the broker is writing.
pub(super) type WritingPage = JoinHandle<broker::Result<FannedOut>>;

/// Inboxes of all pages that the broker is writing. On Redis, this many take some 20 ms, for which every other command
/// waits behind them at worst, however many jobs run.
const MAX_INBOXES_UNDER_WAY: u32 = 6_000;

/// Writes pages.
pub(super) struct PageWriter {
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    jobs: Arc<JobQueue>,
    visibility: Arc<VisibilityPolicy>,
    metrics: Arc<Metrics>,
    /// A permit for each inbox under way.
    under_way: Arc<Semaphore>,
}

impl PageWriter {
    /// Writes pages to this broker, for recipients that the policy selects.
    pub(super) fn new(
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        jobs: Arc<JobQueue>,
        visibility: Arc<VisibilityPolicy>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let under_way = Arc::new(Semaphore::new(MAX_INBOXES_UNDER_WAY as usize));
        Self { broker, runtime, jobs, visibility, metrics, under_way }
    }

    /// Starts the write of one page, for the users that are recipients of the entry.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn write(
        &self,
        scan: &FollowerScan<'_>,
        attempt: &JobAttempt,
        page: PageRecipients,
        users: Vec<UserId>,
    ) -> Result<WritingPage> {
        let post = scan.entry.post().ok_or(FeedError::Internal)?;
        let users = self.visibility.select_recipients(post, scan.author, scan.recipients, users).await?;
        let (broker, entry, attempt) = (Arc::clone(&self.broker), scan.entry.clone(), attempt.clone());
        let (author, created_at, jobs) = (scan.author.clone(), scan.created_at, Arc::clone(&self.jobs));
        let inboxes = u32::try_from(users.len()).unwrap_or(u32::MAX).min(MAX_INBOXES_UNDER_WAY);
        // Pages under way end by themselves, so a job that waits here for its own earlier pages goes on.
        let permits = Arc::clone(&self.under_way).acquire_many_owned(inboxes).await;
        Ok(self.runtime.spawn(async move {
            let _permits = permits;
            // The process may have been paused since the last renewal of the lease, for longer than the broker keeps
            // the state of a job that another node finished.
            if !jobs.may_write(attempt.job, attempt.generation) {
                return Ok(FannedOut::Fenced);
            }
            let (page, users) = (&page, &users[..]);
            let page = FanOut { attempt: &attempt, page, entry: &entry, author: &author, users, created_at };
            broker.fan_out(page).await
        }))
    }

    /// Waits for a page. `false` if the broker has refused it.
    ///
    /// # Errors
    /// If the broker could not be reached.
    pub(super) async fn finish(&self, page: WritingPage) -> Result<bool> {
        match page.await.map_err(|_| FeedError::Internal)?? {
            FannedOut::Written(receipts) => {
                self.metrics.fanout.fanned_out(&receipts);
                Ok(true)
            }
            FannedOut::Fenced => Ok(false),
        }
    }
}
