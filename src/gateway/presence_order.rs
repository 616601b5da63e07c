//! The order in which the presence of one client in one channel is written.
//!
//! Subscriptions end in tasks of their own. A client that unsubscribes and subscribes again at once would otherwise be
//! removed by the task of its first subscription after the second one has made it present.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;

/// The number of locks: updates of clients that share one wait for each other.
const LOCKS: usize = 256;

/// The current subscriptions of clients to channels with presence.
#[derive(Debug)]
pub(super) struct PresenceOrder {
    locks: Box<[tokio::sync::Mutex<()>]>,
    current: Mutex<CurrentEntries>,
}

#[derive(Debug, Default)]
struct CurrentEntries {
    /// By channel and client.
    entries: HashMap<(Arc<str>, String), u64>,
    last: u64,
}

/// One subscription of a client to a channel with presence.
#[derive(Clone, Debug)]
pub(super) struct PresenceTurn {
    order: Arc<PresenceOrder>,
    key: (Arc<str>, String),
    number: u64,
}

impl PresenceOrder {
    pub(super) fn new() -> Self {
        let locks = (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect();
        Self { locks, current: Mutex::default() }
    }

    /// Begins a subscription: updates of earlier ones of the same client to the same channel have no effect from now
    /// on.
    pub(super) fn begin(self: &Arc<Self>, channel: &Arc<str>, client: &str) -> PresenceTurn {
        let key = (Arc::clone(channel), client.to_owned());
        let mut current = self.current.lock();
        current.last += 1;
        let number = current.last;
        current.entries.insert(key.clone(), number);
        PresenceTurn { order: Arc::clone(self), key, number }
    }
}

impl PresenceTurn {
    /// Waits for the update before this one. `None`: the subscription has ended, or another one has begun.
    pub(super) async fn update(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.lock().await;
        let is_current = self.order.current.lock().entries.get(&self.key) == Some(&self.number);
        is_current.then_some(guard)
    }

    /// The same for the last update: the subscription ends.
    pub(super) async fn end(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.update().await?;
        self.order.current.lock().entries.remove(&self.key);
        Some(guard)
    }

    async fn lock(&self) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        self.order.locks[hasher.finish() as usize % LOCKS].lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_current_subscription_is_written() {
        let order = Arc::new(PresenceOrder::new());
        let channel: Arc<str> = "chat:1".into();
        let first = order.begin(&channel, "client");
        assert!(first.update().await.is_some());
        let other = order.begin(&channel, "other");
        let second = order.begin(&channel, "client");
        assert!(first.update().await.is_none() && first.end().await.is_none());
        assert!(second.update().await.is_some() && other.update().await.is_some());
        assert!(second.end().await.is_some());
        assert!(second.update().await.is_none(), "a late renewal");
        assert!(other.end().await.is_some());
        assert!(order.current.lock().entries.is_empty());
    }
}
