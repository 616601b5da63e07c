//! The position of a room in the log of its channel: which entries are delivered, which wait, and what is missing.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::broker::follows;
use crate::model::{Entry, Epoch, Position, PositionRef};

/// The most entries of a room that wait for rendering. Later ones are dropped, and read from the log again.
const MAX_WAITING: usize = 1_024;

/// Room that an empty queue of entries may keep allocated.
const KEPT_CAPACITY: usize = 64;

/// Follows one log. Entries are delivered once, in order and without a gap.
#[derive(Debug, Default)]
pub(super) struct LogTracker {
    /// The epoch of the log; `None` while it is not known, and of a channel without a log.
    epoch: Option<Epoch>,
    /// The number of logs that were replaced by others.
    replaced: u32,
    /// The last offset that was delivered to members.
    delivered: u64,
    /// Entries after `delivered`, without a gap, that wait for rendering.
    waiting: VecDeque<(u64, Entry)>,
    /// Hints were lost: the log must be read from the last known offset.
    has_gap: bool,
    /// The highest offset received before the position was known.
    received: u64,
    /// A worker has the room, or it is queued for one.
    is_scheduled: bool,
}

/// The entries of a log that wait for rendering. Most often it is one.
#[derive(Debug)]
pub(super) struct WaitingEntries {
    /// The log is the one that was followed after so many others.
    replaced: u32,
    /// With their offsets.
    pub(super) entries: SmallVec<[(u64, Entry); 1]>,
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracked {
    /// Nothing to do.
    Unchanged,
    /// A worker must look at the room.
    Scheduled,
    /// The log was replaced by another: members cannot continue without a gap.
    Replaced,
}

impl LogTracker {
    /// The epoch of the log; `None` while it is not known, and of a channel without a log.
    pub(super) fn epoch(&self) -> Option<&Epoch> {
        self.epoch.as_ref()
    }

    /// The position of the members.
    pub(super) fn position(&self) -> Option<Position> {
        let epoch = self.epoch.clone()?;
        Some(Position { offset: self.delivered, epoch })
    }

    /// Whether members have received everything up to a position. `None` in another epoch of the log.
    pub(super) fn has_reached(&self, position: &Position) -> Option<bool> {
        (self.epoch.as_ref() == Some(&position.epoch)).then_some(self.delivered >= position.offset)
    }

    /// The last offset known without a gap.
    fn known(&self) -> u64 {
        self.delivered + self.waiting.len() as u64
    }

    /// Whether an entry is the next one and can be delivered at once.
    pub(super) fn is_next(&self, position: PositionRef<'_>) -> bool {
        !self.is_scheduled
            && self.waiting.is_empty()
            && position.offset == self.delivered + 1
            && self.follows_log(position.epoch)
    }

    /// Whether this is the epoch of the log. An embedded broker shares the text of the epoch, which need not be read
    /// then.
    fn follows_log(&self, epoch: &str) -> bool {
        self.epoch.as_deref().is_some_and(|known| std::ptr::eq(known, epoch) || known == epoch)
    }

    /// The entry for which [`is_next`](Self::is_next) holds was delivered.
    pub(super) fn advance(&mut self) {
        self.delivered += 1;
    }

    /// Takes an entry from a hint.
    pub(super) fn accept(&mut self, position: PositionRef<'_>, entry: &Entry) -> Tracked {
        self.follow(position.epoch);
        if self.epoch.is_none() {
            self.received = self.received.max(position.offset);
            return Tracked::Unchanged;
        }
        if !self.follows_log(position.epoch) {
            self.replace(None);
            return Tracked::Replaced;
        }
        let known = self.known();
        if position.offset <= known {
            return Tracked::Unchanged;
        }
        if position.offset == known + 1 && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((position.offset, entry.clone()));
        } else {
            self.has_gap = true;
        }
        self.schedule()
    }

