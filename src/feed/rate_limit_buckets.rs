//! One rate limit, and its buckets: of this node, or of all nodes in the broker.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::MonotonicClock;
use moka::sync::Cache;

use crate::broker::{Broker, Permit, PermitRequest};
use crate::limiter::{BucketKey, Rate, RateLimiter};
use crate::model::UserId;
use crate::net::subscriber_network;
use crate::reloadable::Reloadable;

/// The number of users or addresses of each limit that have a bucket of their own; further ones share buckets.
const CAPACITY: usize = 100_000;

/// The time limit for a permit from the broker. After that this node counts for itself.
const PERMIT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a denial of the broker may be cached: the time in which a bucket fills.
const DENIAL_TTL: Duration = Duration::from_secs(120);

/// The user or address that is counted.
#[derive(Clone, Copy)]
pub(super) enum RateSubject<'a> {
    User(&'a UserId),
    Address(IpAddr),
}

/// One limit.
pub(super) struct Limit {
    /// The key in the configuration.
    pub(super) name: &'static str,
    /// The description of the limited objects, for error messages.
    pub(super) what: &'static str,
    /// Whether the broker counts for all nodes.
    is_shared: bool,
    /// `None`: no limit.
    pub(super) bucket: Reloadable<Option<LimitBuckets>>,
}

impl Limit {
    pub(super) fn local(name: &'static str, what: &'static str) -> Self {
        Self { name, what, is_shared: false, bucket: Reloadable::new(None) }
    }

    pub(super) fn shared(name: &'static str, what: &'static str) -> Self {
        Self { is_shared: true, ..Self::local(name, what) }
    }

    pub(super) fn set(&self, per_minute: Option<u32>) {
        let rate = per_minute.and_then(NonZeroU32::new).map(Rate::per_minute);
        if self.bucket.get().as_ref().as_ref().map(|bucket| bucket.rate) != rate {
            self.bucket.set(rate.map(|rate| LimitBuckets::new(rate, self.is_shared)));
        }
    }
}

/// The buckets of a limit.
pub(super) struct LimitBuckets {
    rate: Rate,
    pub(super) limiter: RateLimiter,
    /// For a limit that all nodes share: the time until which the broker denies a key. Denied requests then need no
    /// call of the broker.
    pub(super) denials: Option<Cache<u64, Instant>>,
}

impl LimitBuckets {
    fn new(rate: Rate, is_shared: bool) -> Self {
        let denials = || Cache::builder().max_capacity(CAPACITY as u64).time_to_live(DENIAL_TTL).build();
        let limiter = RateLimiter::new(rate, CAPACITY, MonotonicClock);
        Self { rate, limiter, denials: is_shared.then(denials) }
    }

    /// Takes units from the broker's bucket, or from this node's bucket if the broker does not answer. Units granted by
    /// the broker are also taken from this node's bucket, so that it is not full when it is needed.
    pub(super) async fn take_shared(
        &self,
        broker: &dyn Broker,
        name: &str,
        (subject, key): (RateSubject<'_>, BucketKey),
        units: NonZeroU32,
        denials: &Cache<u64, Instant>,
    ) -> std::result::Result<(), Duration> {
        let now = Instant::now();
        if let Some(wait) = denials.get(&key.own()).and_then(|until| until.checked_duration_since(now))
            && !wait.is_zero()
        {
            return Err(wait);
        }
        let text = match subject {
            RateSubject::User(user) => format!("{name}:{user}"),
            RateSubject::Address(address) => format!("{name}:{}", subscriber_network(address)),
        };
        let Rate { interval, burst } = self.rate;
        let request = PermitRequest { key: &text, interval, burst: burst.get(), cost: units.get() };
        match tokio::time::timeout(PERMIT_TIMEOUT, broker.take_permit(request)).await {
            Ok(Ok(Permit::Granted)) => {
                let _ = self.limiter.take(key, units);
                Ok(())
            }
            Ok(Ok(Permit::Denied { retry_after })) => {
                // Denials of larger requests are not cached: a smaller request might be granted.
                if units == NonZeroU32::MIN {
                    denials.insert(key.own(), now + retry_after);
                }
                Err(retry_after)
            }
            Ok(Err(_)) | Err(_) => self.limiter.take(key, units),
        }
    }
}
