//! The connections of this node by client id.

use std::sync::Arc;

use dashmap::DashMap;

use super::outbox::Outbox;
use crate::protocol::Disconnect;

/// The send queues of all connections, by client id.
#[derive(Debug, Default)]
pub(super) struct ConnectionRegistry {
    outboxes: DashMap<Arc<str>, Arc<Outbox>>,
}

impl ConnectionRegistry {
    /// Adds a connection. It stays until [`remove`](Self::remove).
    pub(super) fn add(&self, client: &Arc<str>, outbox: &Arc<Outbox>) {
        self.outboxes.insert(Arc::clone(client), Arc::clone(outbox));
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, client: &str) {
        self.outboxes.remove(client);
    }

    /// The send queue of a client, if it is connected to this node.
    pub(super) fn get(&self, client: &str) -> Option<Arc<Outbox>> {
        self.outboxes.get(client).map(|outbox| Arc::clone(&outbox))
    }

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.outboxes.len()
    }

    /// The bytes in all send queues.
    pub(super) fn queued_bytes(&self) -> usize {
        self.outboxes.iter().map(|outbox| outbox.bytes()).sum()
    }

    /// The send queues of all connections at this moment.
    pub(super) fn all(&self) -> Vec<Arc<Outbox>> {
        self.outboxes.iter().map(|outbox| Arc::clone(outbox.value())).collect()
    }

    /// Closes all connections.
    pub(super) fn close_all(&self, reason: &Disconnect) {
        self.outboxes.iter().for_each(|outbox| outbox.close(reason.clone()));
    }
}
