//! Inboxes and fan-out in memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::inbox;
use super::log::later;
use super::store::MemoryBroker;
use crate::broker::{
    Attempt, BrokerError, FanOut, FannedOut, Inbox, InboxState, InboxStore, JobAttempt, JobProgress, Pull, Receipt,
    Result, Span,
};
use crate::model::{ChannelKind, Entry, Epoch, GoneReason, InboxId, Millis, Position, PositionRef, PostId, UserId};

/// The operation that adds an entry to an inbox.
#[derive(Clone, Copy)]
enum EntrySource {
    /// A page of a fan-out. Fills and merges since this time may have added the post.
    FannedOut { since: Millis },
    /// The pull log.
    Pulled { mark: u64, attempt: Attempt },
}

impl MemoryBroker {
    /// Writes an entry to an inbox if it changes the inbox, and notifies the listener. `length`: the number of entries
    /// that the inbox keeps.
    fn fan(&self, channel: &str, length: u64, entry: &Entry, how: EntrySource, now: Instant) -> Receipt {
        let Some(found) = self.find(channel) else { return Receipt::Absent };
        let mut state = found.state.lock();
        let subscription = state.subscription;
        let Some(inbox) = state.inbox(now) else { return Receipt::Absent };
        let written = match how {
            EntrySource::FannedOut { since } => inbox.fan(entry, Some(since)),
            EntrySource::Pulled { mark, .. } if !inbox.raise_mark(mark) => None,
            EntrySource::Pulled { attempt: Attempt::First, .. } => inbox.fan(entry, None),
            EntrySource::Pulled { attempt: Attempt::Repeated, .. } => {
                if let Entry::Post(id) = entry {
                    inbox.raise_fence(*id);
                    inbox.note_arrival();
                }
                inbox.offer(entry)
            }
        };
        let Some(offset) = written else { return Receipt::Unchanged };
        inbox.trim_in_passing(length);
        let position = PositionRef { offset, epoch: inbox.epoch() };
        Receipt::Written(self.notify(subscription, channel, Some(position), entry))
    }

    /// Writes to an inbox those entries that change it, atomically, and notifies the listener.
    fn amend(&self, id: &InboxId, entries: impl ExactSizeIterator<Item = Entry>, floor: PostId) -> u64 {
        if entries.len() == 0 && floor == PostId::ZERO {
            return 0;
        }
        let channel = id.to_string();
        let Some(found) = self.find(&channel) else { return 0 };
        let mut state = found.state.lock();
        let Some(inbox) = state.inbox(Instant::now()) else { return 0 };
        inbox.raise_floor(floor);
        let written = Self::offer_all(inbox, entries);
        inbox.trim_overgrown(self.options.length_of(id));
        for (position, entry) in &written {
            self.notify(state.subscription, &channel, Some(position.borrowed()), entry);
        }
        written.len() as u64
    }

    /// Writes those entries that change an inbox. Returns them with their positions.
    fn offer_all(inbox: &mut inbox::MemoryInbox, entries: impl Iterator<Item = Entry>) -> Vec<(Position, Entry)> {
        let written: Vec<_> =
            entries.filter_map(|entry| inbox.offer(&entry).map(|_| (inbox.position(), entry))).collect();
        for (_, entry) in &written {
            if let Entry::Post(id) = entry {
                inbox.raise_fence(*id);
                inbox.note_arrival();
            }
        }
        written
    }

    /// Runs `work` on a filled inbox, if it exists.
    fn with_inbox<T>(&self, id: &InboxId, work: impl FnOnce(&mut inbox::MemoryInbox) -> T) -> Option<T> {
        let found = self.find(&id.to_string())?;
        let mut state = found.state.lock();
        state.filled_inbox(Instant::now()).map(work)
    }
}

#[async_trait]
impl InboxStore for MemoryBroker {
    async fn open_inbox(&self, id: &InboxId) -> Result<InboxState> {
        let found = self.find_or_create(&id.to_string());
        let now = Instant::now();
        let mut state = found.state.lock();
        let inbox = state.inbox_or_create(now, later(now, self.options.idle));
        Ok(if inbox.is_filled() {
            InboxState::Ready(inbox.position(), inbox.mark())
        } else {
            InboxState::Unfilled(inbox.epoch().clone())
        })
    }

