//! The upkeep of the log: its retention, and the backlogs of consumers as metrics. Every node measures; the owner of
//! the partition `events/outlet` also removes old entries. A repeated removal harms nothing, so the ledger checks no
//! fence.

use std::sync::Arc;
use std::time::Duration;

use crate::feed::error::Result;
use crate::feed::event_queue::EventQueue;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{EventConsumer, Ledger};
use crate::metrics::Metrics;

/// The time until a process without an outlet removes what an earlier one left.
const REMAINS_AFTER: Duration = Duration::from_secs(60);

/// The interval of the upkeep, and the pause between two removals.
const INTERVAL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// The entries of one removal.
const MAX_TRIMMED: usize = 1_000;

/// Trims the log, and measures how far its consumers are behind.
pub(super) struct OutletUpkeep {
    ledger: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
    queue: Arc<EventQueue>,
    metrics: Arc<Metrics>,
    retention: Duration,
}

impl OutletUpkeep {
    /// An upkeep for entries that are kept for `retention`: see [`start`](Self::start).
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        metrics: Arc<Metrics>,
        retention: Duration,
    ) -> Self {
        Self { ledger, runtime, queue, metrics, retention }
    }

    /// Works until the process stops. Without an outlet, old entries of an earlier one are removed once.
    pub(super) fn start(self: &Arc<Self>, is_enabled: bool) {
        if !is_enabled {
            let upkeep = Arc::clone(self);
            self.runtime.spawn(async move {
                if upkeep.runtime.sleep(REMAINS_AFTER.mul_f64(rand::random_range(0.8..1.2))).await
                    && let Err(error) = upkeep.trim().await
                {
                    tracing::debug!(%error, "old events of the outlet are kept for now");
                }
            });
            return;
        }
        self.runtime.supervise("outlet_upkeep", self, |upkeep| async move {
            while upkeep.runtime.sleep(INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                if let Err(error) = upkeep.run().await {
                    tracing::debug!(%error, "the upkeep of the outlet waits for the ledger");
                }
            }
        });
    }

    /// Removes entries that are older than the retention.
    async fn trim(&self) -> Result<()> {
        let retention = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
        let now = now();
        while self.ledger.trim_outlet(now.saturating_sub(retention), now, MAX_TRIMMED).await? == MAX_TRIMMED {
            if !self.runtime.sleep(PAUSE).await {
                break;
            }
        }
        Ok(())
    }

    async fn run(&self) -> Result<()> {
        if self.queue.consumer(EventConsumer::Outlet).is_none_or(|work| work.partition.fence().is_none()) {
            self.metrics.outlet.forget_backlogs();
            return Ok(());
        }
        self.trim().await?;
        let now = now();
        let end = self.ledger.outlet_end().await?;
        for backlog in self.ledger.outlet_backlogs().await? {
            let waiting = end.last.saturating_sub(backlog.cursor.max(end.trimmed)).saturating_add(backlog.held);
            let age = backlog.oldest.map_or(0, |oldest| now.saturating_sub(oldest));
            self.metrics.outlet.backlog(&backlog.consumer, waiting, age, backlog.failed);
        }
        Ok(())
    }
}
