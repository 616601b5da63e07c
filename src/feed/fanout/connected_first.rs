//! Serves connected followers before all others, so that the latency of a push does not depend on the number of
//! disconnected followers.
//!
//! The second pass reads the followers again, and skips those that were served here. A follower that connects between
//! the two passes is served in the second.

use std::collections::VecDeque;
use std::sync::Arc;

use super::page_writer::{PageWriter, WritingPage};
use super::running_job::{Attempts, JobOutcome, RunningJob, WriteTokens};
use super::scan::{FollowerScan, MAX_CONCURRENT_PAGES, RemainingFollowers};
use crate::broker::PageRecipients;
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::visibility::CachedFollowers;
use crate::model::UserId;

/// The number of followers that are read, and whose connections are looked up, in one step.
const CHUNK: usize = 2_000;

/// Pages under way, and the users of the next one.
struct Pages<'a, 'b> {
    scan: &'a FollowerScan<'b>,
    tokens: WriteTokens,
    next: Vec<UserId>,
    /// The number of pages made.
    made: u64,
    /// Whether the broker has refused one.
    fenced: bool,
    writing: VecDeque<WritingPage>,
}

/// Serves connected followers.
pub(super) struct ConnectedFirst {
    base: Arc<Base>,
    attempts: Arc<Attempts>,
    writer: Arc<PageWriter>,
    /// Inboxes of a page (`fanout.page`).
    page_size: usize,
}

impl ConnectedFirst {
    /// Looks connections up in this broker.
    pub(super) fn new(base: Arc<Base>, attempts: Arc<Attempts>, writer: Arc<PageWriter>, page_size: usize) -> Self {
        Self { base, attempts, writer, page_size }
    }

    /// The followers of an author, if they are cached.
    pub(super) fn cached_followers(&self, author: &UserId) -> Option<Arc<CachedFollowers>> {
        self.base.followers.cached(author)
    }

    /// Serves connected followers, and notes them for the second pass. Returns an outcome if the attempt ends here.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn serve(
        &self,
        scan: &FollowerScan<'_>,
        followers: &mut RemainingFollowers,
        job: &mut RunningJob,
    ) -> Result<Option<JobOutcome>> {
        let mut users = self.base.followers.first(scan.author, CHUNK).await?;
        if users.len() <= self.page_size {
            // All followers fit on one page.
            (followers.first_page, followers.more) = (Some(users), false);
            return Ok(None);
        }
        let (tokens, next, writing) = (job.tokens.clone(), Vec::new(), VecDeque::new());
        let mut pages = Pages { scan, tokens, next, made: 0, fenced: false, writing };
        // The author's own timeline comes first.
        pages.next.extend(followers.own.take());
        while let Some(last) = users.last().map(ToString::to_string) {
            if let Some(outcome) = self.attempts.check(job).await? {
                return Ok(Some(outcome));
            }
            let read_on = async {
                let is_last = users.len() < CHUNK;
                Ok(if is_last {
                    Vec::new()
                } else {
                    self.base.ledger.followers_after(scan.author, &last, CHUNK).await?
                })
            };
            let look_up = async { Ok::<_, FeedError>(self.base.broker.connected(&users).await?) };
            let (connected, more) = tokio::try_join!(look_up, read_on)?;
            for (user, _) in users.into_iter().zip(connected).filter(|(_, connected)| *connected) {
                followers.served.insert(user.clone());
                pages.next.push(user);
            }
            users = more;
            self.write_pages(&mut pages, self.page_size).await?;
        }
        // The second pass begins after all of these pages are written, so that none of its pages can overtake them on
        // the way to Redis.
        self.write_pages(&mut pages, 1).await?;
        while let Some(page) = pages.writing.pop_front() {
            pages.fenced |= !self.writer.finish(page).await?;
        }
        Ok(pages.fenced.then_some(JobOutcome::Fenced))
    }

    /// Writes pages while at least `least` users wait for one.
    async fn write_pages(&self, pages: &mut Pages<'_, '_>, least: usize) -> Result<()> {
        while pages.next.len() >= least && !pages.fenced {
            let rest = pages.next.split_off(self.page_size.min(pages.next.len()));
            let users = std::mem::replace(&mut pages.next, rest);
            let page = PageRecipients::Users(pages.made);
            pages.made += 1;
            let writing = self.writer.write(pages.scan, &pages.tokens, page, users).await?;
            pages.writing.push_back(writing);
            if pages.writing.len() >= MAX_CONCURRENT_PAGES
                && let Some(page) = pages.writing.pop_front()
            {
                pages.fenced |= !self.writer.finish(page).await?;
            }
        }
        Ok(())
    }
}
