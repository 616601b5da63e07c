//! What this process observes of its stores: the time and the failures of calls, and its connections.
//!
//! Each store has one meter in the process, which the store itself updates, and the metrics expose.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::store_outage::OutageLog;

/// Why a call to a store failed, as in `feedline_store_errors_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// The store was not reached, or did not answer in time.
    Unreachable,
    /// Its queue was full.
    Busy,
    /// It refuses all such calls for now: no permission, read only, full, out of memory.
    Refused,
    /// The call itself failed.
    Failed,
    /// Its caller did not wait for the answer.
    Cancelled,
}

impl StoreFailure {
    const ALL: [Self; 5] = [Self::Unreachable, Self::Busy, Self::Refused, Self::Failed, Self::Cancelled];

    fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStore {
    store: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFailure {
    store: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    store: &'static str,
    state: &'static str,
}

/// A histogram of seconds with buckets from 0.5 ms to 32 s, each twice the previous one: that of all latencies.
pub(crate) fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 17))
}

/// The families that all meters share.
struct StoreFamilies {
    seconds: Family<ByStore, Histogram, fn() -> Histogram>,
    errors: Family<ByFailure, Counter>,
    up: Family<ByStore, Gauge>,
    connections: Family<ByState, Gauge>,
    missing: Family<ByStore, Gauge>,
    waiting: Family<ByStore, Gauge>,
}

static FAMILIES: LazyLock<StoreFamilies> = LazyLock::new(|| StoreFamilies {
    seconds: Family::new_with_constructor(latency),
    errors: Family::default(),
    up: Family::default(),
    connections: Family::default(),
    missing: Family::default(),
    waiting: Family::default(),
});

static REDIS: LazyLock<StoreMeter> = LazyLock::new(|| StoreMeter::new("redis", OutageLog::redis()));
static LEDGER: LazyLock<StoreMeter> = LazyLock::new(|| StoreMeter::new("ledger", OutageLog::ledger()));

/// The meter of one store.
#[derive(Debug)]
pub struct StoreMeter {
    store: &'static str,
    seconds: Histogram,
    outage: &'static OutageLog,
    /// Open connections. Of the embedded ledger: the threads that own a connection.
    open: AtomicI64,
    /// The connections that the store's client is to keep open; 0: as many as there are.
    wanted: AtomicI64,
    /// Calls that wait for their answer.
    in_flight: AtomicI64,
}

impl StoreMeter {
    fn new(store: &'static str, outage: &'static OutageLog) -> Self {
        for failure in StoreFailure::ALL {
            drop(FAMILIES.errors.get_or_create(&ByFailure { store, reason: failure.name() }));
        }
        let seconds = FAMILIES.seconds.get_or_create(&ByStore { store }).clone();
        let [open, wanted, in_flight] = [const { AtomicI64::new(0) }; 3];
        Self { store, seconds, outage, open, wanted, in_flight }
    }

    /// That of Redis.
    pub fn redis() -> &'static Self {
        &REDIS
    }

    /// That of the ledger.
    pub fn ledger() -> &'static Self {
        &LEDGER
    }

    /// Sets the number of connections that are to be open.
    pub fn want(&self, connections: usize) {
        self.wanted.store(i64::try_from(connections).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// A connection has opened.
    pub fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has closed.
    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// A call begins. It counts as in flight until the timer is dropped.
    pub fn begin(&self) -> CallTimer<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        CallTimer { meter: self, begun: Instant::now(), outcome: Some(StoreFailure::Cancelled) }
    }

    /// Why the store refused a call within the last seconds, or since it last accepted a small write; `None`: it did
    /// not.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.outage.refusal()
    }

    fn up(&self, is_up: bool) {
        FAMILIES.up.get_or_create(&ByStore { store: self.store }).set(is_up.into());
    }

    fn read(&self) {
        let open = self.open.load(Ordering::Relaxed);
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let used = in_flight.min(open);
        let set = |state, value| {
            FAMILIES.connections.get_or_create(&ByState { store: self.store, state }).set(value);
        };
        set("open", open);
        set("used", used);
        let missing = (self.wanted.load(Ordering::Relaxed) - open).max(0);
        FAMILIES.missing.get_or_create(&ByStore { store: self.store }).set(missing);
        FAMILIES.waiting.get_or_create(&ByStore { store: self.store }).set(in_flight - used);
    }
}

