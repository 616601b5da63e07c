//! Invalidation of caches: on this node, and on all other nodes before a change is answered.
//!
//! Every change that takes something away (a deletion, an edit, a block, an unfollow) ends with
//! [`invalidate`](Invalidator::invalidate), after the ledger has committed it. When that returns, no node serves the
//! former state. Changes that only add something use [`announce`](Invalidator::announce) and do not wait, except for
//! follows: fan-out reads cached followers.
//!
//! Every cache that affects visibility implements [`Invalidated`] and is passed to the [`Invalidator`] when the
//! services are wired. A reply that is under construction when the change is answered may still show the former state,
//! as may a push that is already queued for a connection: both began before the change was answered.
//!
//! A change may be stored without an invalidation:
//!
//! - The broker does not take it. This node repeats the invalidation until it does.
//! - The process is killed. The other nodes clear what they cache for minutes when they see that it is lost (`nodes`).
//! - The ledger loses its connection during the write, so that the outcome is unknown. A repeated call invalidates;
//!   without one, caches may have the former state until their time ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::call::Call;
use super::error::{FeedError, Result};
use super::input::Done;
use super::lineage::DerivedState;
use super::runtime::Runtime;
use crate::backoff::Backoff;
use crate::broker::{Attempt, Broker, CacheLease, Confirmation, Invalidation};
use crate::metrics::Metrics;

/// The maximal number of invalidations that wait for the broker. If there are more, everything is invalidated.
const MAX_WAITING: usize = 10_000;

/// The number of invalidations that are repeated in one call.
const BATCH: usize = 500;

/// The range of delays between two attempts to repeat them.
const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(2);

/// A cache that takes part in invalidation.
pub(crate) trait Invalidated: Send + Sync {
    /// Drops the entries that a change makes invalid. Never called with [`Invalidation::All`], which clears the cache.
    fn apply(&self, change: &Invalidation);

    /// Drops all entries: this node may have missed invalidations.
    fn clear(&self);
}

/// Invalidates caches, on this node and on all others.
pub(crate) struct Invalidator {
    broker: Arc<dyn Broker>,
    lease: Arc<CacheLease>,
    caches: Vec<Arc<dyn Invalidated>>,
    /// Those of them that keep entries for minutes, and about which no job invalidates again.
    lasting: Vec<Arc<dyn Invalidated>>,
    metrics: Arc<Metrics>,
    /// The invalidations that the broker refused, or did not answer to.
    waiting: Mutex<HashSet<Invalidation>>,
    /// Notified when an invalidation begins to wait.
    failed: Notify,
}

impl Invalidator {
    /// An invalidator of these caches of this node. `lasting`: those of them that keep entries for minutes, and about
    /// which no job invalidates again.
    pub(crate) fn new(
        broker: Arc<dyn Broker>,
        lease: Arc<CacheLease>,
        caches: Vec<Arc<dyn Invalidated>>,
        lasting: Vec<Arc<dyn Invalidated>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { broker, lease, caches, lasting, metrics, waiting: Mutex::default(), failed: Notify::new() }
    }

    /// Starts the task that repeats the invalidations that failed.
    pub(crate) fn start(self: &Arc<Self>, runtime: &Arc<Runtime>) {
        let stopping = Arc::clone(runtime);
        runtime.supervise("invalidations", self, move |invalidator| invalidator.run(Arc::clone(&stopping)));
    }

    async fn run(self: Arc<Self>, runtime: Arc<Runtime>) {
        let mut backoff = Backoff::new(MIN_DELAY, MAX_DELAY);
        loop {
            if self.repeat_failed().await {
                backoff.reset();
                tokio::select! {
                    () = self.failed.notified() => {}
                    () = runtime.stopped() => return,
                }
            } else if !runtime.sleep(backoff.next_delay()).await {
                return;
            }
        }
    }

