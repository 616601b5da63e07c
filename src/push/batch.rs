//! The pushes of one lease: what was taken live, the decision, the send, the settlement.
//!
//! A push waits for a free request of its provider first. The decision follows, with the devices and preferences of
//! that moment, and the message leaves right after it. So a sign-out, a deletion or a read that was answered before
//! counts. Notifications that are due for a device together wait for one request, and become one message: a digest.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::{StreamExt, future, stream};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

use super::digest::{self, MIN_DIGEST};
use super::message;
use super::providers::{Busy, Outcome, Push, Reason, RequestSlot, Scope, SlotPatience};
use super::sender::{BATCH, MAX_BACKOFF, MIN_PAUSE, PushSender, millis};
use super::settlement::result;
use crate::backoff::Backoff;
use crate::broker::LiveItems;
use crate::feed::{
    ClearContent, FeedError, LiveDeliveries, PushContent, PushDecision, SendReservation, now as unix_now,
};
use crate::ledger::{CLEAR_KIND, POST_KIND, PushKey, PushLease, PushResult, QueuedPush, SettledPush};
use crate::model::{Device, Millis, NotificationId, Platform, PostId};
use crate::shares::SourceId;

/// The pushes that are decided on together. They hold requests of their providers meanwhile.
const MAX_DECIDED: usize = 64;

/// How old devices and preferences may be at the decision. Older ones are read again.
const MAX_READ_AGE: Duration = Duration::from_millis(20);

/// How long a push waits for a request of its provider. Then it returns to the queue, so that a slow provider does not
/// occupy all batches.
const MAX_SLOT_WAIT: Duration = Duration::from_secs(2);

/// How long it waits for the share of its user. Endpoints that answer free one in this time; behind silent ones, the
/// pushes of a user would occupy the bridge.
const MAX_SHARE_WAIT: Duration = Duration::from_millis(200);

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
    /// A permit for each push, given back as soon as its result is recorded: the others wait for no slow one.
    pub(super) permits: Mutex<OwnedSemaphorePermit>,
}

/// The pushes of one message, with a request of their provider.
struct MessageGroup {
    pushes: Vec<QueuedPush>,
    /// `None`: the address is not usable.
    platform: Option<Platform>,
    /// `None`: the message needs no request, or the platform is not configured.
    slot: Option<RequestSlot>,
}

/// A notification that is to be sent.
type Alert = (QueuedPush, Box<PushContent>);

/// The results of a message, not recorded yet.
#[derive(Default)]
struct SentMessage {
    settled: Vec<SettledPush>,
    /// Counts towards the daily cap until the results are recorded.
    reservation: Option<SendReservation>,
}

