//! Ends tokens and sessions before their time, and blocks users; keeps this node's list of them up to date.
//!
//! A revocation is written to the ledger's log, brings this node up to date, and is signalled to the others. Every node
//! follows the log: at a signal, and every [`POLL_INTERVAL`] in case a signal was lost or the node was paused. So an
//! entry is in force everywhere within a second. The log also says who was erased (`feed/erasure`).
//!
//! **A node that was paused** notices ([`PauseDetector`]) and reads the log before it accepts a credential.
//!
//! **A node that cannot read the log** goes on with what it knows, since nothing can be revoked while the ledger is
//! away for everybody. If it lasts for [`MAX_STALENESS`] the node may be the only one that is cut off: then it refuses
//! requests and new connections with `unavailable` until it has caught up. Open connections stay.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::authorization_checks::AuthorizationChecks;
use super::erasure_records::ErasureRecords;
use crate::auth::{RevocationList, Revoked, TokenIdentity};
use crate::broker::{Broker, Signal};
use crate::feed::error::{FeedError, Result};
use crate::feed::lineage::LineageTracker;
use crate::feed::pause_detector::{PauseDetector, TICK_INTERVAL};
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{Ledger, Revocation, RevocationKind, SessionsEnd};
use crate::model::{Millis, UserId};

/// How often the log is read though no signal came.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// After so long without an answer of the ledger the whole log is read anew: entries that take something back (an
/// unblock) are not kept for ever, and the ledger may be another one.
const RELOAD_AFTER: Duration = Duration::from_secs(10);

/// After so long without an answer of the ledger credentials are refused.
const MAX_STALENESS: Duration = Duration::from_secs(300);

/// How long a request waits after a pause of the node for the log to be read. After that the ledger counts as away.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Entries read at once.
const PAGE: usize = 1_000;

/// How often expired entries are dropped, how many of the ledger's at once, and the pause before the next ones.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const MAX_FORGOTTEN: usize = 1_000;
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// How long an entry outlives the token that it ends, besides the leeway that tokens have: clocks differ, and
/// connections have a grace period.
const MARGIN: Millis = 5 * 60 * 1_000;

/// How long it is remembered that a user was unblocked. A node that was away for longer reads the whole log.
const UNBLOCK_KEPT: Millis = 24 * 3_600 * 1_000;

/// The longest id of a token that can be revoked, in bytes.
const MAX_TOKEN_ID: usize = 512;

/// How long tokens live, as far as revocations depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLifetimes {
    /// The lifetime of a session (`auth.token_ttl`).
    pub(crate) session: Duration,
    /// For how long an expired token is accepted (`auth.leeway`).
    pub(crate) leeway: Duration,
    /// For how long a revocation without an expiry is kept (`auth.revocation_ttl`).
    pub(crate) revocation: Duration,
}

/// Revocations: written to the ledger's log, and followed by every node.
pub(crate) struct RevocationService {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    lineage: Arc<LineageTracker>,
    /// The log has the erasures too.
    erasures: Arc<ErasureRecords>,
    checks: Arc<AuthorizationChecks>,
    lifetimes: TokenLifetimes,
    /// The revocations that this node knows of; the gateway's sessions check it too.
    list: Arc<RevocationList>,
    /// The number of the last entry in the list. Held while the log is read, so that entries come in order.
    reached: tokio::sync::Mutex<u64>,
    /// When the log was last read to its end.
    read_at: Mutex<Instant>,
    /// When the last read of the log that has ended was begun, whether or not it succeeded.
    read_begun: watch::Sender<Instant>,
    pauses: PauseDetector,
    /// The log may have grown.
    grown: Arc<Notify>,
}

