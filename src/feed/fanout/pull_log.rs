//! The pull log: posts of authors with too many followers for a write to each of them.
//!
//! Above `fanout.push_limit` followers, a worker writes an entry to the ledger's pull log once, and signals all nodes.
//! Every node reads that log in order, and appends each entry to the inboxes of the followers that are connected *to
//! this node*. All other inboxes catch up when they are opened or read. The cost of a post therefore depends on the
//! connected followers, not on all followers.
//!
//! Each inbox has a *mark*, the number of the last entry that it has. A write that appends entries raises the mark in
//! the same step, and entries at or below the mark are not appended again. Repeats are therefore harmless, and a user
//! may be connected to several nodes. Raising the mark is safe, because everything below it has been delivered:
//!
//! - a node processes entries in order and keeps a list of the [present](crate::feed::timelines::Presence) users. It
//!   admits a user only once the user's inbox has caught up with the node, so no user on it misses an entry;
//! - opening or reading an inbox reads the log from the inbox's mark to the end of the log;
//! - a follow merges the followee's posts itself, after the edge is stored.
//!
//! A lost signal delays delivery until the next poll ([`POLL_INTERVAL`]). If a node dies, the inboxes keep their marks
//! and catch up later.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::broker::{Attempt, Broker, Pull};
use crate::feed::content::PostCache;
use crate::feed::error::{Result, isolate};
use crate::feed::lineage::LineageTracker;
use crate::feed::runtime::{Runtime, now};
use crate::feed::timelines::{CatchUp, PullCursor};
use crate::feed::visibility::{Recipients, VisibilityPolicy};
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{Ledger, PULLED, PullLogEntry};
use crate::metrics::Metrics;
use crate::model::{Entry, UserId};

/// How often the log is read without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The maximal number of entries of one ledger call.
const MAX_ENTRIES: usize = 100;

/// The maximal number of connected users in one ledger call that selects the followers of an author.
const MAX_USERS_PER_CALL: usize = 5_000;

/// The maximal number of pages that are written concurrently.
const MAX_CONCURRENT_PAGES: usize = 3;

/// The interval between removals of old entries, the entries removed at once, and how much longer entries are kept than
/// inboxes.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);
const MAX_DROPPED: usize = 1_000;
const EXTRA_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Appends the entries of the pull log to the inboxes of connected users.
pub(crate) struct PullLog {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    posts: Arc<PostCache>,
    visibility: Arc<VisibilityPolicy>,
    catch_up: Arc<CatchUp>,
    cursor: Arc<PullCursor>,
    lineage: Arc<LineageTracker>,
    /// Decides when an entry has failed often enough to be skipped.
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
    /// How long an inbox is kept while its owner is away.
    inbox_ttl: Duration,
    /// Inboxes of a page (`fanout.page`).
    page_size: usize,
    /// Signals that the log may have grown.
    grown: Notify,
}

impl PullLog {
    /// A reader of the pull log of this ledger: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        posts: Arc<PostCache>,
        visibility: Arc<VisibilityPolicy>,
        catch_up: Arc<CatchUp>,
        cursor: Arc<PullCursor>,
        lineage: Arc<LineageTracker>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
        inbox_ttl: Duration,
        page_size: usize,
    ) -> Self {
        let grown = Notify::new();
        Self {
            ledger,
            broker,
            runtime,
            posts,
            visibility,
            catch_up,
            cursor,
            lineage,
            quarantine,
            metrics,
            inbox_ttl,
            page_size,
            grown,
        }
    }

    /// Wakes the reader: the log may have grown.
    pub(crate) fn on_signal(&self) {
        self.grown.notify_one();
    }

    /// Follows the log from its current end until the process stops.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let mut done = self.ledger.pulled_top().await?;
        self.lineage.note_number(PULLED, done).await?;
        self.cursor.begin(done);
        let log = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut cleaned = Instant::now();
            let mut pause = POLL_INTERVAL;
            let mut failures = 0;
            loop {
                tokio::select! {
                    more = log.runtime.sleep(pause.mul_f64(rand::random_range(0.8..1.2))) => if !more { return },
                    () = log.grown.notified() => {}
                }
                pause = POLL_INTERVAL;
                if let Err(error) = log.follow_log(&mut done, &mut failures).await {
                    tracing::warn!(%error, "pulled posts wait for a store");
                    pause = Duration::from_millis(200);
                    if !log.runtime.sleep(pause).await {
                        return;
                    }
                }
                if cleaned.elapsed() > CLEANUP_INTERVAL {
                    cleaned = Instant::now();
                    log.drop_old().await;
                }
            }
        });
        Ok(())
    }

    /// Appends all entries after `done`, and advances `done` to the last one. Skips an entry that always fails:
    /// `failures` counts the consecutive failures of the next entry.
    async fn follow_log(&self, done: &mut u64, failures: &mut u32) -> Result<()> {
        loop {
            let entries = self.ledger.pulled_after(*done, MAX_ENTRIES).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for pulled in entries {
                let (appended, cause) = isolate(self.append_here(&pulled)).await;
                match appended {
                    Ok(()) => self.quarantine.succeeded(),
                    Err(error) => {
                        *failures = if error.is_outage() { 0 } else { *failures + 1 };
                        if !self.quarantine.admits(*failures, &error).await {
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

    /// Appends an entry to the inboxes of connected followers. A repeat changes nothing.
    async fn append_here(&self, pulled: &PullLogEntry) -> Result<()> {
        self.lineage.note_number(PULLED, pulled.mark).await?;
        let present = self.cursor.begin(pulled.mark);
        let Some(post) = pulled.entry.post() else { return Ok(()) };
        let cached = match pulled.entry {
            Entry::Post(id) => match self.posts.get([id]).await?.remove(&id) {
                Some(cached) => Some(cached),
                // The post was deleted: the deletion has an entry of its own.
                None => return Ok(()),
            },
            _ => None,
        };
        for asked in present.chunks(MAX_USERS_PER_CALL) {
            let followers = self.ledger.followers_among(&pulled.author, asked).await?;
            let (author, recipients) = (&pulled.author, Recipients::of(&pulled.entry));
            let followers = self.visibility.select_recipients(post, author, recipients, followers).await?;
            let pages: Vec<_> = followers.chunks(self.page_size).map(|users| self.append_to(pulled, users)).collect();
            stream::iter(pages).buffer_unordered(MAX_CONCURRENT_PAGES).try_collect::<()>().await?;
            if let Some(cached) = &cached {
                self.catch_up.recheck(followers.into_iter().map(|user| (user, Arc::clone(cached))).collect()).await?;
            }
        }
        self.metrics.fanout.pulled(now().saturating_sub(pulled.at));
        Ok(())
    }

    /// Appends to one page of inboxes.
    async fn append_to(&self, pulled: &PullLogEntry, users: &[UserId]) -> Result<()> {
        let attempt = if pulled.repeated { Attempt::Repeated } else { Attempt::First };
        let page = Pull { mark: pulled.mark, entry: &pulled.entry, users, attempt };
        self.metrics.fanout.fanned_out(&self.broker.pull(page).await?);
        Ok(())
    }

    /// Drops entries that are older than any inbox can be.
    async fn drop_old(&self) {
        let kept = self.inbox_ttl.saturating_add(EXTRA_RETENTION);
        let before = now().saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        match self.ledger.forget_pulled(before, MAX_DROPPED).await {
            Ok(0) => {}
            Ok(entries) => tracing::debug!(entries, "dropped old entries of the pulled log"),
            Err(error) => tracing::warn!(%error, "old entries of the pulled log could not be dropped"),
        }
    }
}
