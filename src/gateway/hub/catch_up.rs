//! A room that is behind a client catches up before the client joins it.
//!
//! The rooms of a node that was paused, or missed hints, are behind the ends of their logs. A client that continued at
//! another node meanwhile is ahead of them. Only the log shows whether entries that the room does not have are lost to
//! the client; so the log is read first, and the room follows in its normal way.

use std::time::Duration;

use tokio::time::Instant;

use super::room::Room;
use crate::broker::continues;
use crate::feed::FeedError;
use crate::model::Position;
use crate::protocol::Recover;

/// How long a client waits for a room to catch up with it.
pub(super) const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// Waits until the room has reached the position from which the client recovers, if the log, which ends at `end`,
/// reaches so far. `to_end`: until it has reached the end. What the log of a list got with this subscription is then
/// recovered, and not pushed after it.
pub(super) async fn catch_up_with(
    recover: &Recover,
    room: &Room,
    end: &Position,
    to_end: bool,
    deadline: Instant,
) -> Result<(), FeedError> {
    if !recover.recover || !includes(end, recover) {
        return Ok(());
    }
    let offset = if to_end { end.offset } else { recover.offset };
    let goal = Position { offset, epoch: end.epoch.clone() };
    if room.wait_for(&goal, deadline).await {
        return Ok(());
    }
    tracing::warn!(channel = %room.name(), "a room does not catch up with its log");
    Err(FeedError::Unavailable)
}

/// Whether a log, or a room, at this position has everything that the client received. If not, the log has a new epoch,
/// or the position is out of date.
pub(super) fn includes(position: &Position, recover: &Recover) -> bool {
    let same_epoch = recover.epoch.is_empty() || continues(&recover.epoch, &position.epoch);
    !recover.recover || (same_epoch && recover.offset <= position.offset)
}
