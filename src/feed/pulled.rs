//! Authors with too many followers for a worker to write to each of them.
//!
//! Past `fanout.push_limit` a worker puts what is to be carried into the ledger's pulled log instead, once, and gives a
//! sign. Every node reads that log in order, and appends each entry to the inboxes of those followers who are connected
//! *to it*. Everybody else's inbox is brought up to date when it is opened or read. So a post costs what those cost who
//! are there, not what all followers would.
//!
//! Each inbox carries the mark up to which it was brought; whoever writes to it on account of the log raises the mark in
//! the same step, and nobody writes what lies at or below it. So it does not matter how many nodes a user is connected
//! to, nor how often anything is repeated. Raising it is right because who does so has seen to everything below:
//!
//! - a node takes entries in order and keeps a list of those [present](Presence); it adds nobody who is not up to where
//!   it stands, so nobody on it misses an entry;
//! - who opens or reads an inbox brings it from its own mark to the end of the log;
//! - a follow brings the followee's posts in by itself, after the edge is there.
//!
//! A sign that is lost costs the time until the next look ([`EVERY`]). A node that dies leaves inboxes at their marks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::audience::{Eye, Surface};
use super::error::isolate;
use super::recipients::Recipients;
use super::{Body, Feed, FeedError, Result, now};
use crate::broker::{Attempt, Pull};
use crate::ledger::{self, PULLED};
use crate::model::{Entry, Epoch, GoneReason, Position, Post, PostId, UserId};

/// How often the log is looked at though nothing was heard.
const EVERY: Duration = Duration::from_secs(1);

/// Entries read from the log at once, by a node and for one inbox.
const ENTRIES: usize = 100;
const DUE: usize = 500;

/// Of how many connected users the ledger is asked at once which of them follow somebody.
const ASKED: usize = 5_000;

/// Pages on their way to the broker at once.
const AHEAD: usize = 3;

/// How often old entries are dropped, how many at once, and how much longer they are kept than any inbox lives.
const FORGET_EVERY: Duration = Duration::from_secs(600);
const FORGOTTEN: usize = 1_000;
const KEPT_MORE: Duration = Duration::from_secs(24 * 3600);

/// How often somebody who comes is brought to where the node stands, while it moves on.
const TRIES: usize = 20;

/// How a signal reads that says: the log has grown.
pub(super) const GROWN: &[u8] = b"pulled";

/// Where this node stands in the log, and whose inboxes it keeps up to date.
#[derive(Debug, Default)]
pub(super) struct Pulled {
    state: Mutex<State>,
    /// The log may have grown.
    pub(super) grown: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The last entry that this node began with.
    reached: u64,
    /// Who is here, and how many times.
    here: HashMap<UserId, usize>,
}

impl Pulled {
    /// Whether an inbox with this mark lacks nothing that this node knows of, or is about to get it.
    pub(super) fn covers(&self, user: &UserId, mark: u64) -> bool {
        let state = self.state.lock();
        state.reached <= mark || state.here.contains_key(user)
    }

    /// Up to where the log is known here.
    pub(super) fn reached(&self) -> u64 {
        self.state.lock().reached
    }

    /// Begins with an entry: for whom it is, if they follow.
    fn begin(&self, mark: u64) -> Vec<UserId> {
        let mut state = self.state.lock();
        state.reached = state.reached.max(mark);
        state.here.keys().cloned().collect()
    }

    /// Adds somebody whose inbox has this mark, if that is up to where the node stands.
    fn enter(self: &Arc<Self>, user: &UserId, mark: u64) -> Option<Presence> {
        let mut state = self.state.lock();
        if state.reached > mark && !state.here.contains_key(user) {
            return None;
        }
        *state.here.entry(user.clone()).or_default() += 1;
        Some(Presence { pulled: Arc::clone(self), user: user.clone() })
    }
}

/// Somebody is connected to this node: as long as this is kept, the node keeps their inbox up to date.
#[derive(Debug)]
pub struct Presence {
    pulled: Arc<Pulled>,
    user: UserId,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.pulled.state.lock();
        if let Some(times) = state.here.get_mut(&self.user) {
            *times -= 1;
            if *times == 0 {
                state.here.remove(&self.user);
            }
        }
    }
}