/// Has room for a batch. Its receiver waits for all senders.
type Results = mpsc::Sender<SentMessage>;

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
            let results = results;
            let live = &live;
            stream::iter(digest::group(pushes))
                .map(|group| self.reserve(group, &results))
                .buffer_unordered(BATCH)
                .filter_map(future::ready)
                .ready_chunks(MAX_DECIDED)
                .for_each_concurrent(None, |chunk| self.send_chunk(chunk, live, &results))
                .await;
        };
        tokio::join!(sending, self.settle(sent));
    }

    /// Waits for a request of the provider, for a bounded time. `None`: there was none, and the pushes are postponed.
    async fn reserve(&self, pushes: Vec<QueuedPush>, results: &Results) -> Option<MessageGroup> {
        let device = pushes.first().and_then(|push| push.device.as_ref());
        let target = device.and_then(|(device, _)| message::target(&device.target).ok());
        let Some(target) = target else { return Some(MessageGroup { pushes, platform: None, slot: None }) };
        let platform = target.platform();
        let user = pushes.first().map_or(SourceId::ONLY, |push| SourceId::of(&push.key.user));
        let now = Instant::now();
        let patience = SlotPatience { share: now + MAX_SHARE_WAIT, slot: self.ends.min(now + MAX_SLOT_WAIT) };
        let slot = tokio::select! {
            slot = self.sender.providers.reserve(&target, user, patience) => slot,
            () = self.sender.feed.base.runtime.stopped() => Err(Busy),
        };
        if let Ok(slot) = slot {
            return Some(MessageGroup { pushes, platform: Some(platform), slot });
        }
        let outcome = Outcome::retry(Scope::Provider, Reason::new("busy"));
        let result = self.result(&pushes.iter().collect::<Vec<_>>(), &outcome, platform);
        let settled = pushes.iter().map(|push| push.settled(result.clone())).collect();
        drop(results.send(SentMessage { settled, reservation: None }).await);
        None
    }

    /// Decides about pushes whose providers are free, and sends them at once.
    async fn send_chunk(&self, mut groups: Vec<MessageGroup>, live: &LiveDeliveries, results: &Results) {
        let with_slot = groups.iter().filter(|group| group.slot.is_some());
        let platforms: HashSet<Platform> = with_slot.filter_map(|group| group.platform).collect();
        let prepared = future::join_all(platforms.into_iter().map(|platform| self.sender.providers.prepare(platform)));
        // Without it, the messages report what is missing.
        let _ = timeout_at(self.ends, prepared).await;
        let mut read_at = self.leased_at;
        let mut decisions = match self.decide(&mut groups, &mut read_at, live).await {
            Ok(decisions) => decisions,
            Err(error) => {
                let number: usize = groups.iter().map(|group| group.pushes.len()).sum();
                tracing::warn!(%error, pushes = number, "pushes wait for the ledger");
                // Nothing was sent: they are due again soon.
                let due = unix_now() + 1_000 + rand::random_range(0..1_000);
                (0..number).map(|_| PushDecision::Defer(due)).collect()
            }
        }
        .into_iter();
        let sending = groups.into_iter().map(|MessageGroup { pushes, slot, .. }| {
            let pushes: Vec<_> = pushes.into_iter().zip(decisions.by_ref()).collect();
            async move { drop(results.send(self.carry_out(pushes, slot, read_at).await).await) }
        });
        future::join_all(sending).await;
    }

    /// Decides about pushes, in their order. Removes those from their groups that this process does not hold any more.
    /// `read_at`: when they were read from the queue.
    async fn decide(
        &self,
        groups: &mut [MessageGroup],
        read_at: &mut Instant,
        live: &LiveDeliveries,
    ) -> Result<Vec<PushDecision>, FeedError> {
        let feed = &self.sender.feed;
        if read_at.elapsed() > MAX_READ_AGE {
            *read_at = Instant::now();
            let keys: Vec<PushKey> =
                groups.iter().flat_map(|group| &group.pushes).map(|push| push.key.clone()).collect();
            refresh(groups, feed.base.ledger.reload_pushes(&keys, &self.lease, unix_now()).await?);
        }
        let pushes: Vec<&QueuedPush> = groups.iter().flat_map(|group| &group.pushes).collect();
        feed.pushes.decide(&pushes, live).await
    }

    /// Does what was decided about the pushes of a group.
    async fn carry_out(
        &self,
        pushes: Vec<(QueuedPush, PushDecision)>,
        mut slot: Option<RequestSlot>,
        read_at: Instant,
    ) -> SentMessage {
        let mut settled = Vec::with_capacity(pushes.len());
        let mut alerts = Vec::new();
        for (push, decision) in pushes {
            let is_sent = matches!(decision, PushDecision::Send(_) | PushDecision::Clear(_));
            let result = match decision {
                _ if is_sent && self.sender.feed.pushes.is_signed_out(&push) => self.dropped("signed_out"),
                PushDecision::Send(content) => {
                    alerts.push((push, content));
                    continue;
                }
                PushDecision::Clear(content) => self.send_clear(&push, &content, slot.take()).await,
                PushDecision::Drop(reason) => self.dropped(reason),
                PushDecision::Defer(until) => PushResult::Deferred(until),
            };
            settled.push(push.settled(result));
        }
        if (2..MIN_DIGEST).contains(&alerts.len()) {
            // Others were dropped, and the request is for one message. The rest is due again at once.
            let rest = alerts.drain(1..);
            settled.extend(rest.map(|(push, _)| push.settled(PushResult::Postponed(unix_now()))));
        }
        let mut sent = self.send_alerts(&alerts, slot, read_at).await;
        sent.settled.extend(settled);
        sent
    }

    /// Sends one message: a notification, or a digest of several for the same device.
    async fn send_alerts(&self, alerts: &[Alert], slot: Option<RequestSlot>, read_at: Instant) -> SentMessage {
        let Some((push, content)) = alerts.first() else { return SentMessage::default() };
        let Some((device, _)) = &push.device else { return SentMessage::default() };
        let pushes: Vec<&QueuedPush> = alerts.iter().map(|(push, _)| push).collect();
        let Some(reservation) = self.sender.feed.pushes.reserve(push, read_at) else {
            let settled = pushes.iter().map(|push| push.settled(self.dropped("daily_cap"))).collect();
            return SentMessage { settled, reservation: None };
        };
        let texts = &self.sender.texts;
        let expires_at = self.expiry(&pushes);
        let message = match alerts.len() {
            1 => message::alert(texts, (&push.key, push.seq), device, &push.preferences, content, expires_at),
            _ => digest::digest(texts, alerts, device, expires_at),
        };
        let result = self.send_message(&pushes, device, message, slot).await;
        let is_accepted = result == PushResult::Accepted;
        let mut settled: Vec<SettledPush> = pushes.iter().map(|push| push.settled(result.clone())).collect();
        if is_accepted {
            // The message counts once: for the first of them.
            settled.iter_mut().skip(1).for_each(|push| push.result = PushResult::AcceptedInDigest);
        }
        SentMessage { settled, reservation: Some(reservation).filter(|_| is_accepted) }
    }

    /// Sends a silent message.
    async fn send_clear(&self, push: &QueuedPush, content: &ClearContent, slot: Option<RequestSlot>) -> PushResult {
        let Some((device, _)) = &push.device else { return PushResult::Unwanted };
        let message = message::clear((&push.key, push.seq), device, content, self.expiry(&[push]));
        match self.send_message(&[push], device, message, slot).await {
            // A silent message that is refused is no failure: the device shows what it showed.
            PushResult::Failed(_) => PushResult::Unwanted,
            result => result,
        }
    }

    /// Counts a push that is not sent.
    fn dropped(&self, reason: &'static str) -> PushResult {
        self.sender.feed.base.metrics.pushes.dropped(reason);
        PushResult::Unwanted
    }

    /// When a message is of no use any more: with the newest of its pushes.
    fn expiry(&self, pushes: &[&QueuedPush]) -> Millis {
        let newest = pushes.iter().map(|push| push.queued_at).max().unwrap_or_default();
        newest.saturating_add(millis(self.sender.config.ttl))
    }

    /// Sends the message of pushes for a device. Bounded by the lease.
    async fn send_message(
        &self,
        pushes: &[&QueuedPush],
        device: &Device,
        message: Result<Push, String>,
        slot: Option<RequestSlot>,
    ) -> PushResult {
        let sender = self.sender;
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                sender.feed.base.metrics.pushes.failed(device.target.platform().as_str(), "invalid_address");
                return PushResult::Failed(format!("invalid_address: {error}"));
            }
        };
        let platform = message.target.platform();
        if !sender.providers.supports(platform) {
            sender.feed.base.metrics.pushes.failed(platform.as_str(), "not_configured");
            return PushResult::Failed("not_configured".into());
        }
        let stopping = async {
            sender.feed.base.runtime.stopped().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        let unfinished = |code| Outcome::retry(Scope::Provider, Reason::new(code));
        let outcome = tokio::select! {
            sent = timeout_at(self.ends, sender.providers.send_reserved(&message, slot)) => {
                sent.unwrap_or_else(|_| unfinished("timeout"))
            }
            () = stopping => unfinished("interrupted"),
        };
        if let (Outcome::TokenGone { since, .. }, Some(push)) = (&outcome, pushes.first()) {
            self.remove_device(push, device, *since).await;
        }
        self.result(pushes, &outcome, platform)
    }

    /// Counts and logs the outcome of a message, and returns the result of all its pushes. The back-off is that of the
    /// push with the most attempts; none is given up before the youngest one.
    fn result(&self, pushes: &[&QueuedPush], outcome: &Outcome, platform: Platform) -> PushResult {
        let now = unix_now();
        let queued_at = pushes.iter().map(|push| push.queued_at).min().unwrap_or(now);
        let first_tried_at = pushes.iter().map(|push| push.first_tried_at.unwrap_or(now)).max().unwrap_or(now);
        let attempts = pushes.iter().map(|push| push.attempts).max().unwrap_or_default();
        let metrics = &self.sender.feed.base.metrics.pushes;
        let name = platform.as_str();
        if !outcome.reason().is_some_and(Reason::is_local) {
            metrics.sent(name);
        }
        match outcome.reason() {
            None => metrics.accepted(name, now.saturating_sub(queued_at)),
            Some(reason) => {
                metrics.failed(name, reason.code);
                if let Outcome::Misconfigured { .. } = outcome {
                    tracing::error!(platform = name, %reason, "a push provider refuses this server's keys");
                } else {
                    tracing::debug!(platform = name, %reason, "a push was refused");
                }
            }
        }
        let age = now.saturating_sub(first_tried_at);
        result(outcome, platform, attempts, Duration::from_millis(age), now)
    }

    /// Removes a device that its provider does not know since a time. Without a time, it is removed unless it was
    /// registered again since the push was leased.
    async fn remove_device(&self, push: &QueuedPush, device: &Device, since: Option<Millis>) {
        let since = since.unwrap_or(device.seen_at.saturating_add(1));
        match self.sender.feed.base.ledger.forget_address(&push.key.user, &device.target, since).await {
            Ok(true) => self.sender.feed.base.metrics.pushes.token_removed(device.target.platform().as_str()),
            Ok(false) => {}
            // The provider will say so again.
            Err(error) => tracing::warn!(%error, "a device that is gone could not be removed"),
        }
    }

    /// Records results, until all senders are gone. The first one waits a moment for others.
    async fn settle(&self, mut results: mpsc::Receiver<SentMessage>) {
        while let Some(SentMessage { mut settled, reservation }) = results.recv().await {
            let ends = Instant::now() + SETTLE_WAIT;
            let mut reservations = Vec::from_iter(reservation);
            while settled.len() < SETTLED_TOGETHER
                && let Ok(Some(more)) = timeout_at(ends, results.recv()).await
            {
                settled.extend(more.settled);
                reservations.extend(more.reservation);
            }
            self.record(&settled, reservations).await;
            drop(self.permits.lock().split(settled.len()));
        }
    }

    /// Records results. A result that cannot be recorded is repeated when the lease ends.
    async fn record(&self, settled: &[SettledPush], reservations: Vec<SendReservation>) {
        let feed = &self.sender.feed;
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_BACKOFF);
        while !settled.is_empty() && self.lease.until > unix_now() {
            let now = unix_now();
            let digest = millis(self.sender.config.digest);
            match feed.base.ledger.settle_pushes(settled, &self.lease, now, digest).await {
                Ok(_) => return reservations.into_iter().for_each(SendReservation::recorded),
                Err(error) => tracing::warn!(%error, pushes = settled.len(), "sent pushes are not recorded yet"),
            }
            if !feed.base.runtime.sleep(backoff.next_delay()).await {
                return;
            }
        }
    }
}

