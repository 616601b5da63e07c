//! The members of a room as recipients of pushes, each with its spelling of the channel's name.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use super::broadcaster::Recipient;
use super::member::RoomMember;

/// The spellings of the members of one room that wrote the channel's name in another way, by their keys.
pub(super) type Spellings = HashMap<usize, Arc<str>>;

/// The members of a room, with their spellings.
#[derive(Clone, Copy)]
pub(super) struct PushRecipients<'a> {
    pub(super) members: &'a Slab<RoomMember>,
    /// `None`: all members have the name itself.
    pub(super) spellings: Option<&'a Spellings>,
}

impl<'a> PushRecipients<'a> {
    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = Recipient<'a>> {
        self.select(|_, _| true)
    }

    /// Those that meet a condition.
    pub(super) fn select(self, wanted: impl Fn(usize, &RoomMember) -> bool) -> impl Iterator<Item = Recipient<'a>> {
        let selected = self.members.iter().filter(move |(key, member)| wanted(*key, member));
        selected.map(move |(key, member)| self.recipient(key, member))
    }

    /// Those with these keys.
    pub(super) fn of(self, keys: &[usize]) -> impl Iterator<Item = Recipient<'a>> {
        keys.iter().filter_map(move |key| Some(self.recipient(*key, self.members.get(*key)?)))
    }

    fn recipient(self, key: usize, member: &'a RoomMember) -> Recipient<'a> {
        let spelling = self.spellings.and_then(|spellings| spellings.get(&key)).map(|spelling| &**spelling);
        Recipient { outbox: &member.outbox, spelling }
    }
}