impl RevocationService {
    /// Keeps this list up to date: see [`start`](Self::start). `grown` wakes the follower of the log.
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        lineage: Arc<LineageTracker>,
        erasures: Arc<ErasureRecords>,
        checks: Arc<AuthorizationChecks>,
        lifetimes: TokenLifetimes,
        list: Arc<RevocationList>,
        grown: Arc<Notify>,
    ) -> Self {
        Self {
            ledger,
            broker,
            runtime,
            lineage,
            erasures,
            checks,
            lifetimes,
            list,
            reached: tokio::sync::Mutex::new(0),
            read_at: Mutex::new(Instant::now()),
            read_begun: watch::Sender::new(Instant::now()),
            pauses: PauseDetector::new(),
            grown,
        }
    }

    /// Checks a user and a token, in memory.
    ///
    /// # Errors
    /// Why they are refused.
    pub(crate) fn check(
        &self,
        user: Option<&UserId>,
        token: Option<&TokenIdentity>,
    ) -> std::result::Result<(), Revoked> {
        self.list.check(user, token, now())
    }

    /// The log may have grown.
    pub(crate) fn on_signal(&self) {
        self.grown.notify_one();
    }

    /// Whether the log could not be read for so long that the list cannot be trusted.
    pub(crate) fn is_stale(&self) -> bool {
        self.read_at.lock().elapsed() > MAX_STALENESS
    }

    /// After a pause of this node, waits until it has tried to read what was revoked meanwhile. Without a pause it
    /// returns at once.
    pub(crate) async fn catch_up(&self) {
        let Some(resumed) = self.pauses.resumed() else { return };
        if *self.read_begun.borrow() >= resumed {
            return;
        }
        self.grown.notify_one();
        let mut read_begun = self.read_begun.subscribe();
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

    /// Ends all tokens and sessions of a user that were issued before a moment, in Unix seconds; without one, all that
    /// were issued until now. A token without `iat` counts as issued before.
    ///
    /// Tokens say in which second they were issued. So that none of this second is left over, and none that is issued
    /// after the answer is refused, the answer without a given moment comes when the second is over.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn invalidate_user_tokens(&self, user: &UserId, issued_before: Option<u64>) -> Result<()> {
        // Sessions may live longer than what the application's tokens are remembered for.
        let session_life = millis(self.lifetimes.session).saturating_add(self.margin());
        let expires_at = Some(now().saturating_add(millis(self.lifetimes.revocation).max(session_life)));
        if let Some(before) = issued_before {
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

    /// Ends one token, by its `jti`. `expires_at` says when it would have ended by itself, in Unix seconds; nothing
    /// is to be done where nobody accepts it any more.
    ///
    /// # Errors
    /// If the id is none, or the ledger cannot be reached.
    pub(crate) async fn revoke_token(&self, id: &str, expires_at: Option<u64>) -> Result<()> {
        if id.is_empty() || id.len() > MAX_TOKEN_ID {
            return Err(FeedError::invalid("uid", "the id of a token has 1 to 512 bytes"));
        }
        let until = self.revoked_until(expires_at);
        if until <= now() {
            return Ok(());
        }
        self.revoke(&entry(RevocationKind::Token, id, 0, Some(until))).await
    }

    /// Blocks a user: no token of theirs counts, until `expires_at` in Unix seconds, or until they are unblocked.
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

    /// Ends one session or token of a user.
    pub(crate) async fn revoke_own_token(&self, user: &UserId, id: &str, expires_at: Option<u64>) -> Result<()> {
        let token = entry(RevocationKind::Token, id, 0, Some(self.revoked_until(expires_at)));
        self.revoke(&Revocation { owner: Some(user.clone()), ..token }).await
    }

    /// The end of all sessions of an account, now.
    pub(crate) fn sessions_end(&self, spared: Option<&str>) -> SessionsEnd {
        let at = now();
        let expires_at = at.saturating_add(millis(self.lifetimes.session)).saturating_add(self.margin());
        SessionsEnd { spared: spared.map(str::to_owned), at, expires_at }
    }

    /// Until when it is remembered that a token was revoked that ends at `expires_at`, in Unix seconds.
    fn revoked_until(&self, expires_at: Option<u64>) -> Millis {
        match expires_at {
            Some(at) => at.saturating_mul(1_000).saturating_add(self.margin()),
            None => now().saturating_add(millis(self.lifetimes.revocation)),
        }
    }

    /// How long after its end a token may still be accepted, or the connection that it opened be there.
    fn margin(&self) -> Millis {
        MARGIN.saturating_add(millis(self.lifetimes.leeway))
    }

    async fn revoke(&self, entry: &Revocation) -> Result<()> {
        self.ledger.revoke(entry).await?;
        self.publish().await
    }

    /// Puts what was just written in force: here at once, elsewhere by a signal. The entry is in the ledger, so it is
    /// in force everywhere within a second even if neither works.
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

    /// Reads the whole log, then follows it until the feed stops. What the erasure log beside the backups has and the
    /// ledger has not, because it was restored from an older backup, is erased again.
    ///
    /// # Errors
    /// If the ledger or the erasure log cannot be read.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        let mut incarnation = self.lineage.incarnation();
        self.load().await?;
        let revocations = Arc::clone(self);
        self.runtime.spawn(async move {
            loop {
                let pause = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
                tokio::select! {
                    more = revocations.runtime.sleep(pause) => if !more { return },
                    () = revocations.grown.notified() => {}
                }
                let begun = Instant::now();
                let away = revocations.read_at.lock().elapsed();
                // The numbers of a ledger that lost its tail begin again below what was read.
                let current = revocations.lineage.incarnation();
                let read = match away > RELOAD_AFTER || current != incarnation {
                    true => revocations.load().await,
                    false => revocations.follow().await,
                };
                match read {
                    Ok(()) => incarnation = current,
                    Err(error) => tracing::debug!(%error, ?away, "the log of revocations could not be read"),
                }
                revocations.read_begun.send_replace(begun);
                revocations.erasures.append_unlogged().await;
            }
        });
        let revocations = Arc::clone(self);
        self.runtime.spawn(async move {
            while revocations.runtime.sleep(TICK_INTERVAL).await {
                revocations.pauses.tick();
            }
        });
        let revocations = Arc::clone(self);
        self.runtime.spawn(async move {
            while revocations.runtime.sleep(SWEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                revocations.sweep().await;
            }
        });
        Ok(())
    }

    /// Reads the whole log, and replaces the list.
    async fn load(&self) -> Result<()> {
        let mut reached = self.reached.lock().await;
        let began = Instant::now();
        let (list, mut last, mut erased) = (RevocationList::default(), 0, Vec::new());
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
        *self.read_at.lock() = began;
        self.checks.check_all();
        self.erasures.reapply(erased).await
    }

    /// Reads what was added to the log.
    pub(crate) async fn follow(&self) -> Result<()> {
        let mut reached = self.reached.lock().await;
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
                *self.read_at.lock() = began;
                return Ok(());
            }
        }
    }

    /// Drops entries that have no effect any more, here and in the ledger.
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
