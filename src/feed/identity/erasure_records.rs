//! Erasures on record: in the ledger's log, in the list of erased users, and in the erasure log beside the backups.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::erased_users::ErasedUsers;
use super::erasure_log::{ErasureLog, ErasureLogEntry};
use crate::feed::error::{FeedError, Result};
use crate::feed::work::Partition;
use crate::ledger::{Ledger, Revocation, RevocationKind};
use crate::model::{Millis, UserId};

/// Keeps these three records consistent.
pub(crate) struct ErasureRecords {
    ledger: Arc<dyn Ledger>,
    erased: Arc<ErasedUsers>,
    log: ErasureLog,
    /// Entries of the ledger's log that the erasure log of this node may lack.
    unlogged: Mutex<Vec<(UserId, Millis)>>,
    /// Held while missing users are found and appended to the erasure log.
    appending: tokio::sync::Mutex<()>,
    /// The partition of work whose owner processes erasures.
    partition: Arc<Partition>,
}

impl ErasureRecords {
    /// Records of this ledger, this list of erased users and this file.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        erased: Arc<ErasedUsers>,
        log: ErasureLog,
        partition: Arc<Partition>,
    ) -> Self {
        let unlogged = Mutex::default();
        let appending = tokio::sync::Mutex::default();
        Self { ledger, erased, log, unlogged, appending, partition }
    }

    /// Wakes the job: there is an erasure to process.
    pub(crate) fn wake_job(&self) {
        self.partition.wake();
    }

    /// Hides everything of an erased user on this node.
    pub(crate) fn hide(&self, user: &UserId) {
        self.erased.hide(user);
    }

    /// Hides the users that these entries of the ledger's log erase. Returns the users with the times of their
    /// erasures.
    pub(super) fn hide_in(&self, entries: &[(u64, Revocation)]) -> Vec<(UserId, Millis)> {
        let erased = entries.iter().filter(|(_, entry)| entry.kind == RevocationKind::Erased);
        let erased: Vec<_> = erased.filter_map(|(_, entry)| Some((UserId::parse(&entry.subject)?, entry.at))).collect();
        erased.iter().for_each(|(user, _)| self.hide(user));
        if !erased.is_empty() {
            self.wake_job();
        }
        erased
    }

    /// Records entries of the ledger's log for [`append_unlogged`](Self::append_unlogged).
    pub(super) fn note_unlogged(&self, mut erased: Vec<(UserId, Millis)>) {
        self.unlogged.lock().append(&mut erased);
    }

    /// Appends the recorded entries to the erasure log of this node.
    pub(super) async fn append_unlogged(&self) {
        let mut unlogged = std::mem::take(&mut *self.unlogged.lock());
        self.append(&mut unlogged).await;
        self.unlogged.lock().append(&mut unlogged);
    }

    /// Appends an erasure to the erasure log of this node, unless the log already has it.
    ///
    /// # Errors
    /// [`FeedError::Unavailable`] if the file cannot be written.
    pub(crate) async fn record(&self, user: &UserId, at: Millis) -> Result<()> {
        let mut entry = vec![(user.clone(), at)];
        self.append(&mut entry).await;
        if entry.is_empty() { Ok(()) } else { Err(FeedError::Unavailable) }
    }

    /// Appends erasures that the file lacks. Entries that could not be written stay in the list.
    async fn append(&self, entries: &mut Vec<(UserId, Millis)>) {
        let _turn = self.appending.lock().await;
        entries.retain(|(user, _)| !self.erased.is_logged(user));
        if entries.is_empty() {
            return;
        }
        match self.log.append(entries).await {
            Ok(()) => entries.drain(..).for_each(|(user, _)| self.erased.set_logged(&user)),
            Err(error) => tracing::error!(%error, "the erasure log cannot be written: a restored backup would lack it"),
        }
    }

    /// Erases users again that are in the erasure log but not in the ledger, which was restored from an older backup.
    /// Logs users that are in the ledger but not in the file. `known` has all erased users of the ledger's log.
    ///
    /// # Errors
    /// If the log cannot be read, or the ledger cannot be reached.
    pub(super) async fn reapply(&self, mut known: Vec<(UserId, Millis)>) -> Result<()> {
        let logged = self.log.read().await.map_err(|error| {
            tracing::error!(%error, "the erasure log cannot be read");
            FeedError::Unavailable
        })?;
        let in_ledger: HashSet<&UserId> = known.iter().map(|(user, _)| user).collect();
        let mut again = 0_usize;
        for ErasureLogEntry { user, at } in logged {
            // This node may know of an erasure that the ledger has lost.
            if !in_ledger.contains(&user) && self.ledger.begin_erasure(&user, at).await? {
                again += 1;
            }
            self.hide(&user);
            self.erased.set_logged(&user);
        }
        if again > 0 {
            tracing::warn!(users = again, "the ledger is older than the erasure log: these users are erased again");
            self.wake_job();
        }
        self.append(&mut known).await;
        Ok(())
    }
}
