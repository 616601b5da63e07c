//! The rooms of this node, by channel.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;

use super::room::Room;
use crate::gateway::channels::ResolvedChannel;

/// All rooms. A room exists from the first join until it has been empty for a while.
#[derive(Debug, Default)]
pub(super) struct RoomTable {
    rooms: DashMap<Arc<str>, Arc<Room>, RandomState>,
}

impl RoomTable {
    /// The room of a channel, if there is one.
    pub(super) fn get(&self, channel: &str) -> Option<Arc<Room>> {
        self.rooms.get(channel).map(|room| Arc::clone(&room))
    }

    /// The room of a channel; created if there is none.
    pub(super) fn get_or_create(&self, name: &Arc<str>, channel: &ResolvedChannel) -> Arc<Room> {
        if let Some(room) = self.get(name) {
            return room;
        }
        let create = || Arc::new(Room::new(Arc::clone(name), channel.audience()));
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

    /// The number of rooms.
    pub(super) fn len(&self) -> usize {
        self.rooms.len()
    }
}
