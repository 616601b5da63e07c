//! Whether the lease of this process can still be in force, by the clocks of this machine.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A time by two clocks: the monotonic clock, which adjustments of the wall clock do not affect, and the wall clock,
/// which continues while a virtual machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenewalTime {
    monotonic: Instant,
    wall: SystemTime,
}

impl RenewalTime {
    pub(super) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// The elapsed time, by the clock that shows more. If the wall clock was set back behind the renewal, the lease
    /// counts as expired.
    fn elapsed(&self) -> Duration {
        self.wall.elapsed().map_or(Duration::MAX, |wall| wall.max(self.monotonic.elapsed()))
    }
}

/// The last renewal of the lease of this process.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    /// How long the lease lasts without a renewal.
    length: Duration,
    /// A time before the last successful renewal was requested; `None`: there is no lease.
    renewed: Mutex<Option<RenewalTime>>,
}

impl LeaseClock {
    /// A process without a lease.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, renewed: Mutex::new(None) }
    }

    /// How long the lease lasts without a renewal.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Records a renewal that was requested after `asked`.
    pub(super) fn renew(&self, asked: RenewalTime) {
        *self.renewed.lock() = Some(asked);
    }

    /// Forgets the lease.
    pub(super) fn end(&self) {
        *self.renewed.lock() = None;
    }

    /// Whether the lease is in force. The ledger starts it when the renewal arrives, so it ends later there.
    pub(super) fn is_valid(&self) -> bool {
        self.renewed.lock().is_some_and(|renewed| renewed.elapsed() < self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_without_a_renewal() {
        let clock = LeaseClock::new(Duration::from_secs(5));
        assert!(!clock.is_valid());
        let now = RenewalTime::now();
        clock.renew(now);
        assert!(clock.is_valid());
        let ago = |time| RenewalTime { monotonic: now.monotonic.checked_sub(time).unwrap_or(now.monotonic), ..now };
        clock.renew(ago(Duration::from_millis(4_500)));
        assert!(clock.is_valid());
        clock.renew(ago(Duration::from_millis(5_100)));
        assert!(!clock.is_valid());
        clock.renew(now);
        clock.end();
        assert!(!clock.is_valid());
    }

    #[test]
    fn a_suspended_machine_counts() {
        let clock = LeaseClock::new(Duration::from_secs(5));
        let asked = RenewalTime { wall: SystemTime::now() - Duration::from_secs(9), ..RenewalTime::now() };
        clock.renew(asked);
        assert!(!clock.is_valid());
    }
}
