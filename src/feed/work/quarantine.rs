//! Decides which items of work are set aside because they fail by themselves.
//!
//! An item that always fails would block everything behind it. An item that fails because a store does not work must
//! wait instead: otherwise an outage would lose work. The policy decides by what else happens:
//!
//! - A store that is unreachable or refuses to work ([`FeedError::is_outage`]) never counts against an item.
//! - Any other error counts, and the item is set aside once it failed several times while others of its kind succeeded.
//! - An item that fails alone, while no other one of its kind was tried, is set aside after more attempts and some
//!   time, if both stores take a small write.
//! - If several fail and none succeeds, the cause is not a single item. The work waits, as in an outage. Items that
//!   block all workers must not wait for ever, though: one is set aside after [`STUCK_TIME`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::broker::Broker;
use crate::feed::error::FeedError;
use crate::ledger::Ledger;

/// The number of consecutive failures before an item is set aside, if others succeed, and if it fails alone.
const MIN_FAILURES: u32 = 5;
const MIN_FAILURES_ALONE: u32 = 8;

/// A success shows that others work if it ended this long after an item began to fail: it may have been under way.
const SUCCESS_DELAY: Duration = Duration::from_millis(500);

/// How long nothing of a kind succeeded when the only item that fails is set aside, and when one of several is.
const ALONE_TIME: Duration = Duration::from_secs(15);
const STUCK_TIME: Duration = Duration::from_secs(600);

/// How long a reason is shown after the last failure; workers retry more often.
const REASON_SHOWN: Duration = Duration::from_secs(15);

/// Decides about the items of one kind of work.
pub(crate) struct QuarantinePolicy {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    state: Mutex<PolicyState>,
}

impl QuarantinePolicy {
    /// A policy for one kind of work on these stores.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>) -> Self {
        Self { ledger, broker, state: Mutex::default() }
    }

    /// Records that an item succeeded.
    pub(crate) fn succeeded(&self) {
        self.state.lock().succeeded(Instant::now());
    }

    /// Records a failure, and decides whether to set the item aside. `failures` counts the consecutive failures of the
    /// item that are no outages, including this one; 0 for an outage.
    pub(crate) async fn admits(&self, failures: u32, error: &FeedError) -> bool {
        if !self.state.lock().failed(failures, error, Instant::now()) {
            return false;
        }
        let (ledger, broker) = tokio::join!(self.ledger.ping(), self.broker.ping());
        if let Err(error) = ledger.map_err(FeedError::from).and(broker.map_err(FeedError::from)) {
            self.state.lock().failed(0, &error, Instant::now());
            return false;
        }
        self.state.lock().set_aside(failures, Instant::now())
    }

    /// Records an outage that concerns all items of the kind. Other errors are left to [`admits`](Self::admits).
    pub(crate) fn note_outage(&self, error: &FeedError) {
        if error.is_outage() {
            self.state.lock().failed(0, error, Instant::now());
        }
    }

    /// Records a failure of work whose items are never set aside for it.
    pub(crate) fn note_failure(&self, error: &FeedError) {
        self.state.lock().failed(0, error, Instant::now());
    }

    /// Why the work waits. `None`: it goes on.
    pub(crate) fn waits_for(&self) -> Option<String> {
        self.state.lock().waits_for(Instant::now())
    }
}

/// What happened to the items of a kind.
#[derive(Debug, Default)]
struct PolicyState {
    last_success: Option<Instant>,
    /// When an item last failed for the first time. Every item that fails now began before that.
    last_onset: Option<Instant>,
    /// The items that began to fail since the last success.
    failing: u32,
    /// When the first of these began, or one was set aside.
    failing_since: Option<Instant>,
    /// The last failure, and its reason.
    waits: Option<(Instant, String)>,
}

impl PolicyState {
    fn succeeded(&mut self, now: Instant) {
        *self = Self { last_success: Some(now), last_onset: self.last_onset, ..Self::default() };
    }

    /// Records a failure. Returns whether the item is to be set aside.
    fn failed(&mut self, failures: u32, error: &FeedError, now: Instant) -> bool {
        self.waits = Some((now, error.reason()));
        if failures == 0 || error.is_outage() {
            // Items that failed before the outage begin anew.
            (self.last_onset, self.failing, self.failing_since) = (None, 0, None);
            return false;
        }
        if failures == 1 || self.last_onset.is_none() {
            self.last_onset = Some(now);
            self.failing += 1;
        }
        self.failing_since.get_or_insert(now);
        self.is_at_fault(failures, now)
    }

