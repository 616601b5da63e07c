//! This node among the nodes of the deployment: registered in both stores, which must belong together.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | registers the node and renews its rows |
//! | `pairing` | whether two stores belong together |
//! | `fingerprints` | what must be the same on all nodes |
//! | `peers` | other nodes that start, stop and are lost |
//!
//! A node is refused if a *live* node of one of the stores uses another one as the other, or if the stores record other
//! partners. A process that was killed is not alive: a node that stands in the way is watched until it renews its
//! lease, or the lease has ended.
//!
//! A node that was paused finds its row removed once a node of another broker has started, or another broker was
//! adopted. It registers again, and ends if it is refused.

mod fingerprints;
mod pairing;
mod peers;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

pub use self::fingerprints::FINGERPRINTS;
pub(crate) use self::fingerprints::Mismatches;
pub use self::pairing::JoinError;
use self::pairing::{Pairing, Stores};
use self::peers::{PeerChange, Peers};
use super::invalidation::Invalidator;
use super::node_ids::NodeIds;
use super::runtime::{Runtime, now};
use crate::broker::Broker;
use crate::ledger::{Ledger, NewNode, NodeDetails, liveness_millis};
use crate::metrics::Metrics;
use crate::model::Millis;
use crate::store_metrics::StoreMeter;

/// The interval at which a node renews its rows.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// The number of renewals after which a node compares itself with the others.
const RENEWALS_PER_COMPARISON: usize = 5;

/// The interval at which a start looks at nodes that stand in its way.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// How long a start waits for nodes that may be alive: longer than their leases.
const MAX_WATCH: Duration = Duration::from_secs(12);

/// How often a start begins anew because the records have changed meanwhile.
const MAX_ATTEMPTS: usize = 30;

/// This node in the stores.
pub(crate) struct NodeRegistry {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    ids: Arc<NodeIds>,
    invalidator: Arc<Invalidator>,
    metrics: Arc<Metrics>,
    description: RwLock<NodeDetails>,
    /// `None`: the node is not registered.
    registration: RwLock<Option<JoinedNode>>,
    /// How far the clock is ahead of that of the ledger, in milliseconds.
    clock_skew: AtomicI64,
    /// What differs from other nodes, as of the last comparison.
    mismatches: RwLock<Mismatches>,
    peers: Mutex<Peers>,
    /// Why the node cannot go on with these stores.
    refusal: Mutex<Option<JoinError>>,
    refused: Notify,
}

/// The node is registered.
#[derive(Clone)]
struct JoinedNode {
    pairing: Pairing,
    /// The end of the lease in the ledger.
    lease_until: Millis,
}

