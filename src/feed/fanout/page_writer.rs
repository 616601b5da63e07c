//! Writes pages of inboxes. All fan-out to followers goes through this module.

use std::sync::Arc;

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

/// Writes pages.
pub(super) struct PageWriter {
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    jobs: Arc<JobQueue>,
    visibility: Arc<VisibilityPolicy>,
    metrics: Arc<Metrics>,
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
        Self { broker, runtime, jobs, visibility, metrics }
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
        let (created_at, jobs) = (scan.created_at, Arc::clone(&self.jobs));
        Ok(self.runtime.spawn(async move {
            // The process may have been paused since the last renewal of the lease, for longer than the broker keeps
            // the state of a job that another node finished.
            if !jobs.may_write(attempt.job, attempt.generation) {
                return Ok(FannedOut::Fenced);
            }
            let page = FanOut { attempt: &attempt, page: &page, entry: &entry, users: &users, created_at };
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
                self.metrics.fanned_out(&receipts);
                Ok(true)
            }
            FannedOut::Fenced => Ok(false),
        }
    }
}