    /// Compares with the end of the log.
    pub(super) fn compare(&mut self, end: &Position) -> Tracked {
        self.follow(&end.epoch);
        match &self.epoch {
            Some(epoch) if *epoch != end.epoch => {
                self.replace(Some(end));
                return Tracked::Replaced;
            }
            Some(_) => self.has_gap |= end.offset > self.known(),
            None => {
                self.begin(end);
                self.has_gap = self.received > end.offset;
                self.received = 0;
            }
        }
        if self.has_gap { self.schedule() } else { Tracked::Unchanged }
    }

    /// While nothing was written to the log, its epoch changes with time and evictions; members missed nothing.
    fn follow(&mut self, current: &str) {
        if self.known() == 0
            && !self.follows_log(current)
            && let Some(epoch) = self.epoch.as_mut().filter(|epoch| follows(epoch, current))
        {
            *epoch = current.into();
        }
    }

    /// The log was lost, or replaced by another.
    pub(super) fn replace(&mut self, by: Option<&Position>) {
        self.epoch = None;
        self.replaced = self.replaced.wrapping_add(1);
        self.waiting.clear();
        self.has_gap = false;
        if let Some(position) = by {
            self.begin(position);
        }
    }

    fn begin(&mut self, position: &Position) {
        self.epoch = Some(position.epoch.clone());
        self.delivered = position.offset;
        self.waiting.clear();
    }

    fn schedule(&mut self) -> Tracked {
        if self.is_scheduled {
            return Tracked::Unchanged;
        }
        self.is_scheduled = true;
        Tracked::Scheduled
    }

    /// If hints were lost: the position after which the log is to be read.
    pub(super) fn gap(&self) -> Option<Position> {
        let epoch = self.epoch.clone().filter(|_| self.has_gap)?;
        Some(Position { offset: self.known(), epoch })
    }

    /// Takes entries that were read from the log after a gap; `end` is the end of the log. `false` if the log begins
    /// too late: the gap cannot be filled.
    pub(super) fn fill(&mut self, entries: Vec<(u64, Entry)>, end: &Position) -> bool {
        self.follow(&end.epoch);
        if self.epoch.as_ref() != Some(&end.epoch) {
            return self.epoch.is_none();
        }
        for (offset, entry) in entries {
            let known = self.known();
            if offset > known + 1 {
                return false;
            }
            if offset == known + 1 && self.waiting.len() < MAX_WAITING {
                self.waiting.push_back((offset, entry));
            }
        }
        self.has_gap = self.known() < end.offset;
        true
    }

    /// The entries that wait for rendering. They stay until [`take_next`](Self::take_next).
    pub(super) fn waiting(&self) -> Option<WaitingEntries> {
        let entries = || self.waiting.iter().cloned().collect();
        (!self.waiting.is_empty()).then(|| WaitingEntries { replaced: self.replaced, entries: entries() })
    }

    /// Removes the next entry that waits, to deliver it now. `false` if it is another one.
    pub(super) fn take_next(&mut self, waiting: &WaitingEntries, offset: u64) -> bool {
        let is_next = self.replaced == waiting.replaced && self.waiting.front().is_some_and(|(it, _)| *it == offset);
        if is_next {
            self.waiting.pop_front();
            self.delivered = offset;
        }
        is_next
    }

