//! The pull log: posts of authors with too many followers for a write to each of them.
//!
//! Above `fanout.push_limit` followers, a worker writes an entry to the ledger's pull log once, and signals all nodes.
//! Every node reads that log in order, and appends each entry to the inboxes of the followers that are connected *to
//! this node*. All other inboxes catch up when they are opened or read. The cost of a post therefore depends on the
//! connected followers, not on all followers.
//!
//! Each inbox has a *mark*, the number of the last entry that it has. A write that appends entries raises the mark in
//! the same step, and entries at or below the mark are not appended again. Repeats are therefore harmless, and a user
//! may be connected to several nodes. Raising the mark is safe, because everything below it has been delivered, except
//! entries that always fail: a node skips these, and connected followers do not get them.
//!
//! - a node processes entries in order and keeps a list of the [present](crate::feed::timelines::Presence) users. It
//!   admits a user only once the user's inbox has caught up with the node, so no user on it misses an entry;
//! - opening or reading an inbox reads the log from the inbox's mark to the end of the log;
//! - a follow merges the followee's posts itself, after the edge is stored.
//!
//! The log also has entries for users who follow a topic of a post, and for lists. An inbox may have the post because
//! of its author, so each inbox is searched for it.
//!
//! A lost signal delays delivery until the next poll ([`POLL_INTERVAL`]). If a node dies, the inboxes keep their marks
//! and catch up later.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::broker::{Attempt, Pull};
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::runtime::now;
use crate::feed::timelines::{CatchUp, PresentInboxes, PullCursor};
use crate::feed::visibility::{Recipients, list_receives, recipients_by_topic};
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{PULLED, PullLogEntry};
use crate::model::{Entry, GoneReason, InboxId, ListId, OwnedList, Standing};

/// How often the log is read without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The first pause after a failed read; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

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
    base: Arc<Base>,
    catch_up: Arc<CatchUp>,
    cursor: Arc<PullCursor>,
    /// Decides when an entry has failed often enough to be skipped.
    quarantine: Arc<QuarantinePolicy>,
    /// Signals that the log may have grown.
    grown: Notify,
    /// The number of the last entry that this node has read. Kept over a restart of the task.
    done: Mutex<u64>,
}

impl PullLog {
    /// A reader of the pull log of this ledger: see [`start`](Self::start).
    pub(crate) fn new(
        base: Arc<Base>,
        catch_up: Arc<CatchUp>,
        cursor: Arc<PullCursor>,
        quarantine: Arc<QuarantinePolicy>,
    ) -> Self {
        Self { base, catch_up, cursor, quarantine, grown: Notify::new(), done: Mutex::default() }
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
        let top = self.base.ledger.pulled_top().await?;
        self.base.lineage.note_number(PULLED, top).await?;
        self.cursor.begin(top, false);
        *self.done.lock().await = top;
        self.base.runtime.supervise("pull_log", self, |log| async move { log.follow().await });
        Ok(())
    }

    async fn follow(&self) {
        let mut done = self.done.lock().await;
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut cleaned = Instant::now();
        loop {
            let pause = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
            tokio::select! {
                more = self.base.runtime.sleep(pause) => if !more { return },
                () = self.grown.notified() => {}
            }
            while let Err(error) = self.catch_up_with_log(&mut done).await {
                tracing::warn!(%error, "pulled posts wait for a store");
                if !self.base.runtime.sleep(backoff.next_delay()).await {
                    return;
                }
            }
            backoff.reset();
            if cleaned.elapsed() > CLEANUP_INTERVAL {
                cleaned = Instant::now();
                self.drop_old().await;
            }
        }
    }

    /// Appends all entries that this node has not read yet. Skips an entry that always fails.
    async fn catch_up_with_log(&self, done: &mut u64) -> Result<()> {
        loop {
            let entries = self.base.ledger.pulled_after(*done, MAX_ENTRIES).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for pulled in entries {
                let (appended, cause) = isolate(self.append_here(&pulled)).await;
                match appended {
                    Ok(()) => self.quarantine.succeeded(pulled.mark),
                    Err(error) => {
                        let Some(fault) = self.quarantine.failed(pulled.mark, &error, cause).await else {
                            return Err(error);
                        };
                        let mark = pulled.mark;
                        let reason = fault.reason;
                        tracing::error!(mark, reason, "an entry of the pull log always fails; this node skips it");
                    }
                }
                *done = pulled.mark;
            }
        }
    }

