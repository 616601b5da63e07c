//! The outlet: what happened in the feed, for consumers outside of Feedline.
//!
//! Writes put events into the ledger's queue in their own transaction (`ledger/events.rs`). One process at a time
//! (`feed/work/`) appends them to a log (`ledger/outlet_log.rs`), which all consumers read with a cursor: backends over
//! HTTP, and the webhooks and the Redis Stream of `crate::outlet`. Without consumers, no event is written for the
//! outlet, and its only task removes once what an earlier outlet left.
//!
//! | file | contents |
//! |---|---|
//! | `config.rs` | `[outlet]` of the configuration |
//! | `mod.rs` | the tasks: from the queue to the log, retention, backlogs of consumers |
//! | `event.rs` | the public form of an event, and its schema; the entries of the log from domain events |
//! | `notification.rs` | the public form of a group of notifications |
//! | `poll.rs` | the long poll of backends |
//! | `activity.rs` | users who connect and go away, channels with and without subscribers |

mod activity;
mod config;
mod event;
mod notification;
mod poll;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

pub(crate) use activity::ConnectionActivity;
pub use config::{OutletConfig, OutletWebhook, webhook_consumer};
pub(crate) use event::OutletEvent;
pub(crate) use poll::PollOutlet;

use self::config::EVENT_TYPES;
use self::event::entries;
use super::error::Result;
use super::event_queue::{EVENT_BATCH, EventHandler, MIN_EVENT_PAUSE, PendingEvent};
use super::runtime::now;
use super::work::{Partition, QuarantinePolicy};
use crate::broker::Signal;
use crate::feed::base::Base;
use crate::ledger::{EventConsumer, Fence, HELD_ENTRIES_KEPT, QueuedEvent};
use crate::model::Millis;

/// The time until a process without an outlet removes what an earlier one left.
const REMAINS_AFTER: Duration = Duration::from_secs(60);

/// The interval of the upkeep, and the pause between two removals.
const INTERVAL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// The entries of one removal.
const MAX_TRIMMED: usize = 1_000;

/// The polls of this process that wait or read at the same time.
const MAX_POLLS: usize = 64;

/// The outlet of this process.
pub(crate) struct Outlet {
    base: Arc<Base>,
    /// Decides which events the publisher sets aside.
    quarantine: Arc<QuarantinePolicy>,
    /// Takes what the gateway knows of users and subscriptions; `None`: nobody wants it.
    activity: Option<Arc<ConnectionActivity>>,
    /// Permits of polls, [`MAX_POLLS`].
    polls: Semaphore,
    /// Wakes polls: the log has new entries.
    appended: Notify,
    /// The partitions whose workers read the log.
    workers: Mutex<Vec<Arc<Partition>>>,
    /// Ends waiting polls: the process drains.
    draining: CancellationToken,
}

impl Outlet {
    /// The outlet: see [`start`](Self::start).
    pub(crate) fn new(base: Arc<Base>, quarantine: Arc<QuarantinePolicy>) -> Self {
        let config = &base.options.outlet;
        base.metrics.outlet.expose(&EVENT_TYPES, config.registered());
        let has_activity = config.is_enabled() && (config.activity || base.options.channel_events);
        Self {
            activity: has_activity.then(|| ConnectionActivity::new(base.clone(), config.away_after)),
            base,
            quarantine,
            polls: Semaphore::new(MAX_POLLS),
            appended: Notify::new(),
            workers: Mutex::default(),
            draining: CancellationToken::new(),
        }
    }

