//! The buckets of rate limits.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use governor::nanos::Nanos;
use governor::state::StateStore as _;
use parking_lot::Mutex;

use crate::broker::{Permit, PermitRequest};
use crate::limiter::{BoundedStore, BucketKey, SWEEP_INTERVAL};

/// The maximum number of separate buckets; see [`BoundedStore`].
const CAPACITY: usize = 200_000;

/// The buckets: the time at which each is full again, in nanoseconds since the start.
pub(super) struct PermitBuckets {
    start: Instant,
    hasher: RandomState,
    store: BoundedStore,
    swept_at: Mutex<Instant>,
}

impl PermitBuckets {
    pub(super) fn new() -> Self {
        Self::with_capacity(CAPACITY, Instant::now())
    }

    fn with_capacity(capacity: usize, start: Instant) -> Self {
        let store = BoundedStore::new(capacity);
        Self { start, hasher: RandomState::new(), store, swept_at: Mutex::new(start) }
    }

    pub(super) fn take(&self, request: &PermitRequest<'_>, now: Instant) -> Permit {
        let (interval, full, cost) = request.micros();
        let at = now;
        let now = u64::try_from(now.duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let [interval, full, cost] = [interval, full, cost].map(|micros| micros.saturating_mul(1_000));
        self.sweep(at, Nanos::new(now));
        let taken = self.store.measure_and_replace(&BucketKey::of(self.hasher.hash_one(request.key)), |full_at| {
            let full_at = full_at.map_or(now, Nanos::as_u64).max(now);
            let wait = (full_at + cost.max(interval)).saturating_sub(full + now);
            if wait > 0 { Err(Duration::from_nanos(wait)) } else { Ok(((), Nanos::new(full_at + cost))) }
        });
        taken.map_or_else(|retry_after| Permit::Denied { retry_after }, |()| Permit::Granted)
    }

    /// Drops full buckets if a key found no room, unless a sweep has just run: a sweep visits all buckets.
    fn sweep(&self, now: Instant, full_by: Nanos) {
        if let Some(mut swept_at) = self.swept_at.try_lock()
            && now.duration_since(*swept_at) >= SWEEP_INTERVAL
            && self.store.take_crowded()
        {
            *swept_at = now;
            self.store.drop_until(full_by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_swept_at_most_once_a_second() {
        let start = Instant::now();
        let buckets = PermitBuckets::with_capacity(64, start);
        let mut asked = 0;
        // Each bucket is full again a moment later, and there are more buckets than the capacity.
        let mut crowd = |millis: u64| {
            for _ in 0..2_000 {
                let key = asked.to_string();
                asked += 1;
                let request = PermitRequest { key: &key, interval: Duration::from_micros(1), burst: 1, cost: 1 };
                buckets.take(&request, start + Duration::from_millis(millis));
            }
            buckets.store.buckets()
        };
        let crowded = crowd(100);
        let more = crowd(900);
        assert!(more > crowded + 1_000, "not yet: {crowded}, {more}");
        let swept = crowd(1_100);
        assert!(swept < more, "{swept}, {more}");
        let again = crowd(1_500);
        assert!(again > swept + 1_000, "{swept}, {again}");
        assert!(crowd(2_200) < again);
    }
}
