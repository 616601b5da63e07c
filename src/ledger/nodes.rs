//! The live nodes of a deployment, and the broker that belongs to the ledger.
//!
//! Each store has an id, and holds the record of its partner: the ledger that of its broker, the broker that of its
//! ledger (see [`IdentityStore`](crate::broker::IdentityStore)). A node compares both before it uses them.
//!
//! Every node has a row, which it renews each second, by the clock of the ledger. These leases are not those of
//! [`WorkStore`](super::WorkStore), which have a length of their own, and end while a node cannot reach its broker: the
//! node is alive nevertheless.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::model::Millis;

/// How long a node counts as alive after its last renewal, by the clock of the store.
pub const NODE_LIVENESS: Duration = Duration::from_secs(8);

/// [`NODE_LIVENESS`] in milliseconds.
pub(crate) fn liveness_millis() -> u64 {
    u64::try_from(NODE_LIVENESS.as_millis()).unwrap_or(u64::MAX)
}

/// A store's record of the other store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// The id of the other store.
    pub id: String,
    /// Where it was last reached, without user and password.
    pub place: String,
    /// How often `feedline adopt` has chosen a partner. Of two records, the one with the greater number is later.
    pub adoptions: u64,
}

/// A change of the record.
#[derive(Clone, Debug)]
pub struct PartnerChange {
    /// The record so far. If it is another one, nothing changes.
    pub expected: Option<Partner>,
    /// The new record.
    pub partner: Partner,
}

/// A node, as other nodes and operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDetails {
    /// The host and the port.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// The node number, once it is leased.
    pub number: Option<u8>,
    /// When the process started, in Unix milliseconds by its clock.
    pub started_at: Millis,
    /// Where the node reaches its broker, without user and password.
    pub broker: String,
    /// How far its clock is ahead of that of the ledger, in milliseconds.
    pub clock_skew: i64,
    /// Digests of what must be the same on all nodes, by kind.
    pub fingerprints: BTreeMap<String, String>,
}

/// The row of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// The name of the process in leases, new at each start.
    pub id: String,
    /// The id of its broker.
    pub broker: String,
    /// Its description.
    pub description: NodeDetails,
    /// Until when it counts as alive, in Unix milliseconds by the clock of the ledger. Grows with each renewal.
    pub lease_until: Millis,
    /// Whether it counts as alive.
    pub is_live: bool,
}

/// A node to be registered.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// The name of the process in leases.
    pub id: String,
    /// Its description.
    pub description: NodeDetails,
}

/// The identity of the ledger, the record of its broker, and the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerIdentity {
    /// Random letters and digits. Copied with the data: an older state of the ledger has the same id.
    pub id: String,
    /// The record of the broker; `None` before the first start.
    pub broker: Option<Partner>,
    /// The nodes whose rows are there, also those that are not alive any more.
    pub nodes: Vec<NodeRow>,
}

/// The nodes, and the record of the broker.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Where this node reaches the ledger, without user and password.
    fn place(&self) -> String;

    /// Reads the identity of the ledger.
    async fn identity(&self) -> Result<LedgerIdentity>;

    /// Changes the record of the broker and registers a node of it, in one transaction. Returns the end of the node's
    /// lease. `None`, and nothing changes, if a node of another broker is alive or the record is not the expected one.
    /// Removes the nodes of other brokers that are not alive.
    async fn register_node(&self, node: &NewNode, change: &PartnerChange) -> Result<Option<Millis>>;

    /// Changes the record of the broker and removes all nodes. `false`, and nothing changes, if a node is alive or the
    /// record is not the expected one.
    async fn adopt_broker(&self, change: &PartnerChange) -> Result<bool>;

    /// Renews a node. Returns the new end of its lease; `None` if the node is not registered any more.
    async fn renew_node(&self, node: &NewNode) -> Result<Option<Millis>>;

    /// Removes a node. Also removes the record of the broker if it is `unused`: the start that wrote it has failed.
    async fn remove_node(&self, id: &str, unused: Option<&Partner>) -> Result<()>;
}
