//! The members of rooms.

use std::sync::Arc;

use crate::feed::now;
use crate::gateway::wire::outbox::Outbox;
use crate::model::{Millis, UserId};

/// A client in a room.
#[derive(Debug)]
pub(super) struct RoomMember {
    pub(super) outbox: Arc<Outbox>,
    /// `None` of an anonymous client.
    pub(super) reader: Option<UserId>,
    /// Receives joins and leaves.
    pub(super) receives_joins: bool,
    /// When it joined, in Unix seconds: 32 bits need no further memory.
    joined_at: u32,
}

/// A client that joins a room.
pub(super) struct JoiningMember<'a> {
    pub(super) member: RoomMember,
    /// The channel's name as the client wrote it, if that differs.
    pub(super) spelling: Option<&'a Arc<str>>,
    /// Whether the channel has a log: then its position must be known.
    pub(super) has_log: bool,
    pub(super) wants_deltas: bool,
}

impl RoomMember {
    /// A client that joins now.
    pub(super) fn new(outbox: Arc<Outbox>, reader: Option<UserId>, receives_joins: bool) -> Self {
        let joined_at = u32::try_from(now() / 1_000).unwrap_or(u32::MAX);
        Self { outbox, reader, receives_joins, joined_at }
    }

    /// Whether it joined before a time, in Unix milliseconds, or up to a second later.
    pub(super) fn joined_before(&self, time: Millis) -> bool {
        Millis::from(self.joined_at).saturating_mul(1_000) < time
    }
}
