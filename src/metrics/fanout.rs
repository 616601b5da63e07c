//! The metrics of fan-out and of the pull log.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::instruments::{latency, seconds};
use super::known_labels::exposed;
use crate::broker::Receipt;
use crate::model::Millis;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByJobOutcome {
    outcome: &'static str,
}

/// The outcomes of the inboxes of a fan-out job.
const INBOX_OUTCOMES: [&str; 4] = ["absent", "unchanged", "stored", "live"];

fn inbox_outcome(receipt: &Receipt) -> &'static str {
    match receipt {
        Receipt::Absent => "absent",
        Receipt::Unchanged => "unchanged",
        Receipt::Written(0) => "stored",
        Receipt::Written(_) => "live",
    }
}

/// Metrics of fan-out and of the pull log.
pub struct FanoutMetrics {
    lag: Histogram,
    inboxes: Family<ByJobOutcome, Counter>,
    jobs: Gauge,
    oldest: Gauge,
    pulled: Histogram,
    caught_up: Counter,
}

impl FanoutMetrics {
    pub(super) fn new() -> Self {
        Self {
            lag: latency(),
            inboxes: exposed(INBOX_OUTCOMES.map(|outcome| ByJobOutcome { outcome })),
            jobs: Gauge::default(),
            oldest: Gauge::default(),
            pulled: latency(),
            caught_up: Counter::default(),
        }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register_with_unit(
            "fanout_lag",
            "Time from the creation of a fan-out job to its completion",
            Unit::Seconds,
            self.lag.clone(),
        );
        r.register("fanout_inboxes", "Inboxes processed by fan-out, by outcome", self.inboxes.clone());
        r.register("fanout_jobs", "Unfinished fan-out jobs of the partitions that this node owns", self.jobs.clone());
        r.register_with_unit(
            "fanout_oldest",
            "Age of the oldest unfinished fan-out job of the partitions that this node owns",
            Unit::Seconds,
            self.oldest.clone(),
        );
        let pulled = "Time from an append to the pull log to the inboxes of followers connected to this node";
        r.register_with_unit("pulled", pulled, Unit::Seconds, self.pulled.clone());
        let caught_up = "Entries of the pull log added to inboxes when these were opened or read";
        r.register("pulled_caught_up", caught_up, self.caught_up.clone());
    }

    /// Records the time from the creation of a fan-out job to its completion, in milliseconds.
    pub fn done(&self, after: Millis) {
        self.lag.observe(seconds(after));
    }

    /// Counts the inboxes of one page of a fan-out job, by outcome.
    pub fn fanned_out(&self, receipts: &[Receipt]) {
        for outcome in INBOX_OUTCOMES {
            let many = receipts.iter().filter(|receipt| inbox_outcome(receipt) == outcome).count() as u64;
            if many > 0 {
                self.inboxes.get_or_create(&ByJobOutcome { outcome }).inc_by(many);
            }
        }
    }

    /// Records the time from an append to the pull log to the inboxes of the followers connected to this node, in
    /// milliseconds.
    pub fn pulled(&self, after: Millis) {
        self.pulled.observe(seconds(after));
    }

    /// Counts entries of the pull log that were added to an inbox when it was opened or read.
    pub fn caught_up(&self, entries: u64) {
        self.caught_up.inc_by(entries);
    }

    /// Sets the number of unfinished fan-out jobs, and the age of the oldest one in milliseconds; `None`: there are
    /// none.
    pub fn backlog(&self, jobs: u64, oldest: Option<Millis>) {
        self.jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        self.oldest.set(i64::try_from(oldest.unwrap_or(0) / 1_000).unwrap_or(i64::MAX));
    }
}
