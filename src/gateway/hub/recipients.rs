//! The members of a room as recipients of pushes, each with its spelling of the channel's name.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use super::broadcaster::Recipient;
use super::member::Member;

/// The members of one room that wrote the channel's name in another spelling, by their keys.
#[derive(Debug, Default)]
pub(super) struct Spellings(HashMap<usize, Arc<str>>);

impl Spellings {
    /// Adds a member.
    pub(super) fn add(&mut self, key: usize, spelling: &Arc<str>) {
        self.0.insert(key, Arc::clone(spelling));
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, key: usize) {
        self.0.remove(&key);
    }

    /// Whether no member is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The spelling of a member; `None`: the name itself.
    pub(super) fn get(&self, key: usize) -> Option<&Arc<str>> {
        self.0.get(&key)
    }
}

/// The members of a room, with their spellings.
#[derive(Clone, Copy)]
pub(super) struct Recipients<'a> {
    pub(super) members: &'a Slab<Member>,
    /// `None`: all members have the name itself.
    pub(super) spellings: Option<&'a Spellings>,
}

impl<'a> Recipients<'a> {
    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = Recipient<'a>> {
        self.select(|_, _| true)
    }

    /// Those that meet a condition.
    pub(super) fn select(self, wanted: impl Fn(usize, &Member) -> bool) -> impl Iterator<Item = Recipient<'a>> {
        let selected = self.members.iter().filter(move |(key, member)| wanted(*key, member));
        selected.map(move |(key, member)| Recipient {
            outbox: &member.outbox,
            spelling: self.spellings.and_then(|spellings| spellings.get(key)).map(|spelling| &**spelling),
        })
    }
}
