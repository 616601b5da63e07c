//! The event queue: writes put events into it, and workers turn them into notifications and into entries of the outlet.
//!
//! The ledger stores the queue. Each consumer is a partition of work (`feed/work/`). This module wakes their workers:
//! directly if this process owns the partition, else with a signal, and runs their batches. The owner also measures how
//! much waits. Every node counts the events of likes, because settlers write no more of them while many wait.
//!
//! Processing is at least once. If a batch fails, its events are processed one by one. One that cannot be decoded, or
//! always fails, is quarantined with the reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::{Result, isolate};
use super::runtime::{Runtime, now};
use super::work::{Consumer, Owner, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::broker::{Broker, Signal};
use crate::ledger::{EventBacklog, EventConsumer, FailedWork, Fault, Fence, Ledger, QueuedEvent};
use crate::metrics::Metrics;
use crate::model::{DomainEvent, Millis};

/// The queue is read at this interval without a wake-up.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: MIN_EVENT_PAUSE };

/// The shortest time between two batches.
pub(crate) const MIN_EVENT_PAUSE: Duration = Duration::from_millis(5);

/// The maximal number of events of one batch.
pub(crate) const EVENT_BATCH: usize = 200;

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
    /// The partition of each consumer; that of the outlet only if there is one.
    partitions: Vec<(EventConsumer, Arc<Partition>)>,
    /// This process wrote events whose consumers have other owners.
    to_signal: Notify,
    /// Like events that waited when they were last counted.
    waiting_likes: AtomicU64,
}

/// An event that waits for a consumer.
#[derive(Clone, Debug)]
pub(crate) struct PendingEvent {
    /// Its number in the queue.
    pub(crate) seq: i64,
    /// When it happened.
    pub(crate) at: Millis,
    pub(crate) event: DomainEvent,
}

/// Processes the events of a consumer.
#[async_trait]
pub(crate) trait EventHandler: Sync {
    /// The first events that wait, enough for a batch.
    async fn read(&self) -> Result<Vec<QueuedEvent>>;

    /// Processes events, in order, and removes them from the queue. Returns `false` if this process does not own the
    /// partition any more.
    async fn process(&self, fence: &Fence, events: &[PendingEvent]) -> Result<bool>;

