//! The pace of messages. FCM accepts 600,000 in a minute for a project, and counts refused ones as well.

use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// The messages in a second, and at once: a sixtieth of the quota, which also spreads a burst.
const MESSAGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");

/// Lets messages pass at the pace of the quota. Each process has its own.
pub(super) struct Pacing {
    limiter: DefaultDirectRateLimiter,
    clock: DefaultClock,
}

impl Pacing {
    pub(super) fn new() -> Self {
        Self::at(MESSAGES_PER_SECOND)
    }

    fn at(per_second: NonZeroU32) -> Self {
        Self { limiter: RateLimiter::direct(Quota::per_second(per_second)), clock: DefaultClock::default() }
    }

    /// Waits until a message may be sent. The deadline of the send bounds it.
    pub(super) async fn wait(&self) {
        while let Err(early) = self.limiter.check() {
            tokio::time::sleep(early.wait_time_from(self.clock.now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn messages_beyond_the_pace_wait() {
        let pacing = Pacing::at(NonZeroU32::new(20).unwrap());
        let begun = Instant::now();
        for _ in 0..20 {
            pacing.wait().await;
        }
        assert!(begun.elapsed() < Duration::from_millis(100), "the first second is free");
        for _ in 0..10 {
            pacing.wait().await;
        }
        assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    }
}
