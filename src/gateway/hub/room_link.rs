//! The link of a room: whether the broker sends the entries of its channel to this node.

/// One call at a time changes it, so a join and a removal cannot overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomLink {
    Unlinked,
    /// The node is subscribing.
    Linking,
    Linked,
    /// The node is unsubscribing: no client may join the room.
    Removing,
    Removed,
}

impl RoomLink {
    /// No client may join the room any more.
    pub(super) fn is_removed(self) -> bool {
        matches!(self, Self::Removing | Self::Removed)
    }

    /// A call changes it.
    pub(super) fn is_changing(self) -> bool {
        matches!(self, Self::Linking | Self::Removing)
    }
}

/// A call that changes a link. Dropping it sets the link to `after`, also if the call is cancelled.
pub(super) struct LinkChange<F: FnMut(RoomLink)> {
    pub(super) after: RoomLink,
    pub(super) set: F,
}

impl<F: FnMut(RoomLink)> Drop for LinkChange<F> {
    fn drop(&mut self) {
        (self.set)(self.after);
    }
}
