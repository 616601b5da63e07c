//! The decision to set aside what fails.
//!
//! A job or a like that always fails would block everything behind it. It is told from an outage by its error, by
//! whether both stores answer, and by whether other work succeeds: see [`QuarantineGate`].

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Feed, FeedError};

/// How often something fails before it is set aside.
pub(super) const MAX_FAILURES: u32 = 5;

/// How many may be set aside in a row while nothing succeeds.
const MAX_IN_A_ROW: u32 = 3;

/// How long it then takes until another one may be set aside.
const PAUSE: Duration = Duration::from_secs(60);

/// Limits how much is set aside while nothing succeeds. If everything fails, the cause is not the single job: a fault
/// of the store that looks like an answer, or of this program. Work then waits, as in an outage.
#[derive(Debug, Default)]
pub(super) struct QuarantineGate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_a_row: u32,
    last: Option<Instant>,
}

impl QuarantineGate {
    /// Something succeeded.
    pub(super) fn succeeded(&self) {
        self.0.lock().in_a_row = 0;
    }

    /// Whether one more may be set aside at this time, which counts it.
    fn admit(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let waited = state.last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if state.in_a_row >= MAX_IN_A_ROW && !waited {
            return false;
        }
        state.in_a_row += 1;
        state.last = Some(now);
        true
    }
}

impl Feed {
    /// Whether something that failed so many times, the last time with this error, is to be set aside. Outages do not
    /// count as failures.
    pub(super) async fn should_quarantine(&self, gate: &QuarantineGate, failures: u32, error: &FeedError) -> bool {
        failures >= MAX_FAILURES && !error.is_outage() && self.ready().await.is_ok() && gate.admit(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_nothing_succeeds_little_is_set_aside() {
        let (gate, begun) = (QuarantineGate::default(), Instant::now());
        let admitted = |now: Instant| (0..9).filter(|_| gate.admit(now)).count();
        assert_eq!(admitted(begun), 3);
        assert_eq!(admitted(begun + PAUSE), 1);
        gate.succeeded();
        assert_eq!(admitted(begun + PAUSE), 3);
    }
}
