//! Devices that are refused: their provider answered 429 for one of them alone, or their own endpoint answered 429, 5xx
//! or nothing. All messages to such a device wait, as each further request would be refused, too, and would occupy a
//! slot meanwhile. Each process knows its own.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::retry::RetryPolicy;
use super::{Outcome, Scope, Target};

/// The pause after the first 429 of a device, unless the provider demands a longer one. It doubles with each. After
/// other refusals, the pause begins with the delay of the message itself.
const MIN_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(30 * 60);

/// How long the refusals of a device are remembered after its pause.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// The maximum number of devices that are known. Others are sent to, and refused, until one is forgotten.
const CAPACITY: usize = 20_000;

/// The devices that wait.
pub(super) struct DevicePauses {
    /// By the hash of their address, which is a credential.
    devices: Mutex<HashMap<u64, Pause>>,
    hasher: RandomState,
}

struct Pause {
    until: Instant,
    refusals: u32,
}

impl DevicePauses {
    /// No device waits.
    pub(super) fn new() -> Self {
        Self { devices: Mutex::default(), hasher: RandomState::new() }
    }

    /// How long a device is to be left alone; `None`: it may be sent a message.
    pub(super) fn remaining(&self, target: &Target, now: Instant) -> Option<Duration> {
        let devices = self.devices.lock();
        if devices.is_empty() {
            return None;
        }
        let left = devices.get(&self.key(target))?.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Takes account of an outcome.
    pub(super) fn observe(&self, target: &Target, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Retry { after, scope: Scope::Device | Scope::Origin, reason } if reason.is_throttling() => {
                self.pause(target, MIN_PAUSE, *after, now);
            }
            Outcome::Retry { after, scope: Scope::Origin, .. } => {
                self.pause(target, RetryPolicy::of(target.platform()).min_delay, *after, now);
            }
            Outcome::Accepted { .. } => {
                let mut devices = self.devices.lock();
                if !devices.is_empty() {
                    devices.remove(&self.key(target));
                }
            }
            _ => {}
        }
    }

    fn pause(&self, target: &Target, first: Duration, demanded: Option<Duration>, now: Instant) {
        let key = self.key(target);
        let mut devices = self.devices.lock();
        if devices.len() >= CAPACITY && !devices.contains_key(&key) {
            devices.retain(|_, pause| now < pause.until + MEMORY);
            if devices.len() >= CAPACITY {
                return;
            }
        }
        let pause = devices.entry(key).or_insert(Pause { until: now, refusals: 0 });
        if pause.until + MEMORY <= now {
            pause.refusals = 0;
        }
        let own = first.saturating_mul(1 << pause.refusals.min(16)).min(MAX_PAUSE);
        // Requests that were under way when the first was refused say nothing new.
        if pause.until <= now {
            pause.refusals = pause.refusals.saturating_add(1);
            pause.until = now + own.max(demanded.unwrap_or_default());
        } else {
            pause.until = pause.until.max(now + demanded.unwrap_or_default());
        }
    }

    fn key(&self, target: &Target) -> u64 {
        self.hasher.hash_one((target.platform(), target.address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Platform;
    use crate::push::providers::Reason;
    use crate::push::providers::endpoint::EndpointUrl;

    fn refused(after: Option<u64>) -> Outcome {
        let after = after.map(Duration::from_secs);
        let reason = Reason::new("too_many_requests");
        Outcome::Retry { after, scope: Scope::Device, reason }
    }

    #[test]
    fn a_device_that_is_refused_waits_and_others_do_not() {
        let one = Target::fcm("one").unwrap();
        let other = Target::fcm("other").unwrap();
        let pauses = DevicePauses::new();
        let start = Instant::now();
        pauses.observe(&one, &refused(None), start);
        pauses.observe(&one, &refused(None), start);
        assert_eq!((pauses.remaining(&one, start), pauses.remaining(&other, start)), (Some(MIN_PAUSE), None));
        let later = start + MIN_PAUSE;
        assert_eq!(pauses.remaining(&one, later), None);
        pauses.observe(&one, &refused(None), later);
        assert_eq!(pauses.remaining(&one, later), Some(2 * MIN_PAUSE), "refused again");
        pauses.observe(&one, &refused(Some(600)), later);
        assert_eq!(pauses.remaining(&one, later), Some(Duration::from_secs(600)), "the provider demands more");
        pauses.observe(&one, &Outcome::accepted(None), later);
        assert_eq!(pauses.remaining(&one, later), None);
        pauses.observe(&one, &refused(None), later);
        assert_eq!(pauses.remaining(&one, later), Some(MIN_PAUSE), "the former refusals are forgotten");
    }

    /// 429, 5xx and silence of an endpoint concern the device that has it.
    #[test]
    fn what_an_origin_refuses_pauses_the_device() {
        let hook = |path: &str| {
            let url = EndpointUrl::parse(&format!("https://hooks.example/{path}")).unwrap();
            Target::Webhook { url, secret: None }
        };
        let first = RetryPolicy::of(Platform::Webhook).min_delay;
        let day = Duration::from_secs(86_400);
        for (code, after, pause) in [
            ("too_many_requests", None, MIN_PAUSE),
            ("too_many_requests", Some(day), day),
            ("server_error", None, first),
            ("server_error", Some(day), day),
            ("timeout", None, first),
            ("connect", None, first),
        ] {
            let pauses = DevicePauses::new();
            let start = Instant::now();
            let refused = Outcome::Retry { after, scope: Scope::Origin, reason: Reason::new(code) };
            pauses.observe(&hook("one"), &refused, start);
            let remaining = ["one", "other"].map(|path| pauses.remaining(&hook(path), start));
            assert_eq!(remaining, [Some(pause), None], "{code} {after:?}");
        }
    }

    #[test]
    fn other_outcomes_pause_nothing_and_memory_is_bounded() {
        let target = |n: usize| Target::fcm(&format!("token-{n}")).unwrap();
        let pauses = DevicePauses::new();
        let start = Instant::now();
        pauses.observe(&target(0), &Outcome::retry(Scope::Device, Reason::new("timeout")), start);
        pauses.observe(&target(0), &Outcome::retry(Scope::Provider, Reason::new("unavailable")), start);
        assert_eq!(pauses.remaining(&target(0), start), None);
        for n in 0..CAPACITY + 10 {
            pauses.observe(&target(n), &refused(None), start);
        }
        assert_eq!(pauses.devices.lock().len(), CAPACITY);
        pauses.observe(&target(CAPACITY + 20), &refused(None), start + MIN_PAUSE + MEMORY);
        assert_eq!(pauses.devices.lock().len(), 1);
    }
}
