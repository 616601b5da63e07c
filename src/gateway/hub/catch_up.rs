//! A room that is behind a client catches up before the client enters it.
//!
//! A node that was paused, or missed hints, has rooms that stand before the end of their logs. A client that read on at
//! another node meanwhile is ahead of them. Only the log can tell whether it is lost to the client what the room does
//! not know yet; so the log is read first, and the room follows by its normal way.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Hub;
use super::room::Room;
use crate::broker::continues;
use crate::feed::FeedError;
use crate::model::Position;
use crate::protocol::Recover;

/// How long a client waits for a room to catch up with it.
pub(super) const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);

impl Hub {
    /// Waits until the room has reached the position from which the client recovers, if the log, which stands at `log`,
    /// reaches so far.
    pub(super) async fn catch_up_with(
        &self,
        recover: &Recover,
        room: &Room,
        log: &Position,
        deadline: Instant,
    ) -> Result<(), FeedError> {
        if !recover.recover || !fits(recover, log) {
            return Ok(());
        }
        let goal = Position { offset: recover.offset, epoch: log.epoch.clone() };
        loop {
            let mut moved = std::pin::pin!(room.moved.notified());
            moved.as_mut().enable();
            // Of a room that was replaced meanwhile the caller finds out.
            if room.state.lock().has_reached(&goal) != Some(false) {
                return Ok(());
            }
            if timeout_at(deadline, moved).await.is_err() {
                tracing::warn!(channel = %room.name, "a room does not catch up with its log");
                return Err(FeedError::Unavailable);
            }
        }
    }
}

/// Whether a log, or a room, that stands there has what the client saw. If not, the log has begun a new life, or the position
/// is out of date.
pub(super) fn fits(recover: &Recover, position: &Position) -> bool {
    let same_life = recover.epoch.is_empty() || continues(&recover.epoch, &position.epoch);
    !recover.recover || (same_life && recover.offset <= position.offset)
}
