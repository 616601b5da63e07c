//! Labels, buckets and units that several metrics use.

use prometheus_client::encoding::EncodeLabelSet;

use crate::model::Millis;

pub(super) use crate::store_metrics::latency;

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
pub(super) const RATE_CLASSES: [&str; 14] = [
    "posts",
    "comments",
    "likes",
    "follows",
    "writes",
    "reports",
    "mentions",
    "topics",
    "subscriptions",
    "reads",
    "publications",
    "accounts",
    "sessions",
    "account_failures",
];

pub(super) fn seconds(millis: Millis) -> f64 {
    millis as f64 / 1_000.0
}