    /// The pause after a batch that took this time.
    fn pause(&self, took: Duration) -> Duration;
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
        let partition = |consumer: EventConsumer| {
            // A kind of its own: during a change of the configuration, not every process has the outlet.
            let kind = if consumer == EventConsumer::Outlet { "events/outlet" } else { "events" };
            (consumer, owner.partition(kind, format!("events/{}", consumer.name())))
        };
        let consumers = [EventConsumer::Notifications, EventConsumer::Likes].into_iter();
        let partitions = consumers.chain(outlet.then_some(EventConsumer::Outlet)).map(partition).collect();
        let to_signal = Notify::new();
        let waiting_likes = AtomicU64::new(0);
        Self { ledger, broker, runtime, metrics, partitions, to_signal, waiting_likes }
    }

    /// Signals and measures until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.runtime.supervise("event_signals", self, |queue| async move { queue.signal_others().await });
        self.runtime.supervise("event_backlog", self, |queue| async move { queue.keep_measuring().await });
    }

    /// Wakes the consumer: this process wrote an event. The outlet gets most events of the others, and wakes with them.
    pub(crate) fn wake(&self, consumer: EventConsumer) {
        let wanted = [consumer, EventConsumer::Outlet];
        for (_, partition) in self.partitions.iter().filter(|(consumer, _)| wanted.contains(consumer)) {
            match partition.fence() {
                Some(_) => partition.wake(),
                None => self.to_signal.notify_one(),
            }
        }
    }

    /// Wakes the consumers: another process wrote an event.
    pub(crate) fn on_signal(&self) {
        self.partitions.iter().for_each(|(_, partition)| partition.wake());
    }

    /// The maximal number of new likes of one object that get an event; 0 while too many like events wait.
    pub(crate) fn max_likes_per_object(&self) -> usize {
        if self.waiting_likes.load(Ordering::Relaxed) < MAX_WAITING_LIKE_EVENTS { LIKES_PER_OBJECT } else { 0 }
    }

    /// The partition of a consumer; `None`: the outlet, and there is none.
    fn partition(&self, consumer: EventConsumer) -> Option<&Partition> {
        self.partitions.iter().find(|(of, _)| *of == consumer).map(|(_, partition)| &**partition)
    }

    /// Whether this process owns the partition of a consumer.
    pub(crate) fn is_owner(&self, consumer: EventConsumer) -> bool {
        self.partition(consumer).is_some_and(|partition| partition.fence().is_some())
    }

    /// Has a handler process the events of a consumer while this process owns its partition, until the process stops.
    pub(crate) async fn consume(
        &self,
        consumer: EventConsumer,
        policy: &QuarantinePolicy,
        handler: &impl EventHandler,
    ) {
        let Some(partition) = self.partition(consumer) else { return };
        let batches = || EventBatches { queue: self, consumer, policy, handler, is_failing: false };
        work(partition, &self.runtime, SCHEDULE, policy, batches).await;
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
        if self.is_owner(EventConsumer::Notifications) {
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

/// The batches of one consumer.
struct EventBatches<'a, H> {
    queue: &'a EventQueue,
    consumer: EventConsumer,
    policy: &'a QuarantinePolicy,
    handler: &'a H,
    /// Whether the last batch failed: events are processed one by one.
    is_failing: bool,
}

#[async_trait]
impl<H: EventHandler> Consumer for EventBatches<'_, H> {
    /// Processes a batch, if events wait.
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let began = Instant::now();
        let waiting = self.handler.read().await?;
        if waiting.is_empty() {
            return Ok(RunOutcome::Idle(None));
        }
        let events = self.quarantine_unreadable(waiting).await?;
        let step = if self.is_failing { 1 } else { EVENT_BATCH };
        self.is_failing = false;
        let mut failed = None;
        for batch in events.chunks(step) {
            let (seq, (processed, cause)) = (batch[0].seq, isolate(self.handler.process(fence, batch)).await);
            let error = match processed {
                Ok(true) => {
                    self.policy.succeeded(seq);
                    continue;
                }
                Ok(false) => return Ok(RunOutcome::Idle(None)),
                Err(error) => error,
            };
            self.is_failing = true;
            let fault = if batch.len() == 1 { self.policy.failed(seq, &error, cause).await } else { None };
            match fault {
                Some(fault) => self.set_aside(seq, &fault).await?,
                // The events of the outlet stay in order. Others do not wait for one that fails by itself.
                None if error.is_outage() || self.consumer == EventConsumer::Outlet => return Err(error),
                None => failed = Some(error),
            }
        }
        failed.map_or(Ok(RunOutcome::Rest(self.handler.pause(began.elapsed()))), Err)
    }
}

impl<H> EventBatches<'_, H> {
    async fn quarantine_unreadable(&self, waiting: Vec<QueuedEvent>) -> Result<Vec<PendingEvent>> {
        let mut readable = Vec::with_capacity(waiting.len());
        for QueuedEvent { seq, at, event } in waiting {
            match event {
                Ok(event) => readable.push(PendingEvent { seq, at, event }),
                Err(reason) => self.set_aside(seq, &Fault::now(reason, 1)).await?,
            }
        }
        Ok(readable)
    }

    async fn set_aside(&self, seq: i64, fault: &Fault) -> Result<()> {
        let consumer = self.consumer.name();
        let reason = &fault.reason;
        tracing::error!(event = seq, consumer, reason, "an event is set aside, its consumer does not process it");
        self.queue.metrics.event_failed();
        self.queue.ledger.set_aside(FailedWork::Event(self.consumer, seq), fault).await?;
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
        let signals = Arc::new(Signals::default());
        let runtime = Runtime::new();
        broker.listen(signals.clone());
        let owner = Owner::new(ledger.clone(), broker.clone(), runtime.clone(), false, Duration::from_secs(60));
        let owner = Arc::new(owner);
        let metrics = Arc::new(Metrics::new());
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
            queue.partition(consumer).unwrap().woken().await;
        }
        tokio::time::sleep(2 * SIGNAL_INTERVAL).await;
        assert_eq!(signals.0.load(Ordering::Relaxed), signalled, "the owner is this process");
        runtime.stop().await;
    }
}
