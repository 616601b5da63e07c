//! Copies the log of the outlet to a Stream of Redis. The end of the Stream is the cursor: a Stream that was dropped,
//! or that Redis lost, is filled again with the events that the ledger keeps.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::broker::{Broker, OutletRecord};
use crate::feed::outlet::AppendedSignal;
use crate::feed::{FeedError, Runtime};
use crate::ledger::{Ledger, OutletEntry};
use crate::metrics::Metrics;

/// The name of the consumer in leases and metrics. Other consumers have names of another form.
const CONSUMER: &str = "stream:redis";

/// How long a process keeps the lease without a renewal, and the age at which it renews it.
const LEASE: Duration = Duration::from_secs(10);
const LEASE_RENEWAL: Duration = Duration::from_secs(2);

/// The interval at which another process looks whether the lease has run out.
const STANDBY_INTERVAL: Duration = Duration::from_secs(2);

/// The interval at which the end of the Stream is compared with the log without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pauses after errors of the stores.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// The events of one step.
const BATCH: usize = 200;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    Copied,
    Idle,
    LeasedElsewhere,
}

/// Fills the Stream.
pub(super) struct StreamWorker {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    appended: Arc<AppendedSignal>,
    metrics: Arc<Metrics>,
    length: u64,
}

impl StreamWorker {
    /// A worker for a Stream of about this length: see [`run`](Self::run).
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        appended: Arc<AppendedSignal>,
        metrics: Arc<Metrics>,
        length: u64,
    ) -> Self {
        Self { ledger, broker, runtime, appended, metrics, length }
    }

    /// Works until the process stops.
    pub(super) async fn run(&self) {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut leased_at = None;
        while !self.runtime.stopping().is_cancelled() {
            let mut appended = self.appended.listen();
            let pause = match self.step(&mut leased_at).await {
                Ok(StepOutcome::Copied) => {
                    backoff.reset();
                    continue;
                }
                Ok(StepOutcome::LeasedElsewhere) => STANDBY_INTERVAL.mul_f64(rand::random_range(0.8..1.2)),
                Ok(StepOutcome::Idle) => {
                    backoff.reset();
                    tokio::select! {
                        () = appended.wait(POLL_INTERVAL) => {}
                        () = self.runtime.stopped() => {}
                    }
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "the stream of the outlet waits for its stores");
                    self.metrics.outlet.rejected(CONSUMER, "unavailable");
                    leased_at = None;
                    backoff.next_delay()
                }
            };
            self.runtime.sleep(pause).await;
        }
        if leased_at.is_some()
            && let Err(error) = self.ledger.release_outlet(CONSUMER, self.runtime.holder()).await
        {
            tracing::debug!(%error, "the lease of the stream could not be given up and will run out");
        }
    }

    async fn step(&self, leased_at: &mut Option<Instant>) -> Result<StepOutcome, FeedError> {
        if leased_at.is_none_or(|at| at.elapsed() >= LEASE_RENEWAL) {
            let is_ours = self.ledger.lease_outlet(CONSUMER, self.runtime.holder(), LEASE).await?;
            *leased_at = is_ours.then(Instant::now);
        }
        if leased_at.is_none() {
            return Ok(StepOutcome::LeasedElsewhere);
        }
        let last = self.ledger.outlet_end().await?.last;
        // An empty Stream begins with the newest events that fit.
        let begin = last.saturating_sub(self.length);
        let after = self.broker.outlet_stream_end().await?.unwrap_or(begin);
        if after > last {
            tracing::warn!(stream = after, log = last, "the stream is ahead of the outlet: `feedline outlet refill`");
            return Ok(StepOutcome::Idle);
        }
        let entries = self.ledger.outlet_entries(after, BATCH).await?;
        if entries.is_empty() {
            return Ok(StepOutcome::Idle);
        }
        let records: Vec<OutletRecord> = entries.iter().map(record).collect();
        self.broker.append_to_outlet_stream(&records, self.length).await?;
        records.iter().for_each(|_| self.metrics.outlet.delivered(CONSUMER));
        Ok(StepOutcome::Copied)
    }
}

fn record(entry: &OutletEntry) -> OutletRecord {
    OutletRecord { id: entry.position, kind: entry.kind.clone(), owner: entry.owner.to_string(), event: entry.json() }
}
