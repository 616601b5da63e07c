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
use tokio::sync::{Notify, watch};

use super::lease_clock::{LeaseClock, RenewalTime};
use super::shares::plan;
use crate::broker::{Broker, Signal};
use crate::feed::runtime::Runtime;
use crate::ledger::{self, Fence, Ledger, WorkLease, WorkView};

/// Rounds within the length of a lease.
const ROUNDS_PER_LEASE: u32 = 5;

/// The interval at which a worker checks whether a lease that may have run out was renewed late.
const LAPSE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The state of a partition in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ownership {
    /// `None`: this process does not own it.
    fence: Option<Fence>,
    /// Its worker is to stop, so that another process can take it.
    is_draining: bool,
    /// Its worker has stopped.
    is_drained: bool,
}

/// A partition that this process is to own.
struct OwnedWork {
    kind: Arc<str>,
    state: watch::Sender<Ownership>,
}

/// The owner of partitions: this process.
pub(crate) struct Owner {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    /// Whether no other process can be alive: the broker is in the memory of this one.
    is_alone: bool,
    clock: Arc<LeaseClock>,
    /// By name. Filled before [`start`](Self::start).
    partitions: Mutex<HashMap<Arc<str>, OwnedWork>>,
    /// Signals that the next round is due: a worker has drained its partition, or another process has released some.
    round_due: Arc<Notify>,
    /// The processes with a lease, as of the last round.
    nodes: AtomicUsize,
}

/// A partition that this process works on while it owns it.
#[derive(Clone)]
pub(crate) struct Partition {
    name: Arc<str>,
    clock: Arc<LeaseClock>,
    state: watch::Sender<Ownership>,
    round_due: Arc<Notify>,
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
    pub(crate) fn partition(&self, kind: &str, name: impl Into<Arc<str>>) -> Partition {
        let (name, (state, _)) = (name.into(), watch::channel(Ownership::default()));
        self.partitions.lock().insert(Arc::clone(&name), OwnedWork { kind: kind.into(), state: state.clone() });
        Partition { name, clock: Arc::clone(&self.clock), state, round_due: Arc::clone(&self.round_due) }
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
        let wanted: Vec<(Arc<str>, Arc<str>)> = {
            let partitions = self.partitions.lock();
            partitions.iter().map(|(name, work)| (Arc::clone(name), Arc::clone(&work.kind))).collect()
        };
        let mut kinds: Vec<String> = wanted.iter().map(|(_, kind)| kind.to_string()).collect();
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
            given.iter().for_each(|fence| self.change(&fence.partition, |state| *state = Ownership::default()));
            self.signal_freed().await;
        }
        let plan = plan(&view, &wanted, holder);
        for name in &plan.give_away {
            self.change(name, |state| state.is_draining |= state.fence.is_some());
        }
        if !plan.take.is_empty() {
            for fence in self.ledger.take_partitions(holder, &plan.take).await? {
                tracing::debug!(partition = %fence.partition, generation = fence.generation, "owns a partition");
                let name = Arc::clone(&fence.partition);
                self.change(&name, |state| *state = Ownership { fence: Some(fence), ..Ownership::default() });
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
        for (name, OwnedWork { state, .. }) in &*self.partitions.lock() {
            let owned = mine.get(&**name).map(|generation| Fence { partition: name.clone(), generation: *generation });
            state.send_if_modified(|state| {
                let is_lost = state.fence.is_some() && state.fence != owned;
                if is_lost {
                    tracing::info!(partition = %name, "another process owns the partition of work now");
                    *state = Ownership::default();
                }
                given.extend(owned.filter(|_| state.fence.is_none() || state.is_drained));
                is_lost
            });
        }
        given
    }

    fn lose_all(&self) {
        for OwnedWork { state, .. } in self.partitions.lock().values() {
            state.send_if_modified(|state| std::mem::take(state).fence.is_some());
        }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Ownership)) {
        if let Some(work) = self.partitions.lock().get(name) {
            work.state.send_modify(change);
        }
    }
}