impl NodeRegistry {
    /// A node that is not registered.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        ids: Arc<NodeIds>,
        invalidator: Arc<Invalidator>,
        metrics: Arc<Metrics>,
        description: NodeDetails,
    ) -> Self {
        let description = NodeDetails { broker: broker.place(), ..description };
        Self {
            ledger,
            broker,
            runtime,
            ids,
            invalidator,
            metrics,
            description: RwLock::new(description),
            registration: RwLock::default(),
            clock_skew: AtomicI64::new(0),
            mismatches: RwLock::default(),
            peers: Mutex::default(),
            refusal: Mutex::default(),
            refused: Notify::new(),
        }
    }

    /// Registers the node, and renews its rows until the process stops.
    ///
    /// # Errors
    /// If the stores do not belong together, a live node uses another one, or a store cannot be reached.
    pub(crate) async fn join(self: &Arc<Self>) -> Result<(), JoinError> {
        self.register().await?;
        self.runtime.supervise("node_registry", self, |nodes| async move {
            let mut renewals: usize = 0;
            while nodes.runtime.sleep(RENEWAL_INTERVAL).await {
                nodes.renew().await;
                renewals += 1;
                if renewals.is_multiple_of(RENEWALS_PER_COMPARISON) {
                    nodes.compare().await;
                    nodes.ask_refusing_stores().await;
                }
            }
        });
        Ok(())
    }

    /// Removes the node from both stores. Call it when the tasks of the process have ended.
    pub(crate) async fn leave(&self) {
        if self.registration.write().take().is_none() {
            return;
        }
        let id = self.runtime.holder();
        // The broker first: a node in it that the ledger does not have uses another ledger.
        let (hidden, removed) = (self.broker.hide_node(id).await, self.ledger.remove_node(id, None).await);
        let errors = [hidden.err().map(|error| error.to_string()), removed.err().map(|error| error.to_string())];
        for error in errors.into_iter().flatten() {
            tracing::debug!(error, "the node could not be removed from the list of nodes: its lease will end");
        }
    }

    /// Waits until the node cannot go on with these stores. Returns the reason, once.
    pub(crate) async fn refused(&self) -> JoinError {
        loop {
            let notified = self.refused.notified();
            if let Some(error) = self.refusal.lock().take() {
                return error;
            }
            notified.await;
        }
    }

    /// Replaces the fingerprints of this node. Others see them after its next renewal.
    pub(crate) fn set_fingerprints(&self, fingerprints: BTreeMap<String, String>) {
        self.description.write().fingerprints = fingerprints;
    }

    /// What differs from other nodes.
    pub(crate) fn mismatches(&self) -> Mismatches {
        self.mismatches.read().clone()
    }

    fn node(&self) -> NewNode {
        let clock_skew = self.clock_skew.load(Ordering::Relaxed);
        let description = NodeDetails { number: self.ids.number(), clock_skew, ..self.description.read().clone() };
        NewNode { id: self.runtime.holder().to_string(), description }
    }

    async fn register(&self) -> Result<(), JoinError> {
        let own = self.runtime.holder();
        let mut watch = LivenessWatch::new();
        for _ in 0..MAX_ATTEMPTS {
            let (stores, pairing) = loop {
                let stores = read_stores(&*self.ledger, &*self.broker).await?;
                let pairing = stores.pair()?;
                if !watch.blocks(&stores, &pairing, own)? {
                    break (stores, pairing);
                }
                watch.wait().await?;
            };
            let Some(lease_until) = self.ledger.register_node(&self.node(), &pairing.in_ledger).await? else {
                tokio::time::sleep(Duration::from_millis(rand::random_range(1..100))).await;
                continue;
            };
            let Pairing { in_ledger, in_broker } = &pairing;
            let paired = match self.broker.pair_ledger(&in_ledger.partner.id, in_broker).await {
                Ok(true) => {
                    let shown = self.broker.show_node(own, lease_until, &in_ledger.partner.id, &in_broker.partner);
                    shown.await
                }
                paired => paired,
            };
            if matches!(paired, Ok(true)) {
                *self.registration.write() = Some(JoinedNode { pairing, lease_until });
                return Ok(());
            }
            // Of two starts at once, another ledger was the first at the broker.
            let unused = stores.ledger.broker.is_none().then_some(&in_ledger.partner);
            self.ledger.remove_node(own, unused).await?;
            paired?;
        }
        Err(JoinError::Contended)
    }

    async fn renew(&self) {
        let Some(JoinedNode { pairing, lease_until }) = self.registration.read().clone() else { return };
        let asked = now();
        let lease_until = match self.ledger.renew_node(&self.node()).await {
            Ok(Some(renewed)) => {
                self.measure_clock(asked, renewed);
                renewed
            }
            Ok(None) => return self.register_again().await,
            Err(error) => {
                tracing::debug!(%error, "the lease of this node could not be renewed");
                lease_until
            }
        };
        if let Some(registration) = &mut *self.registration.write() {
            registration.lease_until = lease_until;
        }
        let (broker, ledger) = (&pairing.in_ledger.partner.id, &pairing.in_broker.partner);
        match self.broker.show_node(self.runtime.holder(), lease_until, broker, ledger).await {
            Ok(true) => {}
            Ok(false) => tracing::error!(
                broker = self.broker.place(),
                "the broker belongs to another ledger now: timelines mix the posts of both"
            ),
            Err(error) => tracing::debug!(%error, "this node could not be shown in the broker"),
        }
    }

    /// The ledger read its clock between the request and the reply: a difference that this time explains is none.
    fn measure_clock(&self, asked: Millis, lease_until: Millis) {
        let time = lease_until.saturating_sub(liveness_millis());
        let ahead = asked.saturating_sub(time);
        let behind = time.saturating_sub(now().max(asked));
        self.clock_skew.store(ahead.cast_signed().saturating_sub(behind.cast_signed()), Ordering::Relaxed);
    }

    /// Compares this node with the others, and logs which of them have come and gone. A difference is logged when it
    /// begins, and when the last one has ended.
    async fn compare(&self) {
        let identity = match self.ledger.identity().await {
            Ok(identity) => identity,
            Err(error) => return tracing::debug!(%error, "this node could not be compared with the others"),
        };
        let own = self.runtime.holder();
        let others = || identity.nodes.iter().filter(|row| row.id != **own);
        let peers = self.peers.lock().update(others());
        peers.iter().for_each(PeerChange::log);
        if peers.iter().any(|change| matches!(change, PeerChange::Lost(_))) {
            // It may have died between a change and its invalidation.
            self.invalidator.clear_lasting();
        }
        let found = Mismatches::find(&self.node().description, others().filter(|row| row.is_live));
        self.metrics.fingerprint_mismatches(found.len());
        let before = std::mem::replace(&mut *self.mismatches.write(), found.clone());
        if before == found {
            return;
        }
        let differing = found.report().into_iter().filter_map(|(kind, why)| Some(format!("{kind} {}", why?)));
        let differing = differing.collect::<Vec<_>>().join("; ");
        match differing.is_empty() {
            true => tracing::info!("this node has the keys, the version and the clock of the others again"),
            false => tracing::warn!(differing, "this node differs from others, which may refuse what it accepts"),
        }
    }

    /// Asks stores that refused calls whether they take a small write: without calls of others, nothing else would show
    /// that they go on refusing.
    async fn ask_refusing_stores(&self) {
        // The meters count the outcomes.
        if StoreMeter::ledger().refusal().is_some() {
            let _ = self.ledger.ping().await;
        }
        if StoreMeter::redis().refusal().is_some() {
            let _ = self.broker.ping().await;
        }
    }

    /// The row was removed: the ledger was restored, or the node counted as ended.
    async fn register_again(&self) {
        match self.register().await {
            Ok(()) => tracing::info!("registered again: the ledger had no row of this node"),
            Err(error @ (JoinError::Store(_) | JoinError::Contended)) => {
                tracing::debug!(%error, "this node could not be registered again");
            }
            Err(error) => {
                tracing::error!(%error, "this node cannot go on with its stores");
                *self.refusal.lock() = Some(error);
                self.refused.notify_one();
            }
        }
    }
}

