//! Rate limits with bounded memory: GCRA (from the crate `governor`) on a table with a fixed capacity. Requests are
//! counted even if the table is full.
//!
//! Each key has its own bucket while the table has room. A full bucket is equivalent to no bucket, so full buckets are
//! removed when room is needed. If there is still no room, keys in the table keep their buckets, and new keys share one
//! bucket per *class*. The class of an address is its surrounding network, so an attacker with an IPv6 /48 affects only
//! that network. Users have no such class: which of them share a bucket is random.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use governor::clock::{Clock, MonotonicClock, Reference as _};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter as Governor};
use parking_lot::Mutex;

/// The number of shards, each with its own lock. All keys of a class are in one shard and cannot fill the others.
const SHARDS: usize = 16;

/// The maximum number of shared buckets in each shard.
const SHARED_BUCKETS: u64 = 4_096;

/// The minimum time between two sweeps for full buckets.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The key of a bucket. It consists of digests made with a secret hasher, so that a client cannot choose a key that
/// collides with another client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey {
    own: u64,
    class: u64,
}

impl BucketKey {
    /// A key that is its own class.
    pub fn of(own: u64) -> Self {
        Self { own, class: own }
    }

    /// A key in a class with other keys.
    pub fn in_class(own: u64, class: u64) -> Self {
        Self { own, class }
    }

    /// The digest of the user or address that is counted.
    pub fn own(&self) -> u64 {
        self.own
    }
}

/// A bounded table of buckets.
#[derive(Debug)]
pub struct BoundedStore {
    shards: [Mutex<Shard>; SHARDS],
    /// The maximum number of own buckets in each shard.
    capacity: usize,
    /// Whether a key found no room since this flag was last cleared.
    crowded: Arc<AtomicBool>,
}

/// The buckets of a shard. Each value is the time at which the bucket is full again.
#[derive(Debug, Default)]
struct Shard {
    own: HashMap<u64, Nanos, RandomState>,
    shared: HashMap<u64, Nanos, RandomState>,
}

impl BoundedStore {
    /// An empty table for approximately `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, capacity: capacity.div_ceil(SHARDS), crowded: Arc::default() }
    }

    /// Whether a key found no room since the last call. Clears the flag.
    pub fn take_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) && self.crowded.swap(false, Ordering::Relaxed)
    }

    /// Removes the buckets that are full at this time.
    pub fn drop_until(&self, time: Nanos) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.own.retain(|_, full_at| *full_at > time);
            shard.shared.retain(|_, full_at| *full_at > time);
        }
    }

    /// The number of buckets in the table.
    pub fn buckets(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.own.len() + shard.shared.len()).sum()
    }
}

impl StateStore for BoundedStore {
    type Key = BucketKey;

    fn measure_and_replace<T, F, E>(&self, key: &BucketKey, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut shard = self.shards[key.class as usize % SHARDS].lock();
        let Shard { own, shared } = &mut *shard;
        let (buckets, name) = if own.len() < self.capacity || own.contains_key(&key.own) {
            (own, key.own)
        } else {
            self.crowded.store(true, Ordering::Relaxed);
            (shared, key.class / SHARDS as u64 % SHARED_BUCKETS)
        };
        let (outcome, full_at) = measure(buckets.get(&name).copied())?;
        buckets.insert(name, full_at);
        Ok(outcome)
    }
}

impl ShrinkableKeyedStateStore<BucketKey> for BoundedStore {
    fn retain_recent(&self, drop_below: Nanos) {
        self.drop_until(drop_below);
    }

    fn len(&self) -> usize {
        self.buckets()
    }

    fn is_empty(&self) -> bool {
        self.buckets() == 0
    }
}

/// A rate limit: the parameters of a bucket that refills at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time in which one unit is restored.
    pub interval: Duration,
    /// The capacity of the bucket, in units.
    pub burst: NonZeroU32,
}

impl Rate {
    /// A rate of this many units per minute, with bursts of twice as many.
    pub fn per_minute(units: NonZeroU32) -> Self {
        Self {
            interval: Duration::from_secs(60) / units.get(),
            burst: units.saturating_mul(NonZeroU32::MIN.saturating_add(1)),
        }
    }
}

/// A rate limiter with one bucket per key.
pub struct RateLimiter<C: Clock = MonotonicClock> {
    limiter: Governor<BucketKey, BoundedStore, C, NoOpMiddleware<C::Instant>>,
    burst: NonZeroU32,
    crowded: Arc<AtomicBool>,
    swept_at: Mutex<C::Instant>,
}

impl<C: Clock> RateLimiter<C> {
    /// All buckets start full. Approximately `capacity` keys have their own bucket.
    pub fn new(rate: Rate, capacity: usize, clock: C) -> Self {
        let interval = rate.interval.max(Duration::from_nanos(1));
        let quota = Quota::with_period(interval).unwrap_or(Quota::per_second(NonZeroU32::MIN));
        let store = BoundedStore::new(capacity);
        let crowded = Arc::clone(&store.crowded);
        let now = clock.now();
        let limiter = Governor::new(quota.allow_burst(rate.burst), store, clock);
        Self { limiter, burst: rate.burst, crowded, swept_at: Mutex::new(now) }
    }

