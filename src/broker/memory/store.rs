//! The state of the memory broker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::channel::{MemoryChannel, SubscriptionState};
use super::derived::DerivedEpochs;
use super::{jobs, permit_buckets, tally_cache};
use crate::broker::lineage::LedgerSnapshot;
use crate::broker::logs::IDEMPOTENCY_TTL;
use crate::broker::{CacheLease, InboxOptions, MessageListener, POSITION_TTL, READER_TTL, is_inbox};
use crate::model::{Entry, Position, PositionRef};

/// The maximum number of idempotency keys that are kept.
const MAX_IDEMPOTENCY_KEYS: u64 = 200_000;

/// Sweeps start at this number of channels.
const SWEEP_FROM: usize = 1024;

/// The broker of a single process: no installation, and no data after the process ends.
pub struct MemoryBroker {
    pub(super) options: InboxOptions,
    /// The identity of the broker: see `identity.rs`.
    pub(super) id: Arc<str>,
    /// The name of the only node.
    pub(super) node: Arc<str>,
    /// The time for which positions are kept.
    pub(super) position_ttl: Duration,
    /// The epochs of logs without a write.
    pub(super) derived: DerivedEpochs,
    pub(super) listener: OnceLock<Arc<dyn MessageListener>>,
    pub(super) channels: DashMap<Box<str>, Arc<MemoryChannel>, RandomState>,
    /// The size of the map at which it is swept next.
    pub(super) sweep_at: AtomicUsize,
    /// The position of the first write of each idempotency key, by channel and key.
    pub(super) idempotency: Cache<(Box<str>, Box<str>), Position>,
    pub(super) jobs: jobs::JobRegistry,
    pub(super) tallies: tally_cache::TallyCache,
    pub(super) lease: Arc<CacheLease>,
    pub(super) permits: permit_buckets::PermitBuckets,
    pub(super) ledger: Mutex<LedgerSnapshot>,
    /// The incarnation of the ledger that the data belongs to.
    pub(super) incarnation: Mutex<String>,
}

impl MemoryBroker {
    /// An empty broker.
    pub fn new(options: InboxOptions) -> Self {
        Self {
            options,
            id: uuid::Uuid::new_v4().simple().to_string().into(),
            node: uuid::Uuid::new_v4().to_string().into(),
            position_ttl: POSITION_TTL,
            derived: DerivedEpochs::new(POSITION_TTL),
            listener: OnceLock::new(),
            channels: DashMap::default(),
            sweep_at: AtomicUsize::new(SWEEP_FROM),
            idempotency: Cache::builder().max_capacity(MAX_IDEMPOTENCY_KEYS).time_to_live(IDEMPOTENCY_TTL).build(),
            jobs: jobs::JobRegistry::new(),
            tallies: tally_cache::tally_cache(),
            lease: Arc::new(CacheLease::unlimited()),
            permits: permit_buckets::PermitBuckets::new(),
            ledger: Mutex::default(),
            incarnation: Mutex::default(),
        }
    }

    /// The same with the identity that its folder has.
    #[must_use]
    pub fn with_id(self, id: Arc<str>) -> Self {
        Self { id, ..self }
    }

    /// The same with another [`POSITION_TTL`].
    #[must_use]
    pub fn with_position_ttl(self, position_ttl: Duration) -> Self {
        Self { position_ttl, derived: DerivedEpochs::new(position_ttl), ..self }
    }

    /// The least time for which the position of a log is kept for its readers.
    pub(super) fn reader_ttl(&self) -> Duration {
        READER_TTL.min(self.position_ttl)
    }

    /// The number of channels with state.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn find(&self, channel: &str) -> Option<Arc<MemoryChannel>> {
        self.channels.get(channel).map(|found| Arc::clone(&found))
    }

    pub(super) fn find_or_create(&self, channel: &str) -> Arc<MemoryChannel> {
        if let Some(found) = self.find(channel) {
            return found;
        }
        let made = Arc::clone(&self.channels.entry(channel.into()).or_default());
        self.sweep();
        made
    }

    fn sweep(&self) {
        let at = self.sweep_at.load(Ordering::Relaxed);
        let size = self.channels.len();
        // The thread that changes `sweep_at` runs the sweep.
        if size < at || self.sweep_at.compare_exchange(at, usize::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let now = Instant::now();
        // An `Arc` with another holder is in use: clones are only made under the shard's lock.
        self.channels.retain(|_, channel| Arc::get_mut(channel).is_none_or(|it| !it.state.get_mut().is_idle(now)));
        self.sweep_at.store((2 * self.channels.len()).max(SWEEP_FROM), Ordering::Relaxed);
    }

    /// Passes an entry to the listener if the node is subscribed. Returns the number of receivers. The caller holds the
    /// lock of the channel.
    pub(super) fn notify(
        &self,
        subscription: SubscriptionState,
        channel: &str,
        position: Option<PositionRef<'_>>,
        entry: &Entry,
    ) -> u64 {
        match self.listener.get() {
            Some(listener) if subscription == SubscriptionState::Active => {
                listener.entry(channel, position, entry);
                1
            }
            _ => 0,
        }
    }

    /// The last position of a log or inbox; `None` for an inbox that does not exist or is not filled.
    pub(super) fn position_of(&self, channel: &str) -> Option<Position> {
        let found = self.find(channel);
        let now = Instant::now();
        let mut state = found.as_ref().map(|found| found.state.lock());
        if is_inbox(channel) {
            return state?.filled_inbox(now).map(|inbox| inbox.position());
        }
        let log = state.as_mut().and_then(|state| state.log(now));
        Some(log.map_or_else(
            || {
                self.derived.note_reader(channel, now);
                self.empty_log_position(channel, now)
            },
            |log| {
                log.keep_for_reader(now, self.reader_ttl());
                log.position()
            },
        ))
    }

    /// The position of a log without a write.
    pub(super) fn empty_log_position(&self, channel: &str, now: Instant) -> Position {
        Position { offset: 0, epoch: self.derived.derive(channel, now) }
    }

    pub(super) fn has_log_or_subscriber(&self, channel: &str) -> bool {
        self.find(channel).is_some_and(|found| {
            let mut state = found.state.lock();
            state.subscription == SubscriptionState::Active || state.log(Instant::now()).is_some()
        })
    }

    /// Drops a channel if it has no state.
    pub(super) fn drop_if_idle(&self, channel: &str) {
        let now = Instant::now();
        let unused = |found: &Arc<MemoryChannel>| Arc::strong_count(found) == 1 && found.state.lock().is_idle(now);
        self.channels.remove_if(channel, |_, found| unused(found));
    }
}
