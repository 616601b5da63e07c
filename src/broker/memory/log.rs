//! A log that its first entry creates.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::broker::{Append, Span};
use crate::model::{Entry, Epoch, Position};

/// One life of a log.
pub(super) struct MemoryLog {
    epoch: Epoch,
    /// The offset of the last entry ever written; 0 before the first.
    top: u64,
    /// The newest entries; the last of them is at `top`.
    entries: VecDeque<Entry>,
    /// The last version written, and its epoch.
    version: Option<(u64, Box<str>)>,
    /// When the entries expire.
    entries_until: Instant,
    /// When the offset and the epoch expire: with the entries, or later for a reader.
    known_until: Instant,
    /// How long entries stay.
    stays: Duration,
}

impl MemoryLog {
    /// An empty log.
    pub(super) fn new(epoch: Epoch, now: Instant) -> Self {
        Self {
            epoch,
            top: 0,
            entries: VecDeque::new(),
            version: None,
            entries_until: now,
            known_until: now,
            stays: Duration::ZERO,
        }
    }

    /// Drops expired entries. `false` if the whole log has expired.
    pub(super) fn is_live(&mut self, now: Instant) -> bool {
        if now >= self.entries_until {
            self.entries = VecDeque::new();
        }
        now < self.known_until
    }

    /// Extends the life of the position to `until`.
    pub(super) fn keep_position(&mut self, until: Instant) {
        self.known_until = self.known_until.max(until);
    }

    /// Extends the life of the position: a reader has received it. Readers keep it for `ttl` at least.
    pub(super) fn keep_for_reader(&mut self, now: Instant, ttl: Duration) {
        self.keep_position(later(now, self.stays.max(ttl)));
    }

    /// Whether the log already has the entry, or a later one, by its version.
    pub(super) fn knows(&self, append: &Append<'_>) -> bool {
        match (append.version, &self.version) {
            (Some((version, life)), Some((known, same))) => life == &**same && version <= *known,
            _ => false,
        }
    }

    /// Appends an entry, and drops entries beyond the retention.
    pub(super) fn push(&mut self, append: &Append<'_>, now: Instant) {
        self.top += 1;
        self.entries.push_back(append.entry.clone());
        while self.entries.len() as u64 > append.retention.size {
            self.entries.pop_front();
        }
        if let Some((version, life)) = append.version {
            self.version = Some((version, life.into()));
        }
        self.entries_until = later(now, append.retention.ttl);
        self.stays = append.retention.ttl;
        self.keep_position(self.entries_until);
    }

    /// Removes all entries. The position stays.
    pub(super) fn clear(&mut self) {
        self.entries = VecDeque::new();
    }

    /// The last position.
    pub(super) fn position(&self) -> Position {
        Position { offset: self.top, epoch: self.epoch.clone() }
    }

    /// A part of the log.
    pub(super) fn entries(&self, span: Span) -> Vec<(u64, Entry)> {
        cut(&self.entries, self.top, span, Entry::clone)
    }
}

/// The time `ttl` after `now`; a century if that cannot be represented.
pub(super) fn later(now: Instant, ttl: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now + ttl.min(CENTURY)
}

/// The part of `entries` that `span` selects, where the last entry is at offset `top`.
pub(super) fn cut<T>(entries: &VecDeque<T>, top: u64, span: Span, entry: impl Fn(&T) -> Entry) -> Vec<(u64, Entry)> {
    let first = top + 1 - entries.len() as u64;
    // The number of entries below an offset; the deque's length fits a usize, so the result does.
    let below = |offset: u64| offset.saturating_sub(first).min(entries.len() as u64) as usize;
    let at = |index: usize| (first + index as u64, entry(&entries[index]));
    match span {
        Span::After(offset, limit) => (below(offset.saturating_add(1))..entries.len()).take(limit).map(at).collect(),
        Span::Before(offset, limit) => (0..below(offset)).rev().take(limit).map(at).collect(),
    }
}
