//! The broker of a single process.
//!
//! A map of channels, each behind a lock of its own that is held while the listener is told: entries of a channel
//! are told in the order of their offsets, and nothing else is promised. What has had its time is dropped when its
//! channel is used again, or by a sweep whenever the map has doubled since the last.

mod channel;
mod derived;
mod inbox;
mod inboxes;
mod jobs;
mod lineage;
mod log;
mod permits;
mod presence;
mod tallies;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dashmap::DashMap;
use moka::sync::Cache;
use parking_lot::Mutex;

use self::channel::{Channel, Hearing, State};
use self::derived::DerivedEpochs;
use self::log::later;
use super::lineage::Record;
use super::{
    Append, Appended, Broker, BrokerError, CacheLease, Confirmation, IDEMPOTENCY_TTL, InboxOptions, Invalidation,
    Listener, NodeLease, Notice, POSITION_TTL, Result, Signal, Slice, Span, inbox_channel, inbox_owner,
};
use crate::model::{Entry, Millis, Position, UserId};

/// How many idempotency keys are kept at most.
const MARKS: u64 = 200_000;

/// Below this many channels nothing is swept.
const SWEEP_FROM: usize = 1024;

/// The broker of a single process: nothing to install, nothing kept when it ends.
pub struct MemoryBroker {
    options: InboxOptions,
    /// How long positions stay known.
    position_ttl: Duration,
    /// Of logs that nothing was written to.
    derived: DerivedEpochs,
    listener: OnceLock<Arc<dyn Listener>>,
    channels: DashMap<Box<str>, Arc<Channel>>,
    /// The size of the map at which it is swept next.
    sweep_at: AtomicUsize,
    /// By channel and key: where the first write of that key is.
    idempotency: Cache<(Box<str>, Box<str>), Position>,
    jobs: jobs::Jobs,
    tallies: tallies::Kept,
    lease: Arc<CacheLease>,
    permits: permits::Buckets,
    ledger: Mutex<Record>,
    /// The incarnation of the ledger that all of this belongs to.
    incarnation: Mutex<String>,
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
            idempotency: Cache::builder().max_capacity(MARKS).time_to_live(IDEMPOTENCY_TTL).build(),
            jobs: jobs::Jobs::new(),
            tallies: tallies::kept(),
            lease: Arc::new(CacheLease::unlimited()),
            permits: permits::Buckets::new(),
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

    fn find(&self, channel: &str) -> Option<Arc<Channel>> {
        self.channels.get(channel).map(|found| Arc::clone(&found))
    }

    fn find_or_make(&self, channel: &str) -> Arc<Channel> {
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
        self.channels.retain(|_, channel| Arc::get_mut(channel).is_none_or(|it| !it.state.get_mut().idle(now)));
        self.sweep_at.store((2 * self.channels.len()).max(SWEEP_FROM), Ordering::Relaxed);
    }

    /// Tells the listener of an entry if it subscribed. Answers how many were told.
    fn tell(&self, state: &State, channel: &str, position: Option<&Position>, entry: &Entry) -> u64 {
        match self.listener.get() {
            Some(listener) if state.hearing == Hearing::Yes => {
                listener.entry(channel, position, entry);
                1
            }
            _ => 0,
        }
    }

    /// Where a log or inbox stands; `None` of an inbox that is absent or not filled.
    fn position_of(&self, channel: &str) -> Option<Position> {
        let (found, now) = (self.find(channel), Instant::now());
        let mut state = found.as_ref().map(|found| found.state.lock());
        if inbox_owner(channel).is_some() {
            return state?.filled_inbox(now).map(|inbox| inbox.position());
        }
        let log = state.as_mut().and_then(|state| state.log(now));
        Some(log.map_or_else(
            || self.unwritten(channel, now),
            |log| {
                log.keep_position(later(now, self.position_ttl));
                log.position()
            },
        ))
    }

    /// Where a log stands that nothing was written to.
    fn unwritten(&self, channel: &str, now: Instant) -> Position {
        Position { offset: 0, epoch: self.derived.derive(channel, now) }
    }

    fn has_log_or_subscriber(&self, channel: &str) -> bool {
        self.find(channel).is_some_and(|found| {
            let mut state = found.state.lock();
            state.hearing == Hearing::Yes || state.log(Instant::now()).is_some()
        })
    }

