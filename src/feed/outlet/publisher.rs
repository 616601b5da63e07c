//! The publisher: takes events from the queue, in order, and appends them to the log. One process at a time does, the
//! holder of the lease. Two that overlap for a moment append no event twice, because the ledger appends only those that
//! still wait.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::appended::AppendedSignal;
use super::entries::entries;
use crate::backoff::Backoff;
use crate::broker::{Broker, Signal};
use crate::feed::error::{Result, isolate};
use crate::feed::event_queue::EventQueue;
use crate::feed::runtime::{Runtime, now};
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{EventConsumer, Fault, Ledger, QueuedEvent};
use crate::metrics::Metrics;

/// How long a process keeps the lease without a renewal, and the age at which it renews it.
const LEASE: Duration = Duration::from_secs(5);
const LEASE_RENEWAL: Duration = Duration::from_secs(1);

/// The interval at which the queue is read without a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest time between two polls, and between two signals to other nodes.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The longest pause between two attempts while a store cannot be reached.
const MAX_BACKOFF: Duration = Duration::from_secs(3);

/// The events of one step.
const BATCH: usize = 200;

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    /// Events were appended; there may be more.
    Published,
    /// No event waits.
    Idle,
    /// Events wait, and another process holds the lease.
    LeasedElsewhere,
}

/// Appends events to the log of the outlet.
pub(super) struct OutletPublisher {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    queue: Arc<EventQueue>,
    appended: Arc<AppendedSignal>,
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
    /// The time until which this process certainly has the lease.
    leased_until: Mutex<Option<Instant>>,
}

impl OutletPublisher {
    /// A publisher from this queue: see [`start`](Self::start).
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        appended: Arc<AppendedSignal>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let leased_until = Mutex::default();
        Arc::new(Self { ledger, broker, runtime, queue, appended, quarantine, metrics, leased_until })
    }

    /// Works until the process stops.
    pub(super) fn start(self: &Arc<Self>) {
        self.runtime.supervise("outlet_publisher", self, |publisher| async move {
            publisher.run().await;
            let held = publisher.leased_until.lock().take().is_some();
            if held
                && let Err(error) =
                    publisher.ledger.release_events(EventConsumer::Outlet, publisher.runtime.holder()).await
            {
                tracing::debug!(%error, "the lease of the outlet could not be given up and will run out");
            }
        });
    }

    async fn run(&self) {
        let mut backoff = Backoff::new(2 * MIN_PAUSE, MAX_BACKOFF);
        let (mut written, mut signalled_at) = (false, None::<Instant>);
        // While another process certainly works, writes of this one only signal to it.
        let mut elsewhere_until = None::<Instant>;
        // Consecutive failures of the first event while the stores work.
        let mut failures = 0;
        loop {
            let is_elsewhere = elsewhere_until.is_some_and(|until| until > Instant::now());
            let outcome = if is_elsewhere { Ok(StepOutcome::LeasedElsewhere) } else { self.step(&mut failures).await };
            if !is_elsewhere && matches!(outcome, Ok(StepOutcome::LeasedElsewhere)) {
                elsewhere_until = Some(Instant::now() + POLL_INTERVAL);
            }
            match outcome {
                Ok(outcome) => {
                    backoff.reset();
                    let is_due = signalled_at.is_none_or(|at| at.elapsed() > SIGNAL_INTERVAL);
                    if outcome == StepOutcome::LeasedElsewhere && written && is_due {
                        signalled_at = Some(Instant::now());
                        // If the signal is lost, the other process polls.
                        let _ = self.broker.signal(Signal::EventsWritten).await;
                    }
                    written = false;
                    if outcome != StepOutcome::Published {
                        let interval = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
                        match self.queue.wait(EventConsumer::Outlet, interval).await {
                            Some(by_this_process) => written = by_this_process,
                            None => return,
                        }
                    }
                    if !self.runtime.sleep(MIN_PAUSE).await {
                        return;
                    }
                }
                Err(error) => {
                    self.quarantine.note_outage(&error);
                    tracing::warn!(%error, "the outlet waits for the ledger");
                    if !self.runtime.sleep(backoff.next_delay()).await {
                        return;
                    }
                }
            }
        }
    }

    /// Appends the first events. After a failure only the first one: it may be at fault, and is set aside if it is.
    async fn step(&self, failures: &mut u32) -> Result<StepOutcome> {
        let limit = if *failures > 0 { 1 } else { BATCH };
        let waiting = self.ledger.pending_events(EventConsumer::Outlet, limit).await?;
        let Some(first) = waiting.first().map(|queued| queued.seq) else { return Ok(StepOutcome::Idle) };
        if !self.lease().await? {
            return Ok(StepOutcome::LeasedElsewhere);
        }
        let (published, cause) = isolate(self.publish(waiting)).await;
        match published {
            Ok(()) => {
                *failures = 0;
                self.quarantine.succeeded();
            }
            Err(error) => {
                *failures = if error.is_outage() { 0 } else { *failures + 1 };
                if !self.quarantine.admits(*failures, &error).await {
                    return Err(error);
                }
                self.set_aside(first, &Fault::now(cause, std::mem::take(failures))).await?;
            }
        }
        Ok(StepOutcome::Published)
    }

    async fn publish(&self, waiting: Vec<QueuedEvent>) -> Result<()> {
        let mut events = Vec::with_capacity(waiting.len());
        for queued in waiting {
            match queued.event.clone() {
                Ok(event) => events.push((queued, event)),
                Err(reason) => self.set_aside(queued.seq, &Fault::now(reason, 1)).await?,
            }
        }
        let entries = entries(&*self.ledger, &events).await?;
        let done: Vec<i64> = events.iter().map(|(queued, _)| queued.seq).collect();
        self.ledger.publish_outlet(&entries, &done, now()).await?;
        entries.iter().for_each(|entry| self.metrics.outlet.published(&entry.kind));
        self.appended.notify();
        // If the signal is lost, the consumers of other nodes poll.
        let _ = self.broker.signal(Signal::OutletAppended).await;
        Ok(())
    }

    async fn set_aside(&self, seq: i64, fault: &Fault) -> Result<()> {
        let reason = &fault.reason;
        tracing::error!(event = seq, reason, "an event is set aside, no consumer gets it");
        self.metrics.event_failed();
        Ok(self.ledger.quarantine_event(EventConsumer::Outlet, seq, fault).await?)
    }

    async fn lease(&self) -> Result<bool> {
        let now = Instant::now();
        if self.leased_until.lock().is_some_and(|until| until > now + LEASE - LEASE_RENEWAL) {
            return Ok(true);
        }
        let is_ours = self.ledger.lease_events(EventConsumer::Outlet, self.runtime.holder(), LEASE).await?;
        *self.leased_until.lock() = is_ours.then_some(now + LEASE);
        Ok(is_ours)
    }
}
