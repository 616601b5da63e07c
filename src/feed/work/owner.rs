//! The partitions of work that this process owns.
//!
//! The process has one lease in the ledger, renewed several times within its length. In each round it also reads who
//! owns what, takes free partitions up to its share, and gives surplus ones away: their workers stop first. If the
//! lease cannot be renewed in time, the process owns nothing, by its own clocks and before the ledger lets others take
//! its partitions. While the broker is out of this node's reach, the lease is not renewed: another node may reach it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::partition::{LeaseClock, Ownership, Partition, RenewalTime};
use super::shares::plan;
use crate::broker::{Broker, Signal};
use crate::feed::runtime::Runtime;
use crate::ledger::{self, Fence, Ledger, WorkLease, WorkView};

/// Rounds within the length of a lease.
const ROUNDS_PER_LEASE: u32 = 5;

/// The owner of partitions: this process.
pub(crate) struct Owner {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    /// Whether no other process can be alive: the broker is in the memory of this one.
    is_alone: bool,
    clock: Arc<LeaseClock>,
    /// By name. Filled before [`start`](Self::start).
    partitions: Mutex<HashMap<Arc<str>, Arc<Partition>>>,
    /// Signals that the next round is due: a worker has drained its partition, or another process has released some.
    round_due: Arc<Notify>,
    /// The processes with a lease, as of the last round.
    nodes: AtomicUsize,
}

