//! An inbox: the log of one user's timeline.

use std::collections::{HashSet, VecDeque};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::log::cut;
use crate::broker::Span;
use crate::broker::epoch::new_epoch;
use crate::broker::inboxes::SLACK;
use crate::model::{Entry, Epoch, GoneReason, Millis, Position, PostId};

/// An entry in eight bytes: an inbox of a thousand entries takes 8 KiB. The id is in the low 53 bits, its kind above.
#[derive(Clone, Copy)]
struct CompactEntry(u64);

const ID_BITS: u32 = 53;

impl CompactEntry {
    fn pack(entry: &Entry) -> Option<Self> {
        let kind = match entry {
            Entry::Post(_) => 0,
            Entry::Edited(_) => 1,
            Entry::Gone(_, GoneReason::Deleted) => 2,
            Entry::Gone(_, GoneReason::Unfollowed) => 3,
            Entry::Gone(_, GoneReason::Hidden) => 4,
            Entry::AuthorGone(_) => 5,
            Entry::Gone(_, GoneReason::Filtered) => 6,
            Entry::Gone(_, GoneReason::Unlisted) => 7,
            Entry::Data(_)
            | Entry::NotificationChanged(_)
            | Entry::Comment(_)
            | Entry::Restricted(..)
            | Entry::PostRemoved(_) => return None,
        };
        entry.post().map(|id| Self(kind << ID_BITS | id.0))
    }

    fn post(self) -> PostId {
        PostId(self.0 & PostId::MAX.0)
    }

    fn unpack(self) -> Entry {
        let id = self.post();
        match self.0 >> ID_BITS {
            0 => Entry::Post(id),
            1 => Entry::Edited(id),
            2 => Entry::Gone(id, GoneReason::Deleted),
            3 => Entry::Gone(id, GoneReason::Unfollowed),
            4 => Entry::Gone(id, GoneReason::Hidden),
            6 => Entry::Gone(id, GoneReason::Filtered),
            7 => Entry::Gone(id, GoneReason::Unlisted),
            _ => Entry::AuthorGone(id),
        }
    }
}

/// One life of an inbox.
pub(super) struct MemoryInbox {
    epoch: Epoch,
    /// The offset of the last entry ever written; 0 before the first.
    top: u64,
    /// The newest entries; the last of them is at `top`.
    words: VecDeque<CompactEntry>,
    /// `words` has an entry for every post with a larger id that was ever added.
    floor: PostId,
    /// Posts with a larger id were added by fan-out only, so they need not be searched for. The maximum value marks an
    /// unfilled inbox.
    fence: PostId,
    /// The mark of the pull log up to which the inbox has caught up.
    mark: u64,
    /// The last time that an operation other than a fan-out added posts, in Unix milliseconds.
    arrival: Millis,
    /// When the inbox expires.
    until: Instant,
}

impl MemoryInbox {
    /// An unfilled inbox under a new epoch.
    pub(super) fn new(until: Instant) -> Self {
        let floor = PostId::ZERO;
        let fence = PostId::MAX;
        Self { epoch: new_epoch(), top: 0, words: VecDeque::new(), floor, fence, mark: 0, arrival: 0, until }
    }

