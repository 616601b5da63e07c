//! Those who are connected are served before all others: how long a post takes to the last socket does not depend on
//! who is not there.
//!
//! The followers are read once for both passes, as far as they are remembered. Whoever connects between the two is
//! served with the others.

use std::collections::VecDeque;

use tokio::task::JoinHandle;

use super::walk::{AHEAD, Followers, Walk};
use super::{Held, Outcome};
use crate::broker::{self, FannedOut, JobAttempt, Page};
use crate::feed::{Feed, FeedError, Result};
use crate::model::UserId;

/// Followers read, and asked about, at once.
const LOOK: usize = 2_000;

/// How many of those not connected are remembered for the second pass; some 60 bytes each. Those beyond are read again.
const REMEMBERED: usize = 20_000;

/// Pages on their way, and who is on the next.
struct Pages<'a, 'b> {
    walk: &'a Walk<'b>,
    attempt: JobAttempt,
    size: usize,
    next: Vec<UserId>,
    /// How many were made.
    made: u64,
    /// Whether the broker refused one.
    fenced: bool,
    on_the_way: VecDeque<JoinHandle<broker::Result<FannedOut>>>,
}

impl Feed {
    /// Serves those who are connected, and notes who is left. Answers the outcome if that is the end of the attempt.
    pub(super) async fn serve_connected(
        &self,
        walk: &Walk<'_>,
        followers: &mut Followers,
        held: &mut Held,
    ) -> Result<Option<Outcome>> {
        let size = self.fanout.options.page;
        let mut users = self.ledger.followers_after(walk.author, "", LOOK).await?;
        if users.len() <= size {
            // All of them are on one page.
            followers.more = false;
            followers.left = users.into();
            return Ok(None);
        }
        let attempt = held.attempt.clone();
        let (next, on_the_way) = (Vec::new(), VecDeque::new());
        let mut pages = Pages { walk, attempt, size, next, made: 0, fenced: false, on_the_way };
        // The author's own timeline comes first.
        pages.next.extend(followers.own.take());
        let mut remembering = true;
        while let Some(last) = users.last().map(ToString::to_string) {
            if !self.still_holds(held).await? {
                return Ok(Some(Outcome::Lost));
            }
            let read_on = async {
                let is_last = users.len() < LOOK;
                Ok(if is_last { Vec::new() } else { self.ledger.followers_after(walk.author, &last, LOOK).await? })
            };
            let look = async { Ok::<_, FeedError>(self.broker.connected(&users).await?) };
            let (connected, more) = tokio::try_join!(look, read_on)?;
            remembering &= followers.left.len() + users.len() <= REMEMBERED;
            for (user, connected) in users.into_iter().zip(connected) {
                if connected {
                    if !remembering {
                        followers.served.insert(user.clone());
                    }
                    pages.next.push(user);
                } else if remembering {
                    followers.left.push_back(user);
                }
            }
            if remembering {
                followers.cursor = last;
                followers.more = !more.is_empty();
            }
            users = more;
            self.send(&mut pages, size).await?;
        }
        // Only when all of them are written is the rest begun: what Redis has not read yet cannot come first.
        self.send(&mut pages, 1).await?;
        while let Some(page) = pages.on_the_way.pop_front() {
            self.written(page, &mut pages.fenced).await?;
        }
        Ok(pages.fenced.then_some(Outcome::Fenced))
    }

    /// Has pages written while at least so many wait for one.
    async fn send(&self, pages: &mut Pages<'_, '_>, least: usize) -> Result<()> {
        while pages.next.len() >= least && !pages.fenced {
            let rest = pages.next.split_off(pages.size.min(pages.next.len()));
            let users = std::mem::replace(&mut pages.next, rest);
            let page = Page::Users(pages.made);
            pages.made += 1;
            let written = self.write_page(pages.walk, &pages.attempt, page, users).await?;
            pages.on_the_way.push_back(written);
            if pages.on_the_way.len() >= AHEAD
                && let Some(page) = pages.on_the_way.pop_front()
            {
                self.written(page, &mut pages.fenced).await?;
            }
        }
        Ok(())
    }

    async fn written(&self, page: JoinHandle<broker::Result<FannedOut>>, fenced: &mut bool) -> Result<()> {
        match page.await.map_err(|_| FeedError::Internal)?? {
            FannedOut::Written(receipts) => self.metrics.fanned_out(&receipts),
            FannedOut::Fenced => *fenced = true,
        }
        Ok(())
    }
}
