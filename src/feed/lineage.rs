//! Keeps the broker consistent with the ledger, also when the ledger is restored or fails over.
//!
//! The node compares the ledger and the broker at startup, after an outage of either, and periodically. If the ledger
//! is not the one that the broker remembers, or an older state of it (see [`ledger::Lineage`]), it begins a new
//! incarnation. Its numbers move beyond all numbers known to the broker, so that pages, pull cursors and idempotency
//! keys of the previous incarnation can never match again. Logs, inboxes and tallies of the previous incarnation count
//! as lost. Inboxes are rebuilt from the ledger; clients are disconnected with 3010 and reload their timelines.
//!
//! The nodes agree without a leader: a node that detects the change replaces the incarnation in the ledger, then the
//! record in the broker, each by compare-and-set, and compares again. The other nodes receive a signal, or detect the
//! change when they next record a number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::error::{FeedError, Result};
use super::runtime::Runtime;
use crate::backoff::Backoff;
use crate::broker::{Broker, LIKES, LedgerMatch, QueueOffset, Signal, is_behind};
use crate::ledger::{self, HighWaterMarks, JOBS, Ledger, PULLED, high_water};

/// The interval at which the stores are compared without an event.
const COMPARE_INTERVAL: Duration = Duration::from_secs(20);

/// The delays after a failed comparison.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The maximal number of attempts of a node to begin an incarnation while others do the same.
const MAX_ATTEMPTS: usize = 30;

/// State of this node that is derived from the ledger.
pub(crate) trait DerivedState: Send + Sync {
    /// Drops the state: the ledger was replaced, or is an older state of itself.
    fn reset(&self);
}

/// Keeps the broker consistent with the ledger.
pub(crate) struct LineageTracker {
    ledger: Arc<dyn Ledger>,
    /// Stores the high-water marks of the ledger.
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    /// Reset when a new incarnation begins.
    derived: Vec<Arc<dyn DerivedState>>,
    /// `None` before the first comparison.
    known: RwLock<Option<Arc<KnownIncarnation>>>,
    /// Requests a comparison of the stores.
    compare: Notify,
}

/// One incarnation.
struct KnownIncarnation {
    identity: String,
    incarnation: Arc<str>,
    numbers: [HighWaterMark; 2],
}

/// The high-water mark of one kind of number.
struct HighWaterMark {
    kind: &'static str,
    /// The highest number about to be used.
    wanted: AtomicU64,
    /// The highest number that the broker stores.
    noted: AtomicU64,
    /// Held during the broker call, so that waiting callers share one call.
    noting: tokio::sync::Mutex<()>,
}

impl HighWaterMark {
    fn new(kind: &'static str, noted: u64) -> Self {
        Self { kind, wanted: noted.into(), noted: noted.into(), noting: tokio::sync::Mutex::default() }
    }
}

impl LineageTracker {
    /// Compares these stores: see [`start`](Self::start).
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        derived: Vec<Arc<dyn DerivedState>>,
    ) -> Self {
        Self { ledger, broker, runtime, derived, known: RwLock::new(None), compare: Notify::new() }
    }

    /// Requests a comparison: the stores may no longer be consistent.
    pub(crate) fn compare_soon(&self) {
        self.compare.notify_one();
    }

    fn known(&self) -> Option<Arc<KnownIncarnation>> {
        self.known.read().clone()
    }

    /// The incarnation of the ledger; empty before the first comparison.
    pub(crate) fn incarnation(&self) -> Arc<str> {
        self.known().map_or_else(|| "".into(), |known| Arc::clone(&known.incarnation))
    }
}

