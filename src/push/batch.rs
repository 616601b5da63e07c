//! The pushes of one lease: what was taken live, the decision, the send, the settlement.
//!
//! A push waits for a free request of its provider first. The decision follows, with the devices and preferences of
//! that moment, and the message leaves right after it. So a sign-out, a deletion or a read that was answered before
//! counts.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::{StreamExt, future, stream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::message;
use super::providers::{Outcome, Platform, Reason, RequestSlot, Scope};
use super::sender::{BATCH, PushSender, SentPush, millis};
use super::settlement::result;
use crate::broker::LiveItems;
use crate::feed::{ClearContent, FeedError, LiveDeliveries, PushContent, PushDecision, now as unix_now};
use crate::ledger::{CLEAR_KIND, POST_KIND, PushKey, PushLease, PushResult, QueuedPush, SettledPush};
use crate::model::{Device, Millis, NotificationId, PostId};

/// The pushes that are decided on together. They hold requests of their providers meanwhile.
const MAX_DECIDED: usize = 64;

/// How old devices and preferences may be at the decision. Older ones are read again.
const MAX_READ_AGE: Duration = Duration::from_millis(20);

/// How long a push waits for a request of its provider. Then it returns to the queue, so that a slow provider does not
/// occupy all batches.
const MAX_SLOT_WAIT: Duration = Duration::from_secs(2);

/// How long a shutdown waits for providers.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Outcomes that are settled together, and how long the first of them waits for others.
const SETTLED_TOGETHER: usize = 64;
const SETTLE_WAIT: Duration = Duration::from_millis(20);

/// A batch of pushes that this process leased.
pub(super) struct Batch<'a> {
    pub(super) sender: &'a PushSender,
    pub(super) lease: PushLease,
    /// Right before the pushes were read from the queue.
    pub(super) leased_at: Instant,
    /// When to give up waiting for providers.
    pub(super) ends: Instant,
}

/// A push with the request of its provider; `None`: it needs none.
type PushWithSlot = (QueuedPush, Option<RequestSlot>);

/// A push that waited for a request of its provider.
struct ReservedPush {
    push: QueuedPush,
    /// `None`: it needs none, or there was none.
    slot: Option<RequestSlot>,
    /// The platform that had no free request in time.
    busy: Option<Platform>,
}

/// A push with what is to become of it.
struct DecidedPush {
    push: QueuedPush,
    slot: Option<RequestSlot>,
    decision: PushDecision,
}

/// The content of a message.
enum MessageContent {
    /// It shows a notification.
    Alert(Box<PushContent>),
    /// It shows nothing.
    Clear(Box<ClearContent>),
}

