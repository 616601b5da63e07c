//! The metrics of a node, and their text formats for Prometheus.

mod exposition;
mod fanout;
mod instruments;
mod known_labels;
mod likes;
mod outlet_metrics;
mod process;
mod pushes;
mod requests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::denials;
use crate::logs;
use crate::model::Millis;
use crate::store_metrics;
use crate::supervisor;
use crate::telemetry;

use instruments::{ByClass, ByCode, ByKind, ByOutcome, ByReason, ByTransport, ByVersion, latency, seconds};
use known_labels::{COMMANDS, EMULATION_OUTCOMES, RATE_CLASSES, REFUSALS, SLOW, TRANSPORTS, close_codes, exposed};
use process::ProcessMetrics;

pub use exposition::TextFormat;

pub use fanout::FanoutMetrics;
pub use known_labels::RecoveryOutcome;
pub use likes::LikeMetrics;
pub use outlet_metrics::OutletMetrics;
pub use pushes::PushMetrics;
pub use requests::RequestMetrics;

/// Values that the gateway reads from its parts at each scrape; all other metrics are updated by events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels {
    /// The number of open connections of clients.
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
    /// The number of nodes with a lease, this one included.
    pub nodes: usize,
    /// The number of items that this node dropped from the quarantine.
    pub quarantine_dropped: u64,
    /// The number of rows that this node could not decode.
    pub unreadable_rows: u64,
}

/// The counters, gauges and histograms of a node.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// The metrics without our prefix.
    process_registry: Registry,
    process: ProcessMetrics,
    connections: Gauge,
    nodes: Gauge,
    channels: Gauge,
    queue_bytes: Gauge,
    broker_round_trips: Counter,
    ledger_round_trips: Counter,
    recoveries: Family<ByOutcome, Counter>,
    accepted: Counter,
    by_transport: Family<ByTransport, Gauge>,
    emulation: Family<ByOutcome, Counter>,
    refused: Family<ByReason, Counter>,
    closed: Family<ByCode, Counter>,
    deliveries: Counter,
    dropped: Family<ByReason, Counter>,
    gaps: Counter,
    commands: Family<ByKind, Counter>,
    /// Operations and HTTP requests.
    pub requests: RequestMetrics,
    rate_limited: Family<ByClass, Counter>,
    publish_to_socket: Histogram,
    /// Fan-out and the pull log.
    pub fanout: FanoutMetrics,
    /// The queue of likes and its settler.
    pub likes: LikeMetrics,
    /// The push bridge.
    pub pushes: PushMetrics,
    /// The outlet.
    pub outlet: OutletMetrics,
    events_pending: Gauge,
    events_oldest: Gauge<f64, AtomicU64>,
    like_events_pending: Gauge,
    events_failed: Counter,
    quarantine: Gauge,
    quarantine_dropped: Counter,
    unreadable_rows: Counter,
    invalidation_wait: Histogram,
    invalidations_unconfirmed: Counter,
    cache_lease: Gauge,
    clock_skew: Gauge<f64, AtomicU64>,
    fingerprint_mismatches: Gauge,
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

