//! The log lines of a store's outage, or of another server's: one when it begins, one a minute, one when it ends.
//!
//! Calls report their outcomes. While a store is away, each part of the server that waits for it logs so, too; these
//! lines are counted instead of written (`logs/repeats.rs`).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The interval of lines during an outage.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The time without a failure after which an answer ends the outage. Before that, some calls may be answered while
/// others are not: a store that refuses some of them answers the rest all the time. Meanwhile a node asks it with small
/// writes (`feed/nodes`).
const QUIET: Duration = Duration::from_secs(1);
const QUIET_AFTER_REFUSAL: Duration = Duration::from_secs(15);

/// The outage of one server, if there is one.
#[derive(Debug)]
pub(crate) struct OutageLog {
    store: &'static str,
    /// Its name in a sentence.
    name: &'static str,
    /// How errors of its outages begin, as users of the store log them.
    errors: &'static [&'static str],
    is_away: AtomicBool,
    outage: Mutex<Option<Outage>>,
}

#[derive(Debug)]
struct Outage {
    began: Instant,
    last_failure: Instant,
    /// Whether the last failure was a refusal.
    refuses: bool,
    reported: Instant,
    failed_calls: u64,
    /// The reason of the last failure.
    reason: String,
    /// The lines of others that were not written.
    lines: u64,
}

/// The error of an operation that waits for either store.
pub(crate) const UNAVAILABLE: &str = "temporarily unavailable";

static REDIS: OutageLog =
    OutageLog::new("redis", "a store", &["the broker is unreachable", "the broker refuses to work"]);
static LEDGER: OutageLog =
    OutageLog::new("ledger", "a store", &["the ledger is unreachable", "the ledger refuses to work"]);

impl OutageLog {
    /// No outage. Log lines have `store` as a field, and begin with `name`. Lines of others whose error begins with one
    /// of `errors` repeat the outage.
    pub(crate) const fn new(store: &'static str, name: &'static str, errors: &'static [&'static str]) -> Self {
        Self { store, name, errors, is_away: AtomicBool::new(false), outage: Mutex::new(None) }
    }

    /// That of Redis.
    pub(crate) fn redis() -> &'static Self {
        &REDIS
    }

    /// That of the ledger.
    pub(crate) fn ledger() -> &'static Self {
        &LEDGER
    }

    /// A call failed because the store was not reached, or (`refuses`) refuses all such calls.
    pub(crate) fn failed(&self, error: &dyn fmt::Display, refuses: bool, now: Instant) {
        // Some servers answer in several lines.
        let reason = error.to_string().replace('\n', " ");
        let mut outage = self.outage.lock();
        let Some(outage) = &mut *outage else {
            tracing::warn!(store = self.store, reason, "{} is away", self.name);
            *outage = Some(Outage {
                began: now,
                last_failure: now,
                refuses,
                reported: now,
                failed_calls: 1,
                reason,
                lines: 0,
            });
            self.is_away.store(true, Ordering::Relaxed);
            return;
        };
        outage.refuses = refuses;
        outage.reason.clone_from(&reason);
        outage.last_failure = now;
        outage.failed_calls += 1;
        if now.duration_since(outage.reported) >= REPORT_INTERVAL {
            outage.reported = now;
            let Outage { began, failed_calls, lines, .. } = *outage;
            let seconds = now.duration_since(began).as_secs();
            let name = self.name;
            tracing::warn!(store = self.store, seconds, failed_calls, lines, reason, "{name} is still away");
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&self, now: Instant) {
        if !self.is_away() {
            return;
        }
        let mut outage = self.outage.lock();
        let is_quiet = |outage: &mut Outage| {
            let quiet = if outage.refuses { QUIET_AFTER_REFUSAL } else { QUIET };
            now.saturating_duration_since(outage.last_failure) >= quiet
        };
        if let Some(Outage { began, failed_calls, lines, .. }) = outage.take_if(is_quiet) {
            self.is_away.store(false, Ordering::Relaxed);
            let seconds = now.duration_since(began).as_secs();
            tracing::info!(store = self.store, seconds, failed_calls, lines, "{} is back", self.name);
        }
    }

    /// Whether the store is away.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Why the store refuses some calls while it answers others. `None`: it does not, or is not reached.
    pub(crate) fn refusal(&self) -> Option<String> {
        let outage = self.outage.lock();
        outage.as_ref().filter(|outage| outage.refuses).map(|outage| outage.reason.clone())
    }

    /// Whether an error is of this outage: the store is away, and the error says only that.
    fn covers(&self, error: &str) -> bool {
        let is_of_store = || error.starts_with(UNAVAILABLE) || self.errors.iter().any(|text| error.starts_with(text));
        self.is_away() && is_of_store()
    }

    fn count_line(&self) {
        if let Some(outage) = &mut *self.outage.lock() {
            outage.lines += 1;
        }
    }
}

/// Whether a line with this error says only that a store is away, which is logged already. The line is counted then.
pub(crate) fn repeats_outage(error: &str) -> bool {
    let covering = [&LEDGER, &REDIS].into_iter().find(|log| log.covers(error));
    covering.inspect(|log| log.count_line()).is_some()
}

/// Whether a store is away.
pub(crate) fn any_away() -> bool {
    [&LEDGER, &REDIS].iter().any(|log| log.is_away())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerError;
    use crate::feed::FeedError;
    use crate::ledger::LedgerError;
    use crate::store_refusal::Refusal;

    #[test]
    fn an_outage_covers_the_errors_of_its_store() {
        let away = |store, errors| {
            let log = OutageLog::new(store, "a store", errors);
            log.failed(&"refused", false, Instant::now());
            log
        };
        let (ledger, redis) = (away("ledger", LEDGER.errors), away("redis", REDIS.errors));
        let of_ledger = [LedgerError::Unreachable("x".into()), LedgerError::Refused(Refusal::Disk, "x".into())];
        let of_redis = [BrokerError::Unreachable("x".into()), BrokerError::Refused(Refusal::ReadOnly, "x".into())];
        for error in of_ledger.map(|error| error.to_string()) {
            assert!(ledger.covers(&error) && !redis.covers(&error), "{error}");
        }
        for error in of_redis.map(|error| error.to_string()) {
            assert!(redis.covers(&error) && !ledger.covers(&error), "{error}");
        }
        let waiting = FeedError::Unavailable.to_string();
        assert!(ledger.covers(&waiting) && redis.covers(&waiting), "{waiting}");
        assert!(!ledger.covers(&LedgerError::Failed("x".into()).to_string()), "it says more");
    }

    #[test]
    fn an_outage_ends_with_an_answer_after_a_quiet_moment() {
        let log = OutageLog::new("ledger", "a store", LEDGER.errors);
        let begin = Instant::now();
        log.answered(begin);
        log.failed(&"refused", false, begin);
        log.answered(begin + QUIET / 2);
        assert!(log.covers(UNAVAILABLE), "others may still fail");
        log.failed(&"refused", false, begin + REPORT_INTERVAL);
        log.answered(begin + REPORT_INTERVAL + QUIET / 2);
        assert!(log.covers(UNAVAILABLE));
        log.answered(begin + REPORT_INTERVAL + QUIET);
        assert!(!log.covers(UNAVAILABLE) && log.outage.lock().is_none());

        log.failed(&"no permission", true, begin);
        log.answered(begin + QUIET);
        assert!(log.is_away(), "it answers all calls but some");
        log.answered(begin + QUIET_AFTER_REFUSAL);
        assert!(!log.is_away());
    }
}
