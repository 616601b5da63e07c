//! The way through the followers, page by page.
//!
//! Those who are connected come first: see `connected.rs`. What is left of the followers is walked here, a few pages
//! ahead of the broker's answers.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::leases::Moment;
use super::{Held, Outcome};
use crate::broker::{self, FanOut, FannedOut, JobAttempt, JobProgress, Page};
use crate::feed::visibility::Recipients;
use crate::feed::{Feed, FeedError, Result};
use crate::model::{Entry, Millis, UserId};

/// Pages of one job on their way at once, so that the broker works while the ledger is read.
pub(super) const AHEAD: usize = 3;

/// What is carried on a walk, and to whose followers.
pub(super) struct Walk<'a> {
    pub(super) author: &'a UserId,
    pub(super) entry: &'a Entry,
    pub(super) recipients: Recipients<'a>,
    /// When the job was created.
    pub(super) created_at: Millis,
}

impl Feed {
    /// Walks the followers from where the job stands.
    pub(super) async fn walk(&self, walk: &Walk<'_>, held: &mut Held) -> Result<Outcome> {
        let mut followers = Followers::after(&held.cursor, walk.author, &held.progress);
        if held.is_fresh()
            && let Some(outcome) = self.serve_connected(walk, &mut followers, held).await?
        {
            return Ok(outcome);
        }
        self.serve_all(walk, followers, held).await
    }

    async fn serve_all(&self, walk: &Walk<'_>, mut followers: Followers, held: &mut Held) -> Result<Outcome> {
        let mut ahead = held.cursor.clone();
        let mut on_the_way: VecDeque<WrittenPage> = VecDeque::new();
        loop {
            while on_the_way.len() < AHEAD {
                if !self.still_holds(held).await? {
                    return Ok(Outcome::Lost);
                }
                let Some((users, to)) = self.next_page(walk.author, &mut followers, &ahead, &held.progress).await?
                else {
                    break;
                };
                let page = Page::Range { after: ahead, to: to.clone() };
                let written = self.write_page(walk, &held.attempt, page, users).await?;
                on_the_way.push_back(WrittenPage { to: to.clone(), written });
                ahead = to;
            }
            let Some(page) = on_the_way.pop_front() else { return Ok(Outcome::Done) };
            match page.written.await.map_err(|_| FeedError::Internal)?? {
                FannedOut::Written(receipts) => {
                    self.metrics.fanned_out(&receipts);
                    held.cursor = page.to;
                }
                FannedOut::Fenced => return Ok(Outcome::Fenced),
            }
        }
    }

    /// The next page of those not yet served, and up to which follower it goes. `None` at the end.
    async fn next_page(
        &self,
        author: &UserId,
        followers: &mut Followers,
        begin: &str,
        progress: &JobProgress,
    ) -> Result<Option<(Vec<UserId>, String)>> {
        let size = self.fanout.options.page;
        let mut users: Vec<UserId> = followers.left.drain(..size.min(followers.left.len())).collect();
        let mut end = users.last().map_or_else(|| begin.to_owned(), ToString::to_string);
        while users.is_empty() && followers.more {
            if let Some(to) = progress.advance(&followers.cursor) {
                followers.cursor = to.to_owned();
            }
            users = self.ledger.followers_after(author, &followers.cursor, size).await?;
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

    /// Has the broker write one page, for those of the users whom the entry is for. All that is fanned out to followers goes
    /// through here.
    pub(super) async fn write_page(
        &self,
        walk: &Walk<'_>,
        attempt: &JobAttempt,
        page: Page,
        users: Vec<UserId>,
    ) -> Result<JoinHandle<broker::Result<FannedOut>>> {
        let post = walk.entry.post().ok_or(FeedError::Internal)?;
        let users = self.visibility.select_recipients(post, walk.author, walk.recipients, users).await?;
        let (broker, entry, attempt) = (Arc::clone(&self.broker), walk.entry.clone(), attempt.clone());
        let (created_at, leases, length) = (walk.created_at, Arc::clone(&self.fanout.held), self.fanout.options.lease);
        Ok(self.fanout.tasks.spawn(async move {
            // The process may have been paused since it was last known that the job is held, for longer than the broker
            // remembers a job that another node finished.
            if !leases.may_write(attempt.job, attempt.generation, length) {
                return Ok(FannedOut::Fenced);
            }
            let page = FanOut { attempt: &attempt, page: &page, entry: &entry, users: &users, created_at };
            broker.fan_out(page).await
        }))
    }

    /// Begins an attempt at a job. The first one at the first lease just begins; another one asks the ledger whether the job is
    /// still held, and the broker what was written, and has it refuse what earlier attempts may still write. `false` if
    /// another worker has the job.
    pub(super) async fn begin(&self, held: &mut Held) -> Result<bool> {
        held.attempt.run = self.broker.run()?;
        if held.attempt.retry > 0 && !self.advance(held).await? {
            return Ok(false);
        }
        if held.attempt.generation <= 1 && held.attempt.retry == 0 {
            return Ok(true);
        }
        let Some(progress) = self.broker.begin_attempt(&held.attempt).await? else { return Ok(false) };
        held.progress = progress;
        Ok(true)
    }

    /// Whether this worker still holds the job, as the first of its author's. Writes the cursor to the ledger now and then, and
    /// asks it if the lease cannot be trusted, as after a pause of the process: see `leases.rs`.
    pub(super) async fn still_holds(&self, held: &mut Held) -> Result<bool> {
        let Some(age) = self.fanout.held.age(held.attempt.job, held.attempt.generation) else { return Ok(false) };
        let lease = self.fanout.options.lease;
        if held.advanced.elapsed() <= lease / 3 && age <= lease / 2 {
            return Ok(true);
        }
        self.advance(held).await
    }

    /// Writes the cursor to the ledger and renews the lease. `false` if it is lost, or an earlier job of the author is left:
    /// then the job is released, to be claimed after that one.
    async fn advance(&self, held: &mut Held) -> Result<bool> {
        let (job, generation, asked) = (held.attempt.job, held.attempt.generation, Moment::now());
        let is_held = self.ledger.advance_job(job, generation, &held.cursor, &self.fanout.lease()).await?;
        held.advanced = Instant::now();
        if is_held {
            self.fanout.held.note_first(job, generation, asked);
        } else {
            self.fanout.held.note_renewals(&[(job, generation)], &[], asked);
            self.release_jobs(&[(job, generation)]).await;
        }
        Ok(is_held)
    }
}

/// Whom a walk has still to serve.
pub(super) struct Followers {
    /// The author, whose own timeline is one of those.
    pub(super) own: Option<UserId>,
    /// Read already, in order.
    pub(super) left: VecDeque<UserId>,
    /// After whom to read on when those are served.
    pub(super) cursor: String,
    /// Whether there may be any.
    pub(super) more: bool,
    /// Those of them who were served before the others.
    pub(super) served: HashSet<UserId>,
}

impl Followers {
    /// All after `cursor`.
    fn after(cursor: &str, author: &UserId, progress: &JobProgress) -> Self {
        Self {
            own: (cursor.is_empty() && !progress.covers_author(author)).then(|| author.clone()),
            left: VecDeque::new(),
            cursor: cursor.to_owned(),
            more: true,
            served: HashSet::new(),
        }
    }
}

/// A page that the broker is writing.
struct WrittenPage {
    /// Its last follower.
    to: String,
    written: JoinHandle<broker::Result<FannedOut>>,
}
