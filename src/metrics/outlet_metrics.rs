//! The metrics of the outlet.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::instruments::{Described, seconds};
use crate::model::Millis;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEventType {
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByConsumer {
    consumer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByConsumerAndReason {
    consumer: String,
    reason: &'static str,
}

/// The outlet. Consumers are configured, so their names are few.
#[derive(Default)]
pub struct OutletMetrics {
    published: Family<ByEventType, Counter>,
    delivered: Family<ByConsumer, Counter>,
    rejected: Family<ByConsumerAndReason, Counter>,
    failed: Family<ByConsumer, Counter>,
    missed: Family<ByConsumer, Counter>,
    waiting: Family<ByConsumer, Gauge>,
    lag: Family<ByConsumer, Gauge<f64, AtomicU64>>,
    set_aside: Family<ByConsumer, Gauge>,
    activity_dropped: Counter,
    /// The consumers with a cursor, as configured. Their backlogs are 0 on nodes that do not measure them.
    consumers: OnceLock<Vec<String>>,
}

impl OutletMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let published = "Events that this node appended to the outlet, by type";
        r.register("outlet_events", published, Described(self.published.clone()));
        r.register("outlet_delivered", "Events that a consumer took from this node", Described(self.delivered.clone()));
        let rejected = "Attempts that a webhook or the stream did not accept, by reason";
        r.register("outlet_rejected", rejected, Described(self.rejected.clone()));
        r.register("outlet_given_up", "Events that this node set aside", Described(self.failed.clone()));
        let missed = "Events that were older than outlet.retention before the consumer took them";
        r.register("outlet_missed", missed, Described(self.missed.clone()));
        r.register(
            "outlet_waiting",
            "Events that a consumer has not taken yet; one node measures it",
            Described(self.waiting.clone()),
        );
        let lag = "Age of the oldest event that a consumer has not taken yet; one node measures it";
        r.register_with_unit("outlet_lag", lag, Unit::Seconds, Described(self.lag.clone()));
        let aside = "Events that are set aside, see `feedline quarantine list`; one node measures it";
        r.register("outlet_set_aside", aside, Described(self.set_aside.clone()));
        let dropped = "Connections and departures of users that caused no event, because too many waited";
        r.register("outlet_activity_dropped", dropped, self.activity_dropped.clone());
    }

    /// Exposes the types of events, and the consumers with a cursor.
    pub fn expose(&self, types: &[&str], consumers: Vec<String>) {
        for kind in types {
            drop(self.published.get_or_create(&ByEventType { r#type: (*kind).to_owned() }));
        }
        for consumer in &consumers {
            drop(self.delivered.get_or_create(&of(consumer)));
            drop(self.missed.get_or_create(&of(consumer)));
        }
        let consumers = self.consumers.get_or_init(|| consumers);
        consumers.iter().for_each(|consumer| self.backlog(consumer, 0, 0, 0));
    }

    /// Exposes a consumer that this process sends events to, and reasons for which it may reject them. Further reasons
    /// appear when they occur.
    pub fn expose_target(&self, consumer: &str, reasons: &[&'static str]) {
        drop(self.delivered.get_or_create(&of(consumer)));
        drop(self.failed.get_or_create(&of(consumer)));
        for reason in reasons {
            drop(self.rejected.get_or_create(&ByConsumerAndReason { consumer: consumer.to_owned(), reason }));
        }
    }

    /// Counts an event that was appended to the log.
    pub fn published(&self, kind: &str) {
        self.published.get_or_create(&ByEventType { r#type: kind.to_owned() }).inc();
    }

    /// Counts an event that a consumer took.
    pub fn delivered(&self, consumer: &str) {
        self.delivered.get_or_create(&of(consumer)).inc();
    }

    /// Counts an attempt that was not accepted.
    pub fn rejected(&self, consumer: &str, reason: &'static str) {
        self.rejected.get_or_create(&ByConsumerAndReason { consumer: consumer.to_owned(), reason }).inc();
    }

    /// Counts an event that was set aside.
    pub fn failed(&self, consumer: &str) {
        self.failed.get_or_create(&of(consumer)).inc();
    }

    /// Counts events that were trimmed before the consumer took them.
    pub fn missed(&self, consumer: &str, events: u64) {
        self.missed.get_or_create(&of(consumer)).inc_by(events);
    }

    /// Sets the backlog of a consumer: the waiting events, the age of the oldest in milliseconds, and those set aside.
    pub fn backlog(&self, consumer: &str, waiting: u64, age: Millis, set_aside: u64) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.get_or_create(&of(consumer)).set(number(waiting));
        self.lag.get_or_create(&of(consumer)).set(seconds(age));
        self.set_aside.get_or_create(&of(consumer)).set(number(set_aside));
    }

    /// Forgets the backlogs: another node measures them.
    pub fn forget_backlogs(&self) {
        self.waiting.clear();
        self.lag.clear();
        self.set_aside.clear();
        let consumers = self.consumers.get().into_iter().flatten();
        consumers.for_each(|consumer| self.backlog(consumer, 0, 0, 0));
    }

    /// Counts reports of connections that were dropped.
    pub fn activity_dropped(&self, reports: u64) {
        self.activity_dropped.inc_by(reports);
    }
}

fn of(consumer: &str) -> ByConsumer {
    ByConsumer { consumer: consumer.to_owned() }
}
