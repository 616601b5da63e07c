//! The metrics of a node, and their OpenMetrics text format for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::broker::Receipt;
use crate::model::Millis;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: &'static str,
    outcome: &'static str,
}

/// Values that the gateway reads from its parts at each scrape; all other metrics are updated by events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels {
    /// The number of open WebSockets.
    pub connections: usize,
    /// The number of channels with subscribers on this node.
    pub channels: usize,
    /// The total size of all send queues, in bytes.
    pub queue_bytes: usize,
    /// The number of round trips to Redis since the start of the node.
    pub broker_round_trips: u64,
    /// The number of round trips to the ledger since the start of the node.
    pub ledger_round_trips: u64,
    /// Whether this node may use its caches.
    pub cache_lease: bool,
}

/// The counters, gauges and histograms of a node.
pub struct Metrics {
    registry: Mutex<Registry>,
    connections: Gauge,
    channels: Gauge,
    queue_bytes: Gauge,
    broker_round_trips: Gauge,
    ledger_round_trips: Gauge,
    accepted: Counter,
    refused: Family<ByReason, Counter>,
    closed: Family<ByCode, Counter>,
    deliveries: Counter,
    dropped: Family<ByReason, Counter>,
    gaps: Counter,
    commands: Family<ByKind, Counter>,
    operations: Family<ByOperation, Counter>,
    publish_to_socket: Histogram,
    fanout_lag: Histogram,
    fanout_inboxes: Family<ByOutcome, Counter>,
    fanout_jobs: Gauge,
    fanout_oldest: Gauge,
    pulled: Histogram,
    caught_up: Counter,
    events_pending: Gauge,
    events_oldest: Gauge<f64, AtomicU64>,
    like_events_pending: Gauge,
    events_failed: Counter,
    likes_queue: Gauge,
    quarantine: Gauge,
    unreadable_rows: Gauge,
    likes_oldest: Gauge<f64, AtomicU64>,
    likes_queued: Counter,
    likes_merged: Counter,
    likes_batch: Histogram,
    likes_settle: Histogram,
    likes_reverted: Family<ByReason, Counter>,
    invalidation_wait: Histogram,
    invalidations_unconfirmed: Counter,
    cache_lease: Gauge,
    erasures: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// A histogram of seconds with buckets from 0.5 ms to 32 s, each twice the previous one.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 17))
}

