//! The values of gauges, read when metrics are collected.

use std::sync::Arc;

use crate::broker::Broker;
use crate::feed::Feed;
use crate::gateway::hub::Hub;
use crate::gateway::registry::connections::ConnectionRegistry;
use crate::ledger::{quarantine_dropped, unreadable_rows};
use crate::metrics::Levels;

/// Reads the values.
pub struct GaugeReader {
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) feed: Arc<Feed>,
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
            nodes: self.feed.base.owner.nodes(),
            quarantine_dropped: quarantine_dropped(),
            unreadable_rows: unreadable_rows(),
        }
    }
}
