//! The event queue: writes put events into it, and workers turn them into notifications and into entries of the outlet.
//!
//! The ledger stores the queue. Each consumer is a partition of work (`feed/work/`). This module wakes their workers:
//! directly if this process owns the partition, else with a signal. The owner also measures how much waits. Every node
//! counts the events of likes, because settlers write no more of them while many wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::error::Result;
use super::runtime::{Runtime, now};
use super::work::{Owner, Partition, Waker};
use crate::broker::{Broker, Signal};
use crate::ledger::{EventBacklog, EventConsumer, Ledger};
use crate::metrics::Metrics;

/// The maximal number of new likes of one object that get an event in one settlement. Also the number of waiting like
/// events at which new likes get none.
const LIKES_PER_OBJECT: usize = 500;
const MAX_WAITING_LIKE_EVENTS: u64 = 2_000;

/// The shortest time between two signals to other nodes.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The interval at which the number of waiting events is read.
const MEASURE_INTERVAL: Duration = Duration::from_millis(500);

/// The event queue of this process.
pub(crate) struct EventQueue {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    /// The work of each consumer; that of the outlet only if there is one.
    consumers: Vec<ConsumerWork>,
    /// This process wrote events whose consumers have other owners.
    to_signal: Notify,
    /// Like events that waited when they were last counted.
    waiting_likes: AtomicU64,
}

/// The work of one consumer.
pub(crate) struct ConsumerWork {
    consumer: EventConsumer,
    /// Its partition.
    pub(crate) partition: Partition,
    /// Wakes its worker.
    pub(crate) waker: Waker,
}

