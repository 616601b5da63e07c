//! The state of a settler, and the positions in the queue that the ledger stores.

use std::sync::Arc;

use super::count_publisher::PendingCounts;
use super::reverts::PendingReverts;
use crate::broker::QueueOffset;
use crate::model::Epoch;

/// The state of a settler for its partition.
pub(super) struct SettlerState {
    /// The epoch of the queue.
    pub(super) epoch: Epoch,
    /// The incarnation of the ledger that this state belongs to.
    pub(super) incarnation: Arc<str>,
    /// The ledger's position of the partition, as text.
    pub(super) position: String,
    /// Everything up to here is settled.
    pub(super) through: QueueOffset,
    pub(super) counts: PendingCounts,
    pub(super) reverts: PendingReverts,
    /// The queue is trimmed below this offset.
    pub(super) trimmed: QueueOffset,
    /// The last batch was so large that more entries must have arrived meanwhile.
    pub(super) is_behind: bool,
}

/// A position in the queue, as the ledger stores it.
pub(super) fn position(epoch: &Epoch, place: QueueOffset) -> String {
    format!("{epoch} {place}")
}

/// The queue offset of a stored position; `None` if it belongs to another epoch.
pub(super) fn parse_position(position: &str, epoch: &Epoch) -> Option<QueueOffset> {
    let (of, place) = position.split_once(' ')?;
    (of == &**epoch).then(|| QueueOffset::parse(place)).flatten()
}