    /// Registers the consumers. Starts the work of the outlet until the process stops.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        self.register().await?;
        if self.base.options.outlet.is_enabled() {
            self.base.runtime.supervise("outlet_publisher", self, |outlet| async move {
                outlet.base.events.consume(EventConsumer::Outlet, &outlet.quarantine, &*outlet).await;
            });
        }
        self.start_upkeep();
        if let Some(activity) = &self.activity {
            activity.start();
        }
        Ok(())
    }

    /// Registers the consumers only: for a process that appends nothing.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn register(&self) -> Result<()> {
        let consumers = self.base.options.outlet.registered();
        if !consumers.is_empty() {
            self.base.ledger.register_outlet_consumers(&consumers).await?;
        }
        Ok(())
    }

    /// Takes what the gateway knows of users; `None`: nobody wants it.
    pub(crate) fn users(&self) -> Option<Arc<ConnectionActivity>> {
        self.activity.clone().filter(|_| self.base.options.outlet.activity)
    }

    /// Takes what the gateway knows of subscriptions; `None`: nobody wants it.
    pub(crate) fn channels(&self) -> Option<Arc<ConnectionActivity>> {
        self.activity.clone().filter(|_| self.base.options.channel_events)
    }

    /// Wakes the consumers of this process: the log has new entries. They also poll, so a wake-up may be missed.
    pub(crate) fn wake(&self) {
        self.appended.notify_waiters();
        self.workers.lock().iter().for_each(|partition| partition.wake());
    }

    /// Wakes the worker of a partition when the log has new entries.
    pub(crate) fn wake_with(&self, partition: &Arc<Partition>) {
        self.workers.lock().push(partition.clone());
    }
}

/// The publisher: takes events from the queue, in order, and appends them to the log. The ledger appends only those
/// that still wait, and none of a process that lost the partition `events/outlet`.
#[async_trait]
impl EventHandler for Outlet {
    async fn read(&self) -> Result<Vec<QueuedEvent>> {
        Ok(self.base.ledger.pending_events(EventConsumer::Outlet, EVENT_BATCH).await?)
    }

    async fn process(&self, fence: &Fence, events: &[PendingEvent]) -> Result<bool> {
        let entries = entries(&*self.base.ledger, events).await?;
        let done: Vec<i64> = events.iter().map(|pending| pending.seq).collect();
        if !self.base.ledger.publish_outlet(fence, &entries, &done, now()).await? {
            return Ok(false);
        }
        entries.iter().for_each(|entry| self.base.metrics.outlet.published(&entry.kind));
        self.wake();
        // If the signal is lost, the consumers of other nodes poll.
        let _ = self.base.broker.signal(Signal::OutletAppended).await;
        Ok(true)
    }

    fn pause(&self, _took: Duration) -> Duration {
        MIN_EVENT_PAUSE
    }
}

/// The upkeep of the log, by the owner of `events/outlet`. A repeated removal harms nothing, so the ledger checks no
/// fence.
impl Outlet {
    /// Trims the log, and measures how far its consumers are behind, until the process stops. Without an outlet, old
    /// entries of an earlier one are removed once.
    fn start_upkeep(self: &Arc<Self>) {
        self.base.runtime.supervise("outlet_upkeep", self, |outlet| async move {
            let about = |time: Duration| outlet.base.runtime.sleep(time.mul_f64(rand::random_range(0.8..1.2)));
            if !outlet.base.options.outlet.is_enabled() {
                if about(REMAINS_AFTER).await
                    && let Err(error) = outlet.trim().await
                {
                    tracing::debug!(%error, "old events of the outlet are kept for now");
                }
                // A task that ends before the process stops would be restarted.
                return outlet.base.runtime.stopped().await;
            }
            while about(INTERVAL).await {
                if let Err(error) = outlet.keep_up().await {
                    tracing::debug!(%error, "the upkeep of the outlet waits for the ledger");
                }
            }
        });
    }

    /// Removes entries that are older than the retention.
    async fn trim(&self) -> Result<()> {
        let held_before = before(HELD_ENTRIES_KEPT);
        let before = before(self.base.options.outlet.retention);
        while self.base.ledger.trim_outlet(before, held_before, MAX_TRIMMED).await? == MAX_TRIMMED {
            if !self.base.runtime.sleep(PAUSE).await {
                break;
            }
        }
        Ok(())
    }

    async fn keep_up(&self) -> Result<()> {
        if !self.base.events.is_owner(EventConsumer::Outlet) {
            self.base.metrics.outlet.forget_backlogs();
            return Ok(());
        }
        self.trim().await?;
        let now = now();
        let end = self.base.ledger.outlet_end().await?;
        for backlog in self.base.ledger.outlet_backlogs().await? {
            let waiting = end.last.saturating_sub(backlog.cursor.max(end.trimmed)).saturating_add(backlog.held);
            let age = backlog.oldest.map_or(0, |oldest| now.saturating_sub(oldest));
            self.base.metrics.outlet.backlog(&backlog.consumer, waiting, age, backlog.failed);
        }
        Ok(())
    }
}

/// The time that was so long ago.
fn before(age: Duration) -> Millis {
    now().saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}
