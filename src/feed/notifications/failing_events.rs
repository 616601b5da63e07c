//! The events of a consumer that failed by themselves. Each is tried alone from then on, and the others go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::feed::work::QuarantinePolicy;
use crate::ledger::EventConsumer;

/// The range of pauses between two attempts.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// The policies of the consumers that write notifications.
pub(crate) struct EventQuarantine {
    pub(crate) notifications: Arc<QuarantinePolicy>,
    pub(crate) likes: Arc<QuarantinePolicy>,
}

impl EventQuarantine {
    pub(super) fn of(&self, consumer: EventConsumer) -> &QuarantinePolicy {
        if consumer == EventConsumer::Likes { &self.likes } else { &self.notifications }
    }
}

/// The failing events of a consumer. They are among the first events that wait, so their number is bounded.
#[derive(Default)]
pub(super) struct FailingEvents {
    /// Consecutive failures of batches.
    pub(super) batches: u32,
    /// The failures of events that are tried alone, and when they are due.
    events: HashMap<i64, (u32, Instant)>,
}

impl FailingEvents {
    pub(super) fn contains(&self, seq: i64) -> bool {
        self.events.contains_key(&seq)
    }

    /// Whether an event is to be tried again.
    pub(super) fn is_due(&self, seq: i64) -> bool {
        self.events.get(&seq).is_none_or(|(_, due)| *due <= Instant::now())
    }

    /// Records a failure: the event is due after a pause, which doubles.
    pub(super) fn failed(&mut self, seq: i64) {
        let (failures, due) = self.events.entry(seq).or_insert((0, Instant::now()));
        let pause = MIN_PAUSE.saturating_mul(1 << (*failures).min(5)).min(MAX_PAUSE);
        *failures += 1;
        *due = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.5));
    }

    pub(super) fn remove(&mut self, seq: i64) {
        self.events.remove(&seq);
    }
}
