//! Revokes tokens and sessions, blocks users, and keeps this node's list of revocations up to date.
//!
//! A revocation is written to the ledger's log, applied on this node, and signalled to the others. Every node follows
//! the log: at a signal, and every [`POLL_INTERVAL`] in case a signal was lost or the node was paused. An entry is
//! therefore in force everywhere within a second. The log also records erased users (`feed/erasure`).
//!
//! **A node that was paused** detects the pause ([`PauseDetector`]) and reads the log before it accepts a credential.
//!
//! **A node that cannot read the log** continues with the entries that it knows, because no node can write revocations
//! while the ledger is down. After [`MAX_STALENESS`] the node may be the only one that is cut off: it then refuses
//! requests and new connections with `unavailable` until it has caught up. Open connections stay.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::authorization_checks::AuthorizationChecks;
use super::erasure_records::ErasureRecords;
use crate::auth::{AuthConfig, RevocationList, Revoked, TokenIdentity};
use crate::broker::{Broker, Signal};
use crate::feed::error::{FeedError, Result};
use crate::feed::lineage::LineageTracker;
use crate::feed::pause_detector::{PauseDetector, TICK_INTERVAL};
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{Ledger, Revocation, RevocationKind, SessionsEnd};
use crate::model::{Millis, UserId};

/// The interval at which the log is read without a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// After this time without a reply of the ledger, the whole log is read again: entries that undo a revocation (an
/// unblock) are removed after some time, and the ledger may have been replaced.
const RELOAD_AFTER: Duration = Duration::from_secs(10);

/// After this time without a reply of the ledger, credentials are rejected.
const MAX_STALENESS: Duration = Duration::from_secs(300);

/// How long a request waits for the log to be read after a pause of the node. After that, the ledger counts as
/// unreachable.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximal number of entries of one read.
const PAGE: usize = 1_000;

/// The interval between removals of expired entries, the entries removed from the ledger at once, and the pause between
/// batches.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const MAX_FORGOTTEN: usize = 1_000;
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// How long an entry outlives the token that it revokes, in addition to the leeway of tokens. Clocks differ, and
/// connections have a grace period.
const MARGIN: Millis = 5 * 60 * 1_000;

/// How long an entry is kept that takes a block or an invalidation back. A node that was away for longer reads the
/// whole log.
const UNBLOCK_KEPT: Millis = 24 * 3_600 * 1_000;

/// The longest id of a revocable token, in bytes.
const MAX_TOKEN_ID: usize = 512;

/// Revocations: written to the ledger's log, and followed by every node.
pub(crate) struct RevocationService {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) lineage: Arc<LineageTracker>,
    /// Handles erasures, which are in the same log.
    pub(crate) erasures: Arc<ErasureRecords>,
    pub(crate) checks: Arc<AuthorizationChecks>,
    pub(crate) auth: Arc<AuthConfig>,
    /// The revocations that this node knows of, kept up to date from [`start`](Self::start) on; the gateway's sessions
    /// check it too.
    pub(crate) list: Arc<RevocationList>,
    /// How far this node has read the log.
    pub(crate) progress: LogProgress,
    pub(crate) pauses: PauseDetector,
    /// Signals that the log may have grown: wakes the follower.
    pub(crate) grown: Arc<Notify>,
}

/// How far a node has read the log of revocations.
pub(crate) struct LogProgress {
    /// The number of the last entry in the list. Held while the log is read, so that entries come in order.
    reached: tokio::sync::Mutex<u64>,
    /// The time of the last read that reached the end of the log.
    read_at: Mutex<Instant>,
    /// The start time of the last completed read of the log, successful or not.
    read_begun: watch::Sender<Instant>,
}

impl Default for LogProgress {
    fn default() -> Self {
        let now = Instant::now();
        Self { reached: tokio::sync::Mutex::new(0), read_at: Mutex::new(now), read_begun: watch::Sender::new(now) }
    }
}

impl RevocationService {
    /// Checks a user and a token, in memory.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(crate) fn check(
        &self,
        user: Option<&UserId>,
        token: Option<&TokenIdentity>,
    ) -> std::result::Result<(), Revoked> {
        self.list.check(user, token, now())
    }

    /// Wakes the follower: the log may have grown.
    pub(crate) fn on_signal(&self) {
        self.grown.notify_one();
    }

    /// Whether the log has been unreadable for so long that the list cannot be trusted.
    pub(crate) fn is_stale(&self) -> bool {
        self.progress.read_at.lock().elapsed() > MAX_STALENESS
    }

    /// After a pause of this node, waits for an attempt to read the revocations of the pause. Returns at once if there
    /// was no pause.
    pub(crate) async fn catch_up(&self) {
        let Some(resumed) = self.pauses.resumed() else { return };
        if *self.progress.read_begun.borrow() >= resumed {
            return;
        }
        self.grown.notify_one();
        let mut read_begun = self.progress.read_begun.subscribe();
        let caught_up = read_begun.wait_for(|begun| *begun >= resumed);
        if tokio::time::timeout(CATCH_UP_TIMEOUT, caught_up).await.is_err() {
            tracing::warn!("the log of revocations is not read in time after a pause: what is known of it is used");
        }
    }
}

