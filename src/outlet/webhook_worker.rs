//! The loop of a webhook: one process at a time, the holder of the lease, takes batches from the log, sends them, and
//! settles them in one transaction. A process that loses the lease settles nothing more; its successor repeats what was
//! not settled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::delivery::WebhookTarget;
use super::lanes::{give_up_old, send_batch};
use crate::backoff::Backoff;
use crate::feed::outlet::AppendedSignal;
use crate::feed::{Runtime, now};
use crate::ledger::{Ledger, LedgerError, OutletBatch, OutletSettlement};
use crate::metrics::Metrics;

/// How long a process keeps the lease without a renewal, and the interval of renewals.
const LEASE: Duration = Duration::from_secs(10);
const LEASE_RENEWAL: Duration = Duration::from_secs(2);

/// The interval at which another process looks whether the lease has run out.
const STANDBY_INTERVAL: Duration = Duration::from_secs(2);

/// The interval at which the log is read without a signal. Held entries are due with this precision.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The pauses after errors of the ledger.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// The new entries of a batch, and the held ones.
const BATCH: usize = 100;

/// How long a shutdown waits for requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The options of all webhooks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebhookOptions {
    /// The requests that run concurrently.
    pub(super) concurrency: usize,
    /// How long an event may be refused.
    pub(super) give_up: Duration,
}

/// The outcome of a step.
enum StepOutcome {
    /// There was work; there may be more.
    Worked,
    /// Nothing is to be done for this long.
    Idle(Duration),
    /// Another process works.
    LeasedElsewhere,
}

/// Works for a webhook.
pub(super) struct WebhookWorker {
    ledger: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
    appended: Arc<AppendedSignal>,
    metrics: Arc<Metrics>,
    target: WebhookTarget,
    options: WebhookOptions,
}

