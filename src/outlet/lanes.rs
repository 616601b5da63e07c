//! A batch of a webhook: the events of each owner are sent in order, those of several owners concurrently.

use std::collections::HashMap;

use futures::{StreamExt, stream};

use super::delivery::{AttemptOutcome, not_yet_sent};
use super::webhook_worker::WebhookWorker;
use crate::feed::now;
use crate::ledger::{Fence, HeldEntry, OutletBatch, OutletSettlement};
use crate::model::EventOwner;

impl WebhookWorker {
    /// Sends the events of a batch. No attempt begins once this process may not send any more; new events that were not
    /// sent are held, and due at once.
    pub(super) async fn send_batch(&self, batch: OutletBatch, fence: &Fence) -> OutletSettlement {
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
        let (consumer, metrics) = (&self.target.consumer, &self.context.metrics);
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
                AttemptOutcome::Delivered if is_stored => settlement.released.push(event),
                AttemptOutcome::Delivered => {}
                AttemptOutcome::Held(held) => {
                    is_blocked = true;
                    settlement.held.push(held);
                }
                // It holds up nothing.
                AttemptOutcome::GivenUp(item) => {
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
}
