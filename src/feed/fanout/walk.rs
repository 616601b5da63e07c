//! The way through the followers, page by page.
//!
//! Those who are connected come first: see `connected.rs`. What is left of the followers is walked here, a few pages
//! ahead of the broker's answers.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Held, Outcome};
use crate::broker::{Attempt, FanOut, FannedOut};
use crate::feed::recipients::Recipients;
use crate::feed::{Feed, FeedError, Result, now};
use crate::model::{Entry, UserId};

/// How much smaller a page is if a post must be looked for in each inbox first: about 1 ms each where the search is in
/// vain, and Redis does nothing else meanwhile.
const SEARCHING: usize = 20;

/// Pages of one job on their way at once, so that the broker works while the ledger is read.
pub(super) const AHEAD: usize = 3;

/// What is carried on a walk, and to whose followers.
pub(super) struct Walk<'a> {
    pub(super) job: i64,
    pub(super) author: &'a UserId,
    pub(super) entry: &'a Entry,
    pub(super) recipients: Recipients<'a>,
}

impl Feed {
    /// Walks the followers from where the job stands.
    pub(super) async fn walk(&self, walk: &Walk<'_>, held: &mut Held) -> Result<Outcome> {
        let mut followers = Followers::after(&held.cursor, walk.author);
        // Whoever repeats looks into each inbox anyway.
        if held.attempt == Attempt::First && !self.serve_connected(walk, &mut followers, held).await? {
            return Ok(Outcome::Lost);
        }
        self.serve_all(walk, followers, held).await
    }

    /// How many followers a page has.
    pub(super) fn page_size(&self, entry: &Entry, attempt: Attempt) -> usize {
        let page = self.fanout.options.page;
        match (entry, attempt) {
            (Entry::Post(_), Attempt::Repeated) => (page / SEARCHING).max(1),
            _ => page,
        }
    }

    async fn serve_all(&self, walk: &Walk<'_>, mut followers: Followers, held: &mut Held) -> Result<Outcome> {
        let mut ahead = held.cursor.clone();
        let mut on_the_way: VecDeque<Page> = VecDeque::new();
        loop {
            while on_the_way.len() < AHEAD {
                if !self.renew(walk.job, held).await? {
                    return Ok(Outcome::Lost);
                }
                let size = self.page_size(walk.entry, held.attempt);
                let Some((users, end)) = self.next_page(walk.author, &mut followers, &ahead, size).await? else {
                    break;
                };
                let name = format!("{}:{ahead}", walk.job);
                let written = self.write_page(walk, name, end.clone(), users, held.attempt).await?;
                on_the_way.push_back(Page { begin: ahead, end: end.clone(), written });
                ahead = end;
            }
            let Some(page) = on_the_way.pop_front() else { return Ok(Outcome::Done) };
            match page.written.await.map_err(|_| FeedError::Internal)?? {
                FannedOut::Written(receipts) => {
                    self.metrics.fanned_out(&receipts);
                    held.cursor = page.end;
                }
                // Written by somebody before us, as the last page: who followed since got the post by following.
                FannedOut::Before(end) if end == page.begin => return Ok(Outcome::Done),
                // Written by somebody before us. If that page ended elsewhere, ours beyond it do not fit. And if we took
                // ourselves for the first, whom we served before the others is not known beyond our own list.
                FannedOut::Before(end) => {
                    let moved = end != page.end || held.attempt == Attempt::First;
                    held.attempt = Attempt::Repeated;
                    held.cursor = end;
                    if moved {
                        for page in on_the_way.drain(..) {
                            let _ = page.written.await;
                        }
                        ahead.clone_from(&held.cursor);
                        followers = Followers::after(&held.cursor, walk.author);
                    }
                }
            }
        }
    }

    /// The next page of those not yet served, and up to which follower it goes. `None` at the end.
    async fn next_page(
        &self,
        author: &UserId,
        followers: &mut Followers,
        begin: &str,
        size: usize,
    ) -> Result<Option<(Vec<UserId>, String)>> {
        let mut users: Vec<UserId> = followers.left.drain(..size.min(followers.left.len())).collect();
        let mut end = users.last().map_or_else(|| begin.to_owned(), ToString::to_string);
        while users.is_empty() && followers.more {
            users = self.ledger.followers_after(author, &followers.cursor, size).await?;
            followers.more = users.len() == size;
            if let Some(last) = users.last() {
                followers.cursor = last.to_string();
                end.clone_from(&followers.cursor);
            }
            users.retain(|user| !followers.served.remove(user));
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
        page: String,
        next: String,
        users: Vec<UserId>,
        attempt: Attempt,
    ) -> Result<JoinHandle<Result<FannedOut>>> {
        let post = walk.entry.post().ok_or(FeedError::Internal)?;
        let users = self.recipients_among(post, walk.author, walk.recipients, users).await?;
        let (broker, entry) = (Arc::clone(&self.broker), walk.entry.clone());
        Ok(self.fanout.tasks.spawn(async move {
            Ok(broker.fan_out(FanOut { page: &page, next: &next, entry: &entry, users: &users, attempt }).await?)
        }))
    }

    /// Renews the lease now and then. `false` if somebody else has it.
    pub(super) async fn renew(&self, job: i64, held: &mut Held) -> Result<bool> {
        let due = held.renewed.get_or_insert_with(Instant::now).elapsed() > self.fanout.options.lease / 3;
        if due {
            held.renewed = Some(Instant::now());
            return Ok(self.ledger.advance_job(job, &held.cursor, &self.fanout.lease(now())).await?);
        }
        Ok(true)
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
    fn after(cursor: &str, author: &UserId) -> Self {
        Self {
            own: cursor.is_empty().then(|| author.clone()),
            left: VecDeque::new(),
            cursor: cursor.to_owned(),
            more: true,
            served: HashSet::new(),
        }
    }
}

/// A page that the broker is writing.
struct Page {
    /// After which follower it begins.
    begin: String,
    /// Its last follower.
    end: String,
    written: JoinHandle<Result<FannedOut>>,
}
