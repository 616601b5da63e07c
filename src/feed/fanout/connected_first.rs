//! Serves connected followers before all others: how long a post takes to the last socket does not depend on followers
//! that are not connected.
//!
//! The followers are read once for both passes, as far as they fit into memory. A follower who connects between the two
//! is served with the others.

use std::collections::VecDeque;
use std::sync::Arc;

use super::page_writer::{PageWriter, WritingPage};
use super::running_job::{JobLeases, JobOutcome, RunningJob};
use super::scan::{FollowerScan, MAX_CONCURRENT_PAGES, RemainingFollowers};
use crate::broker::{Broker, JobAttempt, PageRecipients};
use crate::feed::error::{FeedError, Result};
use crate::ledger::Ledger;
use crate::model::UserId;

/// Followers that are read, and whose connections are looked up, at once.
const CHUNK: usize = 2_000;

/// Followers without a connection that are kept for the second pass; some 60 bytes each. Further ones are read again.
const MAX_KEPT: usize = 20_000;

/// Pages under way, and the users of the next one.
struct Pages<'a, 'b> {
    scan: &'a FollowerScan<'b>,
    attempt: JobAttempt,
    next: Vec<UserId>,
    /// How many pages were made.
    made: u64,
    /// Whether the broker has refused one.
    fenced: bool,
    writing: VecDeque<WritingPage>,
}

/// Serves connected followers.
pub(super) struct ConnectedFirst {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    leases: Arc<JobLeases>,
    writer: Arc<PageWriter>,
    /// Inboxes of a page (`fanout.page`).
    page_size: usize,
}

impl ConnectedFirst {
    /// Looks connections up in this broker.
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        leases: Arc<JobLeases>,
        writer: Arc<PageWriter>,
        page_size: usize,
    ) -> Self {
        Self { ledger, broker, leases, writer, page_size }
    }

    /// Serves connected followers, and keeps the others for the second pass. Returns an outcome if that ends the
    /// attempt.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn serve(
        &self,
        scan: &FollowerScan<'_>,
        followers: &mut RemainingFollowers,
        job: &mut RunningJob,
    ) -> Result<Option<JobOutcome>> {
        let mut users = self.ledger.followers_after(scan.author, "", CHUNK).await?;
        if users.len() <= self.page_size {
            // All of them fit on one page.
            followers.more = false;
            followers.read = users.into();
            return Ok(None);
        }
        let attempt = job.attempt.clone();
        let (next, writing) = (Vec::new(), VecDeque::new());
        let mut pages = Pages { scan, attempt, next, made: 0, fenced: false, writing };
        // The author's own timeline comes first.
        pages.next.extend(followers.own.take());
        let mut keeping = true;
        while let Some(last) = users.last().map(ToString::to_string) {
            if !self.leases.still_holds(job).await? {
                return Ok(Some(JobOutcome::Lost));
            }
            let read_on = async {
                let is_last = users.len() < CHUNK;
                Ok(if is_last { Vec::new() } else { self.ledger.followers_after(scan.author, &last, CHUNK).await? })
            };
            let look_up = async { Ok::<_, FeedError>(self.broker.connected(&users).await?) };
            let (connected, more) = tokio::try_join!(look_up, read_on)?;
            keeping &= followers.read.len() + users.len() <= MAX_KEPT;
            for (user, connected) in users.into_iter().zip(connected) {
                if connected {
                    if !keeping {
                        followers.served.insert(user.clone());
                    }
                    pages.next.push(user);
                } else if keeping {
                    followers.read.push_back(user);
                }
            }
            if keeping {
                followers.cursor = last;
                followers.more = !more.is_empty();
            }
            users = more;
            self.write_pages(&mut pages, self.page_size).await?;
        }
        // The second pass begins when all of these are written: a page that Redis has not read yet cannot come first.
        self.write_pages(&mut pages, 1).await?;
        while let Some(page) = pages.writing.pop_front() {
            pages.fenced |= !self.writer.finish(page).await?;
        }
        Ok(pages.fenced.then_some(JobOutcome::Fenced))
    }

    /// Writes pages while at least so many users wait for one.
    async fn write_pages(&self, pages: &mut Pages<'_, '_>, least: usize) -> Result<()> {
        while pages.next.len() >= least && !pages.fenced {
            let rest = pages.next.split_off(self.page_size.min(pages.next.len()));
            let users = std::mem::replace(&mut pages.next, rest);
            let page = PageRecipients::Users(pages.made);
            pages.made += 1;
            let writing = self.writer.write(pages.scan, &pages.attempt, page, users).await?;
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
