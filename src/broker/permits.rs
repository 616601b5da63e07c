//! Rate limits that all nodes share.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;

/// A request to a shared rate limit.
///
/// The limit is a bucket of `burst` units that refills by one unit each `interval` (GCRA). Every caller of one key
/// passes the same `interval` and `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitRequest<'a> {
    /// The name of the bucket: a rate class and its subject, such as `posts:ann`.
    pub key: &'a str,
    /// The time in which one unit comes back; at least a microsecond.
    pub interval: Duration,
    /// The number of units that a full bucket holds; at least 1.
    pub burst: u32,
    /// The units to take. More than `burst` counts as `burst`. 0 takes nothing and checks whether one unit is
    /// available.
    pub cost: u32,
}

impl PermitRequest<'_> {
    /// The interval, the time in which an empty bucket fills, and the time that the cost takes to come back, in
    /// microseconds.
    pub(super) fn micros(&self) -> (u64, u64, u64) {
        let interval = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX).clamp(1, 1 << 40);
        let burst = u64::from(self.burst.max(1));
        (interval, interval.saturating_mul(burst), interval.saturating_mul(u64::from(self.cost).min(burst)))
    }
}

/// The result of a request for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The units were available, and were taken.
    Granted,
    /// Nothing was taken.
    Denied {
        /// The time after which the units are available, unless other requests take them.
        retry_after: Duration,
    },
}

/// Rate limits that the nodes of a cluster share. They use the store's clock. Full buckets occupy no memory.
#[async_trait]
pub trait PermitStore: Send + Sync {
    /// Takes units from a bucket if it has them, atomically and in one round trip.
    ///
    /// # Errors
    /// If the store cannot be reached: the caller falls back on a limit of its own.
    async fn take_permit(&self, request: PermitRequest<'_>) -> Result<Permit>;
}
