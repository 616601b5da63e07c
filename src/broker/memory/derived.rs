//! The epochs of logs without a write; see `broker/epoch.rs`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::broker::epoch::{period, posted_on};
use crate::broker::logs::AWAITED;
use crate::model::{Epoch, PostId};

/// The number of posts with unseen changes of counts that one period records. Beyond it, all derived epochs change.
const MAX_UNSEEN: usize = 500_000;

/// Derives epochs.
pub(super) struct DerivedEpochs {
    started: Instant,
    period: Duration,
    /// The keys are random: another process derives other epochs.
    hasher: RandomState,
    unseen: Mutex<Unseen>,
    /// By a hash of the names of their channels.
    groups: Mutex<HashMap<u16, ChannelGroup>>,
}

/// A group of channels.
#[derive(Clone, Copy, Default)]
struct ChannelGroup {
    /// The number of logs that were begun.
    lives: u64,
    /// When the position of a log without a write was last read.
    read_at: Option<Instant>,
}

/// The versions of counts that were not appended because no node was subscribed, by post, in this period and the one
/// before. Epochs derived before such a change do not continue after it.
#[derive(Default)]
struct Unseen {
    period: u64,
    current: HashMap<PostId, u64>,
    previous: HashMap<PostId, u64>,
    /// The number of times that all versions were dropped.
    dropped: u64,
}

impl DerivedEpochs {
    pub(super) fn new(position_ttl: Duration) -> Self {
        let started = Instant::now();
        let hasher = RandomState::new();
        Self { started, period: period(position_ttl), hasher, unseen: Mutex::default(), groups: Mutex::default() }
    }

    /// The epoch of a log without a write.
    pub(super) fn derive(&self, channel: &str, now: Instant) -> Epoch {
        let number = self.number(now);
        let unseen = {
            let mut unseen = self.unseen.lock();
            unseen.rotate(number);
            (unseen.dropped, posted_on(channel).and_then(|post| unseen.version(post)))
        };
        let lives = self.group(channel).lives;
        format!("{:x}.{number}.{lives}", self.hasher.hash_one((channel, unseen))).into()
    }

    /// Derives the epoch for the last time: its log is begun, or would have been.
    pub(super) fn end(&self, channel: &str, now: Instant) -> Epoch {
        let epoch = self.derive(channel, now);
        self.groups.lock().entry(self.group_of(channel)).or_default().lives += 1;
        epoch
    }

    /// Records that a reader has the position of a log without a write.
    pub(super) fn note_reader(&self, channel: &str, now: Instant) {
        self.groups.lock().entry(self.group_of(channel)).or_default().read_at = Some(now);
    }

    /// Whether readers of a log without a write may come back.
    pub(super) fn is_awaited(&self, channel: &str, now: Instant) -> bool {
        self.group(channel).read_at.is_some_and(|at| now.saturating_duration_since(at) < AWAITED)
    }

    fn group(&self, channel: &str) -> ChannelGroup {
        self.groups.lock().get(&self.group_of(channel)).copied().unwrap_or_default()
    }

    fn group_of(&self, channel: &str) -> u16 {
        (self.hasher.hash_one(channel) >> 48) as u16
    }

    /// Records that counts changed without an append. A late, older version has no effect: it must not restore an
    /// earlier epoch.
    pub(super) fn note_unseen(&self, post: PostId, version: u64, now: Instant) {
        let mut unseen = self.unseen.lock();
        unseen.rotate(self.number(now));
        if unseen.version(post).is_some_and(|known| version <= known) {
            return;
        }
        if unseen.current.len() >= MAX_UNSEEN {
            unseen.drop_all();
        }
        unseen.current.insert(post, version);
    }

    /// All logs were lost: earlier epochs are not derived again.
    pub(super) fn renew(&self) {
        self.unseen.lock().drop_all();
    }

    fn number(&self, now: Instant) -> u64 {
        let periods = now.saturating_duration_since(self.started).as_nanos() / self.period.as_nanos();
        u64::try_from(periods).unwrap_or(u64::MAX)
    }
}

impl Unseen {
    fn drop_all(&mut self) {
        self.current = HashMap::new();
        self.previous = HashMap::new();
        self.dropped += 1;
    }

    fn rotate(&mut self, period: u64) {
        if period > self.period {
            let current = std::mem::take(&mut self.current);
            self.previous = if period == self.period + 1 { current } else { HashMap::new() };
            self.period = period;
        }
    }

    fn version(&self, post: PostId) -> Option<u64> {
        self.current.get(&post).or_else(|| self.previous.get(&post)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::continues;

    #[test]
    fn unseen_counts_change_the_derived_epoch() {
        let derived = DerivedEpochs::new(Duration::from_secs(20));
        let at = |seconds| derived.started + Duration::from_secs(seconds);
        let before = derived.derive("post:7", at(1));
        assert_eq!(derived.derive("post:7", at(9)), before);
        assert!(continues(&before, &derived.derive("post:7", at(19))));
        derived.note_unseen(PostId(7), 1, at(19));
        let after = derived.derive("post:7", at(19));
        assert!(!continues(&before, &after));
        assert!(continues(&after, &derived.derive("post:7", at(29))));
        assert!(!continues(&before, &derived.derive("post:7", at(29))));
        assert!(!continues(&before, &derived.derive("post:7", at(35))), "forgotten, and two periods later");
        derived.note_unseen(PostId(7), 2, at(36));
        derived.note_unseen(PostId(7), 3, at(37));
        assert_eq!(derived.unseen.lock().current.len(), 1);
        assert_ne!(derived.derive("post:7", at(37)), derived.derive("post:8", at(37)));
    }

    #[test]
    fn a_derived_epoch_ends_with_the_log_that_begins() {
        let derived = DerivedEpochs::new(Duration::from_secs(20));
        let now = derived.started;
        let before = derived.derive("topic:a", now);
        assert_eq!(derived.end("topic:a", now), before, "clients that joined before recover from the log");
        let after = derived.derive("topic:a", now);
        assert!(!continues(&before, &after) && crate::broker::follows(&before, &after), "{before} {after}");
        for n in 0..200_000 {
            derived.end(&format!("topic:{n}"), now);
        }
        assert!(derived.groups.lock().len() <= 65_536);
    }

    #[test]
    fn readers_are_awaited_for_an_hour() {
        let derived = DerivedEpochs::new(Duration::from_secs(20));
        let now = derived.started;
        assert!(!derived.is_awaited("topic:a", now));
        derived.note_reader("topic:a", now);
        assert!(derived.is_awaited("topic:a", now + AWAITED / 2));
        assert!(!derived.is_awaited("topic:a", now + AWAITED));
    }

    #[test]
    fn remembered_epochs_are_bounded() {
        let derived = DerivedEpochs::new(Duration::from_secs(20));
        let now = derived.started;
        let before = derived.derive("post:1", now);
        for post in 2..=MAX_UNSEEN as u64 + 2 {
            derived.note_unseen(PostId(post), 1, now);
        }
        assert!(derived.unseen.lock().current.len() <= MAX_UNSEEN);
        assert_ne!(derived.derive("post:1", now), before);
    }
}