    /// Takes units from a bucket. A request for more units than the bucket can hold takes its whole capacity.
    ///
    /// # Errors
    /// The time to wait until the units are available. Nothing was taken.
    pub fn take(&self, key: BucketKey, units: NonZeroU32) -> Result<(), Duration> {
        if self.crowded.load(Ordering::Relaxed) {
            self.sweep();
        }
        match self.limiter.check_key_n(&key, units.min(self.burst)) {
            Ok(Err(not_yet)) => Err(not_yet.wait_time_from(self.limiter.clock().now())),
            // The inner error cannot occur: it means more units than the capacity.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    /// Removes full buckets, at most once every [`SWEEP_INTERVAL`].
    fn sweep(&self) {
        let now = self.limiter.clock().now();
        if let Some(mut swept_at) = self.swept_at.try_lock()
            && Duration::from(now.duration_since(*swept_at)) >= SWEEP_INTERVAL
        {
            *swept_at = now;
            self.crowded.store(false, Ordering::Relaxed);
            self.limiter.retain_recent();
        }
    }

    /// The number of buckets in the table.
    pub fn buckets(&self) -> usize {
        self.limiter.len()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    const ONE: NonZeroU32 = NonZeroU32::MIN;

    fn limiter(per_minute: u32, capacity: usize) -> (RateLimiter<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let rate = Rate::per_minute(NonZeroU32::new(per_minute).unwrap());
        (RateLimiter::new(rate, capacity, clock.clone()), clock)
    }

    fn taken(limiter: &RateLimiter<FakeRelativeClock>, key: BucketKey) -> usize {
        (0..1_000).take_while(|_| limiter.take(key, ONE).is_ok()).count()
    }

    #[test]
    fn buckets_hold_two_minutes_and_refill_at_the_rate() {
        let (limiter, clock) = limiter(6, 100);
        let [ann, bo] = [BucketKey::of(1), BucketKey::of(2)];
        assert_eq!((taken(&limiter, ann), taken(&limiter, bo)), (12, 12), "twice the rate at once, for each");
        clock.advance(Duration::from_secs(9));
        assert_eq!(limiter.take(ann, ONE), Err(Duration::from_secs(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(taken(&limiter, ann), 1);
        clock.advance(Duration::from_secs(10_000));
        assert_eq!(taken(&limiter, ann), 12, "and no more however long one waits");
        clock.advance(Duration::from_millis(3_500));
        let two = NonZeroU32::new(2).unwrap();
        assert_eq!(limiter.take(ann, two), Err(Duration::from_millis(16_500)));
        clock.advance(Duration::from_millis(16_500));
        assert_eq!(limiter.take(ann, two), Ok(()), "the wait was the right one");
        clock.advance(Duration::from_secs(1_000));
        assert_eq!(limiter.take(ann, NonZeroU32::MAX), Ok(()), "what no bucket holds takes all of one");
        assert_eq!(taken(&limiter, ann), 0);
    }

    #[test]
    fn full_tables_deny_new_keys_and_keep_known_ones() {
        let (limiter, clock) = limiter(1, 1_600);
        let known = BucketKey::of(7);
        assert!(limiter.take(known, ONE).is_ok());
        // Each key has its own bucket and leaves one unit in it.
        let crowd = (1_000..100_000_u64).map(|n| BucketKey::of(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        crowd.for_each(|key| _ = limiter.take(key, ONE));
        let most = 1_600 + SHARDS * SHARED_BUCKETS as usize;
        assert!(limiter.buckets() <= most, "{} buckets", limiter.buckets());
        // New keys share the bucket of an earlier key: at most its two units can be left.
        let class = 99_999_u64.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let late: usize = (0..500).map(|n| taken(&limiter, BucketKey::in_class(n, class))).sum();
        assert!(late <= 2, "{late} got through a full table");
        assert!(limiter.take(known, ONE).is_ok(), "a key in the table has its own bucket");
        clock.advance(Duration::from_secs(300));
        limiter.take(BucketKey::of(1), ONE).ok();
        assert_eq!(taken(&limiter, BucketKey::of(2)), 2, "full buckets made room");
        assert!(limiter.buckets() < 10);
    }

    #[test]
    fn one_network_cannot_fill_the_table() {
        let (limiter, _) = limiter(1, 1_600);
        let all: usize = (0..60_000).map(|host| taken(&limiter, BucketKey::in_class(1 << 40 | host, 5))).sum();
        // 100 keys have their own bucket; all others share one.
        assert_eq!(all, 2 * 101);
        assert_eq!(taken(&limiter, BucketKey::in_class(3, 6)), 2);
    }
}