impl EventQueue {
    /// An empty queue: its workers sleep. `outlet`: whether there is an outlet.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        owner: &Owner,
        metrics: Arc<Metrics>,
        outlet: bool,
    ) -> Self {
        let work = |consumer: EventConsumer| {
            // A kind of its own: during a change of the configuration, not every process has the outlet.
            let kind = if consumer == EventConsumer::Outlet { "events/outlet" } else { "events" };
            let partition = owner.partition(kind, format!("events/{}", consumer.name()));
            ConsumerWork { consumer, partition, waker: Waker::new() }
        };
        let consumers = [EventConsumer::Notifications, EventConsumer::Likes].into_iter();
        let consumers = consumers.chain(outlet.then_some(EventConsumer::Outlet)).map(work).collect();
        let (to_signal, waiting_likes) = (Notify::new(), AtomicU64::new(0));
        Self { ledger, broker, runtime, metrics, consumers, to_signal, waiting_likes }
    }

    /// Signals and measures until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.runtime.supervise("event_signals", self, |queue| async move { queue.signal_others().await });
        self.runtime.supervise("event_backlog", self, |queue| async move { queue.keep_measuring().await });
    }

    /// Wakes the consumer: this process wrote an event. The outlet gets most events of the others, and wakes with them.
    pub(crate) fn wake(&self, consumer: EventConsumer) {
        let wanted = [consumer, EventConsumer::Outlet];
        for work in self.consumers.iter().filter(|work| wanted.contains(&work.consumer)) {
            match work.partition.fence() {
                Some(_) => work.waker.notify_one(),
                None => self.to_signal.notify_one(),
            }
        }
    }

    /// Wakes the consumers: another process wrote an event.
    pub(crate) fn on_signal(&self) {
        self.consumers.iter().for_each(|work| work.waker.notify_one());
    }

    /// The maximal number of new likes of one object that get an event; 0 while too many like events wait.
    pub(crate) fn max_likes_per_object(&self) -> usize {
        if self.waiting_likes.load(Ordering::Relaxed) < MAX_WAITING_LIKE_EVENTS { LIKES_PER_OBJECT } else { 0 }
    }

    /// The work of a consumer; `None`: the outlet, and there is none.
    pub(crate) fn consumer(&self, consumer: EventConsumer) -> Option<&ConsumerWork> {
        self.consumers.iter().find(|work| work.consumer == consumer)
    }

    async fn signal_others(&self) {
        loop {
            tokio::select! {
                () = self.to_signal.notified() => {}
                () = self.runtime.stopped() => return,
            }
            // If the signal is lost, the owners poll.
            let _ = self.broker.signal(Signal::EventsWritten).await;
            if !self.runtime.sleep(SIGNAL_INTERVAL).await {
                return;
            }
        }
    }

    async fn keep_measuring(&self) {
        loop {
            if let Err(error) = self.measure().await {
                tracing::debug!(%error, "waiting events were not counted");
            }
            if !self.runtime.sleep(MEASURE_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                return;
            }
        }
    }

    async fn measure(&self) -> Result<()> {
        let mut backlog = EventBacklog::default();
        // Otherwise, the owner measures it.
        if self.consumer(EventConsumer::Notifications).is_some_and(|work| work.partition.fence().is_some()) {
            backlog = self.ledger.event_backlog(EventConsumer::Notifications).await?;
        }
        self.metrics.event_backlog(backlog.events, backlog.oldest.map(|oldest| now().saturating_sub(oldest)));
        let waiting = self.ledger.event_backlog(EventConsumer::Likes).await?.events;
        self.metrics.like_event_backlog(waiting);
        let before = self.waiting_likes.swap(waiting, Ordering::Relaxed);
        if before < MAX_WAITING_LIKE_EVENTS && waiting >= MAX_WAITING_LIKE_EVENTS {
            tracing::warn!(waiting, "likes come too fast for all of them to be notified of");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::broker::{InboxOptions, MemoryBroker, MessageListener, PresenceEvent};
    use crate::ledger::{SqliteLedger, SqliteOptions};
    use crate::model::{Entry, PositionRef};

    #[derive(Default)]
    struct Signals(AtomicUsize);

    impl MessageListener for Signals {
        fn entry(&self, _: &str, _: Option<PositionRef<'_>>, _: &Entry) {}
        fn presence_event(&self, _: &str, _: &PresenceEvent) {}
        fn resync(&self) {}

        fn signal(&self, signal: Signal) {
            assert_eq!(signal, Signal::EventsWritten);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn an_event_wakes_the_owner_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Arc::new(SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.unwrap());
        let broker = Arc::new(MemoryBroker::new(InboxOptions { length: 10, idle: Duration::from_secs(60) }));
        let (signals, runtime) = (Arc::new(Signals::default()), Runtime::new());
        broker.listen(signals.clone());
        let owner = Owner::new(ledger.clone(), broker.clone(), runtime.clone(), false, Duration::from_secs(60));
        let (owner, metrics) = (Arc::new(owner), Arc::new(Metrics::new()));
        let queue = Arc::new(EventQueue::new(ledger, broker, runtime.clone(), &owner, metrics, true));
        queue.start();
        let begun = std::time::Instant::now();
        for _ in 0..100 {
            queue.wake(EventConsumer::Likes);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let signalled = signals.0.load(Ordering::Relaxed);
        let most = begun.elapsed().as_millis() as usize / SIGNAL_INTERVAL.as_millis() as usize + 2;
        assert!((1..=most).contains(&signalled), "one signal for many events: {signalled}, at most {most}");
        // The last signal may be on its way.
        tokio::time::sleep(2 * SIGNAL_INTERVAL).await;
        let signalled = signals.0.load(Ordering::Relaxed);
        owner.start().await;
        queue.wake(EventConsumer::Likes);
        for consumer in [EventConsumer::Likes, EventConsumer::Outlet] {
            queue.consumer(consumer).unwrap().waker.notified().await;
        }
        tokio::time::sleep(2 * SIGNAL_INTERVAL).await;
        assert_eq!(signals.0.load(Ordering::Relaxed), signalled, "the owner is this process");
        runtime.stop().await;
    }
}