impl WebhookWorker {
    /// A worker: see [`run`](Self::run).
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        runtime: Arc<Runtime>,
        appended: Arc<AppendedSignal>,
        metrics: Arc<Metrics>,
        target: WebhookTarget,
        options: WebhookOptions,
    ) -> Self {
        Self { ledger, runtime, appended, metrics, target, options }
    }

    /// Works until the process stops.
    pub(super) async fn run(&self) {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut leased_at = None;
        loop {
            let mut appended = self.appended.listen();
            let pause = match self.step(&mut leased_at).await {
                Ok(outcome) => {
                    backoff.reset();
                    match outcome {
                        StepOutcome::Worked => Duration::ZERO,
                        StepOutcome::LeasedElsewhere => STANDBY_INTERVAL.mul_f64(rand::random_range(0.8..1.2)),
                        StepOutcome::Idle(pause) => {
                            tokio::select! {
                                () = appended.wait(pause) => {}
                                () = self.runtime.stopped() => {}
                            }
                            Duration::ZERO
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, consumer = self.target.consumer, "a webhook waits for the ledger");
                    leased_at = None;
                    backoff.next_delay()
                }
            };
            if !self.runtime.sleep(pause).await || self.runtime.stopping().is_cancelled() {
                break;
            }
        }
        if leased_at.is_some()
            && let Err(error) = self.ledger.release_outlet(&self.target.consumer, self.runtime.holder()).await
        {
            tracing::debug!(%error, "the lease of a webhook could not be given up and will run out");
        }
    }

    async fn step(&self, leased_at: &mut Option<Instant>) -> Result<StepOutcome, LedgerError> {
        if leased_at.is_none_or(|at| at.elapsed() >= LEASE_RENEWAL) {
            *leased_at = self.lease().await?.then(Instant::now);
        }
        if leased_at.is_none() {
            return Ok(StepOutcome::LeasedElsewhere);
        }
        let pause = self.target.pause();
        // While the receiver fails, one event at a time shows whether it works again.
        let limit = if self.target.is_failing() && pause.is_none() { 1 } else { BATCH };
        let batch = self.ledger.outlet_batch(&self.target.consumer, now(), limit).await?;
        let Some(mut batch) = batch else {
            // Registered at the start, so somebody removed the row.
            self.ledger.register_outlet_consumers(std::slice::from_ref(&self.target.consumer)).await?;
            return Ok(StepOutcome::Idle(POLL_INTERVAL));
        };
        self.count_missed(&batch);
        if let Some(pause) = pause {
            return self.give_up(&batch, pause).await;
        }
        if limit == 1 && !batch.entries.is_empty() {
            // A held event may be the cause of the failures: it must not be the only one that is tried.
            batch.due.clear();
        }
        if batch.due.is_empty() && batch.entries.is_empty() {
            return Ok(StepOutcome::Idle(POLL_INTERVAL));
        }
        let stop = CancellationToken::new();
        let sending = send_batch(&self.target, batch, self.options.concurrency, &stop, &self.metrics);
        let Some(settlement) = self.while_leased(sending, &stop, leased_at).await else {
            return Ok(StepOutcome::LeasedElsewhere);
        };
        if !self.settle(&settlement).await {
            *leased_at = None;
            return Ok(StepOutcome::LeasedElsewhere);
        }
        Ok(StepOutcome::Worked)
    }

    async fn lease(&self) -> Result<bool, LedgerError> {
        self.ledger.lease_outlet(&self.target.consumer, self.runtime.holder(), LEASE).await
    }

    /// The receiver is left alone for a while: only events that have waited for too long are given up.
    async fn give_up(&self, batch: &OutletBatch, pause: Duration) -> Result<StepOutcome, LedgerError> {
        let give_up = u64::try_from(self.options.give_up.as_millis()).unwrap_or(u64::MAX);
        let now = now();
        let settlement = give_up_old(&self.target, batch, now.saturating_sub(give_up), now);
        if settlement.cursor == batch.cursor {
            return Ok(StepOutcome::Idle(pause.min(POLL_INTERVAL)));
        }
        settlement.held.iter().for_each(|_| self.metrics.outlet.failed(&self.target.consumer));
        let (consumer, events) = (&self.target.consumer, settlement.held.len());
        tracing::warn!(consumer, events, "events are set aside, because the receiver has not worked for too long");
        let is_settled =
            self.ledger.settle_outlet(&self.target.consumer, self.runtime.holder(), &settlement, now).await?;
        Ok(if is_settled { StepOutcome::Worked } else { StepOutcome::LeasedElsewhere })
    }

    /// Runs the requests of a batch while this process has the lease. `None`: it was lost, or the requests do not end
    /// before the process stops.
    async fn while_leased(
        &self,
        sending: impl Future<Output = OutletSettlement>,
        stop: &CancellationToken,
        leased_at: &mut Option<Instant>,
    ) -> Option<OutletSettlement> {
        let mut renewals = interval_at(Instant::now() + LEASE_RENEWAL, LEASE_RENEWAL);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stopping = async {
            self.runtime.stopped().await;
            stop.cancel();
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        let (mut sending, mut stopping) = (std::pin::pin!(sending), std::pin::pin!(stopping));
        loop {
            tokio::select! {
                settlement = &mut sending => return Some(settlement),
                () = &mut stopping => return None,
                _ = renewals.tick() => match self.lease().await {
                    Ok(true) => *leased_at = Some(Instant::now()),
                    // The requests under way end, and the successor repeats them.
                    Ok(false) => {
                        *leased_at = None;
                        return None;
                    }
                    // The settlement shows whether the lease is still held.
                    Err(error) => tracing::debug!(%error, "the lease of a webhook is not renewed yet"),
                },
            }
        }
    }

    /// Settles a batch that was sent. Tries until the ledger answers, since the events would be sent again. Returns
    /// whether it is settled.
    async fn settle(&self, settlement: &OutletSettlement) -> bool {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let consumer = &self.target.consumer;
        loop {
            match self.ledger.settle_outlet(consumer, self.runtime.holder(), settlement, now()).await {
                Ok(is_settled) => return is_settled,
                Err(error) => tracing::warn!(%error, consumer, "delivered events are not recorded yet"),
            }
            if !self.runtime.sleep(backoff.next_delay()).await {
                return false;
            }
        }
    }

    fn count_missed(&self, batch: &OutletBatch) {
        let missed = batch.end.trimmed.saturating_sub(batch.cursor);
        if missed > 0 && !batch.entries.is_empty() {
            tracing::warn!(consumer = self.target.consumer, missed, "a webhook missed events beyond outlet.retention");
            self.metrics.outlet.missed(&self.target.consumer, missed);
        }
    }
}
