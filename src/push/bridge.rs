//! The loop of the bridge: leases pushes that are due, sends them, and settles them with their outcomes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::message;
use super::post_alerts::PostAlertWorker;
use super::providers::{Outcome, Platform, Providers, Reason, RequestSlot, Scope};
use super::settlement::result;
use super::texts::Texts;
use crate::backoff::Backoff;
use crate::feed::{ClearContent, Feed, FeedError, PushContent, PushDecision, now as unix_now};
use crate::ledger::{CLEAR_KIND, PushLease, PushResult, QueuedPush, SettledPush};
use crate::metrics::Metrics;
use crate::model::{Device, Millis, UserId};

/// The pushes of a batch, and the batches that are sent concurrently. Their product bounds the memory of the bridge.
const BATCH: usize = 128;
const MAX_BATCHES: usize = 32;

/// How long a process may take for a batch, in timeouts of a request, and at least. After a crash, its pushes are sent
/// again after this time.
const LEASE_IN_TIMEOUTS: u32 = 9;
const MIN_LEASE: Duration = Duration::from_secs(5);

/// The part of a lease at whose begin a batch gives up waiting for providers: the last sixth.
const LEASE_MARGIN: u32 = 6;

/// How old the decision to send may be when the provider is free for it. Older ones are made again.
const MAX_DECISION_AGE: Duration = Duration::from_millis(250);

/// How long a shutdown waits for providers.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Outcomes that are settled together, and how long the first of them waits for others.
const SETTLED_TOGETHER: usize = 64;
const SETTLE_WAIT: Duration = Duration::from_millis(20);

/// The longest time without a look at the queue, and the shortest.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between two attempts while the ledger cannot be reached.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The interval at which old rows are removed and the backlog is measured, and the rows of one removal.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
const MAX_FORGOTTEN: usize = 2_000;

/// The pause between two removals while many rows are old: up to 40,000 rows a second are removed, more than pushes are
/// accepted.
const FORGET_PAUSE: Duration = Duration::from_millis(50);

/// The options of the bridge.
#[derive(Clone, Copy, Debug)]
pub struct PushBridgeOptions {
    /// The time from a post to the alerts about it (`push.grace`).
    pub grace: Duration,
    /// The time for a request to a provider (`push.timeout`).
    pub timeout: Duration,
    /// How long after its notification a push is of use (`push.ttl`).
    pub time_to_live: Duration,
    /// The time between two pushes of a group of likes or follows (`push.digest`).
    pub digest: Duration,
}

/// Sends the pushes of all users. Any number of processes can run one.
pub struct PushBridge {
    feed: Arc<Feed>,
    providers: Arc<Providers>,
    texts: Texts,
    metrics: Arc<Metrics>,
    options: PushBridgeOptions,
    batches: Arc<Semaphore>,
}

impl PushBridge {
    /// A bridge from this feed to these providers: see [`start`](Self::start).
    pub fn new(
        feed: Arc<Feed>,
        providers: Arc<Providers>,
        texts: Texts,
        metrics: Arc<Metrics>,
        options: PushBridgeOptions,
    ) -> Arc<Self> {
        let batches = Arc::new(Semaphore::new(MAX_BATCHES));
        Arc::new(Self { feed, providers, texts, metrics, options, batches })
    }

    /// Works until the feed stops.
    pub fn start(self: &Arc<Self>) {
        let bridge = Arc::clone(self);
        self.feed.runtime.spawn(async move { bridge.run().await });
        let bridge = Arc::clone(self);
        self.feed.runtime.spawn(async move { bridge.upkeep().await });
        let alerts = PostAlertWorker::new(Arc::clone(&self.feed), millis(self.options.grace));
        self.feed.runtime.spawn(alerts.run());
    }

