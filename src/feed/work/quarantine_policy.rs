//! Decides which items of work are set aside because they fail by themselves.
//!
//! An item that always fails would block everything behind it. An item that fails because a store does not work must
//! wait instead: otherwise an outage would lose work. The decision depends on the other items of its kind:
//!
//! - A store that is unreachable or refuses to work ([`FeedError::is_outage`]) never counts against an item. All items
//!   that failed before it begin anew.
//! - Any other error counts, and the item is set aside once it failed several times while others of its kind succeeded.
//! - An item that fails alone, while no other one of its kind was tried, is set aside after more attempts and some
//!   time, if both stores take a small write.
//! - If several fail and none succeeds, the cause is not a single item. The work waits, as in an outage. Items that
//!   block all workers must not wait for ever, though: one is set aside after [`STUCK_TIME`].

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::broker::Broker;
use crate::feed::error::FeedError;
use crate::ledger::{Fault, Ledger};
use crate::store_metrics::StoreMeter;

/// The number of consecutive failures before an item is set aside, if others succeed, and if it fails alone.
const MIN_FAILURES: u32 = 5;
const MIN_FAILURES_ALONE: u32 = 8;

/// A success shows that others work if it ended this long after an item began to fail: it may have been under way.
const SUCCESS_DELAY: Duration = Duration::from_millis(500);

/// How long nothing of a kind succeeded when the only item that fails is set aside, and when one of several is.
const ALONE_TIME: Duration = Duration::from_secs(15);
const STUCK_TIME: Duration = Duration::from_secs(600);

/// An item that has not failed for this long begins anew: another process runs it now.
const FORGET_AFTER: Duration = STUCK_TIME;

/// The failing items of a kind that a process counts.
const MAX_FAILING: usize = 1_000;

/// How long a reason is shown after the last failure; workers retry more often.
const REASON_SHOWN: Duration = Duration::from_secs(15);

/// The longest reason that is shown, in characters.
const MAX_REASON: usize = 300;

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

    /// Records that an item succeeded. `item`: its name among the items of the kind.
    pub(crate) fn succeeded(&self, item: impl Display) {
        self.state.lock().succeeded(item, Instant::now());
    }

    /// Records a failure of an item. Returns the fault with which it is to be quarantined; `None`: it is tried again.
    /// `cause`: the error, for operators.
    pub(crate) async fn failed(&self, item: impl Display, error: &FeedError, cause: String) -> Option<Fault> {
        let item = item.to_string();
        let failures = self.state.lock().failed(&item, error, &cause, Instant::now())?;
        let (ledger, broker) = tokio::join!(self.ledger.ping(), self.broker.ping());
        if let Err(error) = ledger.map_err(FeedError::from).and(broker.map_err(FeedError::from)) {
            self.note_failure(&error);
            return None;
        }
        self.state.lock().set_aside(&item, failures, Instant::now()).then(|| Fault::now(cause, failures))
    }

    /// Records a failure that concerns no single item. The reason of an item that failed a moment ago is kept: it is
    /// more exact.
    pub(crate) fn note_failure(&self, error: &FeedError) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if error.is_outage() || state.waits_for(now).is_none() {
            state.note_failure(error, error.reason(), now);
        }
    }

    /// Why the work waits. `None`: it goes on.
    pub(crate) fn waits_for(&self) -> Option<String> {
        self.state.lock().waits_for(Instant::now())
    }
}

/// What happened to the items of a kind.
#[derive(Debug, Default)]
struct PolicyState {
    /// The failing items, with the number of their consecutive failures that are no outages, and the last one.
    failing: HashMap<String, (u32, Instant)>,
    last_success: Option<Instant>,
    /// When an item last failed for the first time. Every item that fails now began before that.
    last_onset: Option<Instant>,
    /// When items began to fail after the last success, or when one was set aside since.
    failing_since: Option<Instant>,
    /// The last failure, and its reason.
    waits: Option<(Instant, String)>,
}

