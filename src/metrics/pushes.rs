//! The metrics of the push bridge.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::instruments::{ByReason, seconds};
use super::known_labels::exposed;
use crate::model::{Millis, Platform};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlatform {
    platform: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlatformAndReason {
    platform: &'static str,
    reason: &'static str,
}

/// The push bridge.
pub struct PushMetrics {
    due: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    sent: Family<ByPlatform, Counter>,
    accepted: Family<ByPlatform, Counter>,
    failed: Family<ByPlatformAndReason, Counter>,
    dropped: Family<ByReason, Counter>,
    lag: Histogram,
    tokens_removed: Family<ByPlatform, Counter>,
}

/// Why attempts fail whatever the platform. Further reasons, of providers, appear when they occur.
const FAILURES: [&str; 8] = [
    "breaker_open",
    "busy",
    "device_paused",
    "interrupted",
    "invalid_address",
    "not_configured",
    "stopping",
    "timeout",
];

/// Why pushes are not to be sent any more.
const DROPS: [&str; 9] =
    ["daily_cap", "expired", "live", "mentioned", "muted", "no_device", "read", "signed_out", "unwanted"];

impl PushMetrics {
    pub(super) fn new() -> Self {
        let platforms = || exposed(Platform::ALL.map(|platform| ByPlatform { platform: platform.as_str() }));
        let failures = Platform::ALL.into_iter().map(Platform::as_str);
        let failures = failures.flat_map(|platform| FAILURES.map(|reason| ByPlatformAndReason { platform, reason }));
        Self {
            due: Gauge::default(),
            oldest: Gauge::default(),
            sent: platforms(),
            accepted: platforms(),
            failed: exposed(failures),
            dropped: exposed(DROPS.map(|reason| ByReason { reason })),
            // From 50 ms to 7 hours.
            lag: Histogram::new(exponential_buckets(0.05, 2.0, 20)),
            tokens_removed: platforms(),
        }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "push_due",
            "Pushes of all nodes that are due and not settled; one node measures them",
            self.due.clone(),
        );
        let oldest = "Time that the oldest due push has waited; one node measures it";
        r.register_with_unit("push_oldest", oldest, Unit::Seconds, self.oldest.clone());
        r.register("push_sent", "Requests to providers that sent a push, by platform", self.sent.clone());
        r.register("push_accepted", "Pushes that a provider accepted, by platform", self.accepted.clone());
        let failed = "Attempts that failed, with and without a request to the provider, by platform and reason";
        r.register("push_failed", failed, self.failed.clone());
        r.register("push_dropped", "Pushes that were not to be sent any more, by reason", self.dropped.clone());
        let lag = "Time from a notification to the acceptance of its push, with the grace period";
        r.register_with_unit("push_lag", lag, Unit::Seconds, self.lag.clone());
        let removed = "Devices removed because their provider does not know them any more, by platform";
        r.register("push_tokens_removed", removed, self.tokens_removed.clone());
    }

    /// Sets the number of due pushes, and how long the oldest one has waited, in milliseconds.
    pub fn backlog(&self, due: u64, oldest: Option<Millis>) {
        self.due.set(i64::try_from(due).unwrap_or(i64::MAX));
        self.oldest.set(seconds(oldest.unwrap_or(0)));
    }

    /// Counts a request to a provider.
    pub fn sent(&self, platform: &'static str) {
        self.sent.get_or_create(&ByPlatform { platform }).inc();
    }

    /// Counts an accepted push, and records the time since its notification, in milliseconds.
    pub fn accepted(&self, platform: &'static str, after: Millis) {
        self.accepted.get_or_create(&ByPlatform { platform }).inc();
        self.lag.observe(seconds(after));
    }

    /// Counts an attempt that failed, with or without a request to the provider.
    pub fn failed(&self, platform: &'static str, reason: &'static str) {
        self.failed.get_or_create(&ByPlatformAndReason { platform, reason }).inc();
    }

    /// Counts a push that was not to be sent any more.
    pub fn dropped(&self, reason: &'static str) {
        debug_assert!(DROPS.contains(&reason), "{reason} is missing in DROPS");
        self.dropped.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a device that was removed.
    pub fn token_removed(&self, platform: &'static str) {
        self.tokens_removed.get_or_create(&ByPlatform { platform }).inc();
    }
}