    /// A worker is done with the room; `true` if it must look at the room again.
    pub(super) fn release(&mut self) -> bool {
        self.is_scheduled = self.has_gap || !self.waiting.is_empty();
        if !self.is_scheduled && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
        self.is_scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    fn at(offset: u64, epoch: &str) -> Position {
        Position { offset, epoch: epoch.into() }
    }

    fn post(id: u64) -> Entry {
        Entry::Post(PostId(id))
    }

    fn log(offset: u64) -> LogTracker {
        let mut log = LogTracker::default();
        assert_eq!(log.compare(&at(offset, "e")), Tracked::Unchanged);
        log
    }

    fn accept(log: &mut LogTracker, position: &Position, post: u64) -> Tracked {
        log.accept(position.borrowed(), &Entry::Post(PostId(post)))
    }

    fn waiting(log: &LogTracker) -> Vec<(u64, Entry)> {
        log.waiting().map(|waiting| waiting.entries.into_vec()).unwrap_or_default()
    }

    #[test]
    fn hints_are_accepted_once_and_in_order() {
        let mut log = log(5);
        assert_eq!(accept(&mut log, &at(5, "e"), 1), Tracked::Unchanged, "known already");
        assert_eq!(accept(&mut log, &at(6, "e"), 2), Tracked::Scheduled);
        assert_eq!(accept(&mut log, &at(7, "e"), 3), Tracked::Unchanged, "scheduled already");
        assert_eq!(accept(&mut log, &at(6, "e"), 2), Tracked::Unchanged);
        assert_eq!(waiting(&log), [(6, post(2)), (7, post(3))]);
        assert_eq!(log.position(), Some(at(5, "e")), "nothing is delivered yet");
        let rendered = log.waiting().unwrap();
        assert!(log.take_next(&rendered, 6) && !log.take_next(&rendered, 6));
        assert_eq!(log.position(), Some(at(6, "e")));
    }

    #[test]
    fn entries_of_a_replaced_log_are_not_delivered() {
        let mut log = log(5);
        assert_eq!(accept(&mut log, &at(6, "e"), 6), Tracked::Scheduled);
        let rendered = log.waiting().unwrap();
        // The other log has an entry with the same offset.
        assert_eq!(log.compare(&at(5, "f")), Tracked::Replaced);
        assert_eq!(accept(&mut log, &at(6, "f"), 7), Tracked::Unchanged);
        assert!(!log.take_next(&rendered, 6));
        assert_eq!(waiting(&log), [(6, post(7))]);
    }

    #[test]
    fn a_gap_is_filled_from_the_log() {
        let mut log = log(5);
        assert_eq!(accept(&mut log, &at(8, "e"), 8), Tracked::Scheduled);
        assert_eq!(log.gap(), Some(at(5, "e")));
        assert!(log.fill(vec![(6, post(6)), (7, post(7)), (8, post(8))], &at(8, "e")));
        assert_eq!(log.gap(), None);
        assert_eq!(waiting(&log).len(), 3);
    }

    #[test]
    fn a_gap_in_a_trimmed_log_cannot_be_filled() {
        let mut log = log(5);
        let _ = accept(&mut log, &at(9, "e"), 9);
        assert!(!log.fill(vec![(8, post(8)), (9, post(9))], &at(9, "e")));
    }

    #[test]
    fn a_hint_before_the_position_is_known_is_not_lost() {
        let mut log = LogTracker::default();
        assert_eq!(accept(&mut log, &at(4, "e"), 4), Tracked::Unchanged);
        assert_eq!(log.compare(&at(3, "e")), Tracked::Scheduled);
        assert_eq!(log.gap(), Some(at(3, "e")));
    }

    #[test]
    fn the_epoch_of_an_unwritten_log_changes_without_a_gap() {
        let mut log = LogTracker::default();
        assert_eq!(log.compare(&at(0, "e.7.0")), Tracked::Unchanged);
        assert_eq!(log.compare(&at(0, "e.8.0")), Tracked::Unchanged);
        assert_eq!(log.compare(&at(0, "e.8.3")), Tracked::Unchanged, "logs of other channels were begun");
        assert_eq!(log.compare(&at(0, "e.8.0")), Tracked::Unchanged);
        assert_eq!(log.position(), Some(at(0, "e.8.0")));
        assert_eq!(accept(&mut log, &at(1, "e.9.0"), 1), Tracked::Scheduled, "the first entry");
        assert_eq!((log.epoch(), waiting(&log)), (Some(&"e.9.0".into()), vec![(1, post(1))]));
        assert_eq!(log.compare(&at(0, "e.10.0")), Tracked::Replaced, "it was written to, and lost");

        let mut log = LogTracker::default();
        assert_eq!(log.compare(&at(0, "e.7.0")), Tracked::Unchanged);
        assert_eq!(accept(&mut log, &at(2, "e.8.0"), 2), Tracked::Scheduled);
        assert_eq!(log.gap(), Some(at(0, "e.8.0")));
        assert!(log.fill(vec![(1, post(1)), (2, post(2))], &at(2, "e.8.0")));
        assert_eq!(log.compare(&at(0, "f.8.0")), Tracked::Replaced, "another seed");
    }
}
