//! One attempt to deliver an event to a webhook, and what its outcome means for the event.

use std::collections::HashSet;
use std::time::Duration;

use crate::breaker::{BreakerKey, BreakerVerdict, Breakers};
use crate::ledger::{HeldEntry, OutletEntry, Quarantined};
use crate::metrics::Metrics;
use crate::model::Millis;
use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::retry::RetryPolicy;
use crate::push::providers::webhook::Webhook;
use crate::push::providers::{Outcome, Scope};
use crate::shares::SourceId;

/// Codes of refusals that say nothing about the event: the receiver is set up wrongly.
const SETUP_CODES: [&str; 3] = ["redirect", "endpoint_forbidden", "gone"];

/// A webhook. `setup.rs` sets the fields.
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