impl Owner {
    /// An owner of nothing. Its lease has this length. `is_alone`: former processes have ended, whatever their leases
    /// say.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        is_alone: bool,
        length: Duration,
    ) -> Self {
        let clock = Arc::new(LeaseClock::new(length));
        let partitions = Mutex::default();
        let round_due = Arc::default();
        let nodes = AtomicUsize::new(0);
        Self { ledger, broker, runtime, is_alone, clock, partitions, round_due, nodes }
    }

    /// A partition that this process is to own. To be called before [`start`](Self::start). Processes share the
    /// partitions of one kind equally.
    pub(crate) fn partition(&self, kind: &str, name: impl Into<Arc<str>>) -> Arc<Partition> {
        let name = name.into();
        let partition = Partition::new(name.clone(), kind, self.clock.clone(), self.round_due.clone());
        let partition = Arc::new(partition);
        self.partitions.lock().insert(name, partition.clone());
        partition
    }

    /// Leaves the partitions so far to other processes. To be called before [`start`](Self::start).
    pub(crate) fn unregister_all(&self) {
        self.partitions.lock().clear();
    }

    /// Begins the lease, and renews it until the process stops.
    pub(crate) async fn start(self: &Arc<Self>) {
        if self.is_alone
            && let Err(error) = self.ledger.end_other_work_leases(self.runtime.holder()).await
        {
            tracing::warn!(%error, "the work of a former process waits until its lease has run out");
        }
        self.round().await;
        self.runtime.supervise("work_owner", self, |owner| async move {
            let every = owner.clock.length() / ROUNDS_PER_LEASE;
            loop {
                let pause = every.mul_f64(rand::random_range(0.8..1.2));
                tokio::select! {
                    more = owner.runtime.sleep(pause) => if !more { return },
                    () = owner.round_due.notified() => {}
                }
                owner.round().await;
            }
        });
    }

    /// Ends the lease: other processes may take the partitions at once. To be called when all workers have stopped.
    pub(crate) async fn stop(&self) {
        self.clock.end();
        self.lose_all();
        if let Err(error) = self.ledger.end_work_lease(self.runtime.holder()).await {
            tracing::warn!(%error, "the partitions of work were not given back, their lease will run out");
        }
        self.signal_freed().await;
    }

    /// The number of processes with a lease, this one included, as of the last renewal.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Another process has given partitions back.
    pub(crate) fn on_freed(&self) {
        self.round_due.notify_one();
    }

    /// Partitions are free. If the signal is lost, the other processes see it in their next rounds.
    async fn signal_freed(&self) {
        let _ = self.broker.signal(Signal::WorkFreed).await;
    }

    async fn round(&self) {
        if self.broker.cache_lease().is_held()
            && let Err(error) = self.renew().await
        {
            tracing::warn!(%error, "the lease of the partitions of work could not be renewed");
        }
        if !self.clock.is_valid() {
            self.lose_all();
        }
    }

    async fn renew(&self) -> ledger::Result<()> {
        let holder = self.runtime.holder();
        let wanted: Vec<Arc<Partition>> = self.partitions.lock().values().cloned().collect();
        let mut kinds: Vec<String> = wanted.iter().map(|partition| partition.kind.to_string()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let asked = RenewalTime::now();
        let lease = WorkLease { holder: Arc::clone(holder), length: self.clock.length(), kinds };
        let view = self.ledger.renew_work_lease(&lease).await?;
        self.clock.renew(asked);
        self.nodes.store(view.nodes.len(), Ordering::Relaxed);
        let given = self.adopt(&view);
        if !given.is_empty() {
            self.ledger.release_partitions(holder, &given).await?;
            given.iter().for_each(|fence| self.set(&fence.partition, Ownership::Elsewhere));
            self.signal_freed().await;
        }
        let wanted: Vec<_> = wanted.iter().map(|partition| (partition.name.clone(), partition.kind.clone())).collect();
        let plan = plan(&view, &wanted, holder);
        for name in &plan.give_away {
            if let Some(partition) = self.partitions.lock().get(name) {
                partition.update(|state| match state {
                    Ownership::Owned(fence) => Some(Ownership::Draining(fence.clone())),
                    _ => None,
                });
            }
        }
        if !plan.take.is_empty() {
            for fence in self.ledger.take_partitions(holder, &plan.take).await? {
                tracing::debug!(partition = %fence.partition, generation = fence.generation, "owns a partition");
                self.set(&fence.partition.clone(), Ownership::Owned(fence));
            }
        }
        Ok(())
    }

    /// Forgets the partitions that the ledger does not show as owned by this process in the same generation. Returns
    /// those to be given back: their workers have stopped for that, or only the ledger shows them as owned by this
    /// process, because the reply that gave them was lost, or the lease had run out by the clocks of this machine
    /// alone. The latter are taken again as a new generation.
    fn adopt(&self, view: &WorkView) -> Vec<Fence> {
        let holder: &str = self.runtime.holder();
        let mine = view.partitions.iter().filter(|row| row.owner.as_deref() == Some(holder));
        let mine: HashMap<&str, u64> = mine.map(|row| (row.name.as_str(), row.generation)).collect();
        let mut given = Vec::new();
        for (name, partition) in &*self.partitions.lock() {
            let owned = mine.get(&**name).map(|generation| Fence { partition: name.clone(), generation: *generation });
            partition.update(|state| {
                let is_lost = state.fence().is_some() && state.fence() != owned.as_ref();
                if is_lost {
                    tracing::debug!(partition = %name, "another process owns the partition of work now");
                }
                let is_free = is_lost || matches!(state, Ownership::Elsewhere | Ownership::Drained(_));
                given.extend(owned.filter(|_| is_free));
                is_lost.then_some(Ownership::Elsewhere)
            });
        }
        given
    }

    fn lose_all(&self) {
        for partition in self.partitions.lock().values() {
            partition.update(|state| state.fence().map(|_| Ownership::Elsewhere));
        }
    }

    fn set(&self, name: &str, state: Ownership) {
        if let Some(partition) = self.partitions.lock().get(name) {
            partition.update(|_| Some(state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{InboxOptions, MemoryBroker};
    use crate::ledger::{SqliteLedger, SqliteOptions, WorkStore as _};

    const LENGTH: Duration = Duration::from_secs(5);

    fn lease(holder: &Arc<str>) -> WorkLease {
        WorkLease { holder: holder.clone(), length: LENGTH, kinds: vec![] }
    }

    async fn owner() -> (Owner, Arc<SqliteLedger>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Arc::new(SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.unwrap());
        let broker = Arc::new(MemoryBroker::new(InboxOptions { length: 10, idle: Duration::from_secs(60) }));
        (Owner::new(ledger.clone(), broker, Runtime::new(), false, LENGTH), ledger, folder)
    }

    #[tokio::test]
    async fn a_partition_whose_reply_was_lost_is_owned_again() {
        let (owner, ledger, _folder) = owner().await;
        let partition = owner.partition("kind", "kind/0");
        let holder = owner.runtime.holder();
        ledger.renew_work_lease(&lease(holder)).await.unwrap();
        let lost =
            ledger.take_partitions(holder, &[Fence { partition: "kind/0".into(), generation: 0 }]).await.unwrap();
        assert_eq!(lost.len(), 1);
        owner.round().await;
        owner.round().await;
        assert_eq!(partition.fence().map(|fence| fence.generation), Some(lost[0].generation + 1));
    }

    #[tokio::test]
    async fn unregistered_partitions_are_left_to_others() {
        let (owner, _ledger, _folder) = owner().await;
        let unregistered = owner.partition("feed", "feed/0");
        owner.unregister_all();
        let kept = owner.partition("sender", "sender");
        owner.round().await;
        assert!(unregistered.fence().is_none() && kept.fence().is_some());
    }

    #[tokio::test]
    async fn a_stop_gives_back_at_once() {
        let (owner, ledger, _folder) = owner().await;
        let partition = owner.partition("kind", "kind/0");
        owner.round().await;
        let former = partition.fence().expect("it is owned");
        owner.stop().await;
        assert_eq!(partition.fence(), None);
        let other: Arc<str> = "other".into();
        ledger.renew_work_lease(&lease(&other)).await.unwrap();
        assert_eq!(ledger.take_partitions(&other, &[former]).await.unwrap().len(), 1);
    }
}