    /// Drops what is kept of a channel if nothing would be lost with it.
    fn drop_if_idle(&self, channel: &str) {
        let now = Instant::now();
        let unused = |found: &Arc<Channel>| Arc::strong_count(found) == 1 && found.state.lock().idle(now);
        self.channels.remove_if(channel, |_, found| unused(found));
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        // A second listener is a mistake of the caller's; the first one stays.
        let _ = self.listener.set(listener);
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        0
    }

    async fn subscribe(&self, channel: &str) -> Result<()> {
        self.find_or_make(channel).state.lock().hearing = Hearing::Yes;
        Ok(())
    }

    async fn unsubscribe(&self, channel: &str) -> Result<()> {
        if let Some(found) = self.find(channel) {
            found.state.lock().hearing = Hearing::No;
        }
        self.drop_if_idle(channel);
        Ok(())
    }

    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>> {
        let hears = |channel: Arc<Channel>| channel.state.lock().hearing == Hearing::Yes;
        Ok(users.iter().map(|user| self.find(&inbox_channel(user)).is_some_and(hears)).collect())
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(listener) = self.listener.get() {
            listener.signal(signal);
        }
        Ok(())
    }

    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation> {
        if let Some(listener) = self.listener.get() {
            listener.invalidate(what);
        }
        Ok(Confirmation::immediate())
    }

    fn cache_lease(&self) -> Arc<CacheLease> {
        Arc::clone(&self.lease)
    }

    async fn append(&self, append: Append<'_>) -> Result<Appended> {
        let channel = append.channel;
        if inbox_owner(channel).is_some() {
            return Err(BrokerError::Refused("an inbox is not appended to".to_owned()));
        }
        let found = self.find_or_make(channel);
        let now = Instant::now();
        let mut state = found.state.lock();
        let key = append.idempotency_key.map(|key| (channel.into(), key.into()));
        if let Some(position) = key.as_ref().and_then(|key| self.idempotency.get(key)) {
            return Ok(Appended { position, receivers: 0 });
        }
        let log = state.make_log(now, || self.derived.derive(channel, now));
        if log.knows(&append) {
            return Ok(Appended { position: log.position(), receivers: 0 });
        }
        log.push(&append, now, self.position_ttl);
        let position = log.position();
        if let Some(key) = key {
            self.idempotency.insert(key, position.clone());
        }
        let receivers = self.tell(&state, channel, Some(&position), append.entry);
        Ok(Appended { position, receivers })
    }

    async fn publish(&self, channel: &str, entry: &Entry) -> Result<Appended> {
        let told = self.find(channel).map(|found| self.tell(&found.state.lock(), channel, None, entry));
        Ok(Appended::unlogged(told.unwrap_or(0)))
    }

    async fn notice(&self, channel: &str, notice: &Notice) -> Result<()> {
        let Some((found, listener)) = self.find(channel).zip(self.listener.get()) else { return Ok(()) };
        let state = found.state.lock();
        if state.hearing == Hearing::Yes {
            listener.notice(channel, notice);
        }
        Ok(())
    }

    async fn position(&self, channel: &str) -> Result<Option<Position>> {
        Ok(self.position_of(channel))
    }

    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>> {
        Ok(channels.iter().map(|channel| self.position_of(channel)).collect())
    }

    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>> {
        let (found, now) = (self.find(channel), Instant::now());
        let mut state = found.as_ref().map(|found| found.state.lock());
        if inbox_owner(channel).is_some() {
            let slice = |it: &mut inbox::Inbox| Slice { top: it.position(), entries: it.entries(span) };
            return Ok(state.and_then(|mut state| state.filled_inbox(now).map(slice)));
        }
        let log = state.as_mut().and_then(|state| state.log(now));
        let slice = |log: &mut log::Log| Slice { top: log.position(), entries: log.entries(span) };
        Ok(Some(log.map_or_else(|| Slice { top: self.unwritten(channel, now), entries: Vec::new() }, slice)))
    }

    async fn drop_logs(&self, channels: &[String]) -> Result<()> {
        let now = Instant::now();
        for found in channels.iter().filter_map(|channel| self.find(channel)) {
            found.state.lock().drop_log(now, later(now, self.position_ttl));
        }
        Ok(())
    }

    async fn lease_node(&self, _: &str, _: Option<u8>, _: Millis) -> Result<NodeLease> {
        Ok(NodeLease { number: 0, ttl: None, used_until: 0 })
    }
}
