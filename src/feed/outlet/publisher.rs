//! The publisher: the owner of the partition `events/outlet` takes events from the queue, in order, and appends them to
//! the log. The ledger appends only those that still wait, and none of a process that lost the partition.

use std::time::Duration;

use async_trait::async_trait;

use super::Outlet;
use super::entries::entries;
use crate::broker::Signal;
use crate::feed::error::Result;
use crate::feed::event_queue::{EVENT_BATCH, EventHandler, MIN_EVENT_PAUSE, PendingEvent};
use crate::feed::runtime::now;
use crate::ledger::{EventConsumer, Fence, QueuedEvent};

#[async_trait]
impl EventHandler for Outlet {
    async fn read(&self) -> Result<Vec<QueuedEvent>> {
        Ok(self.base.ledger.pending_events(EventConsumer::Outlet, EVENT_BATCH).await?)
    }

    async fn process(&self, fence: &Fence, events: &[PendingEvent]) -> Result<bool> {
        let entries = entries(&*self.base.ledger, events).await?;
        let done: Vec<i64> = events.iter().map(|pending| pending.seq).collect();
        if !self.base.ledger.publish_outlet(fence, &entries, &done, now()).await? {
            return Ok(false);
        }
        entries.iter().for_each(|entry| self.base.metrics.outlet.published(&entry.kind));
        self.wake();
        // If the signal is lost, the consumers of other nodes poll.
        let _ = self.base.broker.signal(Signal::OutletAppended).await;
        Ok(true)
    }

    fn pause(&self, _took: Duration) -> Duration {
        MIN_EVENT_PAUSE
    }
}
