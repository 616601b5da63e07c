//! Old notifications end (`notifications.retention`).
//!
//! The owner of `events/notifications` removes them from the ledger in batches. Lists, counts and exports read the
//! ledger. Sockets are informed as of any group that ends; a removal that is not announced, because the process stops
//! or the broker is away, is noticed with the next list.

use std::sync::Arc;
use std::time::Duration;

use super::Notifications;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::ledger::EventConsumer;
use crate::model::Millis;

/// The longest time between two removals.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// The groups of one call, and the pause after it.
const BATCH: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

impl Notifications {
    /// Removes old notifications until the process stops.
    pub(super) fn start_retention(self: &Arc<Self>) {
        let Some(retention) = self.base.options.notifications.retention else { return };
        let interval = MAX_INTERVAL.min(retention / 4);
        self.base.runtime.supervise("notification_retention", self, move |notifications| async move {
            while notifications.base.runtime.sleep(interval.mul_f64(rand::random_range(0.8..1.2))).await {
                if let Err(error) = notifications.remove_old(retention).await {
                    tracing::debug!(%error, "old notifications are kept for now");
                }
            }
        });
    }

    async fn remove_old(&self, retention: Duration) -> Result<()> {
        let before = now().saturating_sub(Millis::try_from(retention.as_millis()).unwrap_or(Millis::MAX));
        while self.base.events.is_owner(EventConsumer::Notifications) {
            let removed = self.base.ledger.remove_old_notifications(before, BATCH).await?;
            let is_last = removed.len() < BATCH;
            let listed = removed.into_iter().filter(|group| group.was_listed).map(|group| (group.owner, group.id));
            self.publish_endings(listed).await?;
            if is_last || !self.base.runtime.sleep(PAUSE).await {
                break;
            }
        }
        Ok(())
    }
}