impl Metrics {
    /// Registers all metrics, each with the value 0, but for the skew of the clock, which is not measured yet.
    pub fn new() -> Self {
        let clock_skew: Gauge<f64, AtomicU64> = Gauge::default();
        clock_skew.set(f64::NAN);
        let (process, process_registry) = ProcessMetrics::new();
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("feedline")),
            process_registry,
            process,
            connections: Gauge::default(),
            nodes: Gauge::default(),
            channels: Gauge::default(),
            queue_bytes: Gauge::default(),
            broker_round_trips: Counter::default(),
            ledger_round_trips: Counter::default(),
            recoveries: exposed(RecoveryOutcome::ALL.map(|it| ByOutcome { outcome: it.name() })),
            accepted: Counter::default(),
            by_transport: exposed(TRANSPORTS.map(|transport| ByTransport { transport })),
            emulation: exposed(EMULATION_OUTCOMES.map(|outcome| ByOutcome { outcome })),
            refused: exposed(REFUSALS.map(|reason| ByReason { reason })),
            closed: exposed(close_codes()),
            deliveries: Counter::default(),
            dropped: exposed([ByReason { reason: SLOW }]),
            gaps: Counter::default(),
            commands: exposed(COMMANDS.map(|kind| ByKind { kind })),
            requests: RequestMetrics::new(),
            rate_limited: exposed(RATE_CLASSES.map(|class| ByClass { class })),
            publish_to_socket: latency(),
            fanout: FanoutMetrics::new(),
            likes: LikeMetrics::new(),
            pushes: PushMetrics::new(),
            outlet: OutletMetrics::default(),
            events_pending: Gauge::default(),
            events_oldest: Gauge::default(),
            like_events_pending: Gauge::default(),
            events_failed: Counter::default(),
            quarantine: Gauge::default(),
            quarantine_dropped: Counter::default(),
            unreadable_rows: Counter::default(),
            invalidation_wait: latency(),
            invalidations_unconfirmed: Counter::default(),
            cache_lease: Gauge::default(),
            clock_skew,
            fingerprint_mismatches: Gauge::default(),
            erasures: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock();
        let r = &mut *registry;
        let build: Family<ByVersion, Gauge> = Family::default();
        build.get_or_create(&ByVersion { version: env!("CARGO_PKG_VERSION") }).set(1);
        r.register("build_info", "1, with the version of this process", build);
        r.register("nodes", "Nodes with a lease in the ledger, this one included", self.nodes.clone());
        r.register("connections", "Connections of clients open on this node", self.connections.clone());
        r.register(
            "transport_connections",
            "Connections of clients open on this node, by transport",
            self.by_transport.clone(),
        );
        r.register("channels", "Channels with subscribers on this node", self.channels.clone());
        r.register_with_unit("queue", "Bytes in the send queues of sockets", Unit::Bytes, self.queue_bytes.clone());
        r.register("redis_round_trips", "Round trips to Redis", self.broker_round_trips.clone());
        r.register("ledger_round_trips", "Round trips to the ledger", self.ledger_round_trips.clone());
        r.register("connections_accepted", "Connections of clients opened since the start", self.accepted.clone());
        r.register(
            "emulation_requests",
            "Requests with commands of clients on HTTP streams and SSE, by outcome",
            self.emulation.clone(),
        );
        r.register("connections_refused", "Connections refused, by reason", self.refused.clone());
        r.register("connections_closed", "Sockets closed by the server, by close code", self.closed.clone());
        r.register("deliveries", "Messages put into the send queues of sockets", self.deliveries.clone());
        r.register("drops", "Clients closed because their send queue was full, by reason", self.dropped.clone());
        r.register("gaps", "Gaps after lost pub/sub messages that were filled from a log", self.gaps.clone());
        r.register("commands", "Commands of clients, by kind", self.commands.clone());
        let recoveries = "Recoveries of subscriptions by outcome: all missed entries were there; the log does not have \
            them any more, or there are too many; the log began anew";
        r.register("recoveries", recoveries, self.recoveries.clone());
        self.requests.register(r);
        let limited = "Requests refused because a client exceeded a limit of `[rates]`, by limit";
        r.register("rate_limited", limited, self.rate_limited.clone());
        store_metrics::register(r);
        denials::register(r);
        telemetry::register(r);
        r.register_with_unit(
            "publish_to_socket",
            "Time from the acceptance of a post to the send queues of sockets",
            Unit::Seconds,
            self.publish_to_socket.clone(),
        );
        self.fanout.register(r);
        r.register(
            "events_pending",
            "Events waiting to become notifications; 0 on all nodes but one",
            self.events_pending.clone(),
        );
        let pending = "Events of likes of all nodes waiting to become notifications";
        r.register("like_events_pending", pending, self.like_events_pending.clone());
        let oldest = "Age of the oldest event waiting to become notifications";
        r.register_with_unit("events_oldest", oldest, Unit::Seconds, self.events_oldest.clone());
        r.register(
            "events_failed",
            "Events that failed permanently and produced no notifications",
            self.events_failed.clone(),
        );
        r.register(
            "quarantine",
            "Items of all kinds of work in quarantine, see `feedline quarantine`; one node of a cluster measures them, \
             the others have 0",
            self.quarantine.clone(),
        );
        let dropped = "Items that this node dropped from the quarantine, because it keeps 10,000 of each kind";
        r.register("quarantine_dropped", dropped, self.quarantine_dropped.clone());
        let unreadable = "Rows of the ledger that could not be decoded and were omitted, counted at each read";
        r.register("unreadable_rows", unreadable, self.unreadable_rows.clone());
        self.likes.register(r);
        self.pushes.register(r);
        self.outlet.register(r);
        let wait = "Time that changes waited for the other nodes to confirm an invalidation";
        r.register_with_unit("invalidation_wait", wait, Unit::Seconds, self.invalidation_wait.clone());
        let unconfirmed = "Invalidations that a node did not confirm within 500 ms; it stops using its caches";
        r.register("invalidations_unconfirmed", unconfirmed, self.invalidations_unconfirmed.clone());
        r.register(
            "cache_lease",
            "1 while this node may use its caches, 0 while it is cut off from Redis or behind",
            self.cache_lease.clone(),
        );
        let skew = "How far the clock of this node is ahead of that of Redis (negative: behind), measured every 20 s";
        r.register_with_unit("clock_skew", skew, Unit::Seconds, self.clock_skew.clone());
        let mismatches = "Differences from other nodes in keys, version or clock, as in /ready";
        r.register("fingerprint_mismatches", mismatches, self.fingerprint_mismatches.clone());
        r.register("erasures", "Erasures of users that this node finished", self.erasures.clone());
        let restarted = "Background tasks that ended and were started again, by task";
        r.register("tasks_restarted", restarted, supervisor::restarts());
        r.register("log_lines_lost", "Lines of the log that could not be written", logs::lost_lines());
    }

    /// Counts a connection that was opened, by transport.
    pub fn accepted(&self, transport: &'static str) {
        debug_assert!(TRANSPORTS.contains(&transport), "{transport} is missing in known_labels.rs");
        self.accepted.inc();
        self.by_transport.get_or_create(&ByTransport { transport }).inc();
    }

    /// Counts a connection that has ended, by transport.
    pub fn disconnected(&self, transport: &'static str) {
        self.by_transport.get_or_create(&ByTransport { transport }).dec();
    }

    /// Counts a request with commands for a stream, by outcome.
    pub fn emulated(&self, outcome: &'static str) {
        debug_assert!(EMULATION_OUTCOMES.contains(&outcome), "{outcome} is missing in known_labels.rs");
        self.emulation.get_or_create(&ByOutcome { outcome }).inc();
    }

    /// Counts a refused connection, by reason.
    pub fn refused(&self, reason: &'static str) {
        debug_assert!(REFUSALS.contains(&reason), "{reason} is missing in known_labels.rs");
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
        self.dropped.get_or_create(&ByReason { reason: SLOW }).inc();
    }

    /// Counts a gap of lost pub/sub messages that was filled from a log.
    pub fn gap(&self) {
        self.gaps.inc();
    }

    /// Counts a command of a client, by kind.
    pub fn command(&self, kind: &'static str) {
        debug_assert!(COMMANDS.contains(&kind), "{kind} is missing in known_labels.rs");
        self.commands.get_or_create(&ByKind { kind }).inc();
    }

    /// Counts a recovery of a subscription.
    pub fn recovery(&self, outcome: RecoveryOutcome) {
        self.recoveries.get_or_create(&ByOutcome { outcome: outcome.name() }).inc();
    }

    /// Counts a request that exceeded a limit of rates.
    pub fn rate_limited(&self, class: &'static str) {
        self.rate_limited.get_or_create(&ByClass { class }).inc();
    }

    /// Records the time from the acceptance of a post to the send queues, in milliseconds.
    pub fn published_to_socket(&self, after: Millis) {
        self.publish_to_socket.observe(seconds(after));
    }

    /// Sets the number of items in quarantine.
    pub fn quarantine(&self, size: u64) {
        self.quarantine.set(i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// Records the time that a change waited for other nodes to confirm its invalidation, and counts the nodes that did
    /// not.
    pub fn invalidation_confirmed(&self, after: Duration, unconfirmed: usize) {
        self.invalidation_wait.observe(after.as_secs_f64());
        self.invalidations_unconfirmed.inc_by(unconfirmed as u64);
    }

    /// Sets how far the clock of this node is ahead of that of the broker, in milliseconds.
    pub fn clock_skew(&self, skew: i64) {
        self.clock_skew.set(skew as f64 / 1_000.0);
    }

    /// Sets the number of differences between this node and others that all nodes must have in common.
    pub fn fingerprint_mismatches(&self, differences: usize) {
        self.fingerprint_mismatches.set(i64::try_from(differences).unwrap_or(i64::MAX));
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

    /// All metrics as text, with these levels.
    pub fn text(&self, levels: Levels, format: TextFormat) -> String {
        let gauge = |gauge: &Gauge, value: usize| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge(&self.connections, levels.connections);
        gauge(&self.channels, levels.channels);
        gauge(&self.queue_bytes, levels.queue_bytes);
        gauge(&self.nodes, levels.nodes);
        let counter = |counter: &Counter, value: u64| counter.inner().store(value, Ordering::Relaxed);
        counter(&self.quarantine_dropped, levels.quarantine_dropped);
        counter(&self.unreadable_rows, levels.unreadable_rows);
        counter(&self.broker_round_trips, levels.broker_round_trips);
        counter(&self.ledger_round_trips, levels.ledger_round_trips);
        self.cache_lease.set(levels.cache_lease.into());
        store_metrics::read();
        self.process.read();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode_registry(&mut text, &self.registry.lock());
        let _ = encode_registry(&mut text, &self.process_registry);
        let _ = encode_eof(&mut text);
        match format {
            TextFormat::OpenMetrics => text,
            TextFormat::Plain => exposition::plain(&text),
        }
    }
}
