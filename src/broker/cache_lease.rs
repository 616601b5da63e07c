//! The lease under which a node may use its caches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Invalidation;
use super::applied_invalidations::AppliedInvalidations;
use crate::model::UserId;

/// The time for which a node may use its caches after it requested the state of the log, if it had caught up with it.
pub const CACHE_LEASE: Duration = Duration::from_millis(500);

/// Whether this node may use its caches.
///
/// Two clocks measure the lease: the monotonic clock, which steps of the wall clock do not affect, and the wall clock,
/// which continues while a virtual machine is suspended. The lease is held until either of them reaches its end.
#[derive(Debug)]
pub struct CacheLease {
    origin: Instant,
    /// The end of the lease, in microseconds since `origin`.
    until: AtomicU64,
    /// The time of the last renewal, in Unix milliseconds.
    renewed: AtomicU64,
    applied: AppliedInvalidations,
}

/// The value of `until` of a lease that does not end.
const UNLIMITED: u64 = u64::MAX;

impl CacheLease {
    fn new(until: u64) -> Self {
        Self {
            origin: Instant::now(),
            until: AtomicU64::new(until),
            renewed: AtomicU64::new(0),
            applied: AppliedInvalidations::default(),
        }
    }

    /// A lease that does not end: there is a single node, which applies every invalidation at once.
    pub fn unlimited() -> Self {
        Self::new(UNLIMITED)
    }

    /// A lease that is not held yet.
    pub(crate) fn lapsed() -> Self {
        Self::new(0)
    }

    /// Whether the lease is held.
    pub fn is_held(&self) -> bool {
        let until = self.until.load(Ordering::Acquire);
        if until == UNLIMITED {
            return true;
        }
        let lease = u64::try_from(CACHE_LEASE.as_millis()).unwrap_or(u64::MAX);
        let renewed = self.renewed.load(Ordering::Acquire);
        self.micros(Instant::now()) < until && unix_millis().checked_sub(renewed).is_some_and(|since| since < lease)
    }

    /// Renews the lease after a read of the log that began at this time, by both clocks.
    pub(crate) fn renew(&self, (asked, asked_unix): (Instant, u64)) {
        self.renewed.store(asked_unix, Ordering::Release);
        self.until.store(self.micros(asked + CACHE_LEASE), Ordering::Release);
    }

    /// Ends the lease: the node is behind.
    pub(super) fn revoke(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// The time now by both clocks, for [`renew`](Self::renew).
    pub(crate) fn clocks() -> (Instant, u64) {
        (Instant::now(), unix_millis())
    }

    /// The number of invalidations that this node has applied.
    pub fn invalidations(&self) -> u64 {
        self.applied.count()
    }

    /// Counts an invalidation that was applied.
    pub fn count_invalidation(&self, change: &Invalidation) {
        self.applied.add(change);
    }

    /// Whether one of the invalidations after the first `known` concerns what was prepared before it. `concerns`
    /// decides about a changed relation of two users; everything else concerns it.
    pub fn is_invalidated_since(&self, known: u64, concerns: impl Fn(&UserId, &UserId) -> bool) -> bool {
        self.applied.any_since(known, concerns)
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_micros()).unwrap_or(UNLIMITED - 1)
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_either_clock_and_when_it_is_revoked() {
        let lease = CacheLease::lapsed();
        assert!(!lease.is_held());
        let (now, unix) = CacheLease::clocks();
        lease.renew((now, unix));
        assert!(lease.is_held());
        lease.revoke();
        assert!(!lease.is_held());
        // The process was paused.
        let Some(before) = now.checked_sub(CACHE_LEASE) else { return };
        lease.renew((before, unix));
        assert!(!lease.is_held());
        // The machine was suspended together with its monotonic clock; then its wall clock was set back.
        lease.renew((now, unix - 600));
        assert!(!lease.is_held());
        lease.renew((now, unix + 600_000));
        assert!(!lease.is_held());
        lease.renew((now, unix));
        assert!(lease.is_held());
        assert!(CacheLease::unlimited().is_held());
    }
}
