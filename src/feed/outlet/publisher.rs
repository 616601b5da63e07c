//! The publisher: the owner of the partition `events/outlet` takes events from the queue, in order, and appends them to
//! the log. The ledger appends only those that still wait, and none of a process that lost the partition.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Outlet;
use super::entries::entries;
use crate::broker::Signal;
use crate::feed::error::{Result, isolate};
use crate::feed::runtime::now;
use crate::feed::work::{Consumer, PollSchedule, RunOutcome, work};
use crate::ledger::{EventConsumer, Fault, Fence, QueuedEvent};

/// The queue is read at this interval without a wake-up.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: MIN_PAUSE };

/// The shortest time between two steps.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// The events of one step.
const BATCH: usize = 200;

impl Outlet {
    /// Publishes until the process stops.
    pub(super) fn start_publisher(self: &Arc<Self>) {
        self.base.runtime.supervise("outlet_publisher", self, |outlet| async move {
            let Some(own) = outlet.base.events.consumer(EventConsumer::Outlet) else { return };
            let mut publisher = OutletPublisher { outlet: &outlet, is_failing: false };
            work(&own.partition, &outlet.base.runtime, &own.waker, SCHEDULE, &outlet.quarantine, &mut publisher).await;
        });
    }

    /// Appends events. Returns whether this process still owns the partition.
    async fn publish(&self, fence: &Fence, waiting: Vec<QueuedEvent>) -> Result<bool> {
        let mut events = Vec::with_capacity(waiting.len());
        for queued in waiting {
            match queued.event.clone() {
                Ok(event) => events.push((queued, event)),
                Err(reason) => self.set_aside(queued.seq, &Fault::now(reason, 1)).await?,
            }
        }
        let entries = entries(&*self.base.ledger, &events).await?;
        let done: Vec<i64> = events.iter().map(|(queued, _)| queued.seq).collect();
        if !self.base.ledger.publish_outlet(fence, &entries, &done, now()).await? {
            return Ok(false);
        }
        entries.iter().for_each(|entry| self.base.metrics.outlet.published(&entry.kind));
        self.wake();
        // If the signal is lost, the consumers of other nodes poll.
        let _ = self.base.broker.signal(Signal::OutletAppended).await;
        Ok(true)
    }

    async fn set_aside(&self, seq: i64, fault: &Fault) -> Result<()> {
        let reason = &fault.reason;
        tracing::error!(event = seq, reason, "an event is set aside, no consumer gets it");
        self.base.metrics.event_failed();
        Ok(self.base.ledger.quarantine_event(EventConsumer::Outlet, seq, fault).await?)
    }
}

/// Appends events to the log.
struct OutletPublisher<'a> {
    outlet: &'a Outlet,
    /// Whether the last step failed.
    is_failing: bool,
}

#[async_trait]
impl Consumer for OutletPublisher<'_> {
    async fn begin(&mut self, _fence: &Fence) -> Result<()> {
        self.is_failing = false;
        Ok(())
    }

    /// Appends the first events. After a failure only the first one: it may be at fault, and is set aside if it is.
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let (outlet, policy) = (self.outlet, &self.outlet.quarantine);
        let limit = if self.is_failing { 1 } else { BATCH };
        let waiting = outlet.base.ledger.pending_events(EventConsumer::Outlet, limit).await?;
        let Some(first) = waiting.first().map(|queued| queued.seq) else { return Ok(RunOutcome::Idle(None)) };
        let (published, cause) = isolate(outlet.publish(fence, waiting)).await;
        self.is_failing = published.is_err();
        match published {
            Ok(true) => policy.succeeded(first),
            // Another process owns the partition now.
            Ok(false) => return Ok(RunOutcome::Idle(None)),
            Err(error) => {
                let Some(fault) = policy.failed(first, &error, cause).await else { return Err(error) };
                outlet.set_aside(first, &fault).await?;
            }
        }
        Ok(RunOutcome::Rest(MIN_PAUSE))
    }
}
