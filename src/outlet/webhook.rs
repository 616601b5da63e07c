//! The work for a webhook: batches from the log are sent, and settled in one transaction. The events of each owner are
//! sent in order, those of several owners concurrently. A process that loses the partition settles nothing more; its
//! successor repeats what was not settled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::breaker::{BreakerKey, BreakerVerdict, Breakers};
use crate::feed::work::{Consumer, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::feed::{Base, Result, now};
use crate::ledger::{Fence, HeldEntry, OutletBatch, OutletEntry, OutletSettlement, Quarantined};
use crate::metrics::Metrics;
use crate::model::{EventOwner, Millis};
use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::retry::RetryPolicy;
use crate::push::providers::webhook::Webhook;
use crate::push::providers::{Outcome, Scope};
use crate::shares::SourceId;

/// The log is read at this interval without a wake-up. Held entries are due with this precision.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: Duration::ZERO };

/// The new entries of a batch, and the held ones.
const BATCH: usize = 100;

/// How long a shutdown waits for requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Codes of refusals that say nothing about the event: the receiver is set up wrongly.
const SETUP_CODES: [&str; 3] = ["redirect", "endpoint_forbidden", "gone"];

/// Works for a webhook. `mod.rs` sets the fields.
pub(super) struct WebhookWorker {
    pub(super) base: Arc<Base>,
    /// Woken when the log grows.
    pub(super) partition: Arc<Partition>,
    /// Shows what the work waits for.
    pub(super) waits: Arc<QuarantinePolicy>,
    pub(super) target: WebhookTarget,
    /// The requests that run concurrently.
    pub(super) concurrency: usize,
    /// How long an event may be refused.
    pub(super) give_up: Duration,
}

impl WebhookWorker {
    /// Works until the process stops.
    pub(super) async fn run(&self) {
        let batches = || Batches { worker: self, unsettled: None };
        work(&self.partition, &self.base.runtime, SCHEDULE, &self.waits, batches).await;
    }

    /// The next settlement: the outcome of a batch that was sent, or what is given up. `None`: there is nothing to do.
    async fn next(&self, fence: &Fence) -> Result<Option<OutletSettlement>> {
        let ledger = &self.base.ledger;
        let consumer = &self.target.consumer;
        let pause = self.target.pause();
        // While the receiver fails, one event at a time shows whether it works again.
        let limit = if self.target.is_failing() && pause.is_none() { 1 } else { BATCH };
        let Some(mut batch) = ledger.outlet_batch(consumer, now(), limit).await? else {
            // Registered at the start, so somebody removed the row.
            ledger.register_outlet_consumers(std::slice::from_ref(consumer)).await?;
            return Ok(None);
        };
        if limit == 1 && !batch.entries.is_empty() {
            // A held event may be the cause of the failures: it must not be the only one that is tried.
            batch.due.clear();
        }
        Ok(if pause.is_some() { self.give_up(&batch) } else { self.send(batch, fence).await })
    }

    /// Sends a batch. `None`: it is empty, or its requests do not end before the process stops.
    async fn send(&self, batch: OutletBatch, fence: &Fence) -> Option<OutletSettlement> {
        if batch.due.is_empty() && batch.entries.is_empty() {
            return None;
        }
        let missed = batch.trimmed.saturating_sub(batch.cursor);
        if missed > 0 && !batch.entries.is_empty() {
            tracing::warn!(consumer = self.target.consumer, missed, "a webhook missed events beyond outlet.retention");
            self.base.metrics.outlet.missed(&self.target.consumer, missed);
        }
        let stopping = async {
            self.base.runtime.stopped().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            settlement = self.send_batch(batch, fence) => Some(settlement),
            () = stopping => None,
        }
    }

    /// Sends the events of a batch. No attempt begins once this process may not send any more; new events that were not
    /// sent are held, and due at once.
    async fn send_batch(&self, batch: OutletBatch, fence: &Fence) -> OutletSettlement {
        let OutletBatch { cursor, mut due, entries, owners_held, .. } = batch;
        let cursor = entries.last().map_or(cursor, |last| last.position);
        let mut settlement = OutletSettlement { cursor, ..OutletSettlement::default() };
        let mut lanes: HashMap<EventOwner, Vec<HeldEntry>> = HashMap::new();
        due.sort_unstable_by_key(|held| held.entry.position);
        for held in due {
            lanes.entry(held.entry.owner.clone()).or_default().push(held);
        }
        for entry in entries.into_iter().filter(|entry| self.target.wants(&entry.kind)) {
            let owner = entry.owner.clone();
            let entry = not_yet_sent(entry, now());
            // It waits for held events of its owner, which may not be in this batch.
            if owners_held.contains(&owner) {
                settlement.held.push(entry);
            } else {
                lanes.entry(owner).or_default().push(entry);
            }
        }
        let lanes = stream::iter(lanes.into_values()).map(|lane| self.send_lane(lane, fence));
        let settlements: Vec<OutletSettlement> = lanes.buffer_unordered(self.concurrency).collect().await;
        for OutletSettlement { held, given_up, released, .. } in settlements {
            settlement.held.extend(held);
            settlement.given_up.extend(given_up);
            settlement.released.extend(released);
        }
        settlement
    }

    /// Sends events of one owner, in order.
    async fn send_lane(&self, lane: Vec<HeldEntry>, fence: &Fence) -> OutletSettlement {
        let consumer = &self.target.consumer;
        let metrics = &self.base.metrics;
        let mut settlement = OutletSettlement::default();
        let mut is_blocked = false;
        for held in lane {
            // Only held events that are stored have a time.
            let is_stored = held.due_at.is_some();
            if is_blocked || !self.may_send(fence) {
                if !is_stored {
                    let due_at = (!is_blocked).then(now);
                    settlement.held.push(HeldEntry { due_at, ..held });
                }
                is_blocked = true;
                continue;
            }
            let event = held.entry.position;
            match self.target.attempt(held, now(), metrics).await {
                DeliveryOutcome::Delivered if is_stored => settlement.released.push(event),
                DeliveryOutcome::Delivered => {}
                DeliveryOutcome::Held(held) => {
                    is_blocked = true;
                    settlement.held.push(held);
                }
                // It holds up nothing.
                DeliveryOutcome::GivenUp(item) => {
                    let reason = &item.reason;
                    tracing::warn!(consumer, event, reason, "an event is set aside, see `feedline quarantine list`");
                    metrics.outlet.failed(consumer);
                    settlement.given_up.push(item);
                    settlement.released.push(event);
                }
            }
        }
        settlement
    }

    /// Whether this process still owns the partition, and does not stop.
    fn may_send(&self, fence: &Fence) -> bool {
        !self.base.runtime.stopping().is_cancelled() && self.partition.is_owned(fence)
    }

    /// The receiver is left alone for a while: only events that have waited for too long are given up. `None`: there
    /// are none.
    fn give_up(&self, batch: &OutletBatch) -> Option<OutletSettlement> {
        let consumer = &self.target.consumer;
        let now = now();
        let before = now.saturating_sub(u64::try_from(self.give_up.as_millis()).unwrap_or(u64::MAX));
        let old: Vec<&OutletEntry> = batch.entries.iter().take_while(|entry| entry.at < before).collect();
        let cursor = old.last()?.position;
        let give_up = |entry: &OutletEntry| {
            let reason = "the receiver does not work".to_owned();
            HeldEntry { reason, ..not_yet_sent(entry.clone(), now) }.give_up(consumer, now)
        };
        let wanted = old.into_iter().filter(|entry| self.target.wants(&entry.kind));
        let given_up: Vec<Quarantined> = wanted.map(give_up).collect();
        given_up.iter().for_each(|_| self.base.metrics.outlet.failed(consumer));
        let events = given_up.len();
        tracing::warn!(consumer, events, "events are set aside, because the receiver has not worked for too long");
        Some(OutletSettlement { cursor, given_up, ..OutletSettlement::default() })
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
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let WebhookWorker { base, waits, target, .. } = self.worker;
        if self.unsettled.is_none() {
            self.unsettled = self.worker.next(fence).await?;
        }
        let Some(settlement) = &self.unsettled else {
            return Ok(RunOutcome::Idle(target.pause().map(|pause| Instant::now() + pause)));
        };
        let is_settled = base.ledger.settle_outlet(fence, &target.consumer, settlement, now()).await?;
        self.unsettled = None;
        waits.succeeded(&target.consumer);
        // If not, another process owns the partition now.
        Ok(if is_settled { RunOutcome::More } else { RunOutcome::Idle(None) })
    }
}

/// A webhook. `mod.rs` sets the fields.
pub(super) struct WebhookTarget {
    /// Its name as a consumer.
    pub(super) consumer: String,
    pub(super) url: EndpointUrl,
    /// The types of events that it receives; empty: all.
    pub(super) types: HashSet<String>,
    pub(super) transport: Webhook,
    pub(super) retry: RetryPolicy,
    pub(super) breakers: Breakers,
}

/// What became of an attempt.
pub(super) enum DeliveryOutcome {
    /// The receiver has the event.
    Delivered,
    /// The event is sent again later.
    Held(HeldEntry),
    /// The event was refused for too long.
    GivenUp(Quarantined),
}

impl WebhookTarget {
    /// Whether it receives events of a type.
    pub(super) fn wants(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.contains(kind)
    }

    /// How long to leave the receiver alone; `None`: it may be sent events.
    pub(super) fn pause(&self) -> Option<Duration> {
        // A permit that is dropped changes nothing.
        self.breakers.admit(self.key(), SourceId::ONLY).err()
    }

    /// Whether recent attempts failed, so that one event at a time shows whether the receiver works again.
    pub(super) fn is_failing(&self) -> bool {
        !self.breakers.is_empty()
    }

    fn key(&self) -> BreakerKey {
        BreakerKey::Origin(self.url.origin().to_owned())
    }

    /// Sends an event, which may have been held before. No refusal is final: a receiver that is set up wrongly is
    /// repaired, and one that refuses an event may have a bug. Only the time decides when an event is given up.
    pub(super) async fn attempt(&self, held: HeldEntry, now: Millis, metrics: &Metrics) -> DeliveryOutcome {
        let permit = match self.breakers.admit(self.key(), SourceId::ONLY) {
            Ok(permit) => permit,
            Err(wait) => return DeliveryOutcome::Held(HeldEntry { due_at: Some(later(now, wait)), ..held }),
        };
        let delivery = held.entry.position.to_string();
        let outcome = self.transport.deliver(&self.url, None, &delivery, held.entry.json().into_bytes()).await;
        permit.settle(verdict(&outcome));
        let Some(reason) = outcome.reason() else {
            metrics.outlet.delivered(&self.consumer);
            return DeliveryOutcome::Delivered;
        };
        metrics.outlet.rejected(&self.consumer, reason.code);
        let age = Duration::from_millis(now.saturating_sub(held.held_at));
        let attempts = held.attempts.saturating_add(1);
        let after = if let Outcome::Retry { after, .. } = &outcome { *after } else { None };
        let held = HeldEntry { attempts, reason: reason.to_string(), ..held };
        match self.retry.delay(attempts, after, age) {
            Some(delay) => DeliveryOutcome::Held(HeldEntry { due_at: Some(later(now, delay)), ..held }),
            None => DeliveryOutcome::GivenUp(held.give_up(&self.consumer, now)),
        }
    }
}

/// A new entry, as if it were held.
pub(super) fn not_yet_sent(entry: OutletEntry, now: Millis) -> HeldEntry {
    HeldEntry { entry, held_at: now, attempts: 0, due_at: None, reason: String::new() }
}

/// A time that the ledgers can store.
fn later(now: Millis, delay: Duration) -> Millis {
    now.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)).min(Millis::MAX / 2)
}

/// What an outcome shows about the receiver.
fn verdict(outcome: &Outcome) -> BreakerVerdict {
    match outcome {
        Outcome::Accepted { .. } | Outcome::Retry { scope: Scope::Device, .. } => BreakerVerdict::Success,
        // A refused event says nothing about others.
        Outcome::Rejected { reason } | Outcome::TokenGone { reason, .. } if !SETUP_CODES.contains(&reason.code) => {
            BreakerVerdict::Success
        }
        Outcome::Retry { after, .. } => BreakerVerdict::Failure { after: *after },
        Outcome::Rejected { .. } | Outcome::TokenGone { .. } | Outcome::Misconfigured { .. } => {
            BreakerVerdict::Failure { after: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_event_says_nothing_about_the_receiver() {
        for code in SETUP_CODES {
            assert!(matches!(verdict(&Outcome::rejected(code)), BreakerVerdict::Failure { after: None }), "{code}");
        }
        assert!(matches!(verdict(&Outcome::gone("gone")), BreakerVerdict::Failure { after: None }));
        assert!(matches!(verdict(&Outcome::rejected("refused")), BreakerVerdict::Success));
    }
}
