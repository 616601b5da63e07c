//! Makes the ids of this node, and keeps the lease of the node number that they contain.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::call::Call;
use super::error::{FeedError, Result};
use super::id_maker::{ClockReading, IdMaker, NoLease};
use super::nodes::JoinError;
use super::runtime::{Runtime, now};
use crate::broker::{self, Broker};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::model::{Millis, PostId};

/// How often a node renews the lease of its number.
const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(20);

/// The pause after a failed renewal: a broker that lost its data gives the number to the next node that asks.
const RENEWAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Differences of clocks that cause no warning.
const MAX_SILENT_SKEW: Duration = Duration::from_secs(2);

/// Makes ids, and keeps the lease of this node's number.
pub(crate) struct NodeIds {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    metrics: Arc<Metrics>,
    runtime: Arc<Runtime>,
    maker: IdMaker,
    /// Signals that the broker may have lost this node's lease.
    renew: Notify,
}

impl NodeIds {
    /// A node without a number: see [`start`](Self::start).
    pub(crate) fn new(
        broker: Arc<dyn Broker>,
        ledger: Arc<dyn Ledger>,
        metrics: Arc<Metrics>,
        runtime: Arc<Runtime>,
    ) -> Self {
        Self { broker, ledger, metrics, runtime, maker: IdMaker::default(), renew: Notify::new() }
    }

    /// Leases a number, and renews the lease until the process stops. Ids continue above those in the ledger.
    ///
    /// # Errors
    /// If no number can be leased, or the ledger cannot be read.
    pub(crate) async fn start(self: &Arc<Self>) -> std::result::Result<(), JoinError> {
        let used = self.ledger.greatest_id().await?.time();
        let ahead = Duration::from_millis(used.saturating_sub(now()));
        if ahead > MAX_SILENT_SKEW {
            tracing::warn!(?ahead, "the ledger has ids of the future: new ones continue above them");
        }
        self.maker.begin_after(used);
        self.renew_lease().await?;
        self.runtime.supervise("node_number", self, |ids| async move {
            let mut pause = LEASE_RENEWAL_INTERVAL;
            loop {
                tokio::select! {
                    more = ids.runtime.sleep(pause) => if !more { return },
                    () = ids.renew.notified() => {}
                }
                match ids.renew_lease().await {
                    Ok(()) => pause = LEASE_RENEWAL_INTERVAL,
                    Err(error) => {
                        tracing::warn!(%error, "the node number could not be renewed");
                        pause = RENEWAL_RETRY_INTERVAL.mul_f64(rand::random_range(0.5..1.5));
                    }
                }
            }
        });
        Ok(())
    }

    /// The number of this node; `None`: it has none now.
    pub(crate) fn number(&self) -> Option<u8> {
        self.maker.number()
    }

    /// Renews the lease now: the broker may have lost it.
    pub(crate) fn renew_soon(&self) {
        self.renew.notify_one();
    }

    /// Gives the number back, so that another node may lease it at once. No ids are made any more. Call it when the
    /// tasks of the process have ended, so that no renewal is under way.
    pub(crate) async fn release(&self) {
        let Some((number, used_until)) = self.maker.release() else { return };
        if let Err(error) = self.broker.release_node(self.runtime.holder(), number, used_until).await {
            tracing::warn!(%error, number, "the node number could not be released: its lease will expire");
        }
    }

    /// Returns the id for the object that a call creates: the reserved id, or a new one.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(crate) fn for_call(&self, call: &Call, now: Millis) -> Result<PostId> {
        call.reserved.map_or_else(|| self.next(now), Ok)
    }

    /// The time of the store, which new ids have.
    pub(crate) fn time(&self) -> Millis {
        self.maker.store_time(now())
    }

    /// A new id.
    ///
    /// # Errors
    /// [`FeedError::Unavailable`] while another node may have this node's number.
    pub(crate) fn next(&self, now: Millis) -> Result<PostId> {
        self.maker.next(ClockReading::at(now)).map_err(|NoLease| {
            let error = FeedError::Unavailable;
            tracing::warn!(%error, "no ids are made: the lease of this node's number has run out");
            self.renew_soon();
            FeedError::Unavailable
        })
    }

    /// Leases a number for ids, or renews the lease.
    async fn renew_lease(&self) -> broker::Result<()> {
        // If ids continue above those of another node, or the clock is behind the store's, the store must have the new
        // ceiling before any id is made.
        for _ in 0..2 {
            let request = self.maker.request(ClockReading::at(now()));
            let lease = self.broker.lease_node(self.runtime.holder(), request.number, request.ids).await?;
            let answered = ClockReading::at(now());
            self.report_skew(self.maker.measure(request, answered, &lease));
            self.maker.granted(request, &lease);
            if !self.maker.exceeds(request, answered) {
                break;
            }
        }
        Ok(())
    }

    fn report_skew(&self, skew: i64) {
        self.metrics.clock_skew(skew);
        if Duration::from_millis(skew.unsigned_abs()) > MAX_SILENT_SKEW {
            tracing::warn!(
                skew_ms = skew,
                "the clock of this node differs from that of the broker: ids use the broker's"
            );
        }
    }
}
