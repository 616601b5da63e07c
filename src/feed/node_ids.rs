//! Makes the ids of this node, and keeps the lease of the node number that they contain.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::call::Call;
use super::error::{FeedError, Result};
use super::id_maker::{ClockReading, IdMaker, NoLease};
use super::runtime::{Runtime, now};
use crate::broker::Broker;
use crate::model::{Millis, PostId};

/// How often a node renews the lease of its number.
const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(20);

/// The pause after a failed renewal: a broker that lost its data gives the number to the next node that asks.
const RENEWAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Makes ids, and keeps the lease of this node's number.
pub(crate) struct NodeIds {
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    maker: IdMaker,
    /// Signals that the broker may have lost this node's lease.
    renew: Notify,
}

impl NodeIds {
    /// A node without a number: see [`start`](Self::start).
    pub(crate) fn new(broker: Arc<dyn Broker>, runtime: Arc<Runtime>) -> Self {
        Self { broker, runtime, maker: IdMaker::default(), renew: Notify::new() }
    }

    /// Leases a number, and renews the lease until the process stops.
    ///
    /// # Errors
    /// If no number can be leased.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
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

    /// A new id.
    ///
    /// # Errors
    /// [`FeedError::Unavailable`] while another node may have this node's number.
    pub(crate) fn next(&self, now: Millis) -> Result<PostId> {
        self.maker.next(ClockReading::at(now)).map_err(|NoLease| {
            tracing::warn!("no ids are made: the lease of this node's number has run out");
            self.renew_soon();
            FeedError::Unavailable
        })
    }

    /// Leases a number for ids, or renews the lease.
    async fn renew_lease(&self) -> Result<()> {
        // If ids continue above those of the former holder, the store must have the new ceiling before any id is made.
        for _ in 0..2 {
            let request = self.maker.request(ClockReading::at(now()));
            let lease = self.broker.lease_node(self.runtime.holder(), request.number, request.ceiling).await?;
            self.maker.granted(request, &lease);
            if lease.used_until <= request.ceiling {
                break;
            }
        }
        Ok(())
    }
}
