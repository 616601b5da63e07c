//! The upkeep of the log: its retention, and the backlogs of consumers as metrics. The owner of the partition
//! `events/outlet` does it. A repeated removal harms nothing, so the ledger checks no fence.

use std::sync::Arc;
use std::time::Duration;

use super::Outlet;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::ledger::{EventConsumer, HELD_ENTRIES_KEPT};
use crate::model::Millis;

/// The time until a process without an outlet removes what an earlier one left.
const REMAINS_AFTER: Duration = Duration::from_secs(60);

/// The interval of the upkeep, and the pause between two removals.
const INTERVAL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// The entries of one removal.
const MAX_TRIMMED: usize = 1_000;

impl Outlet {
    /// Trims the log, and measures how far its consumers are behind, until the process stops. Without an outlet, old
    /// entries of an earlier one are removed once.
    pub(super) fn start_upkeep(self: &Arc<Self>) {
        self.base.runtime.supervise("outlet_upkeep", self, |outlet| async move {
            let about = |time: Duration| outlet.base.runtime.sleep(time.mul_f64(rand::random_range(0.8..1.2)));
            if !outlet.base.options.outlet.is_enabled() {
                if about(REMAINS_AFTER).await
                    && let Err(error) = outlet.trim().await
                {
                    tracing::debug!(%error, "old events of the outlet are kept for now");
                }
                // A task that ends before the process stops would be restarted.
                return outlet.base.runtime.stopped().await;
            }
            while about(INTERVAL).await {
                if let Err(error) = outlet.keep_up().await {
                    tracing::debug!(%error, "the upkeep of the outlet waits for the ledger");
                }
            }
        });
    }

    /// Removes entries that are older than the retention.
    async fn trim(&self) -> Result<()> {
        let held_before = before(HELD_ENTRIES_KEPT);
        let before = before(self.base.options.outlet.retention);
        while self.base.ledger.trim_outlet(before, held_before, MAX_TRIMMED).await? == MAX_TRIMMED {
            if !self.base.runtime.sleep(PAUSE).await {
                break;
            }
        }
        Ok(())
    }

    async fn keep_up(&self) -> Result<()> {
        if !self.base.events.is_owner(EventConsumer::Outlet) {
            self.base.metrics.outlet.forget_backlogs();
            return Ok(());
        }
        self.trim().await?;
        let now = now();
        let end = self.base.ledger.outlet_end().await?;
        for backlog in self.base.ledger.outlet_backlogs().await? {
            let waiting = end.last.saturating_sub(backlog.cursor.max(end.trimmed)).saturating_add(backlog.held);
            let age = backlog.oldest.map_or(0, |oldest| now.saturating_sub(oldest));
            self.base.metrics.outlet.backlog(&backlog.consumer, waiting, age, backlog.failed);
        }
        Ok(())
    }
}

/// The time that was so long ago.
fn before(age: Duration) -> Millis {
    now().saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}