/// A call in flight.
pub struct CallTimer<'a> {
    meter: &'a StoreMeter,
    begun: Instant,
    /// `None`: the call succeeded.
    outcome: Option<StoreFailure>,
}

impl CallTimer<'_> {
    /// Records that the call succeeded.
    pub fn succeed(mut self) {
        self.outcome = None;
        self.meter.outage.answered(Instant::now());
    }

    /// Records that the call failed with this error.
    pub fn fail(mut self, failure: StoreFailure, error: &dyn fmt::Display) {
        self.outcome = Some(failure);
        match failure {
            StoreFailure::Unreachable | StoreFailure::Refused => {
                self.meter.outage.failed(error, failure == StoreFailure::Refused, Instant::now());
            }
            // The store answers.
            StoreFailure::Busy | StoreFailure::Failed => self.meter.outage.answered(Instant::now()),
            StoreFailure::Cancelled => {}
        }
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        let Self { meter, begun, outcome } = self;
        meter.in_flight.fetch_sub(1, Ordering::Relaxed);
        meter.seconds.observe(begun.elapsed().as_secs_f64());
        if let Some(failure) = outcome {
            FAMILIES.errors.get_or_create(&ByFailure { store: meter.store, reason: failure.name() }).inc();
        }
        match outcome {
            Some(StoreFailure::Cancelled) => {}
            Some(StoreFailure::Unreachable | StoreFailure::Refused) => meter.up(false),
            // A full queue and an error of the call itself say that the store answers. One that refuses some calls
            // answers others meanwhile.
            None | Some(StoreFailure::Busy | StoreFailure::Failed) => meter.up(!meter.outage.is_away()),
        }
    }
}

/// Registers the families.
pub(crate) fn register(r: &mut Registry) {
    LazyLock::force(&REDIS);
    LazyLock::force(&LEDGER);
    let seconds = "Time of calls to a store, from the request to its answer";
    r.register_with_unit("store", seconds, Unit::Seconds, FAMILIES.seconds.clone());
    let errors = "Calls to a store that failed, by reason; calls that wait in a retry count each time";
    r.register("store_errors", errors, FAMILIES.errors.clone());
    let up = "1 while a store answers, 0 while it is unreachable or refuses calls, and for up to 20 s afterwards";
    r.register("store_up", up, FAMILIES.up.clone());
    let connections = "Connections of this node to a store: open ones, and those with calls that wait for an answer";
    r.register("pool_connections", connections, FAMILIES.connections.clone());
    let missing = "Connections that this node is to have to a store and has not, as when the server's limit is reached";
    r.register("pool_missing", missing, FAMILIES.missing.clone());
    r.register("pool_waiting", "Calls that wait behind others on all connections to a store", FAMILIES.waiting.clone());
}

/// Sets the gauges.
pub(crate) fn read() {
    REDIS.read();
    LEDGER.read();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_count_calls_and_failures() {
        let meter = StoreMeter::new("test", OutageLog::redis());
        let value = |gauge: &Family<ByStore, Gauge>| gauge.get_or_create(&ByStore { store: "test" }).get();
        meter.opened();
        let first = meter.begin();
        let second = meter.begin();
        meter.read();
        assert_eq!(value(&FAMILIES.waiting), 1, "two calls share a connection");
        first.succeed();
        assert_eq!(value(&FAMILIES.up), 1);
        second.fail(StoreFailure::Unreachable, &"refused");
        assert_eq!(value(&FAMILIES.up), 0);
        meter.begin().fail(StoreFailure::Failed, &"a syntax error");
        assert_eq!(value(&FAMILIES.up), 0, "others may still fail");
        drop(meter.begin());
        meter.read();
        let used = FAMILIES.connections.get_or_create(&ByState { store: "test", state: "used" }).get();
        assert_eq!((used, value(&FAMILIES.waiting)), (0, 0));
        let failed = ByFailure { store: "test", reason: "failed" };
        assert_eq!(FAMILIES.errors.get_or_create(&failed).get(), 1);
    }
}
