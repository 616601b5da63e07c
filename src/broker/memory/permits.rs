//! Rate limits of the one process there is.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use governor::nanos::Nanos;
use governor::state::StateStore as _;

use super::MemoryBroker;
use crate::broker::{Permit, PermitRequest, Permits, Result};
use crate::limiter::{BoundedStore, Key};

/// How many buckets are kept apart; see [`BoundedStore`].
const CAPACITY: usize = 200_000;

/// The buckets: when each is full again, in nanoseconds since the start.
pub(super) struct Buckets {
    start: Instant,
    hasher: RandomState,
    store: BoundedStore,
}

impl Buckets {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), hasher: RandomState::new(), store: BoundedStore::new(CAPACITY) }
    }

    fn take(&self, request: &PermitRequest<'_>, now: Instant) -> Permit {
        let (interval, full, cost) = request.micros();
        let now = u64::try_from(now.duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let [interval, full, cost] = [interval, full, cost].map(|micros| micros.saturating_mul(1_000));
        if self.store.take_crowded() {
            self.store.drop_until(Nanos::new(now));
        }
        let taken = self.store.measure_and_replace(&Key::of(self.hasher.hash_one(request.key)), |full_at| {
            let full_at = full_at.map_or(now, Nanos::as_u64).max(now);
            let wait = (full_at + cost.max(interval)).saturating_sub(full + now);
            if wait > 0 { Err(Duration::from_nanos(wait)) } else { Ok(((), Nanos::new(full_at + cost))) }
        });
        taken.map_or_else(|retry_after| Permit::Denied { retry_after }, |()| Permit::Granted)
    }
}

#[async_trait]
impl Permits for MemoryBroker {
    async fn take_permit(&self, request: PermitRequest<'_>) -> Result<Permit> {
        Ok(self.permits.take(&request, Instant::now()))
    }
}
