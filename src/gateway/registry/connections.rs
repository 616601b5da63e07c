//! The connections of this node by client id.

use std::sync::Arc;

use dashmap::DashMap;

use crate::gateway::wire::outbox::Outbox;
use crate::protocol::Disconnect;

/// The send queues of all connections, by client id.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRegistry {
    outboxes: DashMap<Arc<str>, Arc<Outbox>>,
}

impl ConnectionRegistry {
    /// Adds a connection. It stays until [`remove`](Self::remove).
    pub(crate) fn add(&self, client: &Arc<str>, outbox: &Arc<Outbox>) {
        self.outboxes.insert(Arc::clone(client), Arc::clone(outbox));
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, client: &str) {
        self.outboxes.remove(client);
    }

    /// The send queue of a client, if it is connected to this node.
    pub(crate) fn get(&self, client: &str) -> Option<Arc<Outbox>> {
        self.outboxes.get(client).map(|outbox| Arc::clone(&outbox))
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.outboxes.len()
    }

    /// The bytes in all send queues.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.outboxes.iter().map(|outbox| outbox.bytes()).sum()
    }

    /// The send queues of all connections at this moment.
    pub(crate) fn all(&self) -> Vec<Arc<Outbox>> {
        self.outboxes.iter().map(|outbox| Arc::clone(outbox.value())).collect()
    }

    /// Closes all connections.
    pub(crate) fn close_all(&self, reason: &Disconnect) {
        self.outboxes.iter().for_each(|outbox| outbox.close(reason.clone()));
    }
}
