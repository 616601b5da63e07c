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
//! | `start.rs` | starts the tasks |
//! | `publisher.rs` | from the queue to the log |
//! | `entries.rs` | from domain events to the entries of the log |
//! | `event.rs` | the public form of an event, and its schema |
//! | `poll.rs` | the long poll of backends |
//! | `upkeep.rs` | retention, and the backlogs of consumers |
//! | `activity.rs` | users who connect and go away, channels with and without subscribers |

mod activity;
mod config;
mod entries;
mod event;
mod poll;
mod publisher;
mod start;
mod upkeep;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

pub(crate) use activity::ConnectionActivity;
pub use config::{OutletConfig, OutletWebhook, webhook_consumer};
pub(crate) use event::OutletEvent;
pub(crate) use poll::PollOutlet;

use super::error::Result;
use super::work::{QuarantinePolicy, Waker};
use crate::feed::base::Base;

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
    /// Wake the workers of this process: the log has new entries.
    wakers: Mutex<Vec<Arc<Waker>>>,
    /// Ends waiting polls: the process drains.
    draining: CancellationToken,
}

impl Outlet {
    /// The outlet: see [`start`](Self::start).
    pub(crate) fn new(base: Arc<Base>, quarantine: Arc<QuarantinePolicy>) -> Self {
        let config = &base.options.outlet;
        let has_activity = config.is_enabled() && (config.activity || base.options.channel_events);
        Self {
            activity: has_activity.then(|| ConnectionActivity::new(base.clone(), config.away_after)),
            base,
            quarantine,
            polls: Semaphore::new(MAX_POLLS),
            appended: Notify::new(),
            wakers: Mutex::default(),
            draining: CancellationToken::new(),
        }
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
        self.wakers.lock().iter().for_each(|waker| waker.notify_one());
    }

    /// A waker of a worker of this process.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        let waker: Arc<Waker> = Arc::default();
        self.wakers.lock().push(waker.clone());
        waker
    }
}
