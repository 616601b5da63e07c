//! What a consumer of the outlet works with.

use std::sync::Arc;
use std::time::Duration;

use crate::feed::Runtime;
use crate::feed::work::{Consumer, Partition, PollSchedule, QuarantinePolicy, Waker, work};
use crate::ledger::Ledger;
use crate::metrics::Metrics;

/// The log is read at this interval without a wake-up. Held entries are due with this precision.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: Duration::ZERO };

/// What a consumer works with.
pub(super) struct ConsumerContext {
    /// The log.
    pub(super) ledger: Arc<dyn Ledger>,
    /// Its partition of work, which is woken when the log grows.
    pub(super) partition: Partition,
    /// Shows what its work waits for.
    pub(super) waits: Arc<QuarantinePolicy>,
    /// Wakes its worker.
    pub(super) waker: Arc<Waker>,
    /// Cancelled when the process stops.
    pub(super) runtime: Arc<Runtime>,
    /// Counts what was delivered.
    pub(super) metrics: Arc<Metrics>,
}

impl ConsumerContext {
    /// Has a consumer work until the process stops.
    pub(super) async fn work(&self, consumer: &mut impl Consumer) {
        work(&self.partition, &self.runtime, &self.waker, SCHEDULE, &self.waits, consumer).await;
    }
}
