//! The invalidation log in Redis: nodes append to it, receive it by pub/sub, and poll it.
//!
//! Pub/sub delivers invalidations fast, the poll reliably. A node has caught up only with entries that it has applied
//! without a gap, so a lost message costs at most one poll. Each poll registers the node by the clock of Redis. A node
//! that appends waits for the confirmations of all registered nodes, or until the leases of the others have ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use redis::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::command_connections::{Commands, millis};
use super::keys::Keys;
use super::replies;
use super::scripts::SCRIPTS;
use crate::broker::epoch::new_epoch;
use crate::broker::listener::ListenerCell;
use crate::broker::{CACHE_LEASE, CacheLease, Confirmation, Invalidation, MessageListener, Result};
use crate::model::Epoch;
use crate::supervisor::supervise_while_held;

/// The interval of polls: a fraction of the lease, so that one slow reply does not end the lease.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// The time for which a node stays registered after its last poll. Its lease has ended long before; the rest covers
/// steps of the clock of Redis.
const REGISTRATION: Duration = Duration::from_millis(1_500);

/// Added to a lease that another node's clock measures.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// Entries kept in the log. A node that is further behind drops all of its caches.
const LOG_LENGTH: u64 = 10_000;

/// Entries read at once.
const BATCH: usize = 500;

/// The position up to which this node has applied the log.
#[derive(Clone, Debug)]
struct LogCursor {
    epoch: Epoch,
    applied: u64,
}

/// An invalidation that waits for confirmations.
struct Waiter {
    epoch: Epoch,
    missing: HashSet<String>,
    done: oneshot::Sender<()>,
}

/// Confirmations of other nodes, and the invalidations that wait for them.
#[derive(Default)]
struct Confirmations {
    /// The position up to which each node has applied the log.
    latest: HashMap<String, LogCursor>,
    /// By sequence number.
    waiting: BTreeMap<u64, Waiter>,
}

/// The invalidation log as one node sees it.
pub(super) struct InvalidationLog {
    commands: Arc<Commands>,
    keys: Keys,
    listener: ListenerCell,
    /// The name of this node in the registry.
    node: String,
    lease: Arc<CacheLease>,
    cursor: Mutex<Option<LogCursor>>,
    /// Requests an immediate poll of the log.
    pub(super) poll_now: Notify,
    confirmations: Mutex<Confirmations>,
    /// Nodes whose invalidations were applied here and are not confirmed yet.
    to_confirm: Mutex<HashSet<String>>,
    confirm_now: Notify,
}

impl InvalidationLog {
    pub(super) fn new(commands: Arc<Commands>, keys: Keys, listener: ListenerCell) -> Arc<Self> {
        Arc::new(Self {
            commands,
            keys,
            listener,
            node: format!("{}{}", new_epoch(), new_epoch()),
            lease: Arc::new(CacheLease::lapsed()),
            cursor: Mutex::new(None),
            poll_now: Notify::new(),
            confirmations: Mutex::default(),
            to_confirm: Mutex::default(),
            confirm_now: Notify::new(),
        })
    }

    /// Follows the log and confirms applied invalidations while the handles exist.
    pub(super) fn start(self: &Arc<Self>) -> [AbortOnDropHandle<()>; 2] {
        [
            supervise_while_held("invalidation_log", Arc::clone(self), |log| async move { log.follow().await }),
            supervise_while_held(
                "invalidation_confirmations",
                Arc::clone(self),
                |log| async move { log.confirm().await },
            ),
        ]
    }

    pub(super) fn lease(&self) -> Arc<CacheLease> {
        Arc::clone(&self.lease)
    }

    /// The pub/sub channels that belong to the log: of invalidations, and of confirmations for this node.
    pub(super) fn channels(&self) -> [String; 2] {
        [self.keys.invalidations(), self.keys.confirmations(&self.node)]
    }

    // --- appending -------------------------------------------------------------------------------------

