//! Labels, buckets and units that several metrics use.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::model::Millis;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByCode {
    pub(super) code: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByTransport {
    pub(super) transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByOutcome {
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByReason {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByKind {
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByOperation {
    pub(super) operation: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOperation {
    pub(super) operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByRoute {
    pub(super) route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByStatus {
    pub(super) route: String,
    pub(super) status: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByClass {
    pub(super) class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByVersion {
    pub(super) version: &'static str,
}

/// The limits of rates, as in `feedline_rate_limited_total`: the keys of `[rates]`, and that of failed sign-ins for one
/// account.
pub(super) const RATE_CLASSES: [&str; 13] = [
    "posts",
    "comments",
    "likes",
    "follows",
    "writes",
    "mentions",
    "topics",
    "subscriptions",
    "reads",
    "publications",
    "accounts",
    "sessions",
    "account_failures",
];

/// A histogram of seconds with buckets from 0.5 ms to 32 s, each twice the previous one.
pub(super) fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 17))
}

pub(super) fn seconds(millis: Millis) -> f64 {
    millis as f64 / 1_000.0
}
