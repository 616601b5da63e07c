//! A room: the members of one channel on this node, and how far they have been told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::broker::follows;
use crate::feed::Audience;
use crate::gateway::outbox::Outbox;
use crate::model::{Entry, Epoch, Position, UserId};

/// How many entries may wait in a room for their bodies. More are dropped and read from the log again later.
const WAITING: usize = 1_024;

/// A channel with listeners on this node.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) name: Arc<str>,
    /// What decides who may hear what is said here.
    pub(super) audience: Audience,
    /// Whether the broker tells this node of the channel. Held across the call that changes it, so that joining and
    /// sweeping up cannot cross.
    pub(super) linked: tokio::sync::Mutex<bool>,
    pub(super) state: Mutex<RoomState>,
    /// Signalled when the room's position has changed.
    pub(super) moved: Notify,
}

/// Somebody in a room.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) outbox: Arc<Outbox>,
    /// Who it is; `None` of somebody anonymous.
    pub(super) reader: Option<UserId>,
}

/// What a room knows. Everybody is told in one order because it happens under this lock.
#[derive(Debug, Default)]
pub(super) struct RoomState {
    members: Slab<Member>,
    /// The life of the log; `None` while it is not known, and of a channel without one.
    epoch: Option<Epoch>,
    /// The last offset that was told to members.
    delivered: u64,
    /// Entries after `delivered`, without a gap, that wait for their bodies.
    waiting: VecDeque<(u64, Entry)>,
    /// Hints were lost: what lies after `accepted` must be read from the log.
    lost: bool,
    /// The highest offset heard of before the position was known.
    heard: u64,
    /// A worker has the room, or it is queued for one.
    scheduled: bool,
    /// Since when nobody is here; swept up after a while.
    empty_since: Option<Instant>,
    /// Swept up: not to be entered any more.
    dead: bool,
}

/// What became of a hint.
#[derive(Debug)]
pub(super) enum Accepted {
    /// Nothing to be done.
    Nothing,
    /// A worker must look at the room.
    Scheduled,
    /// The log was replaced by another; these members must be told that they cannot go on.
    Replaced(Vec<Member>),
}

impl Room {
    pub(super) fn new(name: Arc<str>, audience: Audience) -> Self {
        let state = RoomState { empty_since: Some(Instant::now()), ..RoomState::default() };
        Self { name, audience, linked: tokio::sync::Mutex::new(false), state: Mutex::new(state), moved: Notify::new() }
    }
}

