//! Ends tokens and sessions before their time, and blocks users; keeps this node's list of them up to date.
//!
//! Who ends something writes an entry to the ledger's log, brings this node up to date, and signals the others. Every node
//! follows the log: at a signal, and every [`POLL_INTERVAL`] in case a signal was lost or the node was paused. So an entry is
//! in force everywhere within a second. The log also says who was erased (`feed/erasure`).
//!
//! **A node that was paused** notices ([`PauseDetector`]) and reads the log before it accepts a credential.
//!
//! **A node that cannot read the log** goes on with what it knows, since nothing can be revoked while the ledger is away for
//! everybody. If it lasts for [`MAX_STALENESS`] the node may be the only one that is cut off: then it refuses requests and new
//! connections with `unavailable` until it has caught up. Open sockets stay.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::pauses::{PauseDetector, TICK_INTERVAL};
use super::{Feed, FeedError, Result, now};
use crate::auth::RevocationList;
use crate::ledger::{Revocation, RevocationKind, SessionsEnd};
use crate::model::{Millis, UserId};

/// How often the log is read though no signal came.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// After so long without an answer of the ledger the whole log is read anew: entries that take something back (an unblock)
/// are not kept for ever, and the ledger may be another one.
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

/// How long an entry outlives the token that it ends, besides the leeway that tokens have: clocks differ, and connections
/// have a grace period.
const MARGIN: Millis = 5 * 60 * 1_000;

/// How long it is remembered that a user was unblocked. A node that was away for longer reads the whole log.
const UNBLOCK_KEPT: Millis = 24 * 3_600 * 1_000;

/// Users whose sockets are checked one by one after a change; past it all sockets are.
const MAX_PENDING_USERS: usize = 1_000;

/// The longest id of a token that can be revoked, in bytes.
const MAX_TOKEN_ID: usize = 512;

/// How a signal reads that says that the log has grown.
pub(super) const REVOKED: &[u8] = b"revoked";

/// Revocations as this node knows them.
pub(crate) struct Revocations {
    pub(super) list: Arc<RevocationList>,
    /// The number of the last entry in the list. Held while the log is read, so that entries come in order.
    reached: tokio::sync::Mutex<u64>,
    /// When the log was last read to its end.
    read_at: Mutex<Instant>,
    /// When the last read of the log that has ended was begun, whether or not it succeeded.
    read_begun: watch::Sender<Instant>,
    pauses: PauseDetector,
    /// The log may have grown.
    pub(super) grown: Notify,
    /// Whose sockets are to be checked.
    pending: Mutex<PendingChecks>,
    changed: Notify,
}

/// The sockets that new entries may concern.
#[derive(Debug, Default)]
pub struct PendingChecks {
    /// Those of these users.
    pub users: HashSet<UserId>,
    /// All of them.
    pub all: bool,
}

