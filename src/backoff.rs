//! Delays between attempts at something that fails for now.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// Delays that double from a minimum to a maximum, with jitter: each is a random time from half of its nominal length
/// to all of it, so that nodes do not retry in step. There is no limit to the number of attempts.
pub(crate) struct Backoff {
    policy: ExponentialBuilder,
    delays: ExponentialBackoff,
    max: Duration,
}

impl Backoff {
    /// The first delay is nominally `min`, and none is longer than `max`.
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        // The crate's jitter multiplies a delay by 1 to 2.
        let policy = ExponentialBuilder::new().with_min_delay(min / 2).with_max_delay(max / 2);
        let policy = policy.with_jitter().without_max_times();
        Self { policy, delays: policy.build(), max }
    }

    /// The delay before the next attempt.
    pub(crate) fn next_delay(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.max)
    }

    /// An attempt succeeded: the next delay is the first one again.
    pub(crate) fn reset(&mut self) {
        self.delays = self.policy.build();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_start_again_after_a_success() {
        let [min, max] = [100, 500].map(Duration::from_millis);
        let mut backoff = Backoff::new(min, max);
        for nominal in [100, 200, 400, 500, 500].map(Duration::from_millis) {
            let delay = backoff.next_delay();
            assert!((nominal / 2..=nominal).contains(&delay), "{delay:?} of {nominal:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= min);
    }
}
