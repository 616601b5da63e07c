//! An inbox: the log of one user's timeline.

use std::collections::{HashSet, VecDeque};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::log::cut;
use crate::broker::Span;
use crate::broker::epoch::new_epoch;
use crate::broker::inboxes::SLACK;
use crate::model::{Entry, Epoch, GoneReason, Millis, Position, PostId};

/// An entry in eight bytes: an inbox of a thousand takes 8 KiB. The id is in the low 53 bits, its kind above.
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
            Entry::Data(_) | Entry::Notified(_) | Entry::By(..) | Entry::Left(_) => return None,
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
            _ => Entry::Gone(id, GoneReason::Hidden),
        }
    }
}

/// One life of an inbox.
pub(super) struct MemoryInbox {
    epoch: Epoch,
    /// The offset of the last entry ever written; 0 before the first.
    top: u64,
    /// The newest ones; the last of them is at `top`.
    words: VecDeque<CompactEntry>,
    /// Every post with a larger id that was ever put in is told of by `words`.
    floor: PostId,
    /// Posts with a larger id came by fan-out alone, so they need not be looked for. The largest there is while
    /// the inbox is unfilled, which is how one knows.
    fence: PostId,
    /// Up to which mark of the pulled log it has been brought.
    mark: u64,
    /// When something else than a fan-out last put posts in, in Unix milliseconds.
    arrival: Millis,
    /// When the inbox goes.
    until: Instant,
}

impl MemoryInbox {
    /// An unfilled inbox under a new epoch.
    pub(super) fn new(until: Instant) -> Self {
        let (floor, fence) = (PostId::ZERO, PostId::MAX);
        Self { epoch: new_epoch(), top: 0, words: VecDeque::new(), floor, fence, mark: 0, arrival: 0, until }
    }

    /// Whether its time has not run out.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Its owner was here.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.until = until;
    }

    /// Whether its past has been put in.
    pub(super) fn is_filled(&self) -> bool {
        self.fence != PostId::MAX
    }

    /// Which life this is.
    pub(super) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Above which id it is complete.
    pub(super) fn floor(&self) -> PostId {
        self.floor
    }

    /// Up to which mark of the pulled log it has been brought.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    /// Notes that it has been brought up to a mark. `false` if it had been.
    pub(super) fn raise_mark(&mut self, mark: u64) -> bool {
        let below = self.mark < mark;
        self.mark = self.mark.max(mark);
        below
    }

    /// Where it stands.
    pub(super) fn position(&self) -> Position {
        Position { offset: self.top, epoch: self.epoch.clone() }
    }

    /// A part of it.
    pub(super) fn entries(&self, span: Span) -> Vec<(u64, Entry)> {
        cut(&self.words, self.top, span, |word| word.unpack())
    }

    /// The newest entry on a post. Edits do not count: they are written without a look into the inbox, so they do not
    /// show that it holds the post.
    fn last_word(&self, id: PostId) -> Option<Entry> {
        let mut entries = self.words.iter().rev().filter(|word| word.post() == id).map(|word| word.unpack());
        entries.find(|entry| !matches!(entry, Entry::Edited(_)))
    }

    /// Whether the entry says something new to an inbox that is looked into.
    fn takes(&self, entry: &Entry) -> bool {
        let Some(id) = entry.post() else { return false };
        let is_post = matches!(entry, Entry::Post(_));
        if id <= self.floor {
            return false;
        }
        match self.last_word(id) {
            Some(Entry::Post(_)) => !is_post,
            Some(Entry::Gone(_, GoneReason::Deleted)) => false,
            Some(_) => is_post,
            // The past of an unfilled inbox could bring the post in after it has gone.
            None => is_post || (matches!(entry, Entry::Gone(..)) && !self.is_filled()),
        }
    }

    /// Writes the entry if it says something new. Answers where.
    pub(super) fn offer(&mut self, entry: &Entry) -> Option<Position> {
        self.takes(entry).then(|| self.push(entry)).flatten()
    }

    /// The same for an entry that is fanned out: above the fence nobody but its own page can have brought the post, and
    /// edits and removals are written without a look. `since`: before that, nothing else can have brought the post
    /// either.
    pub(super) fn fan(&mut self, entry: &Entry, since: Option<Millis>) -> Option<Position> {
        match entry {
            Entry::Post(id) if *id > self.fence => self.push(entry),
            Entry::Post(id)
                if self.is_filled() && *id > self.floor && since.is_some_and(|since| self.arrival < since) =>
            {
                self.push(entry)
            }
            Entry::Edited(_) if !self.is_filled() => None,
            Entry::Edited(_) | Entry::Gone(..) => self.push(entry),
            _ => self.offer(entry),
        }
    }

    fn push(&mut self, entry: &Entry) -> Option<Position> {
        self.words.push_back(CompactEntry::pack(entry)?);
        self.top += 1;
        Some(self.position())
    }

    /// Notes that something else than a fan-out puts posts in.
    pub(super) fn note_arrival(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.arrival = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    }

    /// Says that posts up to `id` may have come otherwise than by fan-out.
    pub(super) fn raise_fence(&mut self, id: PostId) {
        self.fence = self.fence.max(id);
    }

    /// Says that posts up to `id` may be missing: they are for the ledger to tell.
    pub(super) fn raise_floor(&mut self, id: PostId) {
        self.floor = self.floor.max(id);
        self.fence = self.fence.max(self.floor);
    }

    /// To be called after each entry: cuts the inbox back now and then.
    pub(super) fn trim_in_passing(&mut self, length: u64) {
        if self.top.is_multiple_of(SLACK) {
            self.trim(length);
        }
    }

    /// To be called after many entries: cuts the inbox back if it has grown too far.
    pub(super) fn trim_overgrown(&mut self, length: u64) {
        if self.words.len() as u64 >= length + SLACK {
            self.trim(length);
        }
    }

    /// Puts the past in, below what came meanwhile.
    pub(super) fn fill(&mut self, posts: &[PostId], floor: PostId, length: u64) {
        let present = std::mem::take(&mut self.words);
        let told: HashSet<PostId> = present.iter().map(|word| word.post()).collect();
        let past = posts.iter().filter(|id| !told.contains(id)).map(|id| CompactEntry(id.0));
        self.words = past.chain(present.iter().copied()).collect();
        // Offsets go on: what was heard at an offset before must not be something else now.
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