impl PolicyState {
    fn succeeded(&mut self, item: impl Display, now: Instant) {
        if !self.failing.is_empty() {
            self.failing.remove(&item.to_string());
        }
        if self.last_onset.is_some_and(|onset| now < onset + SUCCESS_DELAY) {
            // It may have been under way when others began to fail.
            return;
        }
        (self.last_success, self.failing_since, self.waits) = (Some(now), None, None);
    }

    /// Records a failure. Returns the number of consecutive failures if the item is at fault.
    fn failed(&mut self, item: &str, error: &FeedError, cause: &str, now: Instant) -> Option<u32> {
        self.note_failure(error, cause.to_owned(), now);
        if error.is_outage() {
            return None;
        }
        self.failing.retain(|_, (_, last)| now.saturating_duration_since(*last) < FORGET_AFTER);
        if self.failing.len() >= MAX_FAILING && !self.failing.contains_key(item) {
            self.failing.clear();
        }
        let (failures, last) = self.failing.entry(item.to_owned()).or_insert((0, now));
        (*failures, *last) = (*failures + 1, now);
        let failures = *failures;
        if failures == 1 {
            self.last_onset = Some(now);
        }
        self.failing_since.get_or_insert(now);
        self.is_at_fault(failures, now).then_some(failures)
    }

    fn note_failure(&mut self, error: &FeedError, reason: String, now: Instant) {
        self.waits = Some((now, reason));
        if error.is_outage() {
            self.failing.clear();
            (self.last_onset, self.failing_since) = (None, None);
        }
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
        let patience = if self.failing.len() <= 1 { ALONE_TIME } else { STUCK_TIME };
        let waited = self.failing_since.is_some_and(|since| now.saturating_duration_since(since) >= patience);
        failures >= MIN_FAILURES_ALONE && waited
    }

    /// Records that an item is set aside, unless it is not at fault any more.
    fn set_aside(&mut self, item: &str, failures: u32, now: Instant) -> bool {
        if !self.is_at_fault(failures, now) {
            return false;
        }
        self.failing.remove(item);
        self.failing_since = (!self.failing.is_empty()).then_some(now);
        self.waits = None;
        true
    }

    fn waits_for(&self, now: Instant) -> Option<String> {
        let (at, reason) = self.waits.as_ref()?;
        (now.saturating_duration_since(*at) < REASON_SHOWN).then(|| reason.clone())
    }
}