/// A period in which this process owns a partition. The partition is not given away before this is dropped.
pub(crate) struct Tenure {
    partition: Partition,
    fence: Fence,
    state: watch::Receiver<Ownership>,
}

impl Partition {
    /// Its name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The ownership, unless the lease may have run out. Checked before each write to a store, without a call.
    pub(crate) fn fence(&self) -> Option<Fence> {
        if self.clock.is_valid() { self.state.borrow().fence.clone() } else { None }
    }

    /// Whether this ownership is in force, as far as this process knows without a call.
    pub(crate) fn is_owned(&self, fence: &Fence) -> bool {
        self.clock.is_valid() && self.state.borrow().fence.as_ref() == Some(fence)
    }

    /// Waits until this process owns the partition.
    pub(crate) async fn owned(&self) -> Tenure {
        let mut state = self.state.subscribe();
        loop {
            let owned = state.borrow_and_update().clone();
            match owned {
                Ownership { fence: Some(_), is_draining: true, is_drained: false } => self.drained(),
                Ownership { fence: Some(fence), is_draining: false, .. } if self.clock.is_valid() => {
                    return Tenure { partition: self.clone(), fence, state };
                }
                Ownership { fence: Some(_), is_draining: false, .. } => {
                    // The lease may have run out. It is renewed late, or the partition is lost.
                    let _ = tokio::time::timeout(LAPSE_POLL_INTERVAL, state.changed()).await;
                    continue;
                }
                Ownership { .. } => {}
            }
            // It cannot fail: this partition holds the sender.
            let _ = state.changed().await;
        }
    }

    /// The worker has stopped. If the partition is to be given away, it can be now.
    fn drained(&self) {
        let was_drained = self.state.send_if_modified(|state| {
            let was_drained = state.is_draining && !state.is_drained;
            state.is_drained |= was_drained;
            was_drained
        });
        if was_drained {
            self.round_due.notify_one();
        }
    }
}

impl Tenure {
    /// The ownership, as long as it has not ended.
    pub(crate) fn fence(&self) -> Option<&Fence> {
        let is_mine = {
            let state = self.state.borrow();
            !state.is_draining && state.fence.as_ref() == Some(&self.fence)
        };
        (is_mine && self.partition.clock.is_valid()).then_some(&self.fence)
    }

    /// The same, even if the partition is to be given away: to put it in order.
    pub(super) fn held_fence(&self) -> Option<Fence> {
        let is_mine = self.state.borrow().fence.as_ref() == Some(&self.fence);
        (is_mine && self.partition.clock.is_valid()).then(|| self.fence.clone())
    }

    /// Waits until the ownership has ended, or the partition is to be given away.
    pub(crate) async fn ended(&mut self) {
        while self.fence().is_some() {
            // It cannot fail: the partition holds the sender.
            let _ = self.state.changed().await;
        }
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.partition.drained();
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

    #[tokio::test]
    async fn nothing_is_owned_while_the_lease_may_have_run_out() {
        let clock = Arc::new(LeaseClock::new(Duration::from_secs(60)));
        let fence = Fence { partition: "a".into(), generation: 1 };
        let (state, _) = watch::channel(Ownership { fence: Some(fence.clone()), ..Ownership::default() });
        let partition = Partition { name: "a".into(), clock: Arc::clone(&clock), state, round_due: Arc::default() };
        // If `owned` returned here, the worker would loop without a pause and block the threads of the runtime.
        let owned = partition.owned();
        tokio::pin!(owned);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut owned).await.is_err());
        assert_eq!(partition.fence(), None);
        // The renewal arrives late.
        clock.renew(RenewalTime::now());
        let tenure = tokio::time::timeout(Duration::from_secs(20), owned).await.expect("it is owned");
        assert_eq!(tenure.fence(), Some(&fence));
    }
}