/// Makes two stores belong together, whatever they were before. Returns where they are.
///
/// # Errors
/// If a node is alive, or a store cannot be reached.
pub async fn adopt(ledger: &dyn Ledger, broker: &dyn Broker) -> Result<[String; 2], JoinError> {
    let mut watch = LivenessWatch::new();
    for _ in 0..MAX_ATTEMPTS {
        let stores = loop {
            let stores = read_stores(ledger, broker).await?;
            if !watch.finds_nodes(&stores)? {
                break stores;
            }
            watch.wait().await?;
        };
        let Pairing { in_ledger, in_broker } = stores.adopt();
        if broker.adopt_ledger(&in_ledger.partner.id, &in_broker).await? && ledger.adopt_broker(&in_ledger).await? {
            return Ok([stores.ledger_place, stores.broker_place]);
        }
    }
    Err(JoinError::Contended)
}

/// Checks that a ledger and a broker belong together, by their records of each other, as a start does. Changes nothing.
///
/// # Errors
/// If they do not, or a store cannot be reached.
pub async fn check_pairing(ledger: &dyn Ledger, broker: &dyn Broker) -> Result<(), JoinError> {
    read_stores(ledger, broker).await?.pair().map(drop)
}

async fn read_stores(ledger: &dyn Ledger, broker: &dyn Broker) -> Result<Stores, JoinError> {
    // The broker first: a node renews its lease in the ledger before it shows the end of it in the broker.
    let of_broker = broker.identity().await?;
    let of_ledger = ledger.identity().await?;
    let (ledger_place, broker_place) = (ledger.place(), broker.place());
    Ok(Stores { ledger: of_ledger, ledger_place, broker: of_broker, broker_place })
}

