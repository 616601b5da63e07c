//! The outlet: what happened in the feed, for consumers outside of Feedline.
//!
//! Writes put events into the ledger's queue in their own transaction (`ledger/events.rs`). One process at a time
//! (`feed/work/`) appends them to a log (`ledger/outlet.rs`), which all consumers read with a cursor: backends over
//! HTTP, and the webhooks and the Redis Stream of `crate::outlet`. Without consumers, no event is written for the
//! outlet, and none of its tasks runs.
//!
//! | file | contents |
//! |---|---|
//! | `publisher.rs` | from the queue to the log |
//! | `entries.rs` | from domain events to the entries of the log |
//! | `event.rs` | the public form of an event, and its schema |
//! | `reader.rs` | the long poll of backends |
//! | `upkeep.rs` | retention, and the backlogs of consumers |
//! | `activity.rs` | users who connect and go away, channels with and without subscribers |
//! | `appended.rs` | wakes the consumers of this process |

mod activity;
mod appended;
mod entries;
mod event;
mod publisher;
mod reader;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use activity::ConnectionActivity;
pub(crate) use appended::AppendedSignal;
pub(crate) use event::OutletEvent;
use publisher::OutletPublisher;
pub(crate) use reader::{OutletReader, PollOutlet};
use upkeep::OutletUpkeep;

use super::error::Result;
use super::event_queue::EventQueue;
use super::runtime::Runtime;
use super::work::QuarantinePolicy;
use crate::broker::Broker;
use crate::ledger::Ledger;
use crate::metrics::Metrics;

/// The options of the outlet (`outlet.*`).
#[derive(Clone, Debug, Default)]
pub struct OutletOptions {
    /// The consumers that poll over HTTP.
    pub consumers: Vec<String>,
    /// All consumers with a cursor in the ledger: those above, and webhooks.
    pub registered: Vec<String>,
    /// Whether there is any consumer. If not, nothing is written.
    pub enabled: bool,
    /// How long entries are kept.
    pub retention: Duration,
    /// Whether users who connect and go away cause events.
    pub users: bool,
    /// Whether subscriptions to channels of the application cause events.
    pub channels: bool,
    /// The time without a connection after which a user is away, and without a subscriber after which a channel is
    /// vacated.
    pub away_after: Duration,
}

/// The outlet of this process.
pub(crate) struct Outlet {
    /// Serves backends that poll.
    pub(crate) reader: OutletReader,
    /// Wakes consumers of this process.
    pub(crate) appended: Arc<AppendedSignal>,
    /// Takes what the gateway knows of users; `None`: nobody wants it.
    pub(crate) users: Option<Arc<ConnectionActivity>>,
    /// Takes what the gateway knows of subscriptions; `None`: nobody wants it.
    pub(crate) channels: Option<Arc<ConnectionActivity>>,
    ledger: Arc<dyn Ledger>,
    publisher: Option<Arc<OutletPublisher>>,
    upkeep: Arc<OutletUpkeep>,
    registered: Vec<String>,
}

impl Outlet {
    /// The outlet of this ledger: see [`start`](Self::start).
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
        options: &OutletOptions,
    ) -> Self {
        let appended = Arc::new(AppendedSignal::default());
        let reader =
            OutletReader::new(ledger.clone(), runtime.clone(), appended.clone(), metrics.clone(), &options.consumers);
        let activity = (options.enabled && (options.users || options.channels)).then(|| {
            let (ledger, runtime, queue) = (ledger.clone(), runtime.clone(), queue.clone());
            ConnectionActivity::new(ledger, runtime, queue, metrics.clone(), options.away_after)
        });
        let publisher = options.enabled.then(|| {
            let (ledger, runtime, appended) = (ledger.clone(), runtime.clone(), appended.clone());
            OutletPublisher::new(ledger, broker, runtime, queue.clone(), appended, quarantine, metrics.clone())
        });
        let upkeep = Arc::new(OutletUpkeep::new(ledger.clone(), runtime, queue, metrics, options.retention));
        let users = activity.clone().filter(|_| options.users);
        let channels = activity.filter(|_| options.channels);
        Self { reader, appended, users, channels, ledger, publisher, upkeep, registered: options.registered.clone() }
    }

    /// Registers the consumers. Starts the work of the outlet until the process stops.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn start(&self) -> Result<()> {
        self.register().await?;
        if let Some(publisher) = &self.publisher {
            publisher.start();
        }
        self.upkeep.start(self.publisher.is_some());
        // The same one, or only one of the two. It starts once.
        for activity in [&self.users, &self.channels].into_iter().flatten() {
            activity.start();
        }
        Ok(())
    }

    /// Registers the consumers only: for a process that appends nothing.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn register(&self) -> Result<()> {
        if !self.registered.is_empty() {
            self.ledger.register_outlet_consumers(&self.registered).await?;
        }
        Ok(())
    }
}