impl LineageTracker {
    /// Compares the ledger with the broker, then keeps comparing until the process stops.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let comparison = self.ledger.begin_comparison();
        self.match_ledger().await?;
        // If the ledger has been replaced by now, the code below detects it.
        self.ledger.admit(comparison);
        self.runtime.supervise("lineage", self, |lineage| async move {
            loop {
                tokio::select! {
                    more = lineage.runtime.sleep(COMPARE_INTERVAL.mul_f64(rand::random_range(0.8..1.2))) => {
                        if !more { return }
                    }
                    () = lineage.compare.notified() => {}
                    () = lineage.ledger.replaced() => {}
                }
                let mut backoff = Backoff::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
                while let Err(error) = lineage.compare().await {
                    tracing::debug!(%error, "the ledger could not be compared with the broker");
                    if !lineage.runtime.sleep(backoff.next_delay()).await {
                        return;
                    }
                }
            }
        });
        Ok(())
    }

    /// Compares the ledger with the broker, and admits calls to the compared ledger.
    async fn compare(&self) -> Result<()> {
        let comparison = self.ledger.begin_comparison();
        self.match_ledger().await?;
        match self.ledger.admit(comparison) {
            true => Ok(()),
            // The ledger was replaced during the comparison, so the values read belong to the former one.
            false => Err(FeedError::Unavailable),
        }
    }

    async fn match_ledger(&self) -> Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let lineage = self.ledger.lineage().await?;
            match self.broker.match_ledger(&lineage.identity(), &remembered(&lineage)).await? {
                LedgerMatch::Same => {
                    self.enter_incarnation(&lineage).await;
                    return Ok(());
                }
                LedgerMatch::Other(known, numbers) => {
                    // Nodes use numbers all the time: the ledger includes by now those assigned after it was first
                    // read.
                    let lineage = self.ledger.lineage().await?;
                    let used = numbers.iter().map(|(kind, number)| (kind.as_str(), number.as_str()));
                    if known == lineage.identity() && !is_behind(&remembered(&lineage), used) {
                        self.enter_incarnation(&lineage).await;
                        return Ok(());
                    }
                    self.begin_incarnation(&lineage, &known, &numbers).await?;
                }
            }
            tokio::time::sleep(Duration::from_millis(rand::random_range(1..100))).await;
        }
        tracing::error!("the ledger changes its identity again and again: do all nodes use the same one?");
        Err(FeedError::Unavailable)
    }

    /// Moves the ledger's numbers beyond those known to the broker, and stores the resulting state of the ledger in the
    /// broker.
    async fn begin_incarnation(&self, lineage: &ledger::Lineage, known: &str, numbers: &HighWaterMarks) -> Result<()> {
        tracing::warn!(
            ledger = lineage.identity(),
            known,
            "the ledger was restored or replaced, or lost its tail: timelines are made anew from it"
        );
        let fresh = uuid::Uuid::new_v4().simple().to_string().split_off(20);
        let least = [JOBS, PULLED].map(|kind| {
            let number = numbers.iter().find(|(name, _)| name == kind).and_then(|(_, number)| number.parse().ok());
            (kind, number.unwrap_or(0).max(lineage.number(kind)))
        });
        if self.ledger.begin_incarnation(&lineage.incarnation, &fresh, &least).await? {
            let begun = self.ledger.lineage().await?;
            self.broker.replace_ledger(known, &begun.identity(), &remembered(&begun)).await?;
        }
        Ok(())
    }

    /// Enters this incarnation.
    async fn enter_incarnation(&self, lineage: &ledger::Lineage) {
        let identity = lineage.identity();
        let before = self.known();
        if before.as_ref().is_some_and(|known| known.identity == identity) {
            return;
        }
        // The derived state came from a ledger that may have had other contents.
        self.derived.iter().for_each(|state| state.reset());
        let numbers = [JOBS, PULLED].map(|kind| HighWaterMark::new(kind, lineage.number(kind)));
        let incarnation: Arc<str> = lineage.incarnation.as_str().into();
        *self.known.write() =
            Some(Arc::new(KnownIncarnation { identity, incarnation: Arc::clone(&incarnation), numbers }));
        self.broker.use_incarnation(&incarnation);
        if before.is_some() {
            tracing::info!(incarnation = &*incarnation, "works with a new incarnation of the ledger");
            if let Err(error) = self.broker.signal(Signal::LedgerReplaced).await {
                tracing::debug!(%error, "cannot announce the ledger's new incarnation: other nodes find it themselves");
            }
        }
    }
}

impl LineageTracker {
    /// Stores a number of the ledger in the broker before the number is used there.
    ///
    /// # Errors
    /// If the broker cannot be reached, or stores the record of another ledger.
    pub(crate) async fn note_number(&self, kind: &'static str, number: u64) -> Result<()> {
        let known = self.known().ok_or(FeedError::Unavailable)?;
        let Some(of_kind) = known.numbers.iter().find(|number| number.kind == kind) else { return Ok(()) };
        of_kind.wanted.fetch_max(number, Ordering::SeqCst);
        if of_kind.noted.load(Ordering::SeqCst) >= number {
            return Ok(());
        }
        let _turn = of_kind.noting.lock().await;
        if of_kind.noted.load(Ordering::SeqCst) >= number {
            return Ok(());
        }
        let greatest = of_kind.wanted.load(Ordering::SeqCst);
        self.remember(&known, vec![(kind.to_owned(), high_water(greatest))]).await?;
        of_kind.noted.fetch_max(greatest, Ordering::SeqCst);
        Ok(())
    }

    /// Stores in the broker how far a partition of the like queue is settled, before the counts are published.
    ///
    /// # Errors
    /// As for [`note_number`](Self::note_number).
    pub(crate) async fn note_settled(&self, partition: u16, life: &str, through: QueueOffset) -> Result<()> {
        let known = self.known().ok_or(FeedError::Unavailable)?;
        self.remember(&known, vec![settled(partition, life, through)]).await
    }

    async fn remember(&self, known: &KnownIncarnation, numbers: HighWaterMarks) -> Result<()> {
        if self.broker.note_numbers(&known.identity, &numbers).await? {
            return Ok(());
        }
        // Another node detected that the ledger was replaced.
        self.compare_soon();
        Err(FeedError::Unavailable)
    }
}

/// The broker's record of the current ledger.
fn remembered(lineage: &ledger::Lineage) -> HighWaterMarks {
    let numbers = lineage.numbers.iter().map(|(kind, number)| ((*kind).to_owned(), high_water(*number)));
    let positions = lineage.positions.iter().filter_map(|(partition, position)| {
        let (life, place) = position.split_once(' ')?;
        Some(settled(*partition, life, QueueOffset::parse(place)?))
    });
    numbers.chain(positions).collect()
}

fn settled(partition: u16, life: &str, place: QueueOffset) -> (String, String) {
    let place = format!("{}-{}", high_water(place.major), high_water(place.minor));
    (format!("{LIKES}{partition}:{life}"), place)
}