/// An entry without an owner or a spared session.
fn entry(kind: RevocationKind, subject: &str, value: u64, expires_at: Option<Millis>) -> Revocation {
    Revocation { kind, subject: subject.to_owned(), owner: None, value, spared: None, at: now(), expires_at }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl RevocationService {
    // --- for backends --------------------------------------------------------------------------------------

    /// Revokes all tokens and sessions of a user issued before a time in Unix seconds, or before now if no time is
    /// given. A token without `iat` counts as issued before. The time 0 takes an earlier invalidation back.
    ///
    /// Tokens carry their time of issue in whole seconds. Without a given time, the reply waits for the end of the
    /// current second: all tokens of this second are then revoked, and tokens issued after the reply are accepted.
    ///
    /// # Errors
    /// If the time is more than `auth.leeway` in the future, or the ledger cannot be reached.
    pub(crate) async fn invalidate_user_tokens(&self, user: &UserId, issued_before: Option<u64>) -> Result<()> {
        // Sessions may live longer than revocations of the application's tokens are kept.
        let session_life = millis(self.auth.token_ttl).saturating_add(self.margin());
        let expires_at = Some(now().saturating_add(millis(self.auth.revocation_ttl).max(session_life)));
        if issued_before == Some(0) {
            let until = now().saturating_add(UNBLOCK_KEPT);
            return self.revoke(&entry(RevocationKind::UserTokens, user.as_str(), 0, Some(until))).await;
        }
        if let Some(before) = issued_before {
            // A later time would lock the user out until then.
            if before > now() / 1_000 + self.auth.leeway.as_secs() {
                return Err(FeedError::invalid("issued_before", "is in the future: expected Unix seconds"));
            }
            return self.revoke(&entry(RevocationKind::UserTokens, user.as_str(), before, expires_at)).await;
        }
        if self.ledger.end_sessions(user, &self.sessions_end(None)).await?.is_some() {
            return self.publish().await;
        }
        let next_second = now() / 1_000 + 1;
        self.revoke(&entry(RevocationKind::UserTokens, user.as_str(), next_second, expires_at)).await?;
        let rest = (next_second * 1_000).saturating_sub(now());
        tokio::time::sleep(Duration::from_millis(rest.min(1_000))).await;
        Ok(())
    }

    /// Revokes one token, by its `jti`. `expires_at` is the expiry of the token, in Unix seconds. A token that is no
    /// longer accepted anywhere may have registered devices, which outlive it: they end, too.
    ///
    /// # Errors
    /// If the id is invalid, or the ledger cannot be reached.
    pub(crate) async fn revoke_token(&self, id: &str, expires_at: Option<u64>) -> Result<()> {
        if id.is_empty() || id.len() > MAX_TOKEN_ID {
            return Err(FeedError::invalid("uid", "the id of a token has 1 to 512 bytes"));
        }
        let until = self.revoked_until(expires_at).max(now().saturating_add(MARGIN));
        self.revoke(&entry(RevocationKind::Token, id, 0, Some(until))).await
    }

    /// Blocks a user: all tokens of the user are refused until `expires_at` in Unix seconds, or until the user is
    /// unblocked.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn block_user(&self, user: &UserId, expires_at: Option<u64>) -> Result<()> {
        let until = expires_at.map(|at| at.saturating_mul(1_000));
        self.revoke(&entry(RevocationKind::Block, user.as_str(), 1, until)).await
    }

    /// Ends a block.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn unblock_user(&self, user: &UserId) -> Result<()> {
        let until = now().saturating_add(UNBLOCK_KEPT);
        self.revoke(&entry(RevocationKind::Block, user.as_str(), 0, Some(until))).await
    }

    // --- for users -----------------------------------------------------------------------------------------

    /// Revokes one session or token of a user.
    pub(crate) async fn revoke_own_token(&self, user: &UserId, id: &str, expires_at: Option<u64>) -> Result<()> {
        let token = entry(RevocationKind::Token, id, 0, Some(self.revoked_until(expires_at)));
        self.revoke(&Revocation { owner: Some(user.clone()), ..token }).await
    }

    /// Ends all sessions of an account, as of now.
    pub(crate) fn sessions_end(&self, spared: Option<&str>) -> SessionsEnd {
        let at = now();
        let expires_at = at.saturating_add(millis(self.auth.token_ttl)).saturating_add(self.margin());
        SessionsEnd { spared: spared.map(str::to_owned), at, expires_at }
    }

    /// How long the revocation of a token is kept that expires at `expires_at`, in Unix seconds.
    fn revoked_until(&self, expires_at: Option<u64>) -> Millis {
        match expires_at {
            Some(at) => at.saturating_mul(1_000).saturating_add(self.margin()),
            None => now().saturating_add(millis(self.auth.revocation_ttl)),
        }
    }

    /// How long after its expiry a token may still be accepted, or its connection may still be open.
    fn margin(&self) -> Millis {
        MARGIN.saturating_add(millis(self.auth.leeway))
    }

    async fn revoke(&self, entry: &Revocation) -> Result<()> {
        self.ledger.revoke(entry).await?;
        self.publish().await
    }

    /// Puts new entries in force: here at once, on other nodes by a signal. The entry is in the ledger, so it is in
    /// force everywhere within a second even if both fail.
    pub(crate) async fn publish(&self) -> Result<()> {
        let (followed, signalled) = tokio::join!(self.follow(), self.broker.signal(Signal::RevocationsAppended));
        if let Err(error) = followed {
            tracing::warn!(%error, "a revocation is stored and not in force on this node yet");
        }
        if let Err(error) = signalled {
            tracing::warn!(%error, "a revocation is stored, and other nodes will find it within a second");
        }
        Ok(())
    }

    // --- the log -------------------------------------------------------------------------------------------

    /// Reads the whole log, then follows it until the feed stops. Erases users again that are in the erasure log beside
    /// the backups but not in the ledger, because it was restored from an older backup.
    ///
    /// # Errors
    /// If the ledger or the erasure log cannot be read.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let incarnation = Arc::new(Mutex::new(self.lineage.incarnation()));
        self.load().await?;
        self.runtime.supervise("revocations", self, move |revocations| {
            let incarnation = Arc::clone(&incarnation);
            async move { revocations.follow_until_stopped(&incarnation).await }
        });
        self.runtime.supervise("pause_detector", self, |revocations| async move {
            while revocations.runtime.sleep(TICK_INTERVAL).await {
                revocations.pauses.tick();
            }
        });
        self.runtime.supervise("revocation_sweep", self, |revocations| async move {
            while revocations.runtime.sleep(SWEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                revocations.sweep().await;
            }
        });
        Ok(())
    }

    /// Follows the log. `incarnation` is that of the ledger from which it was last read.
    async fn follow_until_stopped(&self, incarnation: &Mutex<Arc<str>>) {
        loop {
            let pause = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
            tokio::select! {
                more = self.runtime.sleep(pause) => if !more { return },
                () = self.grown.notified() => {}
            }
            let begun = Instant::now();
            let away = self.progress.read_at.lock().elapsed();
            // After a ledger lost its latest entries, its numbers continue below the last number read.
            let current = self.lineage.incarnation();
            let is_known = current == *incarnation.lock();
            let read = match away > RELOAD_AFTER || !is_known {
                true => self.load().await,
                false => self.follow().await,
            };
            match read {
                Ok(()) => *incarnation.lock() = current,
                Err(error) => tracing::debug!(%error, ?away, "the log of revocations could not be read"),
            }
            self.progress.read_begun.send_replace(begun);
            self.erasures.append_unlogged().await;
        }
    }

    /// Reads the whole log, and replaces the list.
    async fn load(&self) -> Result<()> {
        let mut reached = self.progress.reached.lock().await;
        let began = Instant::now();
        let list = RevocationList::default();
        let mut last = 0;
        let mut erased = Vec::new();
        loop {
            let entries = self.ledger.revocations_after(last, PAGE).await?;
            for (number, entry) in &entries {
                list.apply(entry);
                last = *number;
            }
            erased.append(&mut self.erasures.hide_in(&entries));
            if entries.len() < PAGE {
                break;
            }
        }
        list.sweep(now());
        self.list.replace(list);
        *reached = last;
        drop(reached);
        *self.progress.read_at.lock() = began;
        self.checks.check_all();
        self.erasures.reapply(erased).await
    }

    /// Reads new entries of the log.
    pub(crate) async fn follow(&self) -> Result<()> {
        let mut reached = self.progress.reached.lock().await;
        loop {
            let began = Instant::now();
            let entries = self.ledger.revocations_after(*reached, PAGE).await?;
            for (number, entry) in &entries {
                self.list.apply(entry);
                *reached = *number;
            }
            self.erasures.note_unlogged(self.erasures.hide_in(&entries));
            if !entries.is_empty() {
                self.checks.check_entries(&entries);
            }
            if entries.len() < PAGE {
                *self.progress.read_at.lock() = began;
                return Ok(());
            }
        }
    }

    /// Drops entries that have no effect any more, on this node and in the ledger.
    async fn sweep(&self) {
        let now = now();
        self.list.sweep(now);
        loop {
            match self.ledger.forget_revocations(now, MAX_FORGOTTEN).await {
                Ok(removed) if removed < MAX_FORGOTTEN => return,
                Ok(_) if self.runtime.sleep(SWEEP_PAUSE).await => {}
                Ok(_) => return,
                Err(error) => return tracing::debug!(%error, "expired revocations stay for now"),
            }
        }
    }
}
