//! The members of rooms.

use std::sync::Arc;

use crate::gateway::outbox::Outbox;
use crate::model::UserId;

/// A client in a room.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) outbox: Arc<Outbox>,
    /// `None` of an anonymous client.
    pub(super) reader: Option<UserId>,
    /// Receives joins and leaves.
    pub(super) receives_joins: bool,
}
