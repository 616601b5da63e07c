//! The way through the followers, page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Held, Outcome};
use crate::broker::{Attempt, FanOut, FannedOut};
use crate::feed::{Feed, FeedError, Result, now};
use crate::model::{Entry, UserId};

/// How much smaller a page is whose entries must look for a post in each inbox first: about 1 ms each where they search
/// all of it in vain, and Redis does nothing else meanwhile.
const SEARCHING: usize = 20;

/// Pages of one job on their way at once, so that the broker works while the ledger is read.
const AHEAD: usize = 3;

impl Feed {
    /// Walks the followers from where the job stands, a few pages ahead of the broker's answers.
    pub(super) async fn walk(&self, job: i64, author: &UserId, entry: &Entry, held: &mut Held) -> Result<Outcome> {
        let mut ahead = held.cursor.clone();
        let mut on_the_way: VecDeque<Page> = VecDeque::new();
        let mut more = true;
        let page = match (entry, held.attempt) {
            (Entry::Post(_), Attempt::First) => self.fanout.options.page,
            _ => (self.fanout.options.page / SEARCHING).max(1),
        };
        loop {
            while more && on_the_way.len() < AHEAD {
                if !self.renew(job, held).await? {
                    return Ok(Outcome::Lost);
                }
                let mut users = self.ledger.followers_after(author, &ahead, page).await?;
                more = users.len() == page;
                let next = users.last().map_or_else(|| ahead.clone(), ToString::to_string);
                // The author's own timeline comes first.
                if ahead.is_empty() {
                    users.insert(0, author.clone());
                }
                if !users.is_empty() {
                    let written =
                        self.write_page(format!("{job}:{ahead}"), next.clone(), entry.clone(), users, held.attempt);
                    on_the_way.push_back(Page { begin: ahead, end: next.clone(), written });
                }
                ahead = next;
            }
            let Some(page) = on_the_way.pop_front() else { return Ok(Outcome::Done) };
            match page.written.await.map_err(|_| FeedError::Internal)?? {
                FannedOut::Written(receipts) => {
                    self.metrics.fanned_out(&receipts);
                    held.cursor = page.end;
                }
                // Written by somebody before us, as the last page: who followed since got the post by following.
                FannedOut::Before(end) if end == page.begin => return Ok(Outcome::Done),
                // Written by somebody before us. If that page ended elsewhere, ours beyond it do not fit.
                FannedOut::Before(end) => {
                    let moved = end != page.end;
                    held.cursor = end;
                    if moved {
                        for page in on_the_way.drain(..) {
                            let _ = page.written.await;
                        }
                        ahead.clone_from(&held.cursor);
                        more = true;
                    }
                }
            }
        }
    }

    fn write_page(
        &self,
        page: String,
        next: String,
        entry: Entry,
        users: Vec<UserId>,
        attempt: Attempt,
    ) -> JoinHandle<Result<FannedOut>> {
        let broker = Arc::clone(&self.broker);
        self.fanout.tasks.spawn(async move {
            Ok(broker.fan_out(FanOut { page: &page, next: &next, entry: &entry, users: &users, attempt }).await?)
        })
    }

    /// Renews the lease now and then. `false` if somebody else has it.
    async fn renew(&self, job: i64, held: &mut Held) -> Result<bool> {
        let due = held.renewed.get_or_insert_with(Instant::now).elapsed() > self.fanout.options.lease / 3;
        if due {
            held.renewed = Some(Instant::now());
            return Ok(self.ledger.advance_job(job, &held.cursor, &self.fanout.lease(now())).await?);
        }
        Ok(true)
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
