//! Pushes that are being sent, by device: they count towards the daily cap before their acceptance is recorded.
//!
//! The queue counts accepted pushes when it is read. A push that is decided on meanwhile would pass the cap together
//! with all others that are due. So each push that may be sent is reserved here until its result is recorded, and an
//! accepted one a little longer, for decisions whose count was read before. Other processes are not included.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ledger::PushKey;
use crate::model::{DeviceId, UserId};

/// How long an accepted push is kept after it was recorded: longer than from the read of a count to its decision.
const KEPT: Duration = Duration::from_secs(3);

type DeviceKey = (UserId, DeviceId);

/// The pushes of this process that are being sent.
#[derive(Debug, Default)]
pub(crate) struct SendTally {
    state: Mutex<TallyState>,
}

#[derive(Debug, Default)]
struct TallyState {
    by_device: HashMap<DeviceKey, DeviceTally>,
    /// Accepted pushes by the time of their record, the oldest first.
    recorded: VecDeque<(Instant, DeviceKey)>,
}

#[derive(Debug, Default)]
struct DeviceTally {
    /// Being sent.
    sending: u64,
    /// When accepted ones were recorded, the oldest first.
    recorded: VecDeque<Instant>,
}

/// A push that may be sent. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct SendReservation {
    tally: Arc<SendTally>,
    key: DeviceKey,
}

impl SendTally {
    /// Reserves a push. `None`: with the `accepted` ones, which were counted at `counted_at`, the device has reached
    /// its cap.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        key: &PushKey,
        cap: u64,
        (accepted, counted_at): (u64, Instant),
    ) -> Option<SendReservation> {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        let key = (key.user.clone(), key.device.clone());
        let sent = state.by_device.get(&key).map_or(0, |tally| {
            let uncounted = tally.recorded.iter().filter(|at| **at >= counted_at).count();
            tally.sending.saturating_add(uncounted as u64)
        });
        if accepted.saturating_add(sent) >= cap {
            return None;
        }
        state.by_device.entry(key.clone()).or_default().sending += 1;
        drop(state);
        Some(SendReservation { tally: Arc::clone(self), key })
    }
}

impl SendReservation {
    /// The acceptance of the push was recorded in the ledger.
    pub(crate) fn recorded(self) {
        self.recorded_at(Instant::now());
    }

    fn recorded_at(self, now: Instant) {
        let mut state = self.tally.state.lock();
        state.recorded.push_back((now, self.key.clone()));
        state.by_device.entry(self.key.clone()).or_default().recorded.push_back(now);
    }
}

impl Drop for SendReservation {
    fn drop(&mut self) {
        let mut state = self.tally.state.lock();
        if let Some(tally) = state.by_device.get_mut(&self.key) {
            tally.sending = tally.sending.saturating_sub(1);
        }
        state.remove_if_empty(&self.key);
    }
}

impl TallyState {
    fn expire(&mut self, now: Instant) {
        while self.recorded.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= KEPT)
            && let Some((_, key)) = self.recorded.pop_front()
        {
            if let Some(tally) = self.by_device.get_mut(&key) {
                tally.recorded.pop_front();
            }
            self.remove_if_empty(&key);
        }
    }

    fn remove_if_empty(&mut self, key: &DeviceKey) {
        if self.by_device.get(key).is_some_and(|tally| tally.sending == 0 && tally.recorded.is_empty()) {
            self.by_device.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(item: u64) -> PushKey {
        let user = UserId::parse("ann").expect("an id");
        let device = DeviceId::parse("phone").expect("an id");
        PushKey { user, device, item }
    }

    #[test]
    fn pushes_count_until_the_ledger_counts_them() {
        let tally = Arc::new(SendTally::default());
        let read = Instant::now();
        let recorded = read + Duration::from_millis(10);
        let read_again = read + Duration::from_millis(20);
        let first = tally.reserve(&key(1), 3, (1, read)).expect("room");
        let second = tally.reserve(&key(2), 3, (1, read)).expect("room");
        assert!(tally.reserve(&key(3), 3, (1, read)).is_none(), "one was accepted, two are being sent");
        // A push that failed makes room.
        drop(second);
        let second = tally.reserve(&key(3), 3, (1, read)).expect("room again");
        first.recorded_at(recorded);
        assert!(tally.reserve(&key(4), 3, (1, read)).is_none(), "its count does not include the first one");
        assert!(tally.reserve(&key(4), 4, (2, read_again)).is_some(), "this one does");
        drop(second);
        tally.state.lock().expire(recorded + KEPT);
        assert!(tally.state.lock().by_device.is_empty(), "nothing is kept");
    }
}