impl Feed {
    /// Brings a user's inbox up to date, and keeps it so until the answer is dropped.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn attend(&self, user: &UserId) -> Result<(Position, Presence)> {
        for _ in 0..TRIES {
            let (position, mark) = self.up_to_date(user).await?;
            if let Some(presence) = self.pulled.enter(user, mark) {
                return Ok((position, presence));
            }
        }
        tracing::warn!(%user, "the pulled log grows faster than a timeline can be brought up to date");
        Err(FeedError::Unavailable)
    }

    /// Brings a user's inbox up to date if there is one, for whoever reads its log as it is.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn freshen(&self, user: &UserId) -> Result<()> {
        if self.pulled.covers(user, 0) {
            return Ok(());
        }
        let inbox = self.broker.read_inbox(user).await?;
        if let Some(inbox) = inbox.filter(|inbox| !self.pulled.covers(user, inbox.mark)) {
            self.catch_up(user, &inbox.top.epoch, inbox.mark).await?;
        }
        Ok(())
    }

    /// Brings an inbox from a mark to the end of the log. `None` if it is another one by now.
    pub(super) async fn catch_up(
        &self,
        user: &UserId,
        epoch: &Epoch,
        mut mark: u64,
    ) -> Result<Option<(Position, u64)>> {
        loop {
            let due = self.ledger.pulled_for(user, mark, DUE).await?;
            let ids: HashSet<PostId> = due.entries.iter().filter_map(Entry::post).collect();
            let seen = match ids.is_empty() {
                true => HashMap::new(),
                false => self.seen_by(Some(user), Surface::Timeline, ids).await?,
            };
            let entries = news(&due.entries, |id| seen.contains_key(id));
            self.note_number(PULLED, due.mark).await?;
            let brought = self.broker.catch_up_inbox(user, epoch, &entries, due.mark).await?;
            let Some((position, written)) = brought else { return Ok(None) };
            self.metrics.caught_up(written);
            let arrived = entries.iter().filter_map(|entry| match entry {
                Entry::Post(id) => seen.get(id).map(|body| (user.clone(), Arc::clone(body))),
                _ => None,
            });
            self.look_again(arrived.collect()).await?;
            mark = due.mark;
            if !due.more {
                return Ok(Some((position, mark)));
            }
        }
    }

    /// Takes posts out again that came to readers for whom they are no more: whoever unfollowed, muted or was blocked
    /// meanwhile may have had their inbox cleared before the post came in.
    async fn look_again(&self, came: Vec<(UserId, Arc<Body>)>) -> Result<()> {
        if came.is_empty() {
            return Ok(());
        }
        let pairs: Vec<_> = came.iter().map(|(reader, body)| (reader.clone(), body.post.author.clone())).collect();
        let relations = self.ledger.relations(&pairs).await?;
        for ((reader, body), relation) in came.iter().zip(relations) {
            let Post { id, author, visibility, .. } = &body.post;
            if (Eye { reader: Some(reader), relation, surface: Surface::Timeline }).sees(author, visibility) {
                continue;
            }
            let reason = if relation.follows { GoneReason::Hidden } else { GoneReason::Unfollowed };
            self.broker.purge_inbox(reader, &[*id], reason).await?;
            // If it is for them again by now, the posts that came in for that were not missing yet.
            self.bring_in(reader, author).await?;
        }
        Ok(())
    }

    /// Takes the log as it is by now for known, and follows it until the feed stops.
    pub(super) async fn start_pulling(self: &Arc<Self>) -> Result<()> {
        let mut done = self.ledger.pulled_top().await?;
        self.note_number(PULLED, done).await?;
        self.pulled.begin(done);
        let feed = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut forgot = Instant::now();
            let mut pause = EVERY;
            let mut failures = 0;
            loop {
                tokio::select! {
                    more = feed.runtime.sleep(pause.mul_f64(rand::random_range(0.8..1.2))) => if !more { return },
                    () = feed.pulled.grown.notified() => {}
                }
                pause = EVERY;
                if let Err(error) = feed.follow_log(&mut done, &mut failures).await {
                    tracing::warn!(%error, "pulled posts wait for a store");
                    pause = Duration::from_millis(200);
                    if !feed.runtime.sleep(pause).await {
                        return;
                    }
                }
                if forgot.elapsed() > FORGET_EVERY {
                    forgot = Instant::now();
                    feed.forget_old().await;
                }
            }
        });
        Ok(())
    }

    /// Takes all entries after `done`, which is how far it got. Passes over an entry that always fails: `failures`
    /// counts how often in a row the next one failed.
    async fn follow_log(&self, done: &mut u64, failures: &mut u32) -> Result<()> {
        loop {
            let entries = self.ledger.pulled_after(*done, ENTRIES).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for pulled in entries {
                let (appended, cause) = isolate(self.append_here(&pulled)).await;
                match appended {
                    Ok(()) => self.job_quarantine.succeeded(),
                    Err(error) => {
                        *failures = if error.is_outage() { 0 } else { *failures + 1 };
                        if !self.should_quarantine(&self.job_quarantine, *failures, &error).await {
                            return Err(error);
                        }
                        let mark = pulled.mark;
                        tracing::error!(
                            mark,
                            cause,
                            "an entry of the pulled log always fails and is skipped on this node"
                        );
                    }
                }
                *failures = 0;
                *done = pulled.mark;
            }
        }
    }

    /// Appends an entry to the inboxes of those followers who are here. Done again, it changes nothing.
    async fn append_here(&self, pulled: &ledger::Pulled) -> Result<()> {
        self.note_number(PULLED, pulled.mark).await?;
        let here = self.pulled.begin(pulled.mark);
        let Some(post) = pulled.entry.post() else { return Ok(()) };
        let body = match pulled.entry {
            Entry::Post(id) => match self.bodies.get([id]).await?.remove(&id) {
                Some(body) => Some(body),
                // Deleted meanwhile: that has an entry of its own.
                None => return Ok(()),
            },
            _ => None,
        };
        for asked in here.chunks(ASKED) {
            let followers = self.ledger.followers_among(&pulled.author, asked).await?;
            let (author, recipients) = (&pulled.author, Recipients::of(&pulled.entry));
            let followers = self.recipients_among(post, author, recipients, followers).await?;
            let pages: Vec<_> =
                followers.chunks(self.fanout.page()).map(|users| self.append_to(pulled, users)).collect();
            stream::iter(pages).buffer_unordered(AHEAD).try_collect::<()>().await?;
            if let Some(body) = &body {
                self.look_again(followers.into_iter().map(|user| (user, Arc::clone(body))).collect()).await?;
            }
        }
        self.metrics.pulled(now().saturating_sub(pulled.at));
        Ok(())
    }

    /// One page of those.
    async fn append_to(&self, pulled: &ledger::Pulled, users: &[UserId]) -> Result<()> {
        let attempt = if pulled.repeated { Attempt::Repeated } else { Attempt::First };
        let page = Pull { mark: pulled.mark, entry: &pulled.entry, users, attempt };
        self.metrics.fanned_out(&self.broker.pull(page).await?);
        Ok(())
    }

    /// Drops entries that are older than any inbox can be.
    async fn forget_old(&self) {
        let kept = self.options.timeline_idle.saturating_add(KEPT_MORE);
        let before = now().saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        match self.ledger.forget_pulled(before, FORGOTTEN).await {
            Ok(0) => {}
            Ok(entries) => tracing::debug!(entries, "dropped old entries of the pulled log"),
            Err(error) => tracing::warn!(%error, "old entries of the pulled log could not be dropped"),
        }
    }
}

