//! The metrics of the queue of likes and of its settler.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::instruments::{ByReason, latency, seconds};
use super::known_labels::exposed;
use crate::model::{Millis, RevertReason};

/// Metrics of the queue of likes and of its settler.
pub struct LikeMetrics {
    queue: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    queued: Counter,
    merged: Counter,
    batch: Histogram,
    settle: Histogram,
    reverted: Family<ByReason, Counter>,
}

impl LikeMetrics {
    pub(super) fn new() -> Self {
        Self {
            queue: Gauge::default(),
            oldest: Gauge::default(),
            queued: Counter::default(),
            merged: Counter::default(),
            batch: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            settle: latency(),
            reverted: exposed(RevertReason::ALL.map(|reason| ByReason { reason: reason.as_str() })),
        }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("likes_queue", "Likes of all nodes waiting to be settled and announced", self.queue.clone());
        let oldest = "Age of the oldest like waiting to be settled and announced";
        r.register_with_unit("likes_oldest", oldest, Unit::Seconds, self.oldest.clone());
        r.register("likes_queued", "Likes acknowledged", self.queued.clone());
        r.register(
            "likes_merged",
            "Likes replaced by a later one of the same user and object in the same batch",
            self.merged.clone(),
        );
        r.register("likes_batch", "Likes settled in one transaction", self.batch.clone());
        let settle = "Time from the acknowledgement of the oldest like of a batch to its settlement";
        r.register_with_unit("likes_settle", settle, Unit::Seconds, self.settle.clone());
        r.register("likes_reverted", "Acknowledged likes that were reverted, by reason", self.reverted.clone());
    }

    /// Counts acknowledged likes.
    pub fn queued(&self, many: usize) {
        self.queued.inc_by(many as u64);
    }

    /// Records a settled batch of likes: the number of its entries, the number of changes left after merging, and the
    /// time since the acknowledgement of its oldest entry in milliseconds.
    pub fn settled(&self, entries: usize, changes: usize, after: Millis) {
        self.batch.observe(entries as f64);
        self.merged.inc_by(entries.saturating_sub(changes) as u64);
        self.settle.observe(seconds(after));
    }

    /// Counts an acknowledged like that was reverted, by reason.
    pub fn reverted(&self, reason: RevertReason) {
        self.reverted.get_or_create(&ByReason { reason: reason.as_str() }).inc();
    }

    /// Sets the number of likes in the queue, and the age of the oldest one in milliseconds.
    pub fn waiting(&self, likes: u64, age: Millis) {
        self.queue.set(i64::try_from(likes).unwrap_or(i64::MAX));
        self.oldest.set(seconds(age));
    }
}