impl Revocations {
    pub(super) fn new(list: Arc<RevocationList>) -> Self {
        Self {
            list,
            reached: tokio::sync::Mutex::new(0),
            read_at: Mutex::new(Instant::now()),
            read_begun: watch::Sender::new(Instant::now()),
            pauses: PauseDetector::new(),
            grown: Notify::new(),
            pending: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether the log could not be read for so long that the list cannot be trusted.
    pub(super) fn is_stale(&self) -> bool {
        self.read_at.lock().elapsed() > MAX_STALENESS
    }

    /// Waits, where this node was paused, until it has tried to read what was revoked meanwhile. Otherwise it is ready at once.
    pub(super) async fn catch_up(&self) {
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

    /// Notes whose sockets are to be checked.
    fn note(&self, entries: &[(u64, Revocation)]) {
        let mut pending = self.pending.lock();
        for (_, entry) in entries {
            let user = match entry.kind {
                RevocationKind::Token => entry.owner.clone(),
                _ => UserId::parse(&entry.subject),
            };
            match user {
                Some(user) if pending.users.len() < MAX_PENDING_USERS => drop(pending.users.insert(user)),
                _ => pending.all = true,
            }
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Notes that the sockets of a user are to be checked.
    pub(super) fn check_user(&self, user: &UserId) {
        let mut pending = self.pending.lock();
        match pending.users.len() {
            ..MAX_PENDING_USERS => drop(pending.users.insert(user.clone())),
            _ => pending.all = true,
        }
        drop(pending);
        self.changed.notify_one();
    }

    fn check_all(&self) {
        self.pending.lock().all = true;
        self.changed.notify_one();
    }
}

/// An entry without an owner or a spared session.
fn entry(kind: RevocationKind, subject: &str, value: u64, expires_at: Option<Millis>) -> Revocation {
    Revocation { kind, subject: subject.to_owned(), owner: None, value, spared: None, at: now(), expires_at }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl Feed {
    // --- for backends --------------------------------------------------------------------------------------

    /// Ends all tokens and sessions of a user that were issued before a moment, in Unix seconds; without one, all that were
    /// issued until now. A token without `iat` counts as issued before.
    ///
    /// Tokens say in which second they were issued. So that none of this second is left over, and none that is issued after
    /// the answer is refused, the answer without a given moment comes when the second is over.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub async fn invalidate_user_tokens(self: &Arc<Self>, user: &UserId, issued_before: Option<u64>) -> Result<()> {
        // Sessions may live longer than what the application's tokens are remembered for.
        let session_life = millis(self.options.session_ttl).saturating_add(self.margin());
        let expires_at = Some(now().saturating_add(millis(self.options.revocation_ttl).max(session_life)));
        if let Some(before) = issued_before {
            return self.revoke(&entry(RevocationKind::UserTokens, user.as_str(), before, expires_at)).await;
        }
        if self.ledger.end_sessions(user, &self.sessions_end(None)).await?.is_some() {
            return self.publish_revocations().await;
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
    pub async fn revoke_token(self: &Arc<Self>, id: &str, expires_at: Option<u64>) -> Result<()> {
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
    pub async fn block_user(self: &Arc<Self>, user: &UserId, expires_at: Option<u64>) -> Result<()> {
        let until = expires_at.map(|at| at.saturating_mul(1_000));
        self.revoke(&entry(RevocationKind::Block, user.as_str(), 1, until)).await
    }

    /// Ends a block.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub async fn unblock_user(self: &Arc<Self>, user: &UserId) -> Result<()> {
        let until = now().saturating_add(UNBLOCK_KEPT);
        self.revoke(&entry(RevocationKind::Block, user.as_str(), 0, Some(until))).await
    }

    // --- for users -----------------------------------------------------------------------------------------

    /// Ends one session or token of a user.
    pub(super) async fn revoke_own_token(
        self: &Arc<Self>,
        user: &UserId,
        id: &str,
        expires_at: Option<u64>,
    ) -> Result<()> {
        let token = entry(RevocationKind::Token, id, 0, Some(self.revoked_until(expires_at)));
        self.revoke(&Revocation { owner: Some(user.clone()), ..token }).await
    }

    /// The end of all sessions of an account, now.
    pub(super) fn sessions_end(&self, spared: Option<&str>) -> SessionsEnd {
        let at = now();
        let expires_at = at.saturating_add(millis(self.options.session_ttl)).saturating_add(self.margin());
        SessionsEnd { spared: spared.map(str::to_owned), at, expires_at }
    }

    /// Until when it is remembered that a token was revoked that ends at `expires_at`, in Unix seconds.
    fn revoked_until(&self, expires_at: Option<u64>) -> Millis {
        match expires_at {
            Some(at) => at.saturating_mul(1_000).saturating_add(self.margin()),
            None => now().saturating_add(millis(self.options.revocation_ttl)),
        }
    }

    /// How long after its end a token may still be accepted, or the connection that it opened be there.
    fn margin(&self) -> Millis {
        MARGIN.saturating_add(millis(self.options.leeway))
    }

    async fn revoke(self: &Arc<Self>, entry: &Revocation) -> Result<()> {
        self.ledger.revoke(entry).await?;
        self.publish_revocations().await
    }

    /// Puts what was just written in force: here at once, elsewhere by a signal. The entry is in the ledger, so it is in force
    /// everywhere within a second even if neither works.
    pub(super) async fn publish_revocations(self: &Arc<Self>) -> Result<()> {
        let (followed, signalled) =
            tokio::join!(self.follow_revocations(), self.broker.signal(bytes::Bytes::from_static(REVOKED)));
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
    pub(super) async fn start_revocations(self: &Arc<Self>) -> Result<()> {
        let mut incarnation = self.lineage.incarnation();
        self.load_revocations().await?;
        let feed = Arc::clone(self);
        self.fanout.tasks().spawn(async move {
            loop {
                let pause = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
                tokio::select! {
                    more = feed.fanout.sleep(pause) => if !more { return },
                    () = feed.revocations.grown.notified() => {}
                }
                let begun = Instant::now();
                let away = feed.revocations.read_at.lock().elapsed();
                // The numbers of a ledger that lost its tail begin again below what was read.
                let current = feed.lineage.incarnation();
                let read = match away > RELOAD_AFTER || current != incarnation {
                    true => feed.load_revocations().await,
                    false => feed.follow_revocations().await,
                };
                match read {
                    Ok(()) => incarnation = current,
                    Err(error) => tracing::debug!(%error, ?away, "the log of revocations could not be read"),
                }
                feed.revocations.read_begun.send_replace(begun);
                feed.log_found_erasures().await;
            }
        });
        let feed = Arc::clone(self);
        self.fanout.tasks().spawn(async move {
            while feed.fanout.sleep(TICK_INTERVAL).await {
                feed.revocations.pauses.tick();
            }
        });
        let feed = Arc::clone(self);
        self.fanout.tasks().spawn(async move {
            while feed.fanout.sleep(SWEEP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                feed.sweep_revocations().await;
            }
        });
        Ok(())
    }

    /// Reads the whole log in place of what is known of it.
    async fn load_revocations(&self) -> Result<()> {
        let mut reached = self.revocations.reached.lock().await;
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
        self.revocations.list.replace(list);
        *reached = last;
        drop(reached);
        *self.revocations.read_at.lock() = began;
        self.revocations.check_all();
        self.reapply_erasures(erased).await
    }

    /// Reads what was added to the log.
    pub(super) async fn follow_revocations(&self) -> Result<()> {
        let mut reached = self.revocations.reached.lock().await;
        loop {
            let began = Instant::now();
            let entries = self.ledger.revocations_after(*reached, PAGE).await?;
            for (number, entry) in &entries {
                self.revocations.list.apply(entry);
                *reached = *number;
            }
            let mut erased = self.erasures.hide_in(&entries);
            self.erasures.unlogged.lock().append(&mut erased);
            if !entries.is_empty() {
                self.revocations.note(&entries);
            }
            if entries.len() < PAGE {
                *self.revocations.read_at.lock() = began;
                return Ok(());
            }
        }
    }

    /// Drops entries that have no effect any more, here and in the ledger.
    async fn sweep_revocations(&self) {
        let now = now();
        self.revocations.list.sweep(now);
        loop {
            match self.ledger.forget_revocations(now, MAX_FORGOTTEN).await {
                Ok(removed) if removed < MAX_FORGOTTEN => return,
                Ok(_) if self.fanout.sleep(SWEEP_PAUSE).await => {}
                Ok(_) => return,
                Err(error) => return tracing::debug!(%error, "expired revocations stay for now"),
            }
        }
    }

    /// Waits until sockets are to be checked against the revocations again, and answers which.
    pub async fn revocations_changed(&self) -> PendingChecks {
        self.revocations.changed.notified().await;
        std::mem::take(&mut *self.revocations.pending.lock())
    }
}
