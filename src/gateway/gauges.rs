//! The values of gauges, read when metrics are collected.

use std::sync::Arc;

use super::connection_registry::ConnectionRegistry;
use super::hub::Hub;
use crate::broker::Broker;
use crate::feed::Feed;
use crate::metrics::Levels;

/// Reads the values.
pub struct GaugeReader {
    pub(super) connections: Arc<ConnectionRegistry>,
    pub(super) hub: Arc<Hub>,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) feed: Arc<Feed>,
}

impl GaugeReader {
    /// The current values.
    pub fn read(&self) -> Levels {
        Levels {
            connections: self.connections.len(),
            channels: self.hub.channels(),
            queue_bytes: self.connections.queued_bytes(),
            broker_round_trips: self.broker.round_trips(),
            ledger_round_trips: self.feed.base.ledger.round_trips(),
            cache_lease: self.feed.base.invalidator.holds_lease(),
        }
    }
}
