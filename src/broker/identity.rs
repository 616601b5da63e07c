//! The identity of the broker, the record of its ledger, and the live nodes.
//!
//! The counterpart of [`NodeStore`](crate::ledger::NodeStore), which says how both are compared. Nodes also appear here
//! each second, with the end of their lease in the ledger: a ledger in which the row of such a node is older, or
//! missing, is not the one that the node uses.

use async_trait::async_trait;

use super::Result;
use crate::ledger::{Partner, PartnerChange};
use crate::model::Millis;

/// Where the memory broker is reached.
pub const MEMORY_PLACE: &str = "memory:";

/// The identity of the broker, the record of its ledger, and the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerIdentity {
    /// Random letters and digits; `None`: the broker is empty.
    pub id: Option<String>,
    /// The record of the ledger.
    pub ledger: Option<Partner>,
    /// The nodes that are alive, and some that were.
    pub nodes: Vec<SeenNode>,
}

/// A node that uses the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNode {
    /// The name of the process in leases.
    pub id: String,
    /// The end of its lease in the ledger, as of its last appearance.
    pub lease_until: Millis,
    /// When it appeared last, in Unix milliseconds by the clock of the broker.
    pub seen_at: Millis,
    /// Whether it counts as alive.
    pub is_live: bool,
}

/// The identity of the broker.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// Where this node reaches the broker, without user and password.
    fn place(&self) -> String;

    /// Reads the identity of the broker.
    async fn identity(&self) -> Result<BrokerIdentity>;

    /// Gives the broker an id, unless it has this one, and changes the record of the ledger. `false`, and nothing
    /// changes, if it has another id or the record is not the expected one.
    async fn pair_ledger(&self, id: &str, change: &PartnerChange) -> Result<bool>;

    /// As [`pair_ledger`](Self::pair_ledger), also if the record is of another ledger. `false`, and nothing changes, if
    /// a node is alive as well.
    async fn adopt_ledger(&self, id: &str, change: &PartnerChange) -> Result<bool>;

    /// Shows that a node is alive. A broker that was emptied gets its id and its record again. `false` if it has
    /// another id or the record of another ledger.
    async fn show_node(&self, node: &str, lease_until: Millis, id: &str, ledger: &Partner) -> Result<bool>;

    /// Removes a node.
    async fn hide_node(&self, node: &str) -> Result<()>;
}