/// The state of the stores, and of the work that needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// For each store, why it does not work; `None`: it does.
    pub stores: [(&'static str, Option<String>); 2],
    /// For each kind of work, why it waits; `None`: it goes on.
    pub work: Vec<(&'static str, Option<String>)>,
}

/// The kinds of work of this process, with the policies that know what each waits for.
pub(crate) type WorkKinds = Vec<(&'static str, Arc<QuarantinePolicy>)>;

impl StoreHealth {
    /// Whether both stores work.
    pub fn is_well(&self) -> bool {
        self.stores.iter().all(|(_, trouble)| trouble.is_none())
    }

    /// Asks both stores, and collects what work waits for. A store may take the small write of this question, and
    /// refuse calls of others: their error counts for a while.
    pub(crate) async fn read(kinds: &WorkKinds, ledger: &dyn Ledger, broker: &dyn Broker) -> Self {
        let (ledger, broker) = tokio::join!(ledger.ping(), broker.ping());
        let ledger = ledger.err().map(|error| error.to_string()).or_else(|| StoreMeter::ledger().refusal());
        let broker = broker.err().map(|error| error.to_string()).or_else(|| StoreMeter::redis().refusal());
        let work = kinds.iter().map(|(kind, policy)| (*kind, policy.waits_for().as_deref().map(shorten)));
        let stores = [("ledger", ledger), ("broker", broker)];
        Self { stores: stores.map(|(name, trouble)| (name, trouble.as_deref().map(shorten))), work: work.collect() }
    }
}

fn shorten(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    impl PolicyState {
        /// Fails an item, which is quarantined if it is at fault. Returns whether it is.
        fn fail(&mut self, item: &str, now: Instant) -> bool {
            let failures = self.failed(item, &FeedError::Internal, "a bug", now);
            failures.is_some_and(|failures| self.set_aside(item, failures, now))
        }

        /// Fails an item once a second. Returns the seconds after which it is set aside.
        fn fail_for(&mut self, item: &str, from: Instant, seconds: std::ops::Range<u32>) -> Option<u32> {
            seconds.into_iter().find(|second| self.fail(item, from + SECOND * *second))
        }
    }

    #[test]
    fn items_that_fail_while_others_succeed_are_set_aside() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        assert_eq!(state.fail_for("a", now, 0..4), None);
        state.succeeded("b", now + SECOND * 3);
        assert_eq!(state.fail_for("a", now, 4..9), Some(4), "the fifth failure");
        // The failures of one item do not count against another.
        assert_eq!(state.fail_for("c", now, 5..9), None);
        state.succeeded("c", now + SECOND * 9);
        state.succeeded("b", now + SECOND * 10);
        assert_eq!(state.fail_for("c", now, 11..15), None, "it succeeded, and begins anew");
    }

    #[test]
    fn successes_that_were_under_way_do_not_count() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        state.succeeded("b", now);
        state.fail("a", now);
        state.succeeded("b", now + SUCCESS_DELAY / 2);
        assert_eq!(state.fail_for("a", now, 1..8), None, "the success may have been under way");
        state.succeeded("b", now + SECOND * 8);
        assert_eq!(state.fail_for("a", now, 9..12), Some(9));
    }

    #[test]
    fn an_item_that_fails_alone_is_set_aside_later() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        assert_eq!(state.fail_for("a", now, 0..30), Some(15), "it failed often, and for long");
        assert_eq!(state.fail_for("b", now, 16..60), Some(31), "the next one waits as long");
        let later = now + SECOND * 100;
        assert!(!state.fail("c", later) && !state.fail("c", later + ALONE_TIME), "it did not fail often");
    }

    #[test]
    fn nothing_is_set_aside_while_everything_fails() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        for item in ["a", "b", "c"] {
            assert!(!state.fail(item, now));
        }
        // It was under way.
        state.succeeded("d", now + SUCCESS_DELAY / 2);
        for seconds in 1..600 {
            for item in ["a", "b", "c"] {
                assert!(!state.fail(item, now + SECOND * seconds), "{seconds}");
            }
        }
        // Items that block all workers do not wait for ever.
        let later = now + STUCK_TIME + SECOND;
        assert!(state.fail("a", later) && !state.fail("b", later), "one at a time");
        state.succeeded("d", later + SECOND);
        assert!(state.fail("b", later + SECOND * 2));
    }

    #[test]
    fn outages_count_against_nothing() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        let away = FeedError::StoreAway("no permission".into());
        assert_eq!(state.fail_for("a", now, 0..4), None);
        for seconds in 5..90 {
            assert_eq!(state.failed("a", &away, "no permission", now + SECOND * seconds), None);
        }
        let later = now + SECOND * 90;
        assert_eq!(state.waits_for(later).as_deref(), Some("no permission"));
        assert!(!state.fail("a", later), "it begins anew");
        state.succeeded("b", later + SECOND);
        assert_eq!(state.waits_for(later + SECOND), None);
        assert_eq!(state.fail_for("a", later, 2..9), Some(5), "the fifth failure since");
    }

    #[test]
    fn reasons_are_shown_for_a_while() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        state.fail("a", now);
        assert_eq!(state.waits_for(now + SECOND).as_deref(), Some("a bug"));
        assert_eq!(state.waits_for(now + REASON_SHOWN), None, "the work goes on elsewhere");
    }

    #[test]
    fn the_counted_items_are_bounded() {
        let mut state = PolicyState::default();
        let now = Instant::now();
        for item in 0..=MAX_FAILING {
            state.fail(&item.to_string(), now);
        }
        assert_eq!(state.failing.len(), 1);
        state.fail("later", now + FORGET_AFTER);
        assert_eq!(state.failing.len(), 1, "those that another process runs are forgotten");
    }
}
