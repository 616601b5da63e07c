//! Decides which jobs and likes to quarantine because they always fail.
//!
//! A job or a like that always fails would block everything behind it. The policy distinguishes this from an outage by
//! the error, by whether both stores answer, and by whether other work succeeds.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::FeedError;
use crate::broker::Broker;
use crate::ledger::Ledger;

/// The number of consecutive failures before an entry is quarantined.
const MAX_FAILURES: u32 = 5;

/// The maximal number of consecutive quarantined entries while nothing succeeds.
const MAX_IN_A_ROW: u32 = 3;

/// The pause after which one more entry may be quarantined.
const PAUSE: Duration = Duration::from_secs(60);

/// Decides which entries to quarantine.
pub(crate) struct QuarantinePolicy {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    gate: Gate,
}

impl QuarantinePolicy {
    /// A policy for one kind of work on these stores.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>) -> Self {
        Self { ledger, broker, gate: Gate::default() }
    }

    /// Records that some of the work succeeded.
    pub(crate) fn succeeded(&self) {
        self.gate.succeeded();
    }

    /// Whether to quarantine an entry after this number of failures, the last one with this error. Outages do not count
    /// as failures.
    pub(crate) async fn admits(&self, failures: u32, error: &FeedError) -> bool {
        failures >= MAX_FAILURES
            && !error.is_outage()
            && self.ledger.ping().await.is_ok()
            && self.broker.ping().await.is_ok()
            && self.gate.admit(Instant::now())
    }
}

/// Limits the number of quarantined entries while nothing succeeds. If everything fails, the cause is not a single job,
/// but an error of the store that looks like a reply, or of this program. The work then waits, as in an outage.
#[derive(Debug, Default)]
struct Gate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    in_a_row: u32,
    last: Option<Instant>,
}

impl Gate {
    fn succeeded(&self) {
        self.0.lock().in_a_row = 0;
    }

    /// Whether one more entry may be quarantined now. Counts it if so.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarantine_is_limited_while_nothing_succeeds() {
        let (gate, begun) = (Gate::default(), Instant::now());
        let admitted = |now: Instant| (0..9).filter(|_| gate.admit(now)).count();
        assert_eq!(admitted(begun), 3);
        assert_eq!(admitted(begun + PAUSE), 1);
        gate.succeeded();
        assert_eq!(admitted(begun + PAUSE), 3);
    }
}