    /// Whether an item that failed so often is at fault itself.
    fn is_at_fault(&self, failures: u32, now: Instant) -> bool {
        if failures < MIN_FAILURES {
            return false;
        }
        let others = self.last_success.zip(self.last_onset);
        if others.is_some_and(|(success, onset)| success >= onset + SUCCESS_DELAY) {
            return true;
        }
        let patience = if self.failing <= 1 { ALONE_TIME } else { STUCK_TIME };
        let waited = self.failing_since.is_some_and(|since| now.saturating_duration_since(since) >= patience);
        failures >= MIN_FAILURES_ALONE && waited
    }

    /// Records that an item is set aside, unless it is not at fault any more.
    fn set_aside(&mut self, failures: u32, now: Instant) -> bool {
        if !self.is_at_fault(failures, now) {
            return false;
        }
        self.failing = self.failing.saturating_sub(1);
        self.failing_since = (self.failing > 0).then_some(now);
        self.waits = None;
        true
    }

    fn waits_for(&self, now: Instant) -> Option<String> {
        let (at, reason) = self.waits.as_ref()?;
        (now.saturating_duration_since(*at) < REASON_SHOWN).then(|| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Fails an item `failures` times, once a second. Returns whether it is at fault after the last one.
    fn fail(state: &mut PolicyState, from: Instant, failures: std::ops::RangeInclusive<u32>) -> bool {
        let begun = *failures.start();
        failures.map(|count| state.failed(count, &FeedError::Internal, from + SECOND * (count - begun))).last()
            == Some(true)
    }

    #[test]
    fn items_that_fail_while_others_succeed_are_set_aside() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        assert!(!fail(&mut state, now, 1..=4));
        state.succeeded(now + SECOND * 4);
        assert!(!fail(&mut state, now + SECOND * 4, 4..=4), "too few failures");
        assert!(fail(&mut state, now + SECOND * 5, 5..=5));
        assert!(state.set_aside(5, now + SECOND * 5));
        // Others that began to fail before this success are at fault, too.
        assert!(fail(&mut state, now + SECOND * 6, 6..=6));
    }

    #[test]
    fn successes_that_were_under_way_do_not_count() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        state.succeeded(now);
        state.failed(1, &FeedError::Internal, now);
        state.succeeded(now + SUCCESS_DELAY / 2);
        assert!(!fail(&mut state, now + SECOND, 2..=7), "the success may have been under way");
        state.succeeded(now + SECOND * 8);
        assert!(fail(&mut state, now + SECOND * 9, 8..=8));
    }

    #[test]
    fn an_item_that_fails_alone_is_set_aside_later() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        assert!(!fail(&mut state, now, 1..=12), "it failed often, and not for long");
        assert!(!state.failed(MIN_FAILURES_ALONE - 1, &FeedError::Internal, now + ALONE_TIME), "it did not fail often");
        assert!(state.failed(MIN_FAILURES_ALONE, &FeedError::Internal, now + ALONE_TIME));
        assert!(state.set_aside(MIN_FAILURES_ALONE, now + ALONE_TIME));
        assert!(!fail(&mut state, now + ALONE_TIME, 1..=9), "the next one waits as long");
    }

    #[test]
    fn nothing_is_set_aside_while_everything_fails() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        state.succeeded(now);
        for count in 1..=60 {
            for _ in 0..3 {
                assert!(!state.failed(count, &FeedError::Internal, now + SECOND * count), "{count}");
            }
        }
        // Items that block all workers do not wait for ever.
        let later = now + STUCK_TIME + SECOND;
        assert!(state.failed(61, &FeedError::Internal, later) && state.set_aside(61, later));
        assert!(!state.failed(61, &FeedError::Internal, later), "one at a time");
        state.succeeded(later + SECOND);
        assert!(state.failed(62, &FeedError::Internal, later + SECOND));
    }

    #[test]
    fn outages_count_against_nothing() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        let away = FeedError::StoreAway("no permission".into());
        assert!(!fail(&mut state, now, 1..=4));
        assert!(!state.failed(0, &away, now + SECOND * 5));
        for seconds in 6..90 {
            // Even a caller that counts outages.
            assert!(!state.failed(seconds, &away, now + SECOND * seconds));
        }
        let later = now + SECOND * 90;
        assert_eq!(state.waits_for(later).as_deref(), Some("no permission"));
        assert!(!state.failed(5, &FeedError::Internal, later), "it begins anew");
        state.succeeded(later + SECOND);
        assert_eq!(state.waits_for(later + SECOND), None);
        assert!(state.failed(6, &FeedError::Internal, later + SECOND));
    }

    #[test]
    fn reasons_are_shown_for_a_while() {
        let (mut state, now) = (PolicyState::default(), Instant::now());
        state.failed(1, &FeedError::Internal, now);
        assert!(state.waits_for(now + SECOND).is_some());
        assert_eq!(state.waits_for(now + REASON_SHOWN), None, "the work goes on elsewhere");
    }
}
