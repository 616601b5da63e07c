//! Writes pages of inboxes. All fan-out to followers goes through this module.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
        let page = self.prepare(scan, tokens, page, users).await?;
        Ok(self.base.runtime.spawn(async move { page.write().await }))
    }

    /// Writes one page, without a task of its own: nothing else of the job is to be done meanwhile. `false` if the
    /// broker has refused it.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn write_now(
        &self,
        scan: &FollowerScan<'_>,
        tokens: &WriteTokens,
        page: PageRecipients,
        users: Vec<UserId>,
    ) -> Result<bool> {
        let page = self.prepare(scan, tokens, page, users).await?;
        Ok(self.note(&page.write().await?))
    }

    async fn prepare(
        &self,
        scan: &FollowerScan<'_>,
        tokens: &WriteTokens,
        page: PageRecipients,
        users: Vec<UserId>,
    ) -> Result<PreparedPage> {
        let post = scan.entry.post().ok_or(FeedError::Internal)?;
        let users = self.base.visibility.select_recipients(post, scan.author, scan.recipients, users).await?;
        let inboxes = u32::try_from(users.len()).unwrap_or(u32::MAX).min(MAX_INBOXES_UNDER_WAY);
        // Pages under way end by themselves, so a job that waits here for its own earlier pages goes on.
        let _permits = Arc::clone(&self.under_way).acquire_many_owned(inboxes).await.ok();
        let (base, tokens, created_at) = (Arc::clone(&self.base), tokens.clone(), scan.created_at);
        let (entry, author) = (scan.entry.clone(), scan.author.clone());
        Ok(PreparedPage { base, tokens, page, entry, author, users, created_at, _permits })
    }

    /// Waits for a page. `false` if the broker has refused it.
    ///
    /// # Errors
    /// If the broker could not be reached.
    pub(super) async fn finish(&self, page: WritingPage) -> Result<bool> {
        Ok(self.note(&page.await.map_err(|_| FeedError::Internal)??))
    }

    /// Counts the inboxes of a page. `false` if the broker has refused it.
    fn note(&self, page: &FannedOut) -> bool {
        match page {
            FannedOut::Written(receipts) => {
                self.base.metrics.fanout.fanned_out(receipts);
                true
            }
            FannedOut::Fenced => false,
        }
    }
}

/// A page with its recipients.
struct PreparedPage {
    base: Arc<Base>,
    tokens: WriteTokens,
    page: PageRecipients,
    entry: Entry,
    author: UserId,
    users: Vec<UserId>,
    created_at: Millis,
    _permits: Option<OwnedSemaphorePermit>,
}

impl PreparedPage {
    async fn write(&self) -> broker::Result<FannedOut> {
        // The process may have been paused since the last renewal of the lease, for longer than the broker keeps the
        // state of a job that another node finished.
        if !self.tokens.are_valid(&self.base.jobs) {
            return Ok(FannedOut::Fenced);
        }
        let Self { tokens, page, entry, author, users, created_at, .. } = self;
        self.base
            .broker
            .fan_out(FanOut { attempt: &tokens.attempt, page, entry, author, users, created_at: *created_at })
            .await
    }
}