/// The items of pushes that may have been taken live. A silent message is none.
fn live_items(pushes: &[QueuedPush]) -> LiveItems {
    let mut notifications = HashSet::new();
    let mut posts = HashSet::new();
    for push in pushes.iter().filter(|push| push.device.is_some() && push.kind != CLEAR_KIND) {
        let user = push.key.user.clone();
        let item = push.key.item;
        if push.kind == POST_KIND {
            posts.insert((user, PostId(item)));
        } else {
            notifications.insert((user, NotificationId(item)));
        }
    }
    LiveItems { notifications: notifications.into_iter().collect(), posts: posts.into_iter().collect() }
}

/// Replaces pushes by those that were read again. One whose device has another address now has no device: the request
/// is for the former one.
fn refresh(groups: &mut [MessageGroup], fresh: Vec<QueuedPush>) {
    let mut fresh: HashMap<PushKey, QueuedPush> = fresh.into_iter().map(|push| (push.key.clone(), push)).collect();
    let mut refreshed = |former: QueuedPush| {
        let mut push = fresh.remove(&former.key)?;
        let target = former.device.map(|(device, _)| device.target);
        push.device.take_if(|(device, _)| target.as_ref() != Some(&device.target));
        Some(push)
    };
    for group in groups {
        group.pushes = std::mem::take(&mut group.pushes).into_iter().filter_map(&mut refreshed).collect();
    }
}
