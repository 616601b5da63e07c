//! Copies the log of the outlet to a Stream of Redis. The end of the Stream is the cursor: a Stream that was dropped,
//! or that Redis lost, is filled again with the events that the ledger keeps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::broker::OutletRecord;
use crate::feed::work::{Consumer, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::feed::{Base, FeedError};
use crate::ledger::{Fence, OutletEntry};

/// The name of the consumer in metrics. Other consumers have names of another form.
pub(super) const CONSUMER: &str = "stream:redis";

/// The events of one step.
const BATCH: usize = 200;

/// The log is read at this interval without a wake-up.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: Duration::ZERO };

/// Fills the Stream. `mod.rs` sets the fields.
pub(super) struct StreamWorker {
    pub(super) base: Arc<Base>,
    /// Woken when the log grows.
    pub(super) partition: Arc<Partition>,
    /// Shows what the work waits for.
    pub(super) waits: Arc<QuarantinePolicy>,
    /// The Stream has about this length.
    pub(super) length: u64,
}

impl StreamWorker {
    /// Works until the process stops.
    pub(super) async fn run(&self) {
        work(&self.partition, &self.base.runtime, SCHEDULE, &self.waits, || self).await;
    }

    async fn step(&self) -> Result<RunOutcome, FeedError> {
        let last = self.base.ledger.outlet_end().await?.last;
        // An empty Stream begins with the newest events that fit.
        let begin = last.saturating_sub(self.length);
        let after = self.base.broker.outlet_stream_end().await?.unwrap_or(begin);
        if after > last {
            tracing::warn!(stream = after, log = last, "the stream is ahead of the outlet: `feedline outlet refill`");
            return Ok(RunOutcome::Idle(None));
        }
        let entries = self.base.ledger.outlet_entries(after, BATCH).await?;
        if entries.is_empty() {
            return Ok(RunOutcome::Idle(None));
        }
        let records: Vec<OutletRecord> = entries.iter().map(record).collect();
        self.base.broker.append_to_outlet_stream(&records, self.length).await?;
        records.iter().for_each(|_| self.base.metrics.outlet.delivered(CONSUMER));
        Ok(RunOutcome::More)
    }
}

#[async_trait]
impl Consumer for &StreamWorker {
    async fn run(&mut self, _fence: &Fence) -> Result<RunOutcome, FeedError> {
        let ran = self.step().await.inspect_err(|_| self.base.metrics.outlet.rejected(CONSUMER, "unavailable"))?;
        self.waits.succeeded(CONSUMER);
        Ok(ran)
    }
}

fn record(entry: &OutletEntry) -> OutletRecord {
    OutletRecord { id: entry.position, kind: entry.kind.clone(), owner: entry.owner.to_string(), event: entry.json() }
}
