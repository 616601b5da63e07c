//! The state of a deployment, for operators: its live nodes, the work that waits, the quarantine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::broker::QueueBacklog;
use crate::ledger::{EventConsumer, FANOUT_PARTITIONS, Ledger, Result};
use crate::model::Millis;

/// The state of a deployment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeploymentStatus {
    /// The nodes that are alive, in the order of their starts; null: the ledger cannot be read.
    pub nodes: Option<Vec<NodeStatus>>,
    /// `redis` or `memory`, and `postgres` or `sqlite`: `"ok"`, or why the store cannot be used.
    pub stores: BTreeMap<&'static str, String>,
    /// The work that waits, by kind; null: the ledger cannot be read.
    pub work: Option<BTreeMap<String, WorkStatus>>,
    /// The number of items in quarantine; null: the ledger cannot be read.
    pub quarantine: Option<u64>,
    /// The last failover of a store; `none`: none is known.
    pub failover: String,
}

/// A node that is alive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodeStatus {
    /// New at each start.
    pub id: String,
    /// The host and the port.
    pub name: String,
    /// The node number in the ids that it makes; absent: none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u8>,
    /// The version of the server.
    pub version: String,
    /// When it started, in Unix milliseconds.
    pub started_at: Millis,
    /// How far its clock is ahead of that of the ledger, in milliseconds.
    pub clock_skew: i64,
    /// When its lease ends without a renewal, in Unix milliseconds by the clock of the ledger.
    pub lease_until: Millis,
    /// The partitions of work that it owns.
    pub partitions: u64,
}

/// Work of one kind that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkStatus {
    /// The number of items.
    pub waiting: u64,
    /// The age of the oldest one, in seconds; 0: none waits.
    pub oldest_seconds: u64,
}

impl WorkStatus {
    /// The likes that wait to be settled and announced.
    pub fn of_likes(QueueBacklog { entries, oldest }: QueueBacklog, now: Millis) -> Self {
        Self::new(entries, oldest, now)
    }

    fn new(waiting: u64, oldest: Option<Millis>, now: Millis) -> Self {
        let oldest_seconds = oldest.map_or(0, |oldest| now.saturating_sub(oldest) / 1_000);
        Self { waiting, oldest_seconds }
    }
}

/// `postgres` or `sqlite`: the kind of the ledger at a place, or of its URL.
pub fn ledger_kind(place: &str) -> &'static str {
    if place.starts_with("postgres") { "postgres" } else { "sqlite" }
}

impl DeploymentStatus {
    /// Reads the state from the ledger. If it cannot be read, `stores` says so, and the rest is unknown; `stores` also
    /// says if it takes no writes.
    ///
    /// `likes` is the queue of likes, if that of its broker can be looked at.
    pub async fn read(
        ledger: &dyn Ledger,
        stores: BTreeMap<&'static str, String>,
        likes: Option<WorkStatus>,
        now: Millis,
    ) -> Self {
        let mut status = Self::of_stores(stores);
        let state = match Self::read_rows(ledger, now).await {
            Ok((nodes, mut work, quarantine)) => {
                work.extend(likes.map(|likes| ("likes".to_owned(), likes)));
                (status.nodes, status.work, status.quarantine) = (Some(nodes), Some(work), Some(quarantine));
                ledger.ping().await.err().map_or_else(|| "ok".to_owned(), |error| error.to_string())
            }
            Err(error) => error.to_string(),
        };
        status.stores.insert(ledger_kind(&ledger.place()), state);
        status
    }

    /// The state when only this is known of the stores.
    pub fn of_stores(stores: BTreeMap<&'static str, String>) -> Self {
        Self { nodes: None, stores, work: None, quarantine: None, failover: "none".to_owned() }
    }

    /// Whether all stores can be used.
    pub fn is_well(&self) -> bool {
        self.stores.values().all(|state| state == "ok")
    }

    async fn read_rows(
        ledger: &dyn Ledger,
        now: Millis,
    ) -> Result<(Vec<NodeStatus>, BTreeMap<String, WorkStatus>, u64)> {
        let partitions = ledger.owned_partitions().await?;
        let mut nodes: Vec<NodeStatus> = ledger
            .identity()
            .await?
            .nodes
            .into_iter()
            .filter(|node| node.is_live)
            .map(|node| NodeStatus {
                partitions: partitions.get(&node.id).copied().unwrap_or_default(),
                id: node.id,
                name: node.description.name,
                number: node.description.number,
                version: node.description.version,
                started_at: node.description.started_at,
                clock_skew: node.description.clock_skew,
                lease_until: node.lease_until,
            })
            .collect();
        nodes.sort_by(|one, other| (one.started_at, &one.id).cmp(&(other.started_at, &other.id)));
        let mut work = BTreeMap::new();
        let partitions: Vec<u16> = (0..FANOUT_PARTITIONS).collect();
        let jobs = ledger.backlog(&partitions).await?;
        work.insert("fanout".to_owned(), WorkStatus::new(jobs.jobs, jobs.oldest, now));
        for (kind, consumer) in [
            ("notifications", EventConsumer::Notifications),
            ("like_notifications", EventConsumer::Likes),
            ("outlet", EventConsumer::Outlet),
        ] {
            let backlog = ledger.event_backlog(consumer).await?;
            work.insert(kind.to_owned(), WorkStatus::new(backlog.events, backlog.oldest, now));
        }
        let erasures = ledger.erasure_backlog().await?;
        work.insert("erasures".to_owned(), WorkStatus::new(erasures.erasures, erasures.oldest, now));
        let pushes = ledger.push_backlog(now).await?;
        work.insert("pushes".to_owned(), WorkStatus::new(pushes.due, pushes.next.filter(|next| *next <= now), now));
        for backlog in ledger.outlet_backlogs().await? {
            let waiting = backlog.held.max(u64::from(backlog.oldest.is_some()));
            work.insert(format!("outlet:{}", backlog.consumer), WorkStatus::new(waiting, backlog.oldest, now));
        }
        Ok((nodes, work, ledger.quarantine_size().await?))
    }
}
