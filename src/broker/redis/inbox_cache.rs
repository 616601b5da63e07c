//! A cache of inboxes that were read recently: only entries that are new since then are read from Redis.
//!
//! The Stream of an inbox grows at its end and is trimmed at its beginning; its entries do not change. So cached
//! entries are valid as long as the epoch, and with it the Stream, is the same: those before the first entry of the
//! Stream are dropped, those after the last cached one are added. This takes one round trip, like reading the whole
//! inbox, and Redis sends only the new entries.

use std::sync::Arc;

use moka::sync::Cache;

use crate::broker::Inbox;
use crate::model::{Entry, Epoch, InboxId, PostId};

/// The capacity in bytes: some 4,000 full inboxes of 1,000 entries.
const CAPACITY: u64 = 64 << 20;

/// Cached inboxes.
pub(super) struct InboxCache(Cache<InboxId, Arc<CachedInbox>>);

impl InboxCache {
    pub(super) fn new() -> Self {
        let weigh = |_: &InboxId, known: &Arc<CachedInbox>| {
            u32::try_from(known.entries.len() * size_of::<PackedEntry>() + 256).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(CAPACITY).weigher(weigh).build())
    }

    pub(super) fn get(&self, inbox_id: &InboxId) -> Option<Arc<CachedInbox>> {
        self.0.get(inbox_id)
    }

    /// Caches an inbox that was just read.
    pub(super) fn put(&self, inbox_id: &InboxId, inbox: &Inbox) {
        match CachedInbox::of(inbox) {
            Some(known) => self.0.insert(inbox_id.clone(), Arc::new(known)),
            None => self.forget(inbox_id),
        }
    }

    pub(super) fn forget(&self, inbox_id: &InboxId) {
        self.0.invalidate(inbox_id);
    }
}

/// The cached entries of one inbox.
pub(super) struct CachedInbox {
    epoch: Epoch,
    top: u64,
    entries: Box<[PackedEntry]>,
}

/// An entry in 16 bytes: its kind is in the highest eight bits of its offset.
#[derive(Clone, Copy)]
struct PackedEntry {
    kind_and_offset: u64,
    post: PostId,
}

const OFFSET_BITS: u32 = 56;

impl PackedEntry {
    fn new(offset: u64, entry: &Entry) -> Option<Self> {
        let kind = u64::from(entry.kind());
        (offset >> OFFSET_BITS == 0).then_some(())?;
        Some(Self { kind_and_offset: kind << OFFSET_BITS | offset, post: entry.post()? })
    }

    fn offset(self) -> u64 {
        self.kind_and_offset & ((1 << OFFSET_BITS) - 1)
    }

    fn entry(self) -> Option<Entry> {
        Entry::of_post(self.kind_and_offset.to_be_bytes()[0], self.post)
    }
}

impl CachedInbox {
    fn of(inbox: &Inbox) -> Option<Self> {
        let entries =
            inbox.entries.iter().map(|(offset, entry)| PackedEntry::new(*offset, entry)).collect::<Option<_>>()?;
        Some(Self { epoch: Arc::clone(&inbox.top.epoch), top: inbox.top.offset, entries })
    }

    /// The last cached offset.
    pub(super) fn top(&self) -> u64 {
        self.top
    }

    /// The whole inbox. `news` are the entries from [`top`](Self::top) on, including that entry; the Stream now begins
    /// at `oldest`. `None` if it is another Stream than the cached one.
    pub(super) fn continued_by(&self, news: Inbox, begins: u64, oldest: u64) -> Option<Inbox> {
        if news.top.epoch != self.epoch || begins != self.top {
            return None;
        }
        let first = self.entries.partition_point(|entry| entry.offset() < oldest);
        let mut entries = Vec::with_capacity(self.entries.len() - first + news.entries.len());
        for packed in &self.entries[first..] {
            entries.push((packed.offset(), packed.entry()?));
        }
        entries.extend(news.entries.into_iter().filter(|(offset, _)| *offset > self.top));
        Some(Inbox { entries, ..news })
    }

    /// Whether an inbox has no entries beyond the cached ones.
    pub(super) fn is_all_of(&self, inbox: &Inbox) -> bool {
        self.top == inbox.top.offset && self.entries.len() == inbox.entries.len()
    }
}
