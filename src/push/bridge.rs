//! The loop of the bridge: leases pushes that are due, and hands them to batches.
//!
//! Pushes are not a partition of work (`feed/work/`): a provider answers slowly, so thousands of requests are in
//! flight, in all processes that run a bridge, and in any order. Each row has its own lease, and its own time of the
//! next attempt; a push that fails is retried or given up by what its provider answered (`settlement.rs`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::batch::Batch;
use super::config::PushConfig;
use super::providers::Providers;
use super::sender::{BATCH, MAX_BACKOFF, MIN_PAUSE, PushSender, millis};
use super::texts::Texts;
use crate::backoff::Backoff;
use crate::feed::work::Partition;
use crate::feed::{Feed, FeedError, now as unix_now};
use crate::ledger::PushLease;
use crate::reloadable::Reloadable;

/// The pushes that are sent concurrently, which bounds the memory of the bridge: 32 full batches. They are counted, not
/// the batches: a single push to an endpoint that does not answer would occupy a whole one.
const MAX_PUSHES: usize = 32 * BATCH;

/// [`BATCH`], as a number of permits.
const BATCH_PERMITS: u32 = BATCH as u32;

/// How long a process may take for a batch, in timeouts of a request, and at least. After a crash, its pushes are sent
/// again after this time.
const LEASE_IN_TIMEOUTS: u32 = 9;
const MIN_LEASE: Duration = Duration::from_secs(5);

/// The part of a lease at whose begin a batch gives up waiting for providers: the last sixth.
const LEASE_MARGIN: u32 = 6;

/// The longest time without a look at the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The interval at which old rows are removed and the backlog is measured, and the rows of one removal.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
const MAX_FORGOTTEN: usize = 2_000;

/// The pause between two removals while many rows are old: up to 40,000 rows a second are removed, more than pushes are
/// accepted.
const FORGET_PAUSE: Duration = Duration::from_millis(50);

/// The name of the partition of the upkeep, and of its kind of work.
const PARTITION: &str = "pushes";

/// Sends the pushes of all users. Any number of processes can run one.
pub struct PushBridge {
    feed: Arc<Feed>,
    /// What new batches use.
    sender: Reloadable<PushSender>,
    /// Its owner does the upkeep.
    partition: Arc<Partition>,
    pushes: Arc<Semaphore>,
}

impl PushBridge {
    /// A bridge from this feed to these providers, created before the feed starts: see [`start`](Self::start).
    pub fn new(feed: Arc<Feed>, providers: Providers, texts: Texts, config: PushConfig) -> Arc<Self> {
        let sending = Arc::new(Semaphore::new(MAX_PUSHES));
        let partition = feed.base.owner.partition(PARTITION, PARTITION);
        let sender = PushSender { feed: Arc::clone(&feed), providers: Arc::new(providers), texts, config };
        Arc::new(Self { feed, sender: Reloadable::new(sender), partition, pushes: sending })
    }

    /// Sends new batches with other credentials and texts.
    pub fn replace(&self, providers: Providers, texts: Texts, config: PushConfig) {
        let feed = Arc::clone(&self.feed);
        self.sender.set(PushSender { feed, providers: Arc::new(providers), texts, config });
    }

    /// Works until the feed stops.
    pub fn start(self: &Arc<Self>) {
        let runtime = &self.feed.base.runtime;
        runtime.supervise("pushes", self, |bridge| async move { bridge.run().await });
        runtime.supervise("push_upkeep", self, |bridge| async move { bridge.upkeep().await });
    }

    async fn run(self: &Arc<Self>) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_BACKOFF);
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&self.pushes).acquire_many_owned(BATCH_PERMITS) => permit,
                () = self.feed.base.runtime.stopped() => return,
            };
            let Ok(permit) = permit else { return };
            let pause = match self.begin_batch(permit).await {
                Ok(pause) => {
                    backoff.reset();
                    pause
                }
                Err(error) => {
                    tracing::warn!(%error, "pushes wait for the ledger");
                    backoff.next_delay()
                }
            };
            if !pause.is_zero() && !self.feed.base.runtime.sleep(pause).await {
                return;
            }
        }
    }

    /// Leases a batch and sends it in a task of its own. Returns how long to wait for the next one.
    async fn begin_batch(self: &Arc<Self>, mut permit: OwnedSemaphorePermit) -> Result<Duration, FeedError> {
        let now = unix_now();
        let leased_at = Instant::now();
        let sender = self.sender.get();
        let length = (sender.config.timeout * LEASE_IN_TIMEOUTS).max(MIN_LEASE);
        let until = now.saturating_add(millis(length));
        let lease = PushLease { holder: Arc::clone(self.feed.base.runtime.holder()), until };
        let pushes = self.feed.base.ledger.lease_pushes(now, &lease, BATCH).await?;
        if pushes.is_empty() {
            let next = self.feed.base.ledger.push_backlog(now).await.ok().and_then(|backlog| backlog.next);
            let wait = next.map_or(POLL_INTERVAL, |at| Duration::from_millis(at.saturating_sub(unix_now())));
            return Ok(wait.clamp(MIN_PAUSE, POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2))));
        }
        // A batch that is not full leaves the rest to the next one.
        let permit = permit.split(pushes.len()).unwrap_or(permit);
        let ends = leased_at + length - length / LEASE_MARGIN;
        self.feed.base.runtime.spawn(async move {
            let permits = Mutex::new(permit);
            Batch { sender: &sender, lease, leased_at, ends, permits }.send(pushes).await;
        });
        Ok(Duration::ZERO)
    }

    /// Measures the backlog, and removes old rows: one process of those that run a bridge.
    async fn upkeep(&self) {
        while self.feed.base.runtime.sleep(UPKEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
            if self.partition.fence().is_none() {
                self.feed.base.metrics.pushes.backlog(0, None);
                continue;
            }
            let now = unix_now();
            match self.feed.base.ledger.push_backlog(now).await {
                Ok(backlog) => {
                    let oldest = backlog.next.filter(|at| *at <= now).map(|at| now.saturating_sub(at));
                    self.feed.base.metrics.pushes.backlog(backlog.due, oldest);
                }
                Err(error) => tracing::debug!(%error, "the backlog of pushes is unknown"),
            }
            if let Err(error) = self.forget().await {
                tracing::debug!(%error, "accepted pushes are kept for now");
            }
        }
    }

    /// Removes old rows, with pauses for other writers, until none is left, the feed stops, or the backlog is to be
    /// measured again.
    async fn forget(&self) -> Result<(), FeedError> {
        let ends = Instant::now() + UPKEEP_INTERVAL;
        while self.feed.base.ledger.forget_pushes(unix_now(), MAX_FORGOTTEN).await? == MAX_FORGOTTEN
            && Instant::now() < ends
            && self.feed.base.runtime.sleep(FORGET_PAUSE).await
        {}
        Ok(())
    }
}