impl Batch<'_> {
    /// Sends the pushes and records the results.
    pub(super) async fn send(&self, pushes: Vec<QueuedPush>) {
        // Sockets are asked about posts, which takes up to two seconds: other pushes do not wait for that.
        let (posts, others): (Vec<_>, Vec<_>) = pushes.into_iter().partition(|push| push.kind == POST_KIND);
        tokio::join!(self.send_part(posts), self.send_part(others));
    }

    async fn send_part(&self, pushes: Vec<QueuedPush>) {
        if pushes.is_empty() {
            return;
        }
        let live = self.sender.feed.live_sockets.taken(live_items(&pushes)).await;
        let (results, sent) = mpsc::channel(BATCH);
        let sending = async {
            let (results, live) = (results, &live);
            stream::iter(pushes)
                .map(|push| self.reserve(push))
                .buffer_unordered(BATCH)
                .ready_chunks(MAX_DECIDED)
                .for_each_concurrent(None, |chunk| self.send_chunk(chunk, live, results.clone()))
                .await;
        };
        tokio::join!(sending, self.settle(sent));
    }

    /// Waits for a request of the provider, for a bounded time.
    async fn reserve(&self, push: QueuedPush) -> ReservedPush {
        let target = push.device.as_ref().map(|(device, _)| message::target(&device.target));
        let Some(Ok(target)) = target else { return ReservedPush { push, slot: None, busy: None } };
        let ends = self.ends.min(Instant::now() + MAX_SLOT_WAIT);
        let slot = tokio::select! {
            slot = timeout_at(ends, self.sender.providers.reserve(&target)) => slot.ok(),
            () = self.sender.feed.runtime.stopped() => None,
        };
        let busy = slot.is_none().then_some(target.platform());
        ReservedPush { push, slot: slot.flatten(), busy }
    }

    /// Decides about pushes whose providers are free, and sends them at once.
    async fn send_chunk(&self, chunk: Vec<ReservedPush>, live: &LiveDeliveries, results: mpsc::Sender<SentPush>) {
        let mut reserved = Vec::with_capacity(chunk.len());
        for ReservedPush { push, slot, busy } in chunk {
            let Some(platform) = busy else {
                reserved.push((push, slot));
                continue;
            };
            let outcome = Outcome::retry(Scope::Provider, Reason::new("busy"));
            let settled = settled(&push, self.result(&push, &outcome, platform));
            // The channel has room for the batch, and its receiver waits for all senders.
            drop(results.send(SentPush { settled, reservation: None }).await);
        }
        let decided = self.decide(reserved, live).await;
        let results = &results;
        stream::iter(decided)
            .for_each_concurrent(None, |decided| async move {
                let sent = self.carry_out(decided).await;
                drop(results.send(sent).await);
            })
            .await;
    }

    /// Decides about pushes. Omits those that this process does not hold any more.
    async fn decide(&self, chunk: Vec<PushWithSlot>, live: &LiveDeliveries) -> Vec<DecidedPush> {
        if chunk.is_empty() {
            return Vec::new();
        }
        let with_slot = chunk.iter().filter(|(_, slot)| slot.is_some());
        let platforms: HashSet<Platform> = with_slot.filter_map(|(push, _)| platform(push)).collect();
        let prepared = future::join_all(platforms.into_iter().map(|platform| self.sender.providers.prepare(platform)));
        // Without it, the messages report what is missing.
        let _ = timeout_at(self.ends, prepared).await;
        match self.try_decide(chunk, live).await {
            Ok(decided) => decided,
            Err((chunk, error)) => {
                tracing::warn!(%error, pushes = chunk.len(), "pushes wait for the ledger");
                // Nothing was sent: they are due again soon.
                let due = unix_now() + 1_000 + rand::random_range(0..1_000);
                let defer = |(push, slot)| DecidedPush { push, slot, decision: PushDecision::Defer(due) };
                chunk.into_iter().map(defer).collect()
            }
        }
    }

    async fn try_decide(
        &self,
        chunk: Vec<PushWithSlot>,
        live: &LiveDeliveries,
    ) -> Result<Vec<DecidedPush>, (Vec<PushWithSlot>, FeedError)> {
        let feed = &self.sender.feed;
        let mut read_at = self.leased_at;
        let mut fresh = None;
        if read_at.elapsed() > MAX_READ_AGE {
            read_at = Instant::now();
            let keys: Vec<PushKey> = chunk.iter().map(|(push, _)| push.key.clone()).collect();
            match feed.ledger.reload_pushes(&keys, &self.lease, unix_now()).await {
                Ok(pushes) => fresh = Some(pushes),
                Err(error) => return Err((chunk, error.into())),
            }
        }
        let chunk = match fresh {
            Some(fresh) => refreshed(chunk, fresh),
            None => chunk,
        };
        let (pushes, slots): (Vec<QueuedPush>, Vec<Option<RequestSlot>>) = chunk.into_iter().unzip();
        match feed.pushes.decide(&pushes, live, read_at).await {
            Ok(decisions) => {
                let decided = pushes.into_iter().zip(slots).zip(decisions);
                Ok(decided.map(|((push, slot), decision)| DecidedPush { push, slot, decision }).collect())
            }
            Err(error) => Err((pushes.into_iter().zip(slots).collect(), error)),
        }
    }

    async fn carry_out(&self, DecidedPush { push, slot, decision }: DecidedPush) -> SentPush {
        let is_sent = matches!(decision, PushDecision::Send(..) | PushDecision::Clear(_));
        let decision = match is_sent && self.sender.feed.pushes.is_signed_out(&push) {
            true => PushDecision::Drop("signed_out"),
            false => decision,
        };
        let mut reservation = None;
        let result = match decision {
            PushDecision::Send(content, reserved) => {
                reservation = Some(reserved);
                self.send_message(&push, MessageContent::Alert(content), slot).await
            }
            PushDecision::Clear(content) => {
                match self.send_message(&push, MessageContent::Clear(content), slot).await {
                    // A silent message that is refused is no failure: the device shows what it showed.
                    PushResult::Failed(_) => PushResult::Unwanted,
                    result => result,
                }
            }
            PushDecision::Drop(reason) => {
                self.sender.metrics.pushes.dropped(reason);
                PushResult::Unwanted
            }
            PushDecision::Defer(until) => PushResult::Deferred(until),
        };
        let reservation = reservation.filter(|_| result == PushResult::Accepted);
        SentPush { settled: settled(&push, result), reservation }
    }

    /// Sends one message. Bounded by the lease.
    async fn send_message(&self, push: &QueuedPush, content: MessageContent, slot: Option<RequestSlot>) -> PushResult {
        let sender = self.sender;
        let Some((device, _)) = &push.device else { return PushResult::Unwanted };
        let expires_at = push.queued_at.saturating_add(millis(sender.options.time_to_live));
        let key = (&push.key, push.seq);
        let message = match content {
            MessageContent::Alert(content) => {
                message::alert(&sender.texts, key, device, &push.preferences, &content, expires_at)
            }
            MessageContent::Clear(content) => message::clear(key, device, &content, expires_at),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                sender.metrics.pushes.failed(device.target.platform().as_str(), "invalid_address");
                return PushResult::Failed(format!("invalid_address: {error}"));
            }
        };
        let platform = message.target.platform();
        if !sender.providers.supports(platform) {
            sender.metrics.pushes.failed(platform.name(), "not_configured");
            return PushResult::Failed("not_configured".into());
        }
        let stopping = async {
            sender.feed.runtime.stopped().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        let unfinished = |code| Outcome::retry(Scope::Provider, Reason::new(code));
        let outcome = tokio::select! {
            sent = timeout_at(self.ends, sender.providers.send_reserved(&message, slot)) => {
                sent.unwrap_or_else(|_| unfinished("timeout"))
            }
            () = stopping => unfinished("interrupted"),
        };
        if let Outcome::TokenGone { since, .. } = &outcome {
            self.remove_device(push, device, *since).await;
        }
        self.result(push, &outcome, platform)
    }

    /// Counts and logs an outcome, and returns its result.
    fn result(&self, push: &QueuedPush, outcome: &Outcome, platform: Platform) -> PushResult {
        let now = unix_now();
        let (metrics, name) = (&self.sender.metrics.pushes, platform.name());
        if !outcome.reason().is_some_and(Reason::is_local) {
            metrics.sent(name);
        }
        if let Some(reason) = outcome.reason() {
            metrics.failed(name, reason.code);
        }
        match outcome {
            Outcome::Accepted { .. } => metrics.accepted(name, now.saturating_sub(push.queued_at)),
            Outcome::Misconfigured { reason, .. } => {
                tracing::error!(platform = name, %reason, "a push provider refuses this server's keys");
            }
            Outcome::TokenGone { reason, .. } | Outcome::Retry { reason, .. } | Outcome::Rejected { reason } => {
                tracing::debug!(platform = name, %reason, "a push was refused");
            }
        }
        let age = now.saturating_sub(push.first_tried_at.unwrap_or(now));
        result(outcome, platform, push.attempts, Duration::from_millis(age), now)
    }

    /// Removes a device that its provider does not know since a time. Without a time, it is removed unless it was
    /// registered again since the push was leased.
    async fn remove_device(&self, push: &QueuedPush, device: &Device, since: Option<Millis>) {
        let since = since.unwrap_or(device.seen_at.saturating_add(1));
        match self.sender.feed.ledger.forget_address(&push.key.user, &device.target, since).await {
            Ok(true) => self.sender.metrics.pushes.token_removed(device.target.platform().as_str()),
            Ok(false) => {}
            // The provider will say so again.
            Err(error) => tracing::warn!(%error, "a device that is gone could not be removed"),
        }
    }

    /// Records results, until all senders are gone.
    async fn settle(&self, mut results: mpsc::Receiver<SentPush>) {
        let mut done = Vec::new();
        loop {
            let next = match done.is_empty() {
                true => results.recv().await,
                false => match timeout(SETTLE_WAIT, results.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.sender.settle(std::mem::take(&mut done), &self.lease).await;
                        continue;
                    }
                },
            };
            let Some(sent) = next else { break };
            done.push(sent);
            if done.len() >= SETTLED_TOGETHER {
                self.sender.settle(std::mem::take(&mut done), &self.lease).await;
            }
        }
        self.sender.settle(done, &self.lease).await;
    }
}