    /// Sends the invalidations that failed. `false` if the broker does not take them now, either.
    pub(crate) async fn repeat_failed(&self) -> bool {
        loop {
            // One that fails again meanwhile is about a later change, and is sent again.
            let batch: Vec<Invalidation> = self.waiting.lock().extract_if(|_| true).take(BATCH).collect();
            if batch.is_empty() {
                return true;
            }
            if self.broker.invalidate(&batch).await.is_err() {
                self.repeat_later(&batch);
                return false;
            }
        }
    }

    fn repeat_later(&self, changes: &[Invalidation]) {
        let mut waiting = self.waiting.lock();
        waiting.extend(changes.iter().cloned());
        if waiting.len() > MAX_WAITING {
            tracing::warn!(MAX_WAITING, "too many invalidations wait for the broker: all caches will be cleared");
            *waiting = HashSet::from([Invalidation::All]);
        }
        self.failed.notify_one();
    }

    /// Invalidates on every node. When it returns, no node serves the former state: each has confirmed, or does not use
    /// its caches until it has caught up. Takes one round trip, and up to 520 ms if a node does not confirm.
    ///
    /// # Errors
    /// If the broker cannot be reached: this node has dropped its copies, other nodes may keep theirs until it can.
    pub(crate) async fn invalidate(&self, changes: &[Invalidation]) -> Result<()> {
        let confirmation = self.announce(changes).await?;
        self.confirm(confirmation).await;
        Ok(())
    }

    /// Invalidates without waiting for other nodes.
    ///
    /// # Errors
    /// As for [`invalidate`](Self::invalidate).
    pub(crate) async fn announce(&self, changes: &[Invalidation]) -> Result<Confirmation> {
        self.apply(changes);
        match self.broker.invalidate(changes).await {
            Ok(confirmation) => Ok(confirmation),
            Err(error) => {
                self.repeat_later(changes);
                Err(error.into())
            }
        }
    }

    /// Waits until an announced change is in force on every node.
    pub(crate) async fn confirm(&self, confirmation: Confirmation) {
        if confirmation.is_pending() {
            let begun = Instant::now();
            let unconfirmed = confirmation.wait().await;
            if unconfirmed > 0 {
                tracing::debug!(unconfirmed, "nodes did not confirm an invalidation, their caches are out of use");
            }
            self.metrics.invalidation_confirmed(begun.elapsed(), unconfirmed);
        }
    }

    /// The result of a deletion that may be a repeat: an object that does not exist may have been deleted by an earlier
    /// attempt, which may have ended before the invalidation.
    ///
    /// # Errors
    /// The errors of the deletion, except `not_found` for a repeat; or the broker cannot be reached.
    pub(crate) async fn repeated_deletion(
        &self,
        call: &Call,
        done: Result<Done>,
        change: Invalidation,
    ) -> Result<Done> {
        match (done, call.attempt) {
            (Err(FeedError::NotFound(_)), Attempt::Repeated) => {
                self.invalidate(&[change]).await?;
                Ok(Done {})
            }
            (done, _) => done,
        }
    }

    /// Whether this node may use its caches now.
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease.is_held()
    }

    /// Drops the entries that changes make invalid from the caches of this node.
    pub(crate) fn apply(&self, changes: &[Invalidation]) {
        for change in changes {
            self.caches.iter().for_each(|cache| match change {
                Invalidation::All => cache.clear(),
                _ => cache.apply(change),
            });
        }
        // Counted last: a render context prepared before this is rendered again, see `EventRenderer::is_current`.
        changes.iter().for_each(|change| self.lease.count_invalidation(change));
    }

    /// Clears the caches that could miss a change of a node that was killed before its invalidation.
    pub(crate) fn clear_lasting(&self) {
        self.lasting.iter().for_each(|cache| cache.clear());
        self.lease.count_invalidation(&Invalidation::All);
    }

    /// Clears the caches of this node: it may have missed invalidations.
    pub(crate) fn clear(&self) {
        self.caches.iter().for_each(|cache| cache.clear());
        self.lease.count_invalidation(&Invalidation::All);
    }
}

impl DerivedState for Invalidator {
    /// The cached entries came from a ledger that may have had other contents.
    fn reset(&self) {
        self.clear();
    }
}
