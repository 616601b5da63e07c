//! A batch of a webhook: the events of each owner are sent in order, those of several owners concurrently.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::{StreamExt, stream};

use super::delivery::{Attempt, WebhookTarget, given_up, not_yet_sent, stopping};
use crate::feed::now;
use crate::ledger::{HeldEntry, OutletBatch, OutletSettlement};
use crate::metrics::Metrics;
use crate::model::{EventOwner, Millis};

/// An event of a lane.
struct LaneEntry {
    held: HeldEntry,
    /// It is in the table of held entries already.
    is_stored: bool,
    /// Its owner has held entries before it, which are not in this batch.
    waits: bool,
}

/// What became of the events of one owner.
#[derive(Default)]
struct LaneOutcome {
    delivered: Vec<u64>,
    held: Vec<HeldEntry>,
}

/// Sends the events of a batch. No attempt begins once this process may not send any more; what was not sent is held,
/// and due at once.
pub(super) async fn send_batch(
    target: &WebhookTarget,
    batch: OutletBatch,
    concurrency: usize,
    may_send: &(dyn Fn() -> bool + Sync),
    metrics: &Arc<Metrics>,
) -> OutletSettlement {
    let cursor = batch.entries.last().map_or(batch.cursor, |last| last.position);
    let lanes = lanes(target, batch, now());
    let outcomes: Vec<LaneOutcome> = stream::iter(lanes.into_values())
        .map(|lane| send_lane(target, lane, may_send, metrics))
        .buffer_unordered(concurrency)
        .collect()
        .await;
    let mut settlement = OutletSettlement { cursor, ..OutletSettlement::default() };
    for LaneOutcome { delivered, held } in outcomes {
        settlement.delivered.extend(delivered);
        settlement.held.extend(held);
    }
    for held in settlement.held.iter().filter(|held| held.failed_at.is_some()) {
        let (event, reason) = (held.entry.position, &held.reason);
        tracing::warn!(
            consumer = target.consumer,
            event,
            reason,
            "an event is set aside, see `feedline quarantine list`"
        );
        metrics.outlet.failed(&target.consumer);
    }
    settlement
}

/// Gives up the new entries of a batch that are older than `give_up`: the receiver has not worked for that long.
pub(super) fn give_up_old(
    target: &WebhookTarget,
    batch: &OutletBatch,
    before: Millis,
    now: Millis,
) -> OutletSettlement {
    let old = batch.entries.iter().take_while(|entry| entry.at < before);
    let mut settlement = OutletSettlement { cursor: batch.cursor, ..OutletSettlement::default() };
    for entry in old {
        settlement.cursor = entry.position;
        if target.wants(&entry.kind) {
            let held = HeldEntry { reason: "the receiver does not work".into(), ..not_yet_sent(entry.clone(), now) };
            settlement.held.push(given_up(held, now));
        }
    }
    settlement
}

/// The events of each owner, in order.
fn lanes(target: &WebhookTarget, batch: OutletBatch, now: Millis) -> HashMap<EventOwner, BTreeMap<u64, LaneEntry>> {
    let OutletBatch { due, entries, owners_held, .. } = batch;
    let mut lanes: HashMap<EventOwner, BTreeMap<u64, LaneEntry>> = HashMap::new();
    let mut add = |entry: LaneEntry| {
        let lane = lanes.entry(entry.held.entry.owner.clone()).or_default();
        lane.insert(entry.held.entry.position, entry);
    };
    due.into_iter().for_each(|held| add(LaneEntry { held, is_stored: true, waits: false }));
    for entry in entries.into_iter().filter(|entry| target.wants(&entry.kind)) {
        let waits = owners_held.contains(&entry.owner);
        add(LaneEntry { held: not_yet_sent(entry, now), is_stored: false, waits });
    }
    lanes
}

async fn send_lane(
    target: &WebhookTarget,
    lane: BTreeMap<u64, LaneEntry>,
    may_send: &(dyn Fn() -> bool + Sync),
    metrics: &Arc<Metrics>,
) -> LaneOutcome {
    let mut outcome = LaneOutcome::default();
    let mut is_blocked = false;
    for LaneEntry { held, is_stored, waits } in lane.into_values() {
        if is_blocked || waits {
            if !is_stored {
                outcome.held.push(held);
            }
            continue;
        }
        if !may_send() {
            is_blocked = true;
            if !is_stored {
                outcome.held.push(HeldEntry { due_at: Some(now()), reason: stopping().to_string(), ..held });
            }
            continue;
        }
        let position = held.entry.position;
        match target.attempt(held, now(), metrics).await {
            Attempt::Delivered if is_stored => outcome.delivered.push(position),
            Attempt::Delivered => {}
            Attempt::Held(held) => {
                // What was given up holds up nothing.
                is_blocked = held.failed_at.is_none();
                outcome.held.push(held);
            }
        }
    }
    outcome
}
