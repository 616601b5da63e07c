//! Writes pages of inboxes. All fan-out to followers goes through this module.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::running_job::WriteTokens;
use crate::broker::{self, FanOut, FannedOut, PageRecipients};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::visibility::Recipients;
use crate::model::{Entry, Millis, UserId};

/// A page that the broker is writing.
pub(super) type WritingPage = JoinHandle<broker::Result<FannedOut>>;

/// Inboxes of all pages that the broker is writing. On Redis, this many take some 20 ms, for which every other command
/// waits behind them at worst, however many jobs run.
const MAX_INBOXES_UNDER_WAY: u32 = 6_000;

/// An entry, and its recipients among the author's followers.
pub(super) struct FollowerScan<'a> {
    pub(super) author: &'a UserId,
    pub(super) entry: &'a Entry,
    pub(super) recipients: Recipients<'a>,
    /// When the job was created.
    pub(super) created_at: Millis,
}

/// Writes pages.
pub(super) struct PageWriter {
    base: Arc<Base>,
    /// A permit for each inbox under way.
    under_way: Arc<Semaphore>,
}

impl PageWriter {
    /// Writes pages to this broker, for recipients that the policy selects.
    pub(super) fn new(base: Arc<Base>) -> Self {
        let under_way = Arc::new(Semaphore::new(MAX_INBOXES_UNDER_WAY as usize));
        Self { base, under_way }
    }

    /// Starts the write of one page, for the users that are recipients of the entry.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn write(
        &self,
        scan: &FollowerScan<'_>,
        tokens: &WriteTokens,
        page: PageRecipients,
        users: Vec<UserId>,
    ) -> Result<WritingPage> {
        let post = scan.entry.post().ok_or(FeedError::Internal)?;
        let users = self.base.visibility.select_recipients(post, scan.author, scan.recipients, users).await?;
        let inboxes = u32::try_from(users.len()).unwrap_or(u32::MAX).min(MAX_INBOXES_UNDER_WAY);
        // Pages under way end by themselves, so a job that waits here for its own earlier pages goes on.
        let permits = Arc::clone(&self.under_way).acquire_many_owned(inboxes).await.ok();
        let base = Arc::clone(&self.base);
        let tokens = tokens.clone();
        let created_at = scan.created_at;
        let entry = scan.entry.clone();
        let author = scan.author.clone();
        Ok(self.base.runtime.spawn(async move {
            let _permits = permits;
            // The process may have been paused since the last renewal of the lease, for longer than the broker keeps
            // the state of a job that another node finished.
            if !tokens.are_valid() {
                return Ok(FannedOut::Fenced);
            }
            let attempt = &tokens.attempt;
            let page = &page;
            let page = FanOut { attempt, page, entry: &entry, author: &author, users: &users, created_at };
            base.broker.fan_out(page).await
        }))
    }

    /// Waits for a page. `false` if the broker has refused it.
    ///
    /// # Errors
    /// If the broker could not be reached.
    pub(super) async fn finish(&self, page: WritingPage) -> Result<bool> {
        match page.await.map_err(|_| FeedError::Internal)?? {
            FannedOut::Written(receipts) => {
                self.base.metrics.fanout.fanned_out(&receipts);
                Ok(true)
            }
            FannedOut::Fenced => Ok(false),
        }
    }
}
