//! Updates of rooms.

use std::sync::Arc;

use crate::gateway::wire::outbox::Outbox;

/// What an update of a room requires.
#[derive(Debug)]
pub(crate) enum RoomUpdate {
    /// Nothing.
    None,
    /// A worker must look at the room.
    Scheduled,
    /// The log was replaced by another: these clients must be informed that they cannot continue.
    Replaced(Vec<Arc<Outbox>>),
}
