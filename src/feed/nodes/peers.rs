//! The other nodes of the deployment as this one sees them come and go.

use std::collections::HashMap;

use crate::ledger::NodeRow;

/// The nodes that were alive at one of the last comparisons, by id.
#[derive(Debug, Default)]
pub(super) struct Peers {
    known: HashMap<String, KnownNode>,
    /// Whether nodes were compared before.
    is_filled: bool,
}

#[derive(Debug)]
struct KnownNode {
    name: String,
    /// The number of comparisons since the lease ended.
    missed: u32,
}

/// What happened to another node; each with its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PeerChange {
    /// It has started.
    Started(String),
    /// It has stopped, and removed its row.
    Left(String),
    /// It does not renew its lease.
    Lost(String),
    /// It renews its lease again.
    Returned(String),
}

/// A node is lost at this comparison without a lease: after an outage of the ledger, leases have ended that are renewed
/// a moment later.
const MAX_MISSED: u32 = 2;

impl Peers {
    /// Takes note of the rows of the other nodes. Returns what has changed.
    pub(super) fn update<'a>(&mut self, rows: impl Iterator<Item = &'a NodeRow>) -> Vec<PeerChange> {
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut self.known);
        for row in rows {
            let name = row.description.name.clone();
            let missed = match (before.remove(&row.id), row.is_live) {
                (None, true) if self.is_filled => {
                    changes.push(PeerChange::Started(name.clone()));
                    0
                }
                (None, true) => 0,
                // It was lost before this node has started.
                (None, false) => continue,
                (Some(peer), true) => {
                    if peer.missed >= MAX_MISSED {
                        changes.push(PeerChange::Returned(name.clone()));
                    }
                    0
                }
                (Some(peer), false) => {
                    let missed = peer.missed.saturating_add(1);
                    if missed == MAX_MISSED {
                        changes.push(PeerChange::Lost(name.clone()));
                    }
                    missed
                }
            };
            self.known.insert(row.id.clone(), KnownNode { name, missed });
        }
        // Rows of lost nodes are removed later, by others.
        let left = before.into_values().filter(|peer| peer.missed < MAX_MISSED);
        changes.extend(left.map(|peer| PeerChange::Left(peer.name)));
        self.is_filled = true;
        changes
    }
}

impl PeerChange {
    /// Writes the change to the log.
    pub(super) fn log(&self) {
        match self {
            Self::Started(node) => tracing::info!(node, "another node has started"),
            Self::Left(node) => tracing::info!(node, "another node has stopped"),
            Self::Lost(node) => tracing::warn!(
                node,
                "another node does not renew its lease: it was killed, is paused, or cannot reach the ledger"
            ),
            Self::Returned(node) => tracing::info!(node, "another node renews its lease again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::NodeDetails;

    fn update(peers: &mut Peers, rows: &[(&str, bool)]) -> Vec<PeerChange> {
        let row = |(name, is_live): &(&str, bool)| NodeRow {
            id: format!("id of {name}"),
            broker: "redis".to_owned(),
            description: NodeDetails { name: (*name).to_owned(), ..NodeDetails::default() },
            lease_until: 0,
            is_live: *is_live,
        };
        let rows: Vec<NodeRow> = rows.iter().map(row).collect();
        peers.update(rows.iter())
    }

    #[test]
    fn nodes_start_leave_are_lost_and_return() {
        use PeerChange::{Left, Lost, Returned, Started};
        let mut peers = Peers::default();
        let name = str::to_owned;
        assert_eq!(update(&mut peers, &[("a", true), ("dead", false)]), [], "they were there before");
        assert_eq!(update(&mut peers, &[("a", true), ("b", true)]), [Started(name("b"))]);
        assert_eq!(update(&mut peers, &[("a", true)]), [Left(name("b"))]);
        assert_eq!(update(&mut peers, &[("a", false)]), [], "the ledger may have been away");
        assert_eq!(update(&mut peers, &[("a", false)]), [Lost(name("a"))]);
        assert_eq!(update(&mut peers, &[("a", false)]), [], "once");
        assert_eq!(update(&mut peers, &[("a", true)]), [Returned(name("a"))]);
        update(&mut peers, &[("a", false)]);
        update(&mut peers, &[("a", false)]);
        assert_eq!(update(&mut peers, &[]), [], "its row was removed later");
    }
}
