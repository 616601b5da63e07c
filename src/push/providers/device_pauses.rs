//! Devices that receive too much: their provider answered 429 for one of them alone. All messages to such a device
//! wait, as each further request would be refused and prolong that. Each process knows its own.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Outcome, Scope, Target};

/// The pause after the first refusal of a device, unless the provider demands a longer one. It doubles with each.
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
            Outcome::Retry { after, scope: Scope::Device, reason } if reason.is_throttling() => {
                self.pause(target, *after, now);
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

    fn pause(&self, target: &Target, demanded: Option<Duration>, now: Instant) {
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
        let own = MIN_PAUSE.saturating_mul(1 << pause.refusals.min(16)).min(MAX_PAUSE);
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
    use crate::push::providers::Reason;

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

    #[test]
    fn other_outcomes_pause_nothing_and_memory_is_bounded() {
        let target = |n: usize| Target::fcm(&format!("token-{n}")).unwrap();
        let pauses = DevicePauses::new();
        let start = Instant::now();
        pauses.observe(&target(0), &Outcome::retry(Scope::Device, Reason::new("timeout")), start);
        pauses.observe(&target(0), &Outcome::retry(Scope::Origin, Reason::new("too_many_requests")), start);
        assert_eq!(pauses.remaining(&target(0), start), None);
        for n in 0..CAPACITY + 10 {
            pauses.observe(&target(n), &refused(None), start);
        }
        assert_eq!(pauses.devices.lock().len(), CAPACITY);
        pauses.observe(&target(CAPACITY + 20), &refused(None), start + MIN_PAUSE + MEMORY);
        assert_eq!(pauses.devices.lock().len(), 1);
    }
}
