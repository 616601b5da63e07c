//! The order in which the presence of one client in one channel is written, and its joins and leaves are pushed.
//!
//! Subscriptions end in tasks of their own. A client that unsubscribes and subscribes again at once would otherwise be
//! removed by the task of its first subscription after the second one has made it present, and others could see its
//! leave before its join.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{MutexGuard, oneshot};

/// The number of locks: updates of clients that share one wait for each other.
const LOCKS: usize = 256;

/// The current subscriptions of clients to channels with presence.
#[derive(Debug)]
pub(crate) struct PresenceOrder {
    locks: Box<[tokio::sync::Mutex<()>]>,
    current: Mutex<CurrentEntries>,
    pushes: Mutex<WaitingPushes>,
}

/// The last push of each client in each channel that is not sent yet.
#[derive(Debug, Default)]
struct WaitingPushes {
    /// By channel and client: the number of the push, and its end.
    pushes: HashMap<(Arc<str>, String), (u64, oneshot::Receiver<()>)>,
    last: u64,
}

/// The place of a join or leave behind those of the same client in the same channel before it. The next one may be sent
/// once this is dropped.
#[derive(Debug)]
pub(crate) struct PushTurn {
    order: Arc<PresenceOrder>,
    key: (Arc<str>, String),
    number: u64,
    /// The end of the push before.
    before: Option<oneshot::Receiver<()>>,
    /// Its drop is the end of this push.
    _sent: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct CurrentEntries {
    /// By channel and client.
    entries: HashMap<(Arc<str>, String), u64>,
    last: u64,
}

/// One subscription of a client to a channel with presence.
#[derive(Clone, Debug)]
pub(crate) struct PresenceTurn {
    order: Arc<PresenceOrder>,
    key: (Arc<str>, String),
    number: u64,
}

impl PresenceOrder {
    pub(crate) fn new() -> Self {
        let locks = (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect();
        Self { locks, current: Mutex::default(), pushes: Mutex::default() }
    }

    /// Begins a subscription: updates of earlier ones of the same client to the same channel have no effect from now
    /// on.
    pub(crate) fn begin(self: &Arc<Self>, channel: &Arc<str>, client: &str) -> PresenceTurn {
        let key = (Arc::clone(channel), client.to_owned());
        let mut current = self.current.lock();
        current.last += 1;
        let number = current.last;
        current.entries.insert(key.clone(), number);
        PresenceTurn { order: Arc::clone(self), key, number }
    }

    /// The turn of a join or leave, in the order of these calls.
    pub(crate) fn push(self: &Arc<Self>, channel: &Arc<str>, client: &str) -> PushTurn {
        let key = (Arc::clone(channel), client.to_owned());
        let (_sent, sent) = oneshot::channel();
        let mut waiting = self.pushes.lock();
        waiting.last += 1;
        let number = waiting.last;
        let before = waiting.pushes.insert(key.clone(), (number, sent)).map(|(_, before)| before);
        PushTurn { order: Arc::clone(self), key, number, before, _sent }
    }
}

impl PushTurn {
    /// Waits for the pushes before this one.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = self.before.take() {
            // It is dropped, not sent.
            let _ = before.await;
        }
    }
}

impl Drop for PushTurn {
    fn drop(&mut self) {
        let mut waiting = self.order.pushes.lock();
        if waiting.pushes.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            waiting.pushes.remove(&self.key);
        }
    }
}

impl PresenceTurn {
    /// Waits for the update before this one. `None`: the subscription has ended, or another one has begun.
    pub(crate) async fn update(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.lock().await;
        let is_current = self.order.current.lock().entries.get(&self.key) == Some(&self.number);
        is_current.then_some(guard)
    }

    /// The same for the last update: the subscription ends.
    pub(crate) async fn end(&self) -> Option<MutexGuard<'_, ()>> {
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

    #[tokio::test]
    async fn pushes_are_sent_in_their_order() {
        let order = Arc::new(PresenceOrder::new());
        let channel: Arc<str> = "chat:1".into();
        let sent = Arc::new(Mutex::new(Vec::new()));
        // The last turn is polled first, like a task on an idle thread.
        let turns: Vec<_> = (0..4).map(|number| (number, order.push(&channel, "client"))).collect();
        let tasks = turns.into_iter().rev().map(|(number, mut turn)| {
            let sent = Arc::clone(&sent);
            async move {
                turn.wait().await;
                tokio::task::yield_now().await;
                sent.lock().push(number);
            }
        });
        futures::future::join_all(tasks.collect::<Vec<_>>()).await;
        assert_eq!(*sent.lock(), [0, 1, 2, 3]);
        assert!(order.pushes.lock().pushes.is_empty());
        let mut first = order.push(&channel, "client");
        let mut other = order.push(&channel, "other");
        other.wait().await;
        first.wait().await;
    }
}