    async fn run(self: &Arc<Self>) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_BACKOFF);
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&self.batches).acquire_owned() => permit,
                () = self.feed.runtime.stopped() => return,
            };
            let Ok(permit) = permit else { return };
            let pause = match self.begin_batch(permit).await {
                Ok(true) => {
                    backoff.reset();
                    continue;
                }
                Ok(false) => {
                    backoff.reset();
                    self.until_next().await
                }
                Err(error) => {
                    tracing::warn!(%error, "pushes wait for the ledger");
                    backoff.next_delay()
                }
            };
            if !self.feed.runtime.sleep(pause).await {
                return;
            }
        }
    }

    /// How long to wait for the next push.
    async fn until_next(&self) -> Duration {
        let next = self.feed.ledger.next_push().await.ok().flatten();
        let wait = next.map_or(POLL_INTERVAL, |at| Duration::from_millis(at.saturating_sub(unix_now())));
        wait.clamp(MIN_PAUSE, POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2)))
    }

    /// Leases a batch and sends it in a task of its own. Returns whether there was one.
    async fn begin_batch(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Result<bool, FeedError> {
        let now = unix_now();
        let length = (self.options.timeout * LEASE_IN_TIMEOUTS).max(MIN_LEASE);
        let until = now.saturating_add(millis(length));
        let lease = PushLease { holder: Arc::clone(self.feed.runtime.holder()), until };
        let ends = Instant::now() + length - length / LEASE_MARGIN;
        let pushes = self.feed.ledger.lease_pushes(now, &lease, BATCH).await?;
        if pushes.is_empty() {
            return Ok(false);
        }
        let bridge = Arc::clone(self);
        self.feed.runtime.spawn(async move {
            let _permit = permit;
            bridge.send_batch(pushes, &lease, ends).await;
        });
        Ok(true)
    }

    async fn send_batch(&self, pushes: Vec<QueuedPush>, lease: &PushLease, ends: Instant) {
        let users = pushes
            .iter()
            .filter(|push| push.device.is_some() && push.kind != CLEAR_KIND)
            .map(|push| push.key.user.clone())
            .collect();
        let live = self.feed.live_sockets.answering(users).await;
        let decisions = match self.feed.pushes.decide(&pushes, &live).await {
            Ok(decisions) => decisions,
            Err(error) => {
                tracing::warn!(%error, "pushes wait for the ledger");
                // Nothing was sent: they are due again soon.
                let due = unix_now() + 1_000 + rand::random_range(0..1_000);
                let deferred = pushes.iter().map(|push| settled(push, PushResult::Deferred(due))).collect();
                return self.settle(deferred, lease).await;
            }
        };
        let (decided, live) = (Instant::now(), &live);
        let results = stream::iter(pushes.into_iter().zip(decisions))
            .map(|(push, decision)| async move {
                let (decision, slot) = self.reserve(&push, decision, (decided, live), ends).await;
                let result = match decision {
                    PushDecision::Send(content) => self.send(&push, MessageContent::Alert(content), slot, ends).await,
                    PushDecision::Clear(content) => {
                        match self.send(&push, MessageContent::Clear(content), slot, ends).await {
                            // A silent message that is refused is no failure: the device shows what it showed.
                            PushResult::Failed(_) => PushResult::Unwanted,
                            result => result,
                        }
                    }
                    PushDecision::Drop(reason) => {
                        self.metrics.pushes.dropped(reason);
                        PushResult::Unwanted
                    }
                    PushDecision::Defer(until) => PushResult::Deferred(until),
                };
                settled(&push, result)
            })
            .buffer_unordered(BATCH);
        let mut results = std::pin::pin!(results);
        let mut done: Vec<SettledPush> = Vec::new();
        loop {
            let next = match done.is_empty() {
                true => results.next().await,
                false => match tokio::time::timeout(SETTLE_WAIT, results.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.settle(std::mem::take(&mut done), lease).await;
                        continue;
                    }
                },
            };
            let Some(settled) = next else { break };
            done.push(settled);
            if done.len() >= SETTLED_TOGETHER {
                self.settle(std::mem::take(&mut done), lease).await;
            }
        }
        self.settle(done, lease).await;
    }

    /// Waits for the provider of a push that is to be sent, and decides again if that took a while: the user may have
    /// signed out meanwhile, or deleted or read what it is about.
    async fn reserve(
        &self,
        push: &QueuedPush,
        decision: PushDecision,
        (decided, live): (Instant, &HashSet<UserId>),
        ends: Instant,
    ) -> (PushDecision, Option<RequestSlot>) {
        let is_sent = matches!(decision, PushDecision::Send(_) | PushDecision::Clear(_));
        let target = push.device.as_ref().filter(|_| is_sent).map(|(device, _)| message::target(&device.target));
        let Some(Ok(target)) = target else { return (decision, None) };
        let slot = tokio::select! {
            slot = timeout_at(ends, self.providers.reserve(target.platform())) => slot.ok().flatten(),
            () = self.feed.runtime.stopped() => None,
        };
        let decision = if self.feed.pushes.is_signed_out(push) {
            PushDecision::Drop("signed_out")
        } else if decided.elapsed() < MAX_DECISION_AGE {
            decision
        } else {
            self.feed.pushes.decide_again(push, live).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "a push waits for the ledger");
                PushDecision::Defer(unix_now() + 1_000)
            })
        };
        (decision, slot)
    }

    /// Sends one push. Bounded by the lease.
    async fn send(
        &self,
        push: &QueuedPush,
        content: MessageContent,
        slot: Option<RequestSlot>,
        ends: Instant,
    ) -> PushResult {
        let Some((device, _)) = &push.device else { return PushResult::Unwanted };
        let expires_at = push.queued_at.saturating_add(millis(self.options.time_to_live));
        let key = (&push.key, push.seq);
        let message = match content {
            MessageContent::Alert(content) => {
                message::alert(&self.texts, key, device, &push.preferences, &content, expires_at)
            }
            MessageContent::Clear(content) => message::clear(key, device, &content, expires_at),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                self.metrics.pushes.failed(device.target.platform().as_str(), "invalid_address");
                return PushResult::Failed(format!("invalid_address: {error}"));
            }
        };
        let platform = message.target.platform();
        if !self.providers.supports(platform) {
            self.metrics.pushes.failed(platform.name(), "not_configured");
            return PushResult::Failed("not_configured".into());
        }
        let stopping = async {
            self.feed.runtime.stopped().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        let unfinished = |code| Outcome::retry(Scope::Provider, Reason::new(code));
        let outcome = tokio::select! {
            sent = timeout_at(ends, self.providers.send_reserved(&message, slot)) => {
                sent.unwrap_or_else(|_| unfinished("timeout"))
            }
            () = stopping => unfinished("interrupted"),
        };
        let now = unix_now();
        self.observe(&outcome, platform, now.saturating_sub(push.queued_at));
        if let Outcome::TokenGone { since, .. } = &outcome {
            self.remove_device(push, device, *since).await;
        }
        let age = now.saturating_sub(push.first_tried_at.unwrap_or(now));
        result(&outcome, platform, push.attempts, Duration::from_millis(age), now)
    }

    /// Counts and logs an outcome. `age` is that of the notification, in milliseconds.
    fn observe(&self, outcome: &Outcome, platform: Platform, age: Millis) {
        let (metrics, platform) = (&self.metrics.pushes, platform.name());
        if !outcome.reason().is_some_and(Reason::is_local) {
            metrics.sent(platform);
        }
        if let Some(reason) = outcome.reason() {
            metrics.failed(platform, reason.code);
        }
        match outcome {
            Outcome::Accepted { .. } => metrics.accepted(platform, age),
            Outcome::Misconfigured { reason, .. } => {
                tracing::error!(platform, %reason, "a push provider refuses this server's keys");
            }
            Outcome::TokenGone { reason, .. } | Outcome::Retry { reason, .. } | Outcome::Rejected { reason } => {
                tracing::debug!(platform, %reason, "a push was refused");
            }
        }
    }

    /// Removes a device that its provider does not know since a time. Without a time, it is removed unless it was
    /// registered again since the push was leased.
    async fn remove_device(&self, push: &QueuedPush, device: &Device, since: Option<Millis>) {
        let since = since.unwrap_or(device.seen_at.saturating_add(1));
        match self.feed.ledger.forget_address(&push.key.user, &device.target, since).await {
            Ok(true) => self.metrics.pushes.token_removed(device.target.platform().as_str()),
            Ok(false) => {}
            // The provider will say so again.
            Err(error) => tracing::warn!(%error, "a device that is gone could not be removed"),
        }
    }

    /// Records results. A result that cannot be recorded is repeated when the lease ends.
    async fn settle(&self, settled: Vec<SettledPush>, lease: &PushLease) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_BACKOFF);
        while !settled.is_empty() && lease.until > unix_now() {
            let (now, digest) = (unix_now(), millis(self.options.digest));
            match self.feed.ledger.settle_pushes(&settled, lease, now, digest).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, pushes = settled.len(), "sent pushes are not recorded yet"),
            }
            if !self.feed.runtime.sleep(backoff.next_delay()).await {
                return;
            }
        }
    }

    async fn upkeep(&self) {
        while self.feed.runtime.sleep(UPKEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
            let now = unix_now();
            match self.feed.ledger.push_backlog(now).await {
                Ok(backlog) => {
                    let oldest = backlog.oldest.map(|oldest| now.saturating_sub(oldest));
                    self.metrics.pushes.backlog(backlog.pushes, oldest);
                }
                Err(error) => tracing::debug!(%error, "the backlog of pushes is unknown"),
            }
            if !self.forget().await {
                return;
            }
        }
    }
    /// Removes old rows, with pauses for other writers, until none is left or the backlog is to be measured again.
    /// Returns `false` if the feed stops meanwhile.
    async fn forget(&self) -> bool {
        let ends = Instant::now() + UPKEEP_INTERVAL;
        while Instant::now() < ends {
            match self.feed.ledger.forget_pushes(unix_now(), MAX_FORGOTTEN).await {
                Ok(MAX_FORGOTTEN) => {}
                Ok(_) => return true,
                Err(error) => {
                    tracing::debug!(%error, "accepted pushes are kept for now");
                    return true;
                }
            }
            if !self.feed.runtime.sleep(FORGET_PAUSE).await {
                return false;
            }
        }
        true
    }
}

/// The content of a message.
enum MessageContent {
    /// It shows a notification.
    Alert(Box<PushContent>),
    /// It shows nothing.
    Clear(Box<ClearContent>),
}

fn settled(push: &QueuedPush, result: PushResult) -> SettledPush {
    SettledPush { key: push.key.clone(), seq: push.seq, result }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
