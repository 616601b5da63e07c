//! Delays between the attempts to send a message.

use std::time::Duration;

use rand::RngExt as _;

use crate::model::Platform;

/// The age after which FCM advises to drop a message that is still refused.
const FCM_GIVE_UP: Duration = Duration::from_secs(60 * 60);

/// How often a message is tried again. The number of attempts is in the queue, so that the policy has no state.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// The nominal delay after the first attempt. It doubles after each.
    pub min_delay: Duration,
    /// The longest nominal delay.
    pub max_delay: Duration,
    /// The age at which a message is given up.
    pub give_up_after: Duration,
}

impl RetryPolicy {
    /// The policy for a platform: seconds to minutes for devices, days for webhooks.
    pub fn of(platform: Platform) -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let (min, max, give_up_after) = match platform {
            Platform::Fcm => (10, 600, FCM_GIVE_UP),
            Platform::Apns => (1, 600, hours(24)),
            Platform::Webpush | Platform::Unifiedpush => (5, 900, hours(48)),
            Platform::Webhook => (1, 3600, hours(72)),
        };
        Self { min_delay: Duration::from_secs(min), max_delay: Duration::from_secs(max), give_up_after }
    }

    /// The delay after a number of failed attempts, from half of its nominal length to all of it, and never shorter
    /// than the provider demands. A demanded delay gets up to a tenth more, so that messages do not return in step.
    /// `None`: give the message up, because `age` and delay together are too long.
    pub fn delay(&self, attempts: u32, demanded: Option<Duration>, age: Duration) -> Option<Duration> {
        let doublings = attempts.saturating_sub(1).min(31);
        let nominal = self.min_delay.saturating_mul(1 << doublings).min(self.max_delay);
        let delay = jitter(nominal, 0.5..=1.0).max(demanded.map_or(Duration::ZERO, |delay| jitter(delay, 1.0..=1.1)));
        (age.saturating_add(delay) <= self.give_up_after).then_some(delay)
    }
}

fn jitter(delay: Duration, range: std::ops::RangeInclusive<f64>) -> Duration {
    delay.mul_f64(rand::rng().random_range(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_respect_the_provider() {
        let policy = RetryPolicy::of(Platform::Fcm);
        for (attempts, nominal) in [(1, 10), (2, 20), (4, 80), (7, 600), (4_000_000, 600)] {
            let delay = policy.delay(attempts, None, Duration::ZERO).unwrap().as_secs_f64();
            assert!((nominal as f64 / 2.0..=nominal as f64).contains(&delay), "{delay} after {attempts}");
        }
        let delay = policy.delay(1, Some(Duration::from_secs(1000)), Duration::ZERO).unwrap();
        assert!((1000.0..=1100.0).contains(&delay.as_secs_f64()), "{delay:?}");
    }

    #[test]
    fn old_messages_are_given_up() {
        let policy = RetryPolicy::of(Platform::Fcm);
        assert_eq!(policy.delay(1, None, Duration::from_secs(3599)), None);
        assert_eq!(policy.delay(1, Some(Duration::from_secs(3600)), Duration::from_secs(60)), None);
        assert!(policy.delay(1, None, Duration::from_secs(3000)).is_some());
    }
}