    /// Appends to the log. This node must have applied it already.
    pub(super) async fn append(self: &Arc<Self>, what: &[Invalidation]) -> Result<Confirmation> {
        let mut link = self.commands.link()?;
        let mut call = SCRIPTS.invalidate.call(3);
        call.arg(&self.keys.invalidation_log()[..]).arg(&*link.server.run).arg(&*new_epoch()).arg(LOG_LENGTH);
        call.arg(millis(REGISTRATION)).arg(&self.node).arg(self.keys.invalidations());
        call.arg(Invalidation::encode_all(what));
        let answer = self.commands.send_on(&mut link, &call).await?;
        let now = Instant::now();
        let (epoch, sequence, age, nodes): (String, u64, u64, Vec<String>) = replies::parse(answer)?;
        let lease = CACHE_LEASE + CLOCK_MARGIN;
        // Nodes that polled a Redis that has since been replaced are not registered, but may still hold their lease.
        let unregistered = lease.saturating_sub(Duration::from_millis(age));
        Ok(self.confirmation(
            LogCursor { epoch: epoch.into(), applied: sequence },
            nodes,
            now + unregistered,
            now + lease,
        ))
    }

    fn confirmation(
        self: &Arc<Self>,
        appended: LogCursor,
        nodes: Vec<String>,
        not_before: Instant,
        deadline: Instant,
    ) -> Confirmation {
        let (done, confirmed) = oneshot::channel();
        let mut missing: HashSet<String> = nodes.into_iter().filter(|node| *node != self.node).collect();
        {
            let mut confirmations = self.confirmations.lock();
            confirmations.latest.retain(|node, _| missing.contains(node));
            let has = |at: &LogCursor| at.epoch == appended.epoch && at.applied >= appended.applied;
            missing.retain(|node| !confirmations.latest.get(node).is_some_and(has));
            if missing.is_empty() {
                if not_before <= Instant::now() {
                    return Confirmation::immediate();
                }
                drop(done);
            } else {
                let waiter = Waiter { epoch: appended.epoch, missing, done };
                confirmations.waiting.insert(appended.applied, waiter);
            }
        }
        // The guard removes the waiter even if the caller stops waiting.
        let waiting = ConfirmationGuard { log: Arc::clone(self), sequence: appended.applied };
        Confirmation::pending(async move {
            let _ = tokio::time::timeout_at(deadline, confirmed).await;
            tokio::time::sleep_until(not_before).await;
            waiting.unconfirmed()
        })
    }

    /// Handles another node's confirmation of the position up to which it has applied the log.
    pub(super) fn on_confirmation(&self, message: &[u8]) {
        let parsed = std::str::from_utf8(message).ok().and_then(|text| {
            let mut words = text.split(' ');
            let node = words.next()?;
            let epoch = words.next()?;
            Some((node, LogCursor { epoch: epoch.into(), applied: words.next()?.parse().ok()? }))
        });
        let Some((node, cursor)) = parsed else { return };
        let mut confirmations = self.confirmations.lock();
        let mut complete = Vec::new();
        for (sequence, waiter) in confirmations.waiting.range_mut(..=cursor.applied) {
            if waiter.epoch == cursor.epoch && waiter.missing.remove(node) && waiter.missing.is_empty() {
                complete.push(*sequence);
            }
        }
        for sequence in complete {
            if let Some(waiter) = confirmations.waiting.remove(&sequence) {
                // The caller may have stopped waiting.
                let _ = waiter.done.send(());
            }
        }
        confirmations.latest.insert(node.to_owned(), cursor);
    }

    // --- following -------------------------------------------------------------------------------------

