//! The limited and suspended users, as this node knows them.
//!
//! The ledger has a log of standings. A change is announced to every node before it is answered. Each node keeps
//! the users whose standing is not active in memory, so a look-up costs no store call. The copy is a cache: it is
//! valid while this node holds its cache lease and has read every announced change. Otherwise
//! [`catch_up`](Standings::catch_up) reads the log first. A standing with an end ends by itself, by the clock of
//! each node.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify};

use super::authorization_checks::AuthorizationChecks;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::feed::runtime::{Runtime, now};
use crate::ledger::{Ledger, UserStanding};
use crate::model::{Millis, Standing, UserId};

/// The maximal number of entries of one read.
const PAGE: usize = 1_000;

/// The pause after a failed read of the log.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A standing that is not active, and its end in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
struct KnownStanding {
    standing: Standing,
    until: Option<Millis>,
}

impl KnownStanding {
    fn now(self) -> Standing {
        if self.until.is_some_and(|until| until <= now()) { Standing::Active } else { self.standing }
    }
}

/// How far this node has read the log.
#[derive(Default)]
struct LogPosition {
    /// The number of the last entry that was read.
    seq: u64,
    /// The value of [`Standings::resets`] when the whole log was last read.
    resets: u64,
}

/// All limited and suspended users, at some 100 bytes each.
pub(crate) struct Standings {
    ledger: Arc<dyn Ledger>,
    lease: Arc<CacheLease>,
    /// Closes the connections of suspended users.
    checks: Arc<AuthorizationChecks>,
    /// Whether there is any entry. Most deployments have few, so look-ups read this flag first.
    any: AtomicBool,
    users: RwLock<HashMap<UserId, KnownStanding>>,
    /// The number of announcements that this node received.
    announced: AtomicU64,
    /// The value of `announced` before the last read of the log that reached its end.
    known: AtomicU64,
    /// The number of times that this node may have missed changes.
    resets: AtomicU64,
    /// Held while the log is read.
    position: Mutex<LogPosition>,
    /// Wakes the reader of the log.
    grown: Notify,
}

impl Standings {
    /// An empty copy, which is read before its first use.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>, checks: Arc<AuthorizationChecks>) -> Self {
        Self {
            ledger,
            lease,
            checks,
            any: AtomicBool::new(false),
            users: RwLock::default(),
            announced: AtomicU64::new(1),
            known: AtomicU64::new(0),
            resets: AtomicU64::new(1),
            position: Mutex::default(),
            grown: Notify::new(),
        }
    }

    /// Reads the log at once after each change, so that connections are closed in time.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn start(self: &Arc<Self>, runtime: &Arc<Runtime>) -> Result<()> {
        self.catch_up().await?;
        let stopping = Arc::clone(runtime);
        runtime.supervise("standings", self, move |standings| {
            let runtime = Arc::clone(&stopping);
            async move { standings.follow(&runtime).await }
        });
        Ok(())
    }

    async fn follow(&self, runtime: &Runtime) {
        loop {
            tokio::select! {
                () = runtime.stopped() => return,
                () = self.grown.notified() => {}
            }
            while let Err(error) = self.catch_up().await {
                tracing::debug!(%error, "the log of standings could not be read");
                if !runtime.sleep(RETRY_PAUSE).await {
                    return;
                }
            }
        }
    }

    /// The standing of a user, as far as this node knows: call [`catch_up`](Self::catch_up) first.
    pub(crate) fn of(&self, user: &UserId) -> Standing {
        if !self.any.load(Ordering::Acquire) {
            return Standing::Active;
        }
        self.users.read().get(user).map_or(Standing::Active, |entry| entry.now())
    }

    /// Whether this node knows of all changes that were answered.
    pub(crate) fn is_current(&self) -> bool {
        self.has_read_all() && self.lease.is_held()
    }

    fn has_read_all(&self) -> bool {
        self.known.load(Ordering::Acquire) >= self.announced.load(Ordering::Acquire)
    }

    /// Waits until this node knows of all changes that were answered. Makes no ledger call if it does.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn catch_up(&self) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        let mut position = self.position.lock().await;
        // Another request may have read the log meanwhile.
        if self.is_current() {
            return Ok(());
        }
        let announced = self.announced.load(Ordering::Acquire);
        let resets = self.resets.load(Ordering::Acquire);
        let is_reset = position.resets != resets;
        let mut seq = if is_reset { 0 } else { position.seq };
        let mut all = HashMap::new();
        loop {
            let entries = self.ledger.standings_after(seq, PAGE).await?;
            let is_last = entries.len() < PAGE;
            seq = entries.last().map_or(seq, |entry| entry.seq);
            if is_reset {
                all.extend(entries.into_iter().map(|entry| (entry.user.clone(), entry)));
            } else {
                self.apply_entries(entries);
            }
            if is_last {
                break;
            }
        }
        if is_reset {
            self.users.write().retain(|user, _| all.contains_key(user));
            self.apply_entries(all.into_values());
        }
        *position = LogPosition { seq, resets };
        drop(position);
        self.known.fetch_max(announced, Ordering::AcqRel);
        Ok(())
    }

    fn apply_entries(&self, entries: impl IntoIterator<Item = UserStanding>) {
        let mut users = self.users.write();
        for UserStanding { user, standing, until, .. } in entries {
            let entry = KnownStanding { standing, until };
            if entry.now() == Standing::Suspended {
                self.checks.check_user(&user);
            }
            match standing {
                Standing::Active => drop(users.remove(&user)),
                Standing::Limited | Standing::Suspended => drop(users.insert(user, entry)),
            }
        }
        self.any.store(!users.is_empty(), Ordering::Release);
    }
}

impl Invalidated for Standings {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Standing(_) = change {
            self.announced.fetch_add(1, Ordering::AcqRel);
            self.grown.notify_one();
        }
    }

    fn clear(&self) {
        self.resets.fetch_add(1, Ordering::AcqRel);
        self.announced.fetch_add(1, Ordering::AcqRel);
        self.grown.notify_one();
    }
}
