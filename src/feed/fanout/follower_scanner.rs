//! Scans the followers of an author, page by page.
//!
//! Connected followers come first, so that the latency of a push does not depend on the number of disconnected
//! followers. The second pass reads the followers again, and skips those that were served before; it writes a few pages
//! ahead of the broker's replies. A follower that connects between the two passes is served in the second.
//!
//! All writes to inboxes of followers go through this file.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::running_job::{JobOutcome, RunningJob, WriteTokens};
use crate::broker::{self, FanOut, FannedOut, JobProgress, PageRecipients};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::visibility::Recipients;
use crate::model::{Entry, Millis, TraceContext, UserId};
use crate::telemetry::{SpanKind, TraceSpan};

/// The maximal number of concurrent pages of one job. With several, the broker works while the ledger is read.
const MAX_CONCURRENT_PAGES: usize = 3;

/// The number of followers that are read, and whose connections are looked up, in one step.
const CHUNK: usize = 2_000;

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
    /// The span of the job, if its trace is recorded.
    pub(super) trace: Option<TraceContext>,
}

/// A page that the broker is writing.
pub(super) type WritingPage = JoinHandle<broker::Result<FannedOut>>;

/// The followers that a scan has not served yet.
struct RemainingFollowers {
    /// The author, if the author's own timeline is still to be served.
    own: Option<UserId>,
    /// The only page, if it was read already.
    first_page: Option<Vec<UserId>>,
    /// The scan continues after this follower.
    cursor: String,
    /// Whether there may be more followers to read.
    more: bool,
    /// Followers beyond the cursor that were served first, because they are connected.
    served: HashSet<UserId>,
}

impl RemainingFollowers {
    /// All followers of an author.
    fn of(author: &UserId, progress: &JobProgress) -> Self {
        let own = (!progress.covers_author(author)).then(|| author.clone());
        Self { own, first_page: None, cursor: String::new(), more: true, served: HashSet::new() }
    }
}

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

/// Scans followers, and writes pages of inboxes.
pub(super) struct FollowerScanner {
    base: Arc<Base>,
    /// A permit for each inbox of the pages that the broker is writing.
    under_way: Arc<Semaphore>,
}

impl FollowerScanner {
    /// Writes pages to this broker, for recipients that the policy selects.
    pub(super) fn new(base: Arc<Base>) -> Self {
        let under_way = Arc::new(Semaphore::new(MAX_INBOXES_UNDER_WAY as usize));
        Self { base, under_way }
    }

    /// Serves the followers that earlier attempts did not serve.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn run(&self, scan: &FollowerScan<'_>, job: &RunningJob) -> Result<JobOutcome> {
        let mut followers = RemainingFollowers::of(scan.author, &job.progress);
        if job.is_fresh() {
            match self.serve_connected(scan, &mut followers, job).await? {
                JobOutcome::Done => {}
                outcome => return Ok(outcome),
            }
        }
        let mut ahead = String::new();
        let mut writing: VecDeque<WritingPage> = VecDeque::new();
        loop {
            while writing.len() < MAX_CONCURRENT_PAGES {
                let next = self.next_page(scan.author, &mut followers, &ahead, &job.progress).await?;
                let Some((users, to)) = next else { break };
                let page = PageRecipients::Range { after: ahead, to: to.clone() };
                writing.push_back(self.write(scan, &job.tokens, page, users).await?);
                ahead = to;
            }
            let Some(page) = writing.pop_front() else { return Ok(JobOutcome::Done) };
            if !self.finish(page).await? {
                return Ok(JobOutcome::Fenced);
            }
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
        let size = self.base.options.fanout.page;
        let mut users = followers.first_page.take().unwrap_or_default();
        let mut end = users.last().map_or_else(|| begin.to_owned(), ToString::to_string);
        while users.is_empty() && followers.more {
            while let Some(to) = progress.advance(&followers.cursor) {
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

    /// Serves connected followers, and notes them for the second pass. If the outcome is not `Done`, the attempt ends
    /// here.
    ///
    /// # Errors
    /// If a store cannot be reached.
    async fn serve_connected(
        &self,
        scan: &FollowerScan<'_>,
        followers: &mut RemainingFollowers,
        job: &RunningJob,
    ) -> Result<JobOutcome> {
        let mut users = self.base.followers.first(scan.author, CHUNK).await?;
        if users.len() <= self.base.options.fanout.page {
            // All followers fit on one page.
            (followers.first_page, followers.more) = (Some(users), false);
            return Ok(JobOutcome::Done);
        }
        let tokens = job.tokens.clone();
        let next = Vec::new();
        let writing = VecDeque::new();
        let mut pages = Pages { scan, tokens, next, made: 0, fenced: false, writing };
        // The author's own timeline comes first.
        pages.next.extend(followers.own.take());
        while let Some(last) = users.last().map(ToString::to_string) {
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
            self.write_pages(&mut pages, self.base.options.fanout.page).await?;
        }
        // The second pass begins after all of these pages are written, so that none of its pages can overtake them on
        // the way to Redis.
        self.write_pages(&mut pages, 1).await?;
        while let Some(page) = pages.writing.pop_front() {
            pages.fenced |= !self.finish(page).await?;
        }
        Ok(if pages.fenced { JobOutcome::Fenced } else { JobOutcome::Done })
    }

    /// Writes pages while at least `least` users wait for one.
    async fn write_pages(&self, pages: &mut Pages<'_, '_>, least: usize) -> Result<()> {
        while pages.next.len() >= least && !pages.fenced {
            let rest = pages.next.split_off(self.base.options.fanout.page.min(pages.next.len()));
            let users = std::mem::replace(&mut pages.next, rest);
            let page = PageRecipients::Users(pages.made);
            pages.made += 1;
            let writing = self.write(pages.scan, &pages.tokens, page, users).await?;
            pages.writing.push_back(writing);
            if pages.writing.len() >= MAX_CONCURRENT_PAGES
                && let Some(page) = pages.writing.pop_front()
            {
                pages.fenced |= !self.finish(page).await?;
            }
        }
        Ok(())
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
        let users = scan.recipients.select(&self.base.visibility, post, scan.author, users).await?;
        let inboxes = u32::try_from(users.len()).unwrap_or(u32::MAX).min(MAX_INBOXES_UNDER_WAY);
        // Pages under way end by themselves, so a job that waits here for its own earlier pages goes on.
        let permits = Arc::clone(&self.under_way).acquire_many_owned(inboxes).await.ok();
        let base = Arc::clone(&self.base);
        let tokens = tokens.clone();
        let created_at = scan.created_at;
        let trace = scan.trace;
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
            let mut span = base.tracer.child(trace, "publish inboxes", SpanKind::Producer);
            let written = base.broker.fan_out(page).await;
            describe_page(&mut span, users.len(), &written);
            span.end();
            written
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

/// Describes the write of one page.
fn describe_page(span: &mut TraceSpan, inboxes: usize, written: &broker::Result<FannedOut>) {
    span.set("messaging.batch.message_count", inboxes as u64);
    match written {
        Ok(FannedOut::Written(_)) => {}
        Ok(FannedOut::Fenced) => span.fail("refused: a later attempt has begun"),
        Err(_) => span.fail("not written"),
    }
}
