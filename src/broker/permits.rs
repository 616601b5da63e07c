//! Rate limits that all nodes share.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;

/// A request to a shared rate limit.
///
/// The limit is a bucket of `burst` units that refills by one unit each `interval` (GCRA). Every caller of one key passes the
/// same `interval` and `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitRequest<'a> {
    /// Names the bucket: a kind and whoever is counted, such as `posts:ann`.
    pub key: &'a str,
    /// The time in which one unit comes back; at least a microsecond.
    pub interval: Duration,
    /// How many units a full bucket holds; at least 1.
    pub burst: u32,
    /// How many units to take. More than `burst` counts as `burst`. 0 takes nothing and answers whether one unit is there.
    pub cost: u32,
}

impl PermitRequest<'_> {
    /// The interval, the time in which an empty bucket fills, and the time that the cost takes to come back, in microseconds.
    pub(super) fn micros(&self) -> (u64, u64, u64) {
        let interval = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX).clamp(1, 1 << 40);
        let burst = u64::from(self.burst.max(1));
        (interval, interval.saturating_mul(burst), interval.saturating_mul(u64::from(self.cost).min(burst)))
    }
}

/// The answer of a shared rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The units were there, and are taken.
    Granted,
    /// Nothing was taken.
    Denied {
        /// When the units will be there, if nobody else takes them.
        retry_after: Duration,
    },
}

/// Counts that the nodes of a cluster share. Time is the store's; buckets that are full again take no room.
#[async_trait]
pub trait PermitStore: Send + Sync {
    /// Takes units out of a bucket if it holds them, at one moment and in one round trip.
    ///
    /// # Errors
    /// If the store cannot be reached: the caller falls back on a limit of its own.
    async fn take_permit(&self, request: PermitRequest<'_>) -> Result<Permit>;
}
