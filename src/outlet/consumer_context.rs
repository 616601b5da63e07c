//! What a consumer of the outlet works with.

use std::sync::Arc;
use std::time::Duration;

use crate::feed::Base;
use crate::feed::work::{Consumer, Partition, PollSchedule, QuarantinePolicy, Waker, work};

/// The log is read at this interval without a wake-up. Held entries are due with this precision.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: Duration::ZERO };

/// What a consumer works with.
pub(super) struct ConsumerContext {
    /// The stores, the runtime and the metrics of the feed.
    pub(super) base: Arc<Base>,
    /// Its partition of work, which is woken when the log grows.
    pub(super) partition: Partition,
    /// Shows what its work waits for.
    pub(super) waits: Arc<QuarantinePolicy>,
    /// Wakes its worker.
    pub(super) waker: Arc<Waker>,
}

impl ConsumerContext {
    /// Has a consumer work until the process stops.
    pub(super) async fn work(&self, consumer: &mut impl Consumer) {
        work(&self.partition, &self.base.runtime, &self.waker, SCHEDULE, &self.waits, consumer).await;
    }
}
