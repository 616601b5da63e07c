//! The erased users as this node knows them. The ledger's log of revocations says who they are; every node follows it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::ErasureLog;
use crate::feed::{Feed, Result};
use crate::ledger::RevocationKind;
use crate::model::{Millis, UserId};

/// How often the log is read though no signal came.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Entries read at once.
const ENTRIES_PER_READ: usize = 1_000;

/// Everyone who was ever erased: some 100 bytes each. It is asked for each post and person that is shown, so that it is in
/// memory, and costs one look at a flag where nobody was erased.
#[derive(Default)]
pub(in crate::feed) struct ErasedUsers {
    any: AtomicBool,
    /// Whether each is in the erasure log of this node.
    users: RwLock<HashMap<UserId, bool>>,
}

impl ErasedUsers {
    /// Whether a user was erased.
    pub(in crate::feed) fn contains(&self, user: &UserId) -> bool {
        self.any.load(Ordering::Acquire) && self.users.read().contains_key(user)
    }

    /// Adds a user. `false` if they were known.
    fn insert(&self, user: &UserId) -> bool {
        let mut users = self.users.write();
        let is_new = !users.contains_key(user);
        if is_new {
            users.insert(user.clone(), false);
            self.any.store(true, Ordering::Release);
        }
        is_new
    }

    /// Whether a user is in the erasure log of this node.
    pub(super) fn is_logged(&self, user: &UserId) -> bool {
        self.users.read().get(user) == Some(&true)
    }

    /// Notes that a user is in the erasure log of this node.
    pub(super) fn set_logged(&self, user: &UserId) {
        self.users.write().insert(user.clone(), true);
    }
}

/// What erasures need.
pub(in crate::feed) struct Erasures {
    pub(in crate::feed) users: Arc<ErasedUsers>,
    /// The number of the last entry of the ledger's log that is known here.
    reached: AtomicU64,
    /// There may be an erasure to work on, or an entry in the log.
    pub(in crate::feed) wake: Notify,
    pub(in crate::feed) grown: Notify,
    /// Users whose sockets on this node are to be closed.
    to_close: Mutex<Vec<UserId>>,
    closing: Notify,
    pub(super) log: ErasureLog,
}

impl Erasures {
    pub(in crate::feed) fn new(log: ErasureLog) -> Self {
        Self {
            users: Arc::default(),
            reached: AtomicU64::new(0),
            wake: Notify::new(),
            grown: Notify::new(),
            to_close: Mutex::default(),
            closing: Notify::new(),
            log,
        }
    }
}

impl Feed {
    /// Hides everything of an erased user on this node.
    pub(in crate::feed) fn hide_erased(&self, user: &UserId) {
        if self.erasures.users.insert(user) {
            // What is being put together now is looked at again.
            self.lease.count_invalidation();
            self.erasures.grown.notify_one();
            self.erasures.to_close.lock().push(user.clone());
            self.erasures.closing.notify_one();
        }
    }

    /// Waits until users are erased whose sockets are to be closed, and answers who.
    pub async fn erased_since(&self) -> Vec<UserId> {
        self.erasures.closing.notified().await;
        std::mem::take(&mut *self.erasures.to_close.lock())
    }

    /// Reads who was erased, then follows the log until the feed stops, and works on erasures that are not finished. What
    /// the erasure log beside the backups has and the ledger has not, because it was restored from an older backup, is erased
    /// again.
    ///
    /// # Errors
    /// If the ledger or the erasure log cannot be read.
    pub(in crate::feed) async fn start_erasures(self: &Arc<Self>) -> Result<()> {
        let mut incarnation = self.lineage.incarnation();
        self.load_erasures().await?;
        // Nobody is connected yet.
        self.erasures.to_close.lock().clear();
        let feed = Arc::clone(self);
        self.fanout.tasks().spawn(async move {
            let mut unlogged = Vec::new();
            loop {
                let pause = POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
                tokio::select! {
                    more = feed.fanout.sleep(pause) => if !more { return },
                    () = feed.erasures.grown.notified() => {}
                }
                let current = feed.lineage.incarnation();
                if current != incarnation {
                    match feed.load_erasures().await {
                        Ok(()) => incarnation = current,
                        Err(error) => tracing::warn!(%error, "erasures are not compared with the new ledger yet"),
                    }
                } else if let Err(error) = feed.follow_erasures(&mut unlogged).await {
                    tracing::debug!(%error, "the log of erased users could not be read");
                }
                feed.log_erasures(&mut unlogged).await;
            }
        });
        self.start_erasure_job();
        Ok(())
    }

    /// Reads the ledger's log from its beginning, and erases again whom the erasure log beside the backups has and the
    /// ledger has not.
    async fn load_erasures(&self) -> Result<()> {
        let mut known = Vec::new();
        self.erasures.reached.store(0, Ordering::Release);
        self.follow_erasures(&mut known).await?;
        self.reapply_erasures(known).await
    }

    /// Reads what was added to the ledger's log. Adds to `found` what is not in the erasure log yet.
    async fn follow_erasures(&self, found: &mut Vec<(UserId, Millis)>) -> Result<()> {
        let reached = &self.erasures.reached;
        loop {
            let entries = self.ledger.revocations_after(reached.load(Ordering::Acquire), ENTRIES_PER_READ).await?;
            for (number, entry) in &entries {
                if entry.kind == RevocationKind::Erased
                    && let Some(user) = UserId::parse(&entry.subject)
                {
                    self.hide_erased(&user);
                    found.push((user, entry.at));
                    self.erasures.wake.notify_one();
                }
                reached.store(*number, Ordering::Release);
            }
            if entries.len() < ENTRIES_PER_READ {
                return Ok(());
            }
        }
    }
}
