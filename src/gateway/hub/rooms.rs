//! The rooms of this node, by channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;

use super::room::Room;
use crate::feed::Audience;
use crate::gateway::channels::pattern::ChannelPattern;
use crate::gateway::wire::outbox::Outbox;
use crate::model::Millis;

/// All rooms. A room exists from the first join until it has been empty for a while.
#[derive(Debug, Default)]
pub(crate) struct RoomTable {
    rooms: DashMap<Arc<str>, Arc<Room>, RandomState>,
}

impl RoomTable {
    /// The room of a channel, if there is one.
    pub(crate) fn get(&self, channel: &str) -> Option<Arc<Room>> {
        self.rooms.get(channel).map(|room| Arc::clone(&room))
    }

    /// The room of a channel; created if there is none.
    pub(super) fn get_or_create(&self, name: &Arc<str>, audience: &Audience) -> Arc<Room> {
        if let Some(room) = self.get(name) {
            return room;
        }
        let create = || Arc::new(Room::new(Arc::clone(name), audience.clone()));
        Arc::clone(&self.rooms.entry(Arc::clone(name)).or_insert_with(create))
    }

    /// Removes a room, unless its channel has another one by now.
    pub(super) fn remove(&self, room: &Arc<Room>) {
        self.rooms.remove_if(room.name(), |_, current| Arc::ptr_eq(current, room));
    }

    /// The rooms for which a condition holds.
    pub(super) fn filter(&self, condition: impl Fn(&Room) -> bool) -> Vec<Arc<Room>> {
        self.rooms.iter().filter(|room| condition(room)).map(|room| Arc::clone(room.value())).collect()
    }

    /// The send queues of the subscribers of a channel that subscribed before a time, in Unix milliseconds.
    pub(crate) fn members_before(&self, channel: &str, before: Millis) -> Vec<Arc<Outbox>> {
        self.get(channel).map_or_else(Vec::new, |room| room.members_before(before))
    }

    /// The send queues of the subscribers of all channels with a name for which a condition holds.
    pub(crate) fn members_of(&self, condition: impl Fn(&str) -> bool) -> Vec<Arc<Outbox>> {
        let rooms = self.filter(|room| condition(room.name()));
        rooms.iter().flat_map(|room| room.members_before(Millis::MAX)).collect()
    }

    /// The number of rooms.
    pub(crate) fn len(&self) -> usize {
        self.rooms.len()
    }

    /// The number of subscriptions.
    pub(crate) fn subscriptions(&self) -> usize {
        self.filter(|_| true).iter().map(|room| room.members()).sum()
    }

    /// At most this many channels with subscribers whose names match, and the number of subscribers.
    pub(crate) fn subscribed(&self, pattern: &ChannelPattern, most: usize) -> BTreeMap<String, u64> {
        let rooms = self.filter(|room| pattern.matches(room.name()));
        let counted = rooms.iter().map(|room| (room.name().to_string(), room.members() as u64));
        counted.filter(|(_, members)| *members > 0).take(most).collect()
    }
}
