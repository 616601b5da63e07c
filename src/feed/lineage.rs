//! Keeps what the broker holds in step with the ledger, also when the ledger is restored or fails over.
//!
//! The ledger and the broker are compared at the start, whenever the ledger was away, when the broker was, and now and
//! then. If the ledger is another one than the broker remembers, or an older state of it (see [`ledger::Lineage`]), it
//! begins a new incarnation: its numbers move beyond all that the broker knows, so that pages, pull cursors and
//! idempotency keys of the life before can never match again; and logs, inboxes and tallies of the incarnation before
//! count as lost. Inboxes are made anew from the ledger, clients are closed with 3010 and load their timelines again.
//!
//! The nodes agree without a leader: a node that notices replaces the incarnation in the ledger, then the record in the
//! broker, each by compare-and-set, and compares again. The others get a signal, or notice with the next number that
//! they note.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::error::{FeedError, Result};
use super::runtime::Runtime;
use crate::backoff::Backoff;
use crate::broker::{Broker, LIKES, LedgerMatch, QueueOffset, Signal, is_behind};
use crate::ledger::{self, HighWaterMarks, JOBS, Ledger, PULLED, REVERTS, high_water};

/// How often the stores are compared though nothing happened.
const COMPARE_INTERVAL: Duration = Duration::from_secs(20);

/// The delays after a comparison that failed.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// How often a node tries to begin an incarnation while others do the same.
const MAX_ATTEMPTS: usize = 30;

/// State of this node that comes from the ledger.
pub(crate) trait DerivedState: Send + Sync {
    /// Drops it: the ledger is another one, or an older state of itself.
    fn reset(&self);
}

/// Keeps the broker in step with the ledger.
pub(crate) struct LineageTracker {
    ledger: Arc<dyn Ledger>,
    /// Remembers the numbers of the ledger.
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    /// Reset when a new incarnation begins.
    derived: Vec<Arc<dyn DerivedState>>,
    /// `None` before the first comparison.
    known: RwLock<Option<Arc<KnownIncarnation>>>,
    /// The stores are to be compared.
    compare: Notify,
}

/// One incarnation.
struct KnownIncarnation {
    identity: String,
    incarnation: Arc<str>,
    numbers: [HighWaterMark; 3],
}

/// The greatest number of a kind.
struct HighWaterMark {
    kind: &'static str,
    /// That is about to be used.
    wanted: AtomicU64,
    /// That the broker remembers.
    noted: AtomicU64,
    /// Held while the broker is written, so that waiting callers share one call.
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

    /// The stores may not fit each other any more.
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
        // If it is another one by now, that is noticed below.
        self.ledger.admit(comparison);
        let lineage = Arc::clone(self);
        self.runtime.spawn(async move {
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

    /// Compares the ledger with the broker, and lets calls go on to what was compared.
    async fn compare(&self) -> Result<()> {
        let comparison = self.ledger.begin_comparison();
        self.match_ledger().await?;
        match self.ledger.admit(comparison) {
            true => Ok(()),
            // It came back as another one meanwhile, and what was read is of the one before.
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
                    // Nodes use numbers all the time: those that came after the ledger was read are in it by now.
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

    /// Moves the ledger's numbers beyond those that the broker knows, and has the broker remember the ledger as it is
    /// then.
    async fn begin_incarnation(&self, lineage: &ledger::Lineage, known: &str, numbers: &HighWaterMarks) -> Result<()> {
        tracing::warn!(
            ledger = lineage.identity(),
            known,
            "the ledger was restored or replaced, or lost its tail: timelines are made anew from it"
        );
        let fresh = uuid::Uuid::new_v4().simple().to_string().split_off(20);
        let least = [JOBS, PULLED, REVERTS].map(|kind| {
            let number = numbers.iter().find(|(name, _)| name == kind).and_then(|(_, number)| number.parse().ok());
            (kind, number.unwrap_or(0).max(lineage.number(kind)))
        });
        if self.ledger.begin_incarnation(&lineage.incarnation, &fresh, &least).await? {
            let begun = self.ledger.lineage().await?;
            self.broker.replace_ledger(known, &begun.identity(), &remembered(&begun)).await?;
        }
        Ok(())
    }

    /// Works with this incarnation from now on.
    async fn enter_incarnation(&self, lineage: &ledger::Lineage) {
        let identity = lineage.identity();
        let before = self.known();
        if before.as_ref().is_some_and(|known| known.identity == identity) {
            return;
        }
        // What is remembered here came from a ledger that may have held something else.
        self.derived.iter().for_each(|state| state.reset());
        let numbers = [JOBS, PULLED, REVERTS].map(|kind| HighWaterMark::new(kind, lineage.number(kind)));
        let incarnation: Arc<str> = lineage.incarnation.as_str().into();
        *self.known.write() =
            Some(Arc::new(KnownIncarnation { identity, incarnation: Arc::clone(&incarnation), numbers }));
        self.broker.use_incarnation(&incarnation);
        if before.is_some() {
            tracing::info!(incarnation = &*incarnation, "works with a new incarnation of the ledger");
            if let Err(error) = self.broker.signal(Signal::LedgerReplaced).await {
                tracing::debug!(%error, "other nodes were not told of the ledger's new incarnation, and will look");
            }
        }
    }
}

impl LineageTracker {
    /// Has the broker remember a number of the ledger before anything there is named by it.
    ///
    /// # Errors
    /// If the broker cannot be reached, or remembers another ledger.
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

    /// Has the broker remember how far a partition of the queue of likes is settled, before the counts are published.
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
        // Another node found that the ledger was replaced.
        self.compare_soon();
        Err(FeedError::Unavailable)
    }
}

/// What the broker remembers of a ledger that stands here.
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
