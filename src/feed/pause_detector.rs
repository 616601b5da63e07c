//! Detects pauses of this process: it was stopped, its machine was suspended, or it got no processor.
//!
//! After a pause, this node does not know the changes that other nodes made during it, although its last read seems
//! recent.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The interval at which [`PauseDetector::tick`] must be called.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// A longer time between two ticks is a pause.
const PAUSE: Duration = Duration::from_millis(500);

/// A longer pause is logged: leases of work end meanwhile.
const LOGGED_PAUSE: Duration = Duration::from_secs(5);

/// Measures the time between ticks by two clocks: the wall clock continues while a virtual machine is suspended, and
/// the monotonic clock shows a pause during which the wall clock was set back.
pub(crate) struct PauseDetector(Mutex<LastTick>);

struct LastTick {
    monotonic: Instant,
    wall: SystemTime,
    /// When the last pause was detected.
    resumed: Option<Instant>,
}

impl PauseDetector {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LastTick { monotonic: Instant::now(), wall: SystemTime::now(), resumed: None }))
    }

    /// Records that the process runs.
    pub(crate) fn tick(&self) {
        self.resumed();
    }

    /// An upper bound for the end of the last pause: a read that began before it may lack changes made during the
    /// pause. `None` if there was no pause.
    pub(crate) fn resumed(&self) -> Option<Instant> {
        self.observe(Instant::now(), SystemTime::now())
    }

    fn observe(&self, monotonic: Instant, wall: SystemTime) -> Option<Instant> {
        let mut last = self.0.lock();
        let by_wall = wall.duration_since(last.wall).unwrap_or_default();
        let paused = by_wall.max(monotonic.duration_since(last.monotonic));
        if paused > PAUSE {
            last.resumed = Some(monotonic);
        }
        if paused > LOGGED_PAUSE {
            tracing::warn!(
                seconds = paused.as_secs(),
                "this node was paused, or its clock was set forward; other nodes may have taken its work"
            );
        }
        (last.monotonic, last.wall) = (monotonic, wall);
        last.resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_long_time_without_ticks() {
        let detector = PauseDetector::new();
        let mut monotonic = Instant::now();
        let mut wall = SystemTime::now();
        for _ in 0..20 {
            (monotonic, wall) = (monotonic + TICK_INTERVAL, wall + TICK_INTERVAL);
            assert_eq!(detector.observe(monotonic, wall), None);
        }
        monotonic += PAUSE * 2;
        let resumed = detector.observe(monotonic, wall);
        assert_eq!(resumed, Some(monotonic), "the first call reports it");
        assert_eq!(detector.observe(monotonic + TICK_INTERVAL, wall), resumed, "it is remembered");
        // A suspended machine: only the wall clock continues.
        monotonic += TICK_INTERVAL * 2;
        assert_eq!(detector.observe(monotonic, wall + PAUSE * 2), Some(monotonic));
        // Setting the clock back is not a pause.
        assert_eq!(detector.observe(monotonic + TICK_INTERVAL, wall - PAUSE * 9), Some(monotonic));
    }
}
