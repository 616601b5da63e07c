//! Notifications that were taken live: a socket received one, and its client gave a sign afterwards.
//!
//! The server pings right behind each notification that it delivers while pushes are enabled. A pong, or any other
//! frame, is the receipt. It outlives the connection: a user who took a notification and left gets no push of it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::model::{DeliveredNotification, Millis, NotificationId, UserId};

/// The receipts of a generation. There are two, so twice as many are kept. Above that the oldest are forgotten, and
/// their users may get a push of what they took.
const MAX_RECEIPTS: usize = 100_000;

/// How much longer than a push waits its receipt is kept.
const MARGIN: Duration = Duration::from_secs(5);

/// The receipts of this node.
#[derive(Debug)]
pub(crate) struct DeliveryReceipts {
    /// A receipt is kept at least this long.
    kept: Duration,
    generations: Mutex<ReceiptGenerations>,
}

#[derive(Debug)]
struct ReceiptGenerations {
    current: HashMap<(UserId, NotificationId), Millis>,
    previous: HashMap<(UserId, NotificationId), Millis>,
    begun: Instant,
}

impl DeliveryReceipts {
    /// No receipts yet. A push waits up to `wait`.
    pub(crate) fn new(wait: Duration) -> Self {
        let generations =
            ReceiptGenerations { current: HashMap::new(), previous: HashMap::new(), begun: Instant::now() };
        Self { kept: wait.saturating_add(MARGIN), generations: Mutex::new(generations) }
    }

    /// A client gave a sign after it was sent this.
    pub(crate) fn record(&self, delivered: &DeliveredNotification) {
        self.record_at(delivered, Instant::now());
    }

    fn record_at(&self, delivered: &DeliveredNotification, now: Instant) {
        let mut generations = self.generations.lock();
        generations.expire(self.kept, now);
        if generations.current.len() >= MAX_RECEIPTS {
            generations.rotate(now);
        }
        let state = generations.current.entry((delivered.user.clone(), delivered.id)).or_default();
        *state = delivered.updated_at.max(*state);
    }

    /// The state in which a notification was taken, if it was.
    pub(crate) fn get(&self, user: &UserId, id: NotificationId) -> Option<Millis> {
        self.get_at(user, id, Instant::now())
    }

    fn get_at(&self, user: &UserId, id: NotificationId, now: Instant) -> Option<Millis> {
        let key = (user.clone(), id);
        let mut generations = self.generations.lock();
        generations.expire(self.kept, now);
        let ReceiptGenerations { current, previous, .. } = &*generations;
        current.get(&key).max(previous.get(&key)).copied()
    }
}

impl ReceiptGenerations {
    fn expire(&mut self, kept: Duration, now: Instant) {
        let age = now.saturating_duration_since(self.begun);
        if age >= kept {
            self.rotate(now);
        }
        if age >= kept.saturating_mul(2) {
            self.rotate(now);
        }
    }

    fn rotate(&mut self, now: Instant) {
        self.previous = std::mem::take(&mut self.current);
        self.begun = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(id: u64, updated_at: Millis) -> DeliveredNotification {
        let user = UserId::parse("ann").expect("an id");
        DeliveredNotification { user, id: NotificationId(id), updated_at }
    }

    #[test]
    fn receipts_are_kept_for_the_wait_of_a_push_and_then_forgotten() {
        let receipts = DeliveryReceipts::new(Duration::from_secs(10));
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let get = |id, seconds| receipts.get_at(&delivered(id, 0).user, NotificationId(id), at(seconds));
        receipts.record_at(&delivered(1, 7), at(0));
        receipts.record_at(&delivered(1, 5), at(0));
        assert_eq!((get(1, 0), get(2, 0)), (Some(7), None), "the latest state");
        receipts.record_at(&delivered(2, 8), at(14));
        assert_eq!((get(1, 28), get(2, 28)), (Some(7), Some(8)));
        assert_eq!((get(1, 60), get(2, 60)), (None, None));
    }

    #[test]
    fn receipts_are_bounded() {
        let receipts = DeliveryReceipts::new(Duration::from_secs(10));
        let now = Instant::now();
        for id in 1..=(2 * MAX_RECEIPTS as u64 + 1) {
            receipts.record_at(&delivered(id, id), now);
        }
        let generations = receipts.generations.lock();
        assert_eq!((generations.current.len(), generations.previous.len()), (1, MAX_RECEIPTS));
    }
}