    async fn follow(&self) {
        loop {
            let pause = match self.poll().await {
                Ok(true) => POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.0)),
                Ok(false) => Duration::ZERO,
                Err(error) => {
                    tracing::debug!(%error, "the invalidation log cannot be polled");
                    POLL_INTERVAL.mul_f64(rand::random_range(0.5..1.0))
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.poll_now.notified() => {}
            }
        }
    }

    /// Reads the next entries of the log; `true` if there are no more for now.
    async fn poll(&self) -> Result<bool> {
        // Without a listener there are no caches.
        let Some(listener) = self.listener.get() else { return Ok(true) };
        let asked = CacheLease::clocks();
        let known = self.cursor.lock().clone();
        let (epoch, applied) = known.as_ref().map_or(("", 0), |cursor| (&*cursor.epoch, cursor.applied));
        let mut link = self.commands.link()?;
        let mut call = SCRIPTS.follow.call(3);
        call.arg(&self.keys.invalidation_log()[..]).arg(&*link.server.run).arg(&*new_epoch()).arg(&self.node);
        call.arg(epoch).arg(applied).arg(BATCH);
        let answer = self.commands.send_uncounted(&mut link, &call).await?;
        let (epoch, last, entries): (String, u64, Value) = replies::parse(answer)?;
        let entries = replies::invalidations(entries)?;
        let caught_up = self.take(&**listener, &epoch, last, entries);
        if caught_up {
            self.lease.renew(asked);
        }
        Ok(caught_up)
    }

    /// Applies the entries of a poll; `true` if this node has applied the log up to `last`.
    fn take(
        &self,
        listener: &dyn MessageListener,
        epoch: &str,
        last: u64,
        entries: Vec<replies::InvalidationEntry>,
    ) -> bool {
        let mut cursor = self.cursor.lock();
        let Some(known) = cursor.as_mut().filter(|cursor| *cursor.epoch == *epoch) else {
            listener.invalidate_all();
            *cursor = Some(LogCursor { epoch: epoch.into(), applied: last });
            return true;
        };
        let more = entries.len() >= BATCH;
        for entry in entries {
            if entry.sequence == known.applied + 1 {
                apply(listener, &entry.text);
                known.applied = entry.sequence;
                self.owe(&entry.origin);
            }
        }
        if known.applied < last && !more {
            // The log no longer contains the entries in between.
            tracing::warn!(behind = last - known.applied, "too far behind the invalidation log, dropping all caches");
            listener.invalidate_all();
            known.applied = last;
        }
        known.applied >= last
    }

    /// Handles a published invalidation.
    pub(super) fn on_published(&self, message: &Bytes) {
        let Some(listener) = self.listener.get() else { return };
        let parsed = std::str::from_utf8(message).ok().and_then(|text| {
            let mut words = text.splitn(4, ' ');
            Some((words.next()?, words.next()?, words.next()?.parse::<u64>().ok()?, words.next()?))
        });
        let Some((origin, epoch, sequence, text)) = parsed else { return };
        let mut cursor = self.cursor.lock();
        apply(&**listener, text);
        match cursor.as_mut().filter(|cursor| *cursor.epoch == *epoch) {
            Some(known) if sequence <= known.applied => {}
            Some(known) if sequence == known.applied + 1 => known.applied = sequence,
            // A message was lost: read the log.
            _ => {
                self.lease.revoke();
                self.poll_now.notify_one();
                return;
            }
        }
        drop(cursor);
        self.owe(origin);
    }

    /// Records that this node owes a confirmation to another one.
    fn owe(&self, origin: &str) {
        if *origin != *self.node {
            self.to_confirm.lock().insert(origin.to_owned());
            self.confirm_now.notify_one();
        }
    }

    async fn confirm(&self) {
        loop {
            self.confirm_now.notified().await;
            let origins = std::mem::take(&mut *self.to_confirm.lock());
            // Everything received so far is applied.
            let Some(LogCursor { epoch, applied }) = self.cursor.lock().clone() else { continue };
            let said = format!("{} {epoch} {applied}", self.node);
            let sent = origins.iter().map(async |origin| {
                let mut link = self.commands.link()?;
                let mut publish = redis::cmd("PUBLISH");
                publish.arg(self.keys.confirmations(origin)).arg(&said);
                self.commands.send_uncounted(&mut link, &publish).await
            });
            if let Err(error) = futures::future::try_join_all(sent).await {
                // The waiting node waits for the end of this node's lease instead.
                tracing::debug!(%error, "an invalidation could not be confirmed");
            }
        }
    }
}

/// Removes a waiting invalidation when it is dropped.
struct ConfirmationGuard {
    log: Arc<InvalidationLog>,
    sequence: u64,
}

impl ConfirmationGuard {
    /// The number of nodes that have not confirmed.
    fn unconfirmed(&self) -> usize {
        self.log.confirmations.lock().waiting.get(&self.sequence).map_or(0, |waiter| waiter.missing.len())
    }
}

impl Drop for ConfirmationGuard {
    fn drop(&mut self) {
        self.log.confirmations.lock().waiting.remove(&self.sequence);
    }
}

fn apply(listener: &dyn MessageListener, text: &str) {
    match Invalidation::decode_all(text) {
        Some(what) => listener.invalidate(&what),
        // Written by a newer version: this version may have cached the object under another name.
        None => listener.invalidate_all(),
    }
}