/// Watches the nodes that stand in the way. Those that renew their leases are alive.
struct LivenessWatch {
    begun: Instant,
    /// The lease of each node in the ledger, and its last appearance in the broker, when they were seen first.
    seen: HashMap<(bool, String), Millis>,
}

impl LivenessWatch {
    fn new() -> Self {
        Self { begun: Instant::now(), seen: HashMap::new() }
    }

    /// Waits for the next look.
    ///
    /// # Errors
    /// If there are other nodes in the way each time, as in a crash loop.
    async fn wait(&self) -> Result<(), JoinError> {
        if self.begun.elapsed() > MAX_WATCH {
            return Err(JoinError::Contended);
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
        Ok(())
    }

    /// Whether a node that may be alive stands in the way.
    ///
    /// # Errors
    /// If it is alive.
    fn blocks(&mut self, stores: &Stores, pairing: &Pairing, own: &str) -> Result<bool, JoinError> {
        let mut blocks = false;
        let broker = &pairing.in_ledger.partner.id;
        for node in stores.ledger.nodes.iter().filter(|node| node.is_live && node.broker != *broker) {
            blocks = true;
            if self.has_renewed(false, &node.id, node.lease_until) {
                return Err(JoinError::LiveBroker {
                    node: node.description.name.clone(),
                    ledger: stores.ledger_place.clone(),
                    used: node.description.broker.clone(),
                    configured: stores.broker_place.clone(),
                });
            }
        }
        for node in stores.broker.nodes.iter().filter(|node| node.is_live && node.id != own) {
            let row = stores.ledger.nodes.iter().find(|row| row.id == node.id);
            if row.is_some_and(|row| row.lease_until >= node.lease_until) {
                continue;
            }
            blocks = true;
            if self.has_renewed(true, &node.id, node.seen_at) {
                return Err(JoinError::LiveLedger {
                    broker: stores.broker_place.clone(),
                    used: stores.broker.ledger.as_ref().map_or_else(String::new, |ledger| ledger.place.clone()),
                    configured: stores.ledger_place.clone(),
                });
            }
        }
        Ok(blocks)
    }

    /// Whether there is any node that may be alive.
    ///
    /// # Errors
    /// If one of them is alive.
    fn finds_nodes(&mut self, stores: &Stores) -> Result<bool, JoinError> {
        let mut finds = false;
        for node in stores.ledger.nodes.iter().filter(|node| node.is_live) {
            finds = true;
            if self.has_renewed(false, &node.id, node.lease_until) {
                return Err(JoinError::NodeRuns(node.description.name.clone()));
            }
        }
        for node in stores.broker.nodes.iter().filter(|node| node.is_live) {
            finds = true;
            if self.has_renewed(true, &node.id, node.seen_at) {
                return Err(JoinError::NodeRuns(format!("one that uses {}", stores.broker_place)));
            }
        }
        Ok(finds)
    }

    fn has_renewed(&mut self, is_in_broker: bool, id: &str, renewal: Millis) -> bool {
        *self.seen.entry((is_in_broker, id.to_owned())).or_insert(renewal) != renewal
    }
}