    /// Whether the inbox has not expired.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Extends the life of the inbox: its owner is active.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.until = until;
    }

    /// Whether the past posts have been added.
    pub(super) fn is_filled(&self) -> bool {
        self.fence != PostId::MAX
    }

    /// The epoch of the inbox.
    pub(super) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The inbox is complete for posts with larger ids.
    pub(super) fn floor(&self) -> PostId {
        self.floor
    }

    /// The mark of the pull log up to which the inbox has caught up.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    /// Raises the mark. `false` if the inbox has already caught up to it.
    pub(super) fn raise_mark(&mut self, mark: u64) -> bool {
        let below = self.mark < mark;
        self.mark = self.mark.max(mark);
        below
    }

    /// The last position.
    pub(super) fn position(&self) -> Position {
        Position { offset: self.top, epoch: self.epoch.clone() }
    }

    /// A part of the inbox.
    pub(super) fn entries(&self, span: Span) -> Vec<(u64, Entry)> {
        cut(&self.words, self.top, span, |word| word.unpack())
    }

    /// The newest entry on a post. Edits do not count: they are written without a search, so they do not show that the
    /// inbox contains the post.
    fn last_word(&self, id: PostId) -> Option<Entry> {
        let mut entries = self.words.iter().rev().filter(|word| word.post() == id).map(|word| word.unpack());
        entries.find(|entry| !matches!(entry, Entry::Edited(_) | Entry::AuthorGone(_)))
    }

    /// Whether the entry changes the state of the inbox.
    fn takes(&self, entry: &Entry) -> bool {
        let Some(id) = entry.post() else { return false };
        if matches!(entry, Entry::AuthorGone(_)) {
            return self.is_filled();
        }
        let is_post = matches!(entry, Entry::Post(_));
        if id <= self.floor {
            return false;
        }
        match self.last_word(id) {
            Some(Entry::Post(_)) => !is_post,
            Some(Entry::Gone(_, GoneReason::Deleted)) => false,
            Some(_) => is_post,
            // The past posts of an unfilled inbox could add the post again after its removal.
            None => is_post || (matches!(entry, Entry::Gone(..)) && !self.is_filled()),
        }
    }

    /// Writes the entry if it changes the state of the inbox. Returns its offset.
    pub(super) fn offer(&mut self, entry: &Entry) -> Option<u64> {
        self.takes(entry).then(|| self.push(entry)).flatten()
    }

    /// The same for an entry of a fan-out: above the fence only the page itself can have added the post, and edits and
    /// removals are written without a search. Before `since`, no other operation can have added the post either.
    pub(super) fn fan(&mut self, entry: &Entry, since: Option<Millis>) -> Option<u64> {
        match entry {
            Entry::Post(id) if *id > self.fence => self.push(entry),
            Entry::Post(id)
                if self.is_filled() && *id > self.floor && since.is_some_and(|since| self.arrival < since) =>
            {
                self.push(entry)
            }
            Entry::Edited(_) | Entry::AuthorGone(_) if !self.is_filled() => None,
            Entry::Edited(_) | Entry::AuthorGone(_) | Entry::Gone(..) => self.push(entry),
            _ => self.offer(entry),
        }
    }

    fn push(&mut self, entry: &Entry) -> Option<u64> {
        self.words.push_back(CompactEntry::pack(entry)?);
        self.top += 1;
        Some(self.top)
    }

    /// Records that an operation other than a fan-out adds posts.
    pub(super) fn note_arrival(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.arrival = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    }

    /// Records that posts up to `id` may have been added by other operations than fan-outs.
    pub(super) fn raise_fence(&mut self, id: PostId) {
        self.fence = self.fence.max(id);
    }

    /// Records that posts up to `id` may be missing: they are read from the ledger.
    pub(super) fn raise_floor(&mut self, id: PostId) {
        self.floor = self.floor.max(id);
        self.fence = self.fence.max(self.floor);
    }

    /// Trims the inbox at certain offsets. Called after each entry.
    pub(super) fn trim_in_passing(&mut self, length: u64) {
        if self.top.is_multiple_of(SLACK) {
            self.trim(length);
        }
    }

    /// Trims the inbox if it has grown too long. Called after many entries.
    pub(super) fn trim_overgrown(&mut self, length: u64) {
        if self.words.len() as u64 >= length + SLACK {
            self.trim(length);
        }
    }

    /// Adds the past posts, below the entries that have arrived since the inbox was opened.
    pub(super) fn fill(&mut self, posts: &[PostId], floor: PostId, length: u64) {
        let present = std::mem::take(&mut self.words);
        let listed: HashSet<PostId> = present.iter().map(|word| word.post()).collect();
        let past = posts.iter().filter(|id| !listed.contains(id)).map(|id| CompactEntry(id.0));
        self.words = past.chain(present.iter().copied()).collect();
        // Offsets continue: an offset that clients have received must not name another entry.
        self.top += self.words.len() as u64;
        self.note_arrival();
        self.floor = self.floor.max(floor);
        self.fence = self.words.iter().map(|word| word.post()).max().unwrap_or(PostId::ZERO).max(self.floor);
        self.trim_overgrown(length);
    }

    fn trim(&mut self, length: u64) {
        while self.words.len() as u64 > length {
            if let Some(Entry::Post(id)) = self.words.pop_front().map(CompactEntry::unpack) {
                self.floor = self.floor.max(id);
            }
        }
        self.fence = self.fence.max(self.floor);
    }
}