impl Metrics {
    /// Registers all metrics, each with the value 0.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("feedline")),
            connections: Gauge::default(),
            channels: Gauge::default(),
            queue_bytes: Gauge::default(),
            broker_round_trips: Gauge::default(),
            ledger_round_trips: Gauge::default(),
            accepted: Counter::default(),
            refused: Family::default(),
            closed: Family::default(),
            deliveries: Counter::default(),
            dropped: Family::default(),
            gaps: Counter::default(),
            commands: Family::default(),
            operations: Family::default(),
            publish_to_socket: latency(),
            fanout_lag: latency(),
            fanout_inboxes: Family::default(),
            fanout_jobs: Gauge::default(),
            fanout_oldest: Gauge::default(),
            pulled: latency(),
            caught_up: Counter::default(),
            events_pending: Gauge::default(),
            events_oldest: Gauge::default(),
            like_events_pending: Gauge::default(),
            events_failed: Counter::default(),
            likes_queue: Gauge::default(),
            likes_oldest: Gauge::default(),
            likes_queued: Counter::default(),
            likes_merged: Counter::default(),
            likes_batch: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            likes_settle: latency(),
            likes_reverted: Family::default(),
            quarantine: Gauge::default(),
            unreadable_rows: Gauge::default(),
            invalidation_wait: latency(),
            invalidations_unconfirmed: Counter::default(),
            cache_lease: Gauge::default(),
            erasures: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock();
        let r = &mut *registry;
        r.register("connections", "WebSockets open on this node", self.connections.clone());
        r.register("channels", "Channels with subscribers on this node", self.channels.clone());
        r.register_with_unit("queue", "Bytes in the send queues of sockets", Unit::Bytes, self.queue_bytes.clone());
        r.register("redis_round_trips", "Round trips to Redis", self.broker_round_trips.clone());
        r.register("ledger_round_trips", "Round trips to the ledger", self.ledger_round_trips.clone());
        r.register("connections_accepted", "WebSockets opened since the start", self.accepted.clone());
        r.register("connections_refused", "Connections refused, by reason", self.refused.clone());
        r.register("connections_closed", "Sockets closed by the server, by close code", self.closed.clone());
        r.register("deliveries", "Messages put into the send queues of sockets", self.deliveries.clone());
        r.register("drops", "Clients closed because their send queue was full, by reason", self.dropped.clone());
        r.register("gaps", "Gaps after lost pub/sub messages that were filled from a log", self.gaps.clone());
        r.register("commands", "Commands of clients, by kind", self.commands.clone());
        r.register("operations", "Operations run, by name and outcome", self.operations.clone());
        let unit = || Unit::Seconds;
        r.register_with_unit(
            "publish_to_socket",
            "Time from the acceptance of a post to the send queues of sockets",
            unit(),
            self.publish_to_socket.clone(),
        );
        r.register_with_unit(
            "fanout_lag",
            "Time from the creation of a fan-out job to its completion",
            unit(),
            self.fanout_lag.clone(),
        );
        r.register("fanout_inboxes", "Inboxes processed by fan-out, by outcome", self.fanout_inboxes.clone());
        r.register("fanout_jobs", "Unfinished fan-out jobs of all nodes", self.fanout_jobs.clone());
        r.register_with_unit(
            "fanout_oldest",
            "Age of the oldest unfinished fan-out job",
            unit(),
            self.fanout_oldest.clone(),
        );
        let pulled = "Time from an append to the pull log to the inboxes of followers connected to this node";
        r.register_with_unit("pulled", pulled, unit(), self.pulled.clone());
        let caught_up = "Entries of the pull log added to inboxes when these were opened or read";
        r.register("pulled_caught_up", caught_up, self.caught_up.clone());
        r.register(
            "events_pending",
            "Events of all nodes waiting to become notifications",
            self.events_pending.clone(),
        );
        let pending = "Events of likes of all nodes waiting to become notifications";
        r.register("like_events_pending", pending, self.like_events_pending.clone());
        let oldest = "Age of the oldest event waiting to become notifications";
        r.register_with_unit("events_oldest", oldest, unit(), self.events_oldest.clone());
        r.register(
            "events_failed",
            "Events that failed permanently and produced no notifications",
            self.events_failed.clone(),
        );
        r.register(
            "quarantine",
            "Jobs and likes of all nodes in quarantine, see `feedline jobs`",
            self.quarantine.clone(),
        );
        let unreadable = "Rows of the ledger that could not be decoded and were omitted, counted at each read";
        r.register("unreadable_rows", unreadable, self.unreadable_rows.clone());
        r.register("likes_queue", "Likes of all nodes waiting to be settled and announced", self.likes_queue.clone());
        let oldest = "Age of the oldest like that this node is settling";
        r.register_with_unit("likes_oldest", oldest, unit(), self.likes_oldest.clone());
        r.register("likes_queued", "Likes acknowledged", self.likes_queued.clone());
        r.register(
            "likes_merged",
            "Likes replaced by a later one of the same user and object in the same batch",
            self.likes_merged.clone(),
        );
        r.register("likes_batch", "Likes settled in one transaction", self.likes_batch.clone());
        let settle = "Time from the acknowledgement of the oldest like of a batch to its settlement";
        r.register_with_unit("likes_settle", settle, unit(), self.likes_settle.clone());
        r.register("likes_reverted", "Acknowledged likes that were reverted, by reason", self.likes_reverted.clone());
        let wait = "Time that changes waited for the other nodes to confirm an invalidation";
        r.register_with_unit("invalidation_wait", wait, unit(), self.invalidation_wait.clone());
        let unconfirmed = "Invalidations that a node did not confirm within 500 ms; it stops using its caches";
        r.register("invalidations_unconfirmed", unconfirmed, self.invalidations_unconfirmed.clone());
        r.register(
            "cache_lease",
            "1 while this node may use its caches, 0 while it is cut off from Redis or behind",
            self.cache_lease.clone(),
        );
        r.register("erasures", "Erasures of users that this node finished", self.erasures.clone());
    }

    /// Counts a WebSocket that was opened.
    pub fn accepted(&self) {
        self.accepted.inc();
    }

    /// Counts a refused connection, by reason.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a socket that the server closed, by close code.
    pub fn closed(&self, code: u16) {
        self.closed.get_or_create(&ByCode { code: code.into() }).inc();
    }

    /// Counts messages put into send queues: one for each queue.
    pub fn delivered(&self, queues: u64) {
        self.deliveries.inc_by(queues);
    }

    /// Counts a client that was disconnected because its send queue was full.
    pub fn dropped_slow(&self) {
        self.dropped.get_or_create(&ByReason { reason: "slow" }).inc();
    }

    /// Counts a gap of lost pub/sub messages that was filled from a log.
    pub fn gap(&self) {
        self.gaps.inc();
    }

    /// Counts a command of a client, by kind.
    pub fn command(&self, kind: &'static str) {
        self.commands.get_or_create(&ByKind { kind }).inc();
    }

    /// Counts an operation, by name and outcome: `ok` or the code of the error.
    pub fn operation(&self, operation: &'static str, outcome: &'static str) {
        self.operations.get_or_create(&ByOperation { operation, outcome }).inc();
    }

    /// Records the time from the acceptance of a post to the send queues, in milliseconds.
    pub fn published_to_socket(&self, after: Millis) {
        self.publish_to_socket.observe(seconds(after));
    }

    /// Records the time from the creation of a fan-out job to its completion, in milliseconds.
    pub fn fanout_done(&self, after: Millis) {
        self.fanout_lag.observe(seconds(after));
    }

    /// Counts the inboxes of one page of a fan-out job, by outcome.
    pub fn fanned_out(&self, receipts: &[Receipt]) {
        let count = |outcome, is: fn(&Receipt) -> bool| {
            let many = receipts.iter().filter(|receipt| is(receipt)).count() as u64;
            if many > 0 {
                self.fanout_inboxes.get_or_create(&ByOutcome { outcome }).inc_by(many);
            }
        };
        count("absent", |receipt| matches!(receipt, Receipt::Absent));
        count("unchanged", |receipt| matches!(receipt, Receipt::Unchanged));
        count("stored", |receipt| matches!(receipt, Receipt::Written(0)));
        count("live", |receipt| matches!(receipt, Receipt::Written(1..)));
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
    pub fn fanout_backlog(&self, jobs: u64, oldest: Option<Millis>) {
        self.fanout_jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
        self.fanout_oldest.set(i64::try_from(oldest.unwrap_or(0) / 1_000).unwrap_or(i64::MAX));
    }

    /// Sets the number of jobs and likes in quarantine.
    pub fn quarantine(&self, size: u64) {
        self.quarantine.set(i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// Counts acknowledged likes.
    pub fn likes_queued(&self, many: usize) {
        self.likes_queued.inc_by(many as u64);
    }

    /// Records a settled batch of likes: the number of its entries, the number of changes left after merging, and the
    /// time since the acknowledgement of its oldest entry in milliseconds.
    pub fn likes_settled(&self, entries: usize, changes: usize, after: Millis) {
        self.likes_batch.observe(entries as f64);
        self.likes_merged.inc_by(entries.saturating_sub(changes) as u64);
        self.likes_settle.observe(seconds(after));
    }

    /// Counts an acknowledged like that was reverted, by reason.
    pub fn like_reverted(&self, reason: &'static str) {
        self.likes_reverted.get_or_create(&ByReason { reason }).inc();
    }

    /// Records the time that a change waited for other nodes to confirm its invalidation, and counts the nodes that did
    /// not.
    pub fn invalidation_confirmed(&self, after: Duration, unconfirmed: usize) {
        self.invalidation_wait.observe(after.as_secs_f64());
        self.invalidations_unconfirmed.inc_by(unconfirmed as u64);
    }

    /// Counts a finished erasure of a user.
    pub fn erased(&self) {
        self.erasures.inc();
    }

    /// Sets the number of events waiting to become notifications, and the age of the oldest one in milliseconds;
    /// `None`: there are none.
    pub fn event_backlog(&self, events: u64, oldest: Option<Millis>) {
        self.events_pending.set(i64::try_from(events).unwrap_or(i64::MAX));
        self.events_oldest.set(seconds(oldest.unwrap_or(0)));
    }

    /// Sets the number of like events waiting to become notifications.
    pub fn like_event_backlog(&self, events: u64) {
        self.like_events_pending.set(i64::try_from(events).unwrap_or(i64::MAX));
    }

    /// Counts an event that failed permanently and produced no notifications.
    pub fn event_failed(&self) {
        self.events_failed.inc();
    }

    /// Sets the number of likes waiting to be settled, and the age of the oldest one that this node is settling, in
    /// milliseconds.
    pub fn likes_waiting(&self, likes: u64, age: Millis) {
        self.likes_queue.set(i64::try_from(likes).unwrap_or(i64::MAX));
        self.likes_oldest.set(seconds(age));
    }

    /// Encodes all metrics in the OpenMetrics text format, with these levels.
    pub fn text(&self, levels: Levels) -> String {
        let gauge = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge(&self.connections, levels.connections as u64);
        gauge(&self.channels, levels.channels as u64);
        gauge(&self.queue_bytes, levels.queue_bytes as u64);
        gauge(&self.unreadable_rows, crate::ledger::unreadable_rows());
        gauge(&self.broker_round_trips, levels.broker_round_trips);
        gauge(&self.ledger_round_trips, levels.ledger_round_trips);
        self.cache_lease.set(levels.cache_lease.into());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
    }
}

fn seconds(millis: Millis) -> f64 {
    millis as f64 / 1_000.0
}
