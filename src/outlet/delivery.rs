//! One attempt to deliver an event to a webhook, and what its outcome means for the event.

use std::collections::HashSet;
use std::time::Duration;

use crate::breaker::{BreakerKey, BreakerOptions, Breakers, Verdict};
use crate::ledger::{HeldEntry, OutletEntry};
use crate::metrics::Metrics;
use crate::model::Millis;
use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::retry::RetryPolicy;
use crate::push::providers::webhook::Webhook;
use crate::push::providers::{Outcome, Reason, Scope};

/// The longest time that the breaker of a webhook stays open, unless the receiver demands more.
const MAX_OPEN: Duration = Duration::from_secs(60);

/// Codes of refusals that say nothing about the event: the receiver is set up wrongly.
const SETUP_CODES: [&str; 3] = ["redirect", "endpoint_forbidden", "gone"];

/// A webhook.
pub(super) struct WebhookTarget {
    /// Its name as a consumer.
    pub(super) consumer: String,
    url: EndpointUrl,
    /// The types of events that it receives; empty: all.
    types: HashSet<String>,
    transport: Webhook,
    retry: RetryPolicy,
    breakers: Breakers,
}

/// What became of an attempt.
pub(super) enum Attempt {
    /// The receiver has the event.
    Delivered,
    /// The event is to be held: sent again later, or given up.
    Held(HeldEntry),
}

impl WebhookTarget {
    /// A webhook that receives events of these types.
    pub(super) fn new(
        consumer: String,
        url: EndpointUrl,
        types: HashSet<String>,
        transport: Webhook,
        retry: RetryPolicy,
    ) -> Self {
        let breakers = Breakers::new(BreakerOptions { max_open: MAX_OPEN, ..BreakerOptions::default() });
        Self { consumer, url, types, transport, retry, breakers }
    }

    /// Whether it receives events of a type.
    pub(super) fn wants(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.contains(kind)
    }

    /// How long to leave the receiver alone; `None`: it may be sent events.
    pub(super) fn pause(&self) -> Option<Duration> {
        // A permit that is dropped changes nothing.
        self.breakers.admit(self.key()).err()
    }

    /// Whether recent attempts failed, so that one event at a time shows whether the receiver works again.
    pub(super) fn is_failing(&self) -> bool {
        !self.breakers.is_empty()
    }

    fn key(&self) -> BreakerKey {
        BreakerKey::Origin(self.url.origin().to_owned())
    }

    /// Sends an event, which may have been held before.
    pub(super) async fn attempt(&self, held: HeldEntry, now: Millis, metrics: &Metrics) -> Attempt {
        let permit = match self.breakers.admit(self.key()) {
            Ok(permit) => permit,
            Err(wait) => return Attempt::Held(HeldEntry { due_at: Some(later(now, wait)), ..held }),
        };
        let delivery = held.entry.position.to_string();
        let outcome = self.transport.deliver(&self.url, None, &delivery, held.entry.json().into_bytes()).await;
        let outcome = reinterpreted(outcome);
        permit.settle(verdict(&outcome));
        let Some(reason) = outcome.reason() else {
            metrics.outlet.delivered(&self.consumer);
            return Attempt::Delivered;
        };
        metrics.outlet.rejected(&self.consumer, reason.code);
        let age = Duration::from_millis(now.saturating_sub(held.held_at));
        let attempts = held.attempts.saturating_add(1);
        let after = if let Outcome::Retry { after, .. } = &outcome { *after } else { None };
        let held = HeldEntry { attempts, due_at: None, reason: reason.to_string(), ..held };
        Attempt::Held(match self.retry.delay(attempts, after, age) {
            Some(delay) => HeldEntry { due_at: Some(later(now, delay)), ..held },
            None => given_up(held, now),
        })
    }
}

/// A new entry, as if it were held.
pub(super) fn not_yet_sent(entry: OutletEntry, now: Millis) -> HeldEntry {
    HeldEntry { entry, held_at: now, attempts: 0, due_at: None, reason: String::new(), failed_at: None }
}

/// An entry that was refused for too long.
pub(super) fn given_up(held: HeldEntry, now: Millis) -> HeldEntry {
    let reason = format!("given up after {} attempts: {}", held.attempts, held.reason);
    HeldEntry { failed_at: Some(now), due_at: None, reason, ..held }
}

fn later(now: Millis, delay: Duration) -> Millis {
    now.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

/// No refusal is final: a receiver that is set up wrongly is repaired, and one that refuses an event may have a bug.
/// Only the time decides when an event is given up.
fn reinterpreted(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Rejected { reason } | Outcome::TokenGone { reason, .. } => {
            // A refused event says nothing about others.
            let scope = if SETUP_CODES.contains(&reason.code) { Scope::Origin } else { Scope::Device };
            Outcome::Retry { after: None, scope, reason }
        }
        outcome => outcome,
    }
}

/// What an outcome shows about the receiver.
fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Retry { scope: Scope::Device, .. } => Verdict::Success,
        Outcome::Retry { after, .. } => Verdict::Failure { after: *after },
        Outcome::Misconfigured { .. } => Verdict::Failure { after: None },
        _ => Verdict::Success,
    }
}

/// The reason of an event that was not sent because the process stops.
pub(super) fn stopping() -> Reason {
    Reason::new("stopping")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_tried_again() {
        for code in SETUP_CODES {
            let outcome = reinterpreted(Outcome::rejected(code));
            assert!(matches!(outcome, Outcome::Retry { scope: Scope::Origin, .. }), "{code}: {outcome:?}");
        }
        assert!(matches!(reinterpreted(Outcome::gone("gone")), Outcome::Retry { scope: Scope::Origin, .. }));
        assert!(matches!(reinterpreted(Outcome::rejected("refused")), Outcome::Retry { scope: Scope::Device, .. }));
    }
}