/// The items of pushes that may have been taken live. A silent message is none.
fn live_items(pushes: &[QueuedPush]) -> LiveItems {
    let (mut notifications, mut posts) = (HashSet::new(), HashSet::new());
    for push in pushes.iter().filter(|push| push.device.is_some() && push.kind != CLEAR_KIND) {
        let (user, item) = (push.key.user.clone(), push.key.item);
        if push.kind == POST_KIND {
            posts.insert((user, PostId(item)));
        } else {
            notifications.insert((user, NotificationId(item)));
        }
    }
    LiveItems { notifications: notifications.into_iter().collect(), posts: posts.into_iter().collect() }
}

/// Pushes as they were read again, with their requests. One whose device has another address now has no device: the
/// request is for the former one.
fn refreshed(chunk: Vec<PushWithSlot>, fresh: Vec<QueuedPush>) -> Vec<PushWithSlot> {
    let mut fresh: HashMap<PushKey, QueuedPush> = fresh.into_iter().map(|push| (push.key.clone(), push)).collect();
    let refresh = |(former, slot): PushWithSlot| {
        let mut push = fresh.remove(&former.key)?;
        let target = former.device.map(|(device, _)| device.target);
        push.device.take_if(|(device, _)| target.as_ref() != Some(&device.target));
        Some((push, slot))
    };
    chunk.into_iter().filter_map(refresh).collect()
}

fn platform(push: &QueuedPush) -> Option<Platform> {
    let (device, _) = push.device.as_ref()?;
    message::target(&device.target).ok().map(|target| target.platform())
}

fn settled(push: &QueuedPush, result: PushResult) -> SettledPush {
    SettledPush { key: push.key.clone(), seq: push.seq, result }
}
