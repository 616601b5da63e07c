//! The rate of background work on likes that are already acknowledged.

use std::time::Duration;

/// Whether such work pauses between two steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Throttle {
    /// With pauses: clients that wait for an acknowledgement take priority.
    Steady,
    /// Without pauses, because the backlog exceeds the capacity with pauses.
    Unthrottled,
}

impl Throttle {
    /// Disables pauses if the backlog would grow with them.
    pub(super) fn off_if(is_behind: bool) -> Self {
        if is_behind { Self::Unthrottled } else { Self::Steady }
    }

    /// Pauses between two steps. A yield would let other tasks of this thread run, but not other threads and the
    /// clients, which need a core too.
    pub(super) async fn pause(self) {
        match self {
            Self::Steady => tokio::time::sleep(Duration::from_millis(1)).await,
            Self::Unthrottled => tokio::task::yield_now().await,
        }
    }
}