    /// Appends an entry to the inboxes of connected followers. A repeat changes nothing.
    async fn append_here(&self, pulled: &PullLogEntry) -> Result<()> {
        self.base.lineage.note_number(PULLED, pulled.mark).await?;
        let PresentInboxes { users, lists } = self.cursor.begin(pulled.mark, pulled.topics.is_some());
        let Some(post) = pulled.entry.post() else { return Ok(()) };
        let cached = match pulled.entry {
            Entry::Post(id) => match self.base.posts.get([id]).await?.remove(&id) {
                Some(cached) => Some(cached),
                // The post was deleted: the deletion has an entry of its own.
                None => return Ok(()),
            },
            _ => None,
        };
        let is_hidden_repost = self.is_hidden_repost(&pulled.entry).await?;
        for asked in users.chunks(MAX_USERS_PER_CALL) {
            let author = &pulled.author;
            let followers = if let Some(topics) = &pulled.topics {
                let followers = self.base.ledger.topic_followers_among(topics, asked).await?;
                recipients_by_topic(&self.base.visibility, &pulled.entry, author, followers).await?
            } else {
                let followers = self.base.ledger.followers_among(author, asked).await?;
                let recipients =
                    if is_hidden_repost { Recipients::LosersOfRepost } else { Recipients::of(&pulled.entry) };
                recipients.select(&self.base.visibility, post, author, followers).await?
            };
            let inboxes: Vec<InboxId> = followers.iter().cloned().map(InboxId::Timeline).collect();
            self.append_to_all(pulled, &inboxes).await?;
            if let Some(cached) = &cached {
                self.catch_up.recheck(followers.into_iter().map(|user| (user, Arc::clone(cached))).collect()).await?;
            }
        }
        if let Some(topics) = &pulled.topics {
            self.append_to_lists(pulled, topics, lists).await?;
        }
        self.base.metrics.fanout.pulled(now().saturating_sub(pulled.at));
        Ok(())
    }

    /// Appends an entry to those of these lists that have its author, or one of its topics.
    async fn append_to_lists(
        &self,
        pulled: &PullLogEntry,
        topics: &[String],
        lists: Vec<Arc<OwnedList>>,
    ) -> Result<()> {
        for asked in lists.chunks(MAX_USERS_PER_CALL) {
            let ids: Vec<ListId> = asked.iter().map(|list| list.id).collect();
            let concerned = self.base.ledger.lists_among(&ids, &pulled.author, topics).await?;
            let mut recipients = Vec::new();
            let mut others = Vec::new();
            for list in asked.iter().filter(|list| concerned.contains(&list.id)) {
                let receives = list_receives(&self.base.visibility, &pulled.entry, &list.owner).await?;
                if receives { recipients.push(list) } else { others.push(list) }
            }
            let inboxes: Vec<InboxId> = recipients.iter().map(|list| InboxId::List(list.id)).collect();
            self.append_to_all(pulled, &inboxes).await?;
            let (post, rechecked) = match pulled.entry {
                Entry::Post(post) => (post, recipients),
                // Their owners see the post, but an edit may have removed the topic that the list has.
                Entry::Gone(post, GoneReason::Hidden) => (post, others),
                _ => continue,
            };
            for list in rechecked {
                self.catch_up.recheck_list(list, vec![post]).await?;
            }
        }
        Ok(())
    }

    async fn append_to_all(&self, pulled: &PullLogEntry, inboxes: &[InboxId]) -> Result<()> {
        let pages = inboxes.chunks(self.base.options.fanout.page).map(|some| self.append_to(pulled, some));
        let pages: Vec<_> = pages.collect();
        stream::iter(pages).buffer_unordered(MAX_CONCURRENT_PAGES).try_collect::<()>().await
    }

    /// Whether an entry is about a repost alone, and not about an author who was suspended.
    async fn is_hidden_repost(&self, entry: &Entry) -> Result<bool> {
        let Entry::AuthorGone(id) = entry else { return Ok(false) };
        let Some(cached) = self.base.posts.get([*id]).await?.remove(id) else { return Ok(false) };
        let standing = self.base.relations.standing(&cached.post.author).await?;
        Ok(cached.post.repost.is_some() && standing != Standing::Suspended)
    }

    /// Appends to one page of inboxes.
    async fn append_to(&self, pulled: &PullLogEntry, inboxes: &[InboxId]) -> Result<()> {
        let attempt = if pulled.repeated { Attempt::Repeated } else { Attempt::First };
        let page = Pull { mark: pulled.mark, entry: &pulled.entry, inboxes, attempt };
        self.base.metrics.fanout.fanned_out(&self.base.broker.pull(page).await?);
        Ok(())
    }

    /// Drops entries that are older than any inbox can be.
    async fn drop_old(&self) {
        let kept = self.base.options.timeline.idle().saturating_add(EXTRA_RETENTION);
        let before = now().saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        match self.base.ledger.forget_pulled(before, MAX_DROPPED).await {
            Ok(0) => {}
            Ok(entries) => tracing::debug!(entries, "dropped old entries of the pulled log"),
            Err(error) => tracing::warn!(%error, "old entries of the pulled log could not be dropped"),
        }
    }
}
