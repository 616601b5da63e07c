//! The membership of a client in a room.

use std::sync::Arc;

use super::room::Room;
use crate::feed::Presence;
use crate::gateway::wire::outbox::Outbox;

/// A client's membership in a room. Dropping it removes the client.
#[derive(Debug)]
pub struct Membership {
    room: Arc<Room>,
    /// The key of the member in the room.
    key: usize,
    outbox: Arc<Outbox>,
    /// Of a timeline: the feed keeps the inbox up to date while it exists.
    _presence: Option<Presence>,
}

impl Membership {
    pub(super) fn new(room: Arc<Room>, key: usize, outbox: Arc<Outbox>, presence: Option<Presence>) -> Self {
        Self { room, key, outbox, _presence: presence }
    }

    /// The channel's name.
    pub fn channel(&self) -> &Arc<str> {
        self.room.name()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.room.leave(self.key, &self.outbox);
    }
}
