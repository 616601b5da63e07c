//! The members of a room that get other pushes than the rest.

use super::delta_readers::DeltaReaders;
use super::recipients::Spellings;

/// The members of a room that get other pushes. Few rooms have any, so it is in a box.
#[derive(Debug, Default)]
pub(super) struct SpecialMembers {
    /// The members that asked for deltas.
    pub(super) deltas: DeltaReaders,
    pub(super) spellings: Spellings,
}

impl SpecialMembers {
    /// Removes a member.
    pub(super) fn remove(&mut self, key: usize) {
        self.deltas.remove(key);
        self.spellings.remove(&key);
    }

    /// Whether no member is left.
    pub(super) fn is_empty(&self) -> bool {
        self.deltas.is_empty() && self.spellings.is_empty()
    }
}