/// What entries come to, for an inbox that gets them all at once. Bodies and audiences are as they are by now, whatever
/// they were when an entry was made.
fn news(entries: &[Entry], is_seen: impl Fn(&PostId) -> bool) -> Vec<Entry> {
    let mut told: HashSet<PostId> = HashSet::new();
    let firsts = entries.iter().filter_map(Entry::post).filter(|id| told.insert(*id));
    let mut news = Vec::new();
    let key = |entry: &Entry| entry.post().map(|id| (id, entry.encode().0));
    let all: HashSet<_> = entries.iter().filter_map(key).collect();
    let has = |entry: &Entry| key(entry).is_some_and(|key| all.contains(&key));
    for id in firsts {
        let [deleted, hidden] = [GoneReason::Deleted, GoneReason::Hidden].map(|reason| Entry::Gone(id, reason));
        if has(&deleted) {
            news.push(deleted);
        } else if is_seen(&id) {
            // In this order: an inbox that holds the post takes the first, one that does not the second.
            news.extend([Entry::Edited(id), Entry::Post(id)].into_iter().filter(has));
        } else if has(&hidden) {
            news.push(hidden);
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::parse(name).expect("a user id")
    }

    #[test]
    fn nobody_is_present_who_is_not_up_to_where_the_node_stands() {
        let (pulled, ann) = (Arc::new(Pulled::default()), user("ann"));
        assert!(pulled.begin(7).is_empty());
        assert!(pulled.enter(&ann, 6).is_none() && !pulled.covers(&ann, 6));
        let first = pulled.enter(&ann, 7).expect("up to date");
        assert_eq!(pulled.begin(8), std::slice::from_ref(&ann));
        // Kept up to date on account of the first.
        let second = pulled.enter(&ann, 7).expect("present already");
        drop(first);
        assert!(pulled.covers(&ann, 0));
        drop(second);
        assert!(!pulled.covers(&ann, 7) && pulled.covers(&ann, 8) && pulled.begin(9).is_empty());
    }

    #[test]
    fn entries_that_come_at_once_come_to_what_holds_by_now() {
        let (post, edited) = (|id| Entry::Post(PostId(id)), |id| Entry::Edited(PostId(id)));
        let gone = |id| Entry::Gone(PostId(id), GoneReason::Deleted);
        let hidden = |id| Entry::Gone(PostId(id), GoneReason::Hidden);
        let log = [post(1), post(2), edited(9), edited(1), gone(2), gone(8), hidden(6), post(4), edited(9), hidden(5)];
        let news = news(&[&log[..], &[post(5)]].concat(), |id| ![4, 6].contains(&id.0));
        assert_eq!(news, [edited(1), post(1), gone(2), edited(9), gone(8), hidden(6), post(5)]);
    }
}
