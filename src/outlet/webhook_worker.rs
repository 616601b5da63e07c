//! The work for a webhook: batches from the log are sent, and settled in one transaction. A process that loses the
//! partition settles nothing more; its successor repeats what was not settled.

use std::ops::ControlFlow;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::consumer_context::ConsumerContext;
use super::delivery::WebhookTarget;
use super::lanes::{give_up_old, send_batch};
use crate::feed::work::{Consumer, Ran};
use crate::feed::{Result, now};
use crate::ledger::{Fence, OutletBatch, OutletSettlement};

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

/// Works for a webhook.
pub(super) struct WebhookWorker {
    context: ConsumerContext,
    target: WebhookTarget,
    options: WebhookOptions,
}

impl WebhookWorker {
    /// A worker: see [`run`](Self::run).
    pub(super) fn new(context: ConsumerContext, target: WebhookTarget, options: WebhookOptions) -> Self {
        Self { context, target, options }
    }

    /// Works until the process stops.
    pub(super) async fn run(&self) {
        self.context.work(&mut Batches { worker: self, unsettled: None }).await;
    }

    /// The next settlement: the outcome of a batch that was sent, or what is given up. Otherwise when to look again.
    async fn next(&self, fence: &Fence) -> Result<ControlFlow<Ran, OutletSettlement>> {
        let (ledger, consumer, pause) = (&self.context.ledger, &self.target.consumer, self.target.pause());
        // While the receiver fails, one event at a time shows whether it works again.
        let limit = if self.target.is_failing() && pause.is_none() { 1 } else { BATCH };
        let Some(mut batch) = ledger.outlet_batch(consumer, now(), limit).await? else {
            // Registered at the start, so somebody removed the row.
            ledger.register_outlet_consumers(std::slice::from_ref(consumer)).await?;
            return Ok(ControlFlow::Break(Ran::Idle(None)));
        };
        if limit == 1 && !batch.entries.is_empty() {
            // A held event may be the cause of the failures: it must not be the only one that is tried.
            batch.due.clear();
        }
        let settlement = match pause {
            Some(_) => self.give_up(&batch),
            None => self.send(batch, fence).await,
        };
        let idle = || ControlFlow::Break(Ran::Idle(pause.map(|pause| Instant::now() + pause)));
        Ok(settlement.map_or_else(idle, ControlFlow::Continue))
    }

    /// Sends a batch. `None`: it is empty, or its requests do not end before the process stops.
    async fn send(&self, batch: OutletBatch, fence: &Fence) -> Option<OutletSettlement> {
        if batch.due.is_empty() && batch.entries.is_empty() {
            return None;
        }
        self.count_missed(&batch);
        let may_send = || {
            !self.context.runtime.stopping().is_cancelled() && self.context.partition.fence().as_ref() == Some(fence)
        };
        let sending = send_batch(&self.target, batch, self.options.concurrency, &may_send, &self.context.metrics);
        let stopping = async {
            self.context.runtime.stopped().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            settlement = sending => Some(settlement),
            () = stopping => None,
        }
    }

    /// The receiver is left alone for a while: only events that have waited for too long are given up. `None`: there
    /// are none.
    fn give_up(&self, batch: &OutletBatch) -> Option<OutletSettlement> {
        let give_up = u64::try_from(self.options.give_up.as_millis()).unwrap_or(u64::MAX);
        let now = now();
        let settlement = give_up_old(&self.target, batch, now.saturating_sub(give_up), now);
        if settlement.cursor == batch.cursor {
            return None;
        }
        settlement.held.iter().for_each(|_| self.context.metrics.outlet.failed(&self.target.consumer));
        let (consumer, events) = (&self.target.consumer, settlement.held.len());
        tracing::warn!(consumer, events, "events are set aside, because the receiver has not worked for too long");
        Some(settlement)
    }

    fn count_missed(&self, batch: &OutletBatch) {
        let missed = batch.end.trimmed.saturating_sub(batch.cursor);
        if missed > 0 && !batch.entries.is_empty() {
            tracing::warn!(consumer = self.target.consumer, missed, "a webhook missed events beyond outlet.retention");
            self.context.metrics.outlet.missed(&self.target.consumer, missed);
        }
    }
}

/// The batches of a webhook.
struct Batches<'a> {
    worker: &'a WebhookWorker,
    /// A batch that was sent and is not settled yet. It is settled before the next one, since its events would be sent
    /// again.
    unsettled: Option<OutletSettlement>,
}

#[async_trait]
impl Consumer for Batches<'_> {
    async fn begin(&mut self, _fence: &Fence) -> Result<()> {
        self.unsettled = None;
        Ok(())
    }

    async fn run(&mut self, fence: &Fence) -> Result<Ran> {
        let worker = self.worker;
        let settlement = match self.unsettled.take() {
            Some(settlement) => settlement,
            None => match worker.next(fence).await? {
                ControlFlow::Continue(settlement) => settlement,
                ControlFlow::Break(ran) => return Ok(ran),
            },
        };
        let settlement = self.unsettled.insert(settlement);
        let is_settled = worker.context.ledger.settle_outlet(fence, &worker.target.consumer, settlement, now()).await?;
        self.unsettled = None;
        worker.context.waits.succeeded(&worker.target.consumer);
        // If not, another process owns the partition now.
        Ok(if is_settled { Ran::More } else { Ran::Idle(None) })
    }
}
