//! The clock of sessions.

use std::time::Duration;

use tokio::time::Instant;

use crate::gateway::session::SessionTime;

/// Converts between the runtime's clock and the time of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionClock {
    /// Zero of [`SessionTime::ticks`].
    started: Instant,
}

impl SessionClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    /// The current time.
    pub(crate) fn now(self) -> SessionTime {
        SessionTime { ticks: self.ticks(), unix: crate::feed::now() / 1_000 }
    }

    /// The current time in ticks.
    pub(crate) fn ticks(self) -> u64 {
        self.ticks_at(Instant::now())
    }

    /// An instant in ticks.
    pub(crate) fn ticks_at(self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant of a time in ticks.
    pub(crate) fn instant(self, ticks: u64) -> Instant {
        self.started + Duration::from_millis(ticks)
    }
}