impl RoomState {
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().map(|(_, member)| member)
    }

    pub(super) fn member(&self, key: usize) -> Option<&Member> {
        self.members.get(key)
    }

    /// The keys of members of whom it is so; `None` if it is not known of one of them.
    pub(super) fn members_who(&self, is_so: impl Fn(&Member) -> Option<bool>) -> Option<Vec<usize>> {
        let mut keys = Vec::new();
        for (key, member) in &self.members {
            if is_so(member)? {
                keys.push(key);
            }
        }
        Some(keys)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    pub(super) fn enter(&mut self, member: Member) -> usize {
        self.empty_since = None;
        self.members.insert(member)
    }

    /// The key alone does not name a member: the room may have been emptied and filled again since it was given.
    pub(super) fn exit(&mut self, key: usize, outbox: &Arc<Outbox>) {
        if self.members.get(key).is_some_and(|member| Arc::ptr_eq(&member.outbox, outbox)) {
            self.members.remove(key);
        }
        self.note_if_empty();
    }

    fn note_if_empty(&mut self) {
        if self.members.is_empty() {
            self.empty_since.get_or_insert_with(Instant::now);
            self.members.shrink_to_fit();
        }
    }

    /// Marks the room dead if nobody has been here for `long`.
    pub(super) fn die(&mut self, long: Duration) -> bool {
        self.dead = self.is_idle(long);
        self.dead
    }

    pub(super) fn is_idle(&self, long: Duration) -> bool {
        self.members.is_empty() && self.empty_since.is_some_and(|since| since.elapsed() >= long)
    }

    /// Where members stand.
    pub(super) fn position(&self) -> Option<Position> {
        let epoch = self.epoch.clone()?;
        Some(Position { offset: self.delivered, epoch })
    }

    /// Whether members have been told up to a position. `None` if the room is of another life of the log, or dead.
    pub(super) fn has_reached(&self, position: &Position) -> Option<bool> {
        let lives = !self.dead && self.epoch.as_ref() == Some(&position.epoch);
        lives.then_some(self.delivered >= position.offset)
    }

    /// The last offset known without a gap.
    fn accepted(&self) -> u64 {
        self.delivered + self.waiting.len() as u64
    }

    /// Whether an entry can be delivered right now, being the next one.
    pub(super) fn follows_directly(&self, position: &Position) -> bool {
        !self.scheduled
            && self.waiting.is_empty()
            && position.offset == self.delivered + 1
            && self.epoch.as_ref() == Some(&position.epoch)
    }

    pub(super) fn advance(&mut self, delivered: u64) {
        self.delivered = delivered;
    }

    /// Takes a hint.
    pub(super) fn accept(&mut self, position: &Position, entry: &Entry) -> Accepted {
        self.follow(&position.epoch);
        let Some(epoch) = &self.epoch else {
            self.heard = self.heard.max(position.offset);
            return Accepted::Nothing;
        };
        if *epoch != position.epoch {
            return self.replace(None);
        }
        let accepted = self.accepted();
        if position.offset <= accepted {
            return Accepted::Nothing;
        }
        if position.offset == accepted + 1 && self.waiting.len() < WAITING {
            self.waiting.push_back((position.offset, entry.clone()));
        } else {
            self.lost = true;
        }
        self.schedule()
    }

    /// Compares with where the log stands.
    pub(super) fn establish(&mut self, position: &Position) -> Accepted {
        self.follow(&position.epoch);
        match &self.epoch {
            Some(epoch) if *epoch != position.epoch => self.replace(Some(position)),
            Some(_) => {
                self.lost |= position.offset > self.accepted();
                if self.lost { self.schedule() } else { Accepted::Nothing }
            }
            None => {
                self.begin(position);
                self.lost = self.heard > position.offset;
                self.heard = 0;
                if self.lost { self.schedule() } else { Accepted::Nothing }
            }
        }
    }

    /// While nothing was written to the log, its epoch moves on with time and evictions; members missed nothing.
    fn follow(&mut self, current: &Epoch) {
        let unwritten = self.accepted() == 0;
        if let Some(epoch) = self.epoch.as_mut().filter(|epoch| unwritten && follows(epoch, current)) {
            *epoch = Epoch::clone(current);
        }
    }

    /// The log was lost, or replaced by another: whoever is here cannot go on. Whoever comes next begins anew.
    pub(super) fn replace(&mut self, by: Option<&Position>) -> Accepted {
        self.epoch = None;
        self.waiting.clear();
        self.lost = false;
        if let Some(position) = by {
            self.begin(position);
        }
        let members = self.members.drain().collect();
        self.note_if_empty();
        Accepted::Replaced(members)
    }

    fn begin(&mut self, position: &Position) {
        self.epoch = Some(position.epoch.clone());
        self.delivered = position.offset;
        self.waiting.clear();
    }

    fn schedule(&mut self) -> Accepted {
        if self.scheduled {
            return Accepted::Nothing;
        }
        self.scheduled = true;
        Accepted::Scheduled
    }

    /// If hints were lost: after which position the log is to be read.
    pub(super) fn gap(&self) -> Option<Position> {
        let epoch = self.epoch.clone().filter(|_| self.lost)?;
        Some(Position { offset: self.accepted(), epoch })
    }

    /// Takes what was read from the log of this life after a gap; `top` is where the log stood. `false` if it begins
    /// too late: the gap cannot be filled.
    pub(super) fn fill(&mut self, entries: Vec<(u64, Entry)>, top: &Position) -> bool {
        self.follow(&top.epoch);
        if self.epoch.as_ref() != Some(&top.epoch) {
            return self.epoch.is_none();
        }
        for (offset, entry) in entries {
            let accepted = self.accepted();
            if offset > accepted + 1 {
                return false;
            }
            if offset == accepted + 1 && self.waiting.len() < WAITING {
                self.waiting.push_back((offset, entry));
            }
        }
        self.lost = self.accepted() < top.offset;
        true
    }

    /// What waits for bodies, and of which life of the log it is. It stays until [`told`](Self::told).
    pub(super) fn waiting(&self) -> Option<(Epoch, Vec<(u64, Entry)>)> {
        let epoch = self.epoch.clone().filter(|_| !self.waiting.is_empty())?;
        Some((epoch, self.waiting.iter().cloned().collect()))
    }

    /// Takes the next entry off what waits, if it is still this one: it is being told.
    pub(super) fn told(&mut self, epoch: &Epoch, offset: u64) -> bool {
        let next =
            self.epoch.as_ref() == Some(epoch) && self.waiting.front().is_some_and(|(first, _)| *first == offset);
        if next {
            self.waiting.pop_front();
            self.delivered = offset;
        }
        next
    }

    /// A worker is done with the room; `true` if it must be looked at again.
    pub(super) fn release(&mut self) -> bool {
        self.scheduled = self.lost || !self.waiting.is_empty();
        if !self.scheduled && self.waiting.capacity() > 64 {
            self.waiting = VecDeque::new();
        }
        self.scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::outbox::Bounds;
    use crate::model::PostId;

    fn at(offset: u64, epoch: &str) -> Position {
        Position { offset, epoch: epoch.into() }
    }

    fn post(id: u64) -> Entry {
        Entry::Post(PostId(id))
    }

    fn room(offset: u64) -> RoomState {
        let mut state = RoomState::default();
        assert!(matches!(state.establish(&at(offset, "e")), Accepted::Nothing));
        state
    }

    #[test]
    fn hints_are_taken_once_and_in_order() {
        let mut state = room(5);
        assert!(matches!(state.accept(&at(5, "e"), &post(1)), Accepted::Nothing), "known already");
        assert!(matches!(state.accept(&at(6, "e"), &post(2)), Accepted::Scheduled));
        assert!(matches!(state.accept(&at(7, "e"), &post(3)), Accepted::Nothing), "scheduled already");
        assert!(matches!(state.accept(&at(6, "e"), &post(2)), Accepted::Nothing));
        assert_eq!(state.waiting().unwrap().1, [(6, post(2)), (7, post(3))]);
        assert_eq!(state.position(), Some(at(5, "e")), "members were told up to 5");
        assert!(state.told(&"e".into(), 6) && !state.told(&"e".into(), 6));
        assert_eq!(state.position(), Some(at(6, "e")));
    }

    #[test]
    fn a_gap_is_filled_from_the_log() {
        let mut state = room(5);
        assert!(matches!(state.accept(&at(8, "e"), &post(8)), Accepted::Scheduled));
        assert_eq!(state.gap(), Some(at(5, "e")));
        assert!(state.fill(vec![(6, post(6)), (7, post(7)), (8, post(8))], &at(8, "e")));
        assert_eq!(state.gap(), None);
        assert_eq!(state.waiting().unwrap().1.len(), 3);
    }

    #[test]
    fn a_gap_that_the_log_forgot_cannot_be_filled() {
        let mut state = room(5);
        let _ = state.accept(&at(9, "e"), &post(9));
        assert!(!state.fill(vec![(8, post(8)), (9, post(9))], &at(9, "e")));
    }

    #[test]
    fn a_hint_before_the_position_is_known_is_not_lost() {
        let mut state = RoomState::default();
        assert!(matches!(state.accept(&at(4, "e"), &post(4)), Accepted::Nothing));
        assert!(matches!(state.establish(&at(3, "e")), Accepted::Scheduled));
        assert_eq!(state.gap(), Some(at(3, "e")));
    }

    #[test]
    fn the_epoch_of_an_unwritten_log_moves_on_without_telling_members() {
        let mut state = RoomState::default();
        assert!(matches!(state.establish(&at(0, "e.7")), Accepted::Nothing));
        assert!(matches!(state.establish(&at(0, "e.8")), Accepted::Nothing));
        assert_eq!(state.position(), Some(at(0, "e.8")));
        assert!(matches!(state.accept(&at(1, "e.9"), &post(1)), Accepted::Scheduled), "the first entry");
        assert_eq!(state.waiting().unwrap(), ("e.9".into(), vec![(1, post(1))]));
        assert!(matches!(state.establish(&at(0, "e.10")), Accepted::Replaced(_)), "it was written to, and forgotten");

        let mut state = RoomState::default();
        assert!(matches!(state.establish(&at(0, "e.7")), Accepted::Nothing));
        assert!(matches!(state.accept(&at(2, "e.8"), &post(2)), Accepted::Scheduled));
        assert_eq!(state.gap(), Some(at(0, "e.8")));
        assert!(state.fill(vec![(1, post(1)), (2, post(2))], &at(2, "e.8")));
        assert!(matches!(state.establish(&at(0, "f.8")), Accepted::Replaced(_)), "another seed");
    }

    #[test]
    fn another_life_of_the_log_ends_the_stay_of_all_members() {
        let mut state = room(5);
        let outbox = Arc::new(Outbox::new(Bounds { bytes: 10, messages: 10 }));
        let member = |outbox: &Arc<Outbox>| Member { outbox: Arc::clone(outbox), reader: None };
        let key = state.enter(member(&outbox));
        let Accepted::Replaced(members) = state.accept(&at(1, "f"), &post(1)) else { panic!("not replaced") };
        assert_eq!(members.len(), 1);
        assert_eq!(state.position(), None);
        let other = Arc::new(Outbox::new(Bounds { bytes: 10, messages: 10 }));
        assert_eq!(state.enter(member(&other)), key, "the key is used again");
        state.exit(key, &outbox);
        assert_eq!(state.members().count(), 1, "an old key takes nobody else out");
    }
}
