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

use super::audience::Surface;
use super::{Feed, FeedError, Result, now};
use crate::broker::{Attempt, Pull};
use crate::ledger;
use crate::model::{Entry, GoneReason, Position, PostId, UserId};

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

    /// Brings an inbox from a mark to the end of the log. `None` if it is another one by now.
    pub(super) async fn catch_up(
        &self,
        user: &UserId,
        epoch: &crate::model::Epoch,
        mut mark: u64,
    ) -> Result<Option<(Position, u64)>> {
        loop {
            let due = self.ledger.pulled_for(user, mark, DUE).await?;
            let arriving = self.arriving(user, &due.entries).await?;
            let entries = news(&due.entries, |id| arriving.contains_key(id));
            let brought = self.broker.catch_up_inbox(user, epoch, &entries, due.mark).await?;
            let Some((position, written)) = brought else { return Ok(None) };
            self.metrics.caught_up(written);
            // Whoever unfollowed meanwhile may have had their inbox cleared before the posts came in.
            let authors: HashSet<&UserId> = arriving.values().collect();
            let authors: Vec<UserId> = authors.into_iter().cloned().collect();
            let followed: HashSet<UserId> = self.followed(user, &authors).await?;
            for author in authors.iter().filter(|author| !followed.contains(*author)) {
                let theirs: Vec<PostId> = arriving.iter().filter(|(_, of)| *of == author).map(|(id, _)| *id).collect();
                self.take_back(user, author, &theirs).await?;
            }
            mark = due.mark;
            if !due.more {
                return Ok(Some((position, mark)));
            }
        }
    }

    /// The posts among entries that exist and that the reader may see, with their authors.
    async fn arriving(&self, reader: &UserId, entries: &[Entry]) -> Result<HashMap<PostId, UserId>> {
        let posts: Vec<PostId> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Post(id) => Some(*id),
                _ => None,
            })
            .collect();
        if posts.is_empty() {
            return Ok(HashMap::new());
        }
        let bodies = self.seen_by(Some(reader), Surface::Brought, posts).await?;
        Ok(bodies.into_iter().map(|(id, body)| (id, body.post.author.clone())).collect())
    }

    async fn followed(&self, reader: &UserId, authors: &[UserId]) -> Result<HashSet<UserId>> {
        if authors.is_empty() {
            return Ok(HashSet::new());
        }
        Ok(self.ledger.followed_among(reader, authors).await?.into_iter().collect())
    }

    /// Takes posts out that came in while their reader ceased to follow. If the reader follows again by now, they are
    /// brought in again.
    async fn take_back(&self, reader: &UserId, author: &UserId, posts: &[PostId]) -> Result<()> {
        self.broker.purge_inbox(reader, posts, GoneReason::Unfollowed).await?;
        if self.followed(reader, std::slice::from_ref(author)).await?.is_empty() {
            Ok(())
        } else {
            self.bring_in(reader, author).await
        }
    }

    /// Takes the log as it is by now for known, and follows it until the feed stops.
    pub(super) async fn start_pulling(self: &Arc<Self>) -> Result<()> {
        let mut done = self.ledger.pulled_top().await?;
        self.pulled.begin(done);
        let feed = Arc::clone(self);
        self.fanout.tasks().spawn(async move {
            let mut forgot = Instant::now();
            let mut pause = EVERY;
            loop {
                tokio::select! {
                    more = feed.fanout.sleep(pause.mul_f64(rand::random_range(0.8..1.2))) => if !more { return },
                    () = feed.pulled.grown.notified() => {}
                }
                pause = EVERY;
                if let Err(error) = feed.follow_log(&mut done).await {
                    tracing::warn!(%error, "pulled posts wait for a store");
                    pause = Duration::from_millis(200);
                    if !feed.fanout.sleep(pause).await {
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

    /// Takes all entries after `done`, which is how far it got.
    async fn follow_log(&self, done: &mut u64) -> Result<()> {
        loop {
            let entries = self.ledger.pulled_after(*done, ENTRIES).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for pulled in entries {
                self.append_here(&pulled).await?;
                *done = pulled.mark;
            }
        }
    }

    /// Appends an entry to the inboxes of those followers who are here. Done again, it changes nothing.
    async fn append_here(&self, pulled: &ledger::Pulled) -> Result<()> {
        let here = self.pulled.begin(pulled.mark);
        let post = match pulled.entry {
            Entry::Post(id) => Some(id),
            _ => None,
        };
        if let Some(id) = post
            && self.bodies.get([id]).await?.is_empty()
        {
            return Ok(());
        }
        for asked in here.chunks(ASKED) {
            let followers = self.ledger.followers_among(&pulled.author, asked).await?;
            let pages: Vec<_> =
                followers.chunks(self.fanout.page()).map(|users| self.append_to(pulled, users)).collect();
            stream::iter(pages).buffer_unordered(AHEAD).try_collect::<()>().await?;
            let (Some(id), false) = (post, followers.is_empty()) else { continue };
            // Whoever unfollowed meanwhile may have had their inbox cleared before the post came in.
            let still = self.ledger.followers_among(&pulled.author, &followers).await?;
            let still: HashSet<UserId> = still.into_iter().collect();
            for user in followers.iter().filter(|user| !still.contains(*user)) {
                self.take_back(user, &pulled.author, &[id]).await?;
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

/// What entries come to, for an inbox that gets them all at once: one for each post. A post that is not to arrive does not,
/// but one that went still goes where it arrived before.
fn news(entries: &[Entry], arrives: impl Fn(&PostId) -> bool) -> Vec<Entry> {
    let mut last: HashMap<PostId, Entry> = HashMap::new();
    for entry in entries {
        let Some(id) = entry.post() else { continue };
        match (last.get(&id), entry) {
            // Bodies are put in later: a post that changed arrives as it is by now.
            (Some(Entry::Post(_)), Entry::Edited(_)) | (Some(Entry::Gone(..)), _) => {}
            _ => _ = last.insert(id, entry.clone()),
        }
    }
    let mut order: HashSet<PostId> = HashSet::new();
    let firsts = entries.iter().filter_map(Entry::post).filter(|id| order.insert(*id));
    firsts
        .filter_map(|id| last.get(&id))
        .filter(|entry| !matches!(entry, Entry::Post(id) if !arrives(id)))
        .cloned()
        .collect()
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
    fn entries_that_come_at_once_come_to_one_for_each_post() {
        let (post, edited) = (|id| Entry::Post(PostId(id)), |id| Entry::Edited(PostId(id)));
        let gone = |id| Entry::Gone(PostId(id), GoneReason::Deleted);
        let log = [post(1), post(2), edited(9), edited(1), gone(2), gone(8), post(3), post(4), edited(9)];
        let news = news(&log, |id| id.0 != 4);
        assert_eq!(news, [post(1), gone(2), edited(9), gone(8), post(3)]);
    }
}
