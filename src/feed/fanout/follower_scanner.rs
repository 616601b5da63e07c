//! Scans the followers of an author, page by page.
//!
//! Connected followers come first: see `connected_first.rs`. The others are served here, a few pages ahead of the
//! broker's replies.

use std::collections::VecDeque;
use std::sync::Arc;

use super::connected_first::ConnectedFirst;
use super::page_writer::{PageWriter, WritingPage};
use super::running_job::{Attempts, JobOutcome, RunningJob};
use super::scan::{FollowerScan, MAX_CONCURRENT_PAGES, RemainingFollowers};
use crate::broker::{JobProgress, PageRecipients};
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::visibility::CachedFollowers;
use crate::model::UserId;

/// Scans followers.
pub(super) struct FollowerScanner {
    pub(super) base: Arc<Base>,
    pub(super) attempts: Arc<Attempts>,
    pub(super) writer: Arc<PageWriter>,
    pub(super) connected_first: ConnectedFirst,
    /// Inboxes of a page (`fanout.page`).
    pub(super) page_size: usize,
}

impl FollowerScanner {
    /// The followers of an author, if they are cached.
    pub(super) fn cached_followers(&self, author: &UserId) -> Option<Arc<CachedFollowers>> {
        self.connected_first.cached_followers(author)
    }

    /// Serves the followers, starting after the cursor of the job.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn run(&self, scan: &FollowerScan<'_>, job: &mut RunningJob) -> Result<JobOutcome> {
        let mut followers = RemainingFollowers::after(&job.cursor, scan.author, &job.progress);
        if job.is_fresh()
            && let Some(outcome) = self.connected_first.serve(scan, &mut followers, job).await?
        {
            return Ok(outcome);
        }
        let mut ahead = job.cursor.clone();
        // Pages under way, each with its last follower.
        let mut writing: VecDeque<(String, WritingPage)> = VecDeque::new();
        loop {
            while writing.len() < MAX_CONCURRENT_PAGES {
                if let Some(outcome) = self.attempts.check(job).await? {
                    return Ok(outcome);
                }
                let next = self.next_page(scan.author, &mut followers, &ahead, &job.progress).await?;
                let Some((users, to)) = next else { break };
                let page = PageRecipients::Range { after: ahead, to: to.clone() };
                if writing.is_empty() && followers.is_exhausted() {
                    // Most authors have one page of followers.
                    let is_written = self.writer.write_now(scan, &job.tokens, page, users).await?;
                    return Ok(if is_written { JobOutcome::Done } else { JobOutcome::Fenced });
                }
                writing.push_back((to.clone(), self.writer.write(scan, &job.tokens, page, users).await?));
                ahead = to;
            }
            let Some((to, page)) = writing.pop_front() else { return Ok(JobOutcome::Done) };
            if !self.writer.finish(page).await? {
                return Ok(JobOutcome::Fenced);
            }
            job.cursor = to;
        }
    }

    /// The next page of users that are not served yet, and its last follower. `None` at the end.
    async fn next_page(
        &self,
        author: &UserId,
        followers: &mut RemainingFollowers,
        begin: &str,
        progress: &JobProgress,
    ) -> Result<Option<(Vec<UserId>, String)>> {
        let size = self.page_size;
        let mut users = followers.first_page.take().unwrap_or_default();
        let mut end = users.last().map_or_else(|| begin.to_owned(), ToString::to_string);
        while users.is_empty() && followers.more {
            if let Some(to) = progress.advance(&followers.cursor) {
                followers.cursor = to.to_owned();
            }
            users = self.base.ledger.followers_after(author, &followers.cursor, size).await?;
            followers.more = users.len() == size;
            if let Some(last) = users.last() {
                followers.cursor = last.to_string();
                end.clone_from(&followers.cursor);
            }
            users.retain(|user| !followers.served.remove(user) && !progress.covers(user));
        }
        // The author's own timeline comes first.
        if let Some(own) = followers.own.take() {
            users.insert(0, own);
        }
        Ok((!users.is_empty()).then_some((users, end)))
    }
}