    async fn fill_inbox(
        &self,
        id: &InboxId,
        epoch: &Epoch,
        posts: &[PostId],
        floor: PostId,
        mark: u64,
    ) -> Result<Option<Position>> {
        let Some(found) = self.find(&id.to_string()) else { return Ok(None) };
        let mut state = found.state.lock();
        let Some(inbox) = state.inbox(Instant::now()).filter(|inbox| inbox.epoch() == epoch) else { return Ok(None) };
        if !inbox.is_filled() {
            inbox.fill(posts, floor, self.options.length_of(id));
            inbox.raise_mark(mark);
        }
        Ok(Some(inbox.position()))
    }

    async fn merge_inbox(&self, inbox: &InboxId, posts: &[PostId], floor: PostId) -> Result<u64> {
        Ok(self.amend(inbox, posts.iter().map(|id| Entry::Post(*id)), floor))
    }

    async fn add_own_post(&self, author: &UserId, post: PostId) -> Result<u64> {
        self.merge_inbox(&InboxId::Timeline(author.clone()), &[post], PostId::ZERO).await
    }

    async fn purge_inbox(&self, inbox: &InboxId, posts: &[PostId], reason: GoneReason) -> Result<u64> {
        Ok(self.amend(inbox, posts.iter().map(|id| Entry::Gone(*id, reason)), PostId::ZERO))
    }

    async fn read_inbox(&self, inbox: &InboxId) -> Result<Option<Inbox>> {
        let all = Span::After(0, usize::MAX);
        Ok(self.with_inbox(inbox, |it| Inbox {
            top: it.position(),
            floor: it.floor(),
            mark: it.mark(),
            entries: it.entries(all),
        }))
    }

    async fn fan_out(&self, page: FanOut<'_>) -> Result<FannedOut> {
        if page.entry.post().is_none() {
            return Err(BrokerError::Failed("an inbox holds posts only".to_owned()));
        }
        if *self.incarnation.lock() != *page.attempt.run {
            return Ok(FannedOut::Fenced);
        }
        let job = self.jobs.get(page.attempt);
        let mut job = job.lock();
        if !job.note(&page) {
            return Ok(FannedOut::Fenced);
        }
        let mut channel = String::new();
        let now = Instant::now();
        let receipts = page.users.iter().map(|user| {
            channel.clear();
            channel.push_str(ChannelKind::Timeline.prefix());
            channel.push_str(user.as_str());
            self.fan(&channel, self.options.length, page.entry, EntrySource::FannedOut { since: page.since() }, now)
        });
        Ok(FannedOut::Written(receipts.collect()))
    }

    fn run(&self) -> Result<Arc<str>> {
        // The run of the engine is the lifetime of the process.
        Ok(self.incarnation.lock().as_str().into())
    }

    async fn begin_attempt(&self, attempt: &JobAttempt) -> Result<Option<JobProgress>> {
        Ok(self.jobs.begin(attempt))
    }

    async fn retire_job(&self, attempt: &JobAttempt) -> Result<()> {
        self.jobs.retire(attempt);
        Ok(())
    }

    async fn pull(&self, pull: Pull<'_>) -> Result<Vec<Receipt>> {
        if pull.entry.post().is_none() {
            return Err(BrokerError::Failed("an inbox holds posts only".to_owned()));
        }
        let how = EntrySource::Pulled { mark: pull.mark, attempt: pull.attempt };
        let now = Instant::now();
        let write = |inbox: &InboxId| self.fan(&inbox.to_string(), self.options.length_of(inbox), pull.entry, how, now);
        Ok(pull.inboxes.iter().map(write).collect())
    }

    async fn catch_up_inbox(
        &self,
        id: &InboxId,
        epoch: &Epoch,
        entries: &[Entry],
        mark: u64,
    ) -> Result<Option<(Position, u64)>> {
        let channel = id.to_string();
        let Some(found) = self.find(&channel) else { return Ok(None) };
        let mut state = found.state.lock();
        let inbox = state.filled_inbox(Instant::now()).filter(|inbox| inbox.epoch() == epoch);
        let Some(inbox) = inbox else { return Ok(None) };
        let news = if inbox.raise_mark(mark) { entries } else { &[] };
        let written = Self::offer_all(inbox, news.iter().cloned());
        if !news.is_empty() {
            inbox.trim_overgrown(self.options.length_of(id));
        }
        let position = inbox.position();
        for (position, entry) in &written {
            self.notify(state.subscription, &channel, Some(position.borrowed()), entry);
        }
        Ok(Some((position, written.len() as u64)))
    }
}
