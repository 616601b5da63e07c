//! The state of the memory broker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::channel::{ChannelState, MemoryChannel, SubscriptionState};
use super::derived::DerivedEpochs;
use super::log::later;
use super::{jobs, permit_buckets, tally_cache};
use crate::broker::lineage::LedgerSnapshot;
use crate::broker::logs::IDEMPOTENCY_TTL;
use crate::broker::{CacheLease, InboxOptions, MessageListener, POSITION_TTL, inbox_owner};
use crate::model::{Entry, Position};

/// How many idempotency keys are kept at most.
const MAX_IDEMPOTENCY_KEYS: u64 = 200_000;

/// Below this many channels nothing is swept.
const SWEEP_FROM: usize = 1024;

/// The broker of a single process: nothing to install, nothing kept when it ends.
pub struct MemoryBroker {
    pub(super) options: InboxOptions,
    /// How long positions stay known.
    pub(super) position_ttl: Duration,
    /// Of logs that nothing was written to.
    pub(super) derived: DerivedEpochs,
    pub(super) listener: OnceLock<Arc<dyn MessageListener>>,
    pub(super) channels: DashMap<Box<str>, Arc<MemoryChannel>>,
    /// The size of the map at which it is swept next.
    pub(super) sweep_at: AtomicUsize,
    /// By channel and key: where the first write of that key is.
    pub(super) idempotency: Cache<(Box<str>, Box<str>), Position>,
    pub(super) jobs: jobs::JobRegistry,
    pub(super) tallies: tally_cache::TallyCache,
    pub(super) lease: Arc<CacheLease>,
    pub(super) permits: permit_buckets::PermitBuckets,
    pub(super) ledger: Mutex<LedgerSnapshot>,
    /// The incarnation of the ledger that all of this belongs to.
    pub(super) incarnation: Mutex<String>,
}

impl MemoryBroker {
    /// An empty broker.
    pub fn new(options: InboxOptions) -> Self {
        Self {
            options,
            position_ttl: POSITION_TTL,
            derived: DerivedEpochs::new(POSITION_TTL),
            listener: OnceLock::new(),
            channels: DashMap::new(),
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

    /// The same with another [`POSITION_TTL`].
    #[must_use]
    pub fn with_position_ttl(self, position_ttl: Duration) -> Self {
        Self { position_ttl, derived: DerivedEpochs::new(position_ttl), ..self }
    }

    /// How many channels it keeps something of.
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
        // Whoever moves the mark sweeps.
        if size < at || self.sweep_at.compare_exchange(at, usize::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let now = Instant::now();
        // An `Arc` that somebody else holds is in use: clones are only made under the shard's lock.
        self.channels.retain(|_, channel| Arc::get_mut(channel).is_none_or(|it| !it.state.get_mut().is_idle(now)));
        self.sweep_at.store((2 * self.channels.len()).max(SWEEP_FROM), Ordering::Relaxed);
    }

    /// Tells the listener of an entry if it subscribed. Answers how many were told.
    pub(super) fn notify(
        &self,
        state: &ChannelState,
        channel: &str,
        position: Option<&Position>,
        entry: &Entry,
    ) -> u64 {
        match self.listener.get() {
            Some(listener) if state.subscription == SubscriptionState::Active => {
                listener.entry(channel, position, entry);
                1
            }
            _ => 0,
        }
    }

    /// Where a log or inbox stands; `None` of an inbox that is absent or not filled.
    pub(super) fn position_of(&self, channel: &str) -> Option<Position> {
        let (found, now) = (self.find(channel), Instant::now());
        let mut state = found.as_ref().map(|found| found.state.lock());
        if inbox_owner(channel).is_some() {
            return state?.filled_inbox(now).map(|inbox| inbox.position());
        }
        let log = state.as_mut().and_then(|state| state.log(now));
        Some(log.map_or_else(
            || self.empty_log_position(channel, now),
            |log| {
                log.keep_position(later(now, self.position_ttl));
                log.position()
            },
        ))
    }

    /// Where a log stands that nothing was written to.
    pub(super) fn empty_log_position(&self, channel: &str, now: Instant) -> Position {
        Position { offset: 0, epoch: self.derived.derive(channel, now) }
    }

    pub(super) fn has_log_or_subscriber(&self, channel: &str) -> bool {
        self.find(channel).is_some_and(|found| {
            let mut state = found.state.lock();
            state.subscription == SubscriptionState::Active || state.log(Instant::now()).is_some()
        })
    }

    /// Drops what is kept of a channel if nothing would be lost with it.
    pub(super) fn drop_if_idle(&self, channel: &str) {
        let now = Instant::now();
        let unused = |found: &Arc<MemoryChannel>| Arc::strong_count(found) == 1 && found.state.lock().is_idle(now);
        self.channels.remove_if(channel, |_, found| unused(found));
    }
}
