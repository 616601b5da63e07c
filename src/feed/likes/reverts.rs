//! Publishes to users which of their likes were reverted.
//!
//! A revert is appended to the log of the user's notifications, so that disconnected devices also remove the like
//! later.

use std::sync::Arc;

use super::like_quarantine::LikeQuarantine;
use super::memory::LikeMemory;
use crate::broker::Append;
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{REVERTS, Reverted};
use crate::model::{Channel, Entry, Event, Retention};

/// Reverts of one step.
const MAX_STEP: usize = 200;

/// The reverts of a partition that a settler has to publish.
pub(super) struct PendingReverts {
    /// Whether the ledger may have pending reverts.
    any: bool,
}

impl PendingReverts {
    /// Initial state: the last settler may have left reverts.
    pub(super) fn unknown() -> Self {
        Self { any: true }
    }

    /// Records that a batch added reverts.
    pub(super) fn added(&mut self) {
        self.any = true;
    }
}

/// Publishes reverts.
pub(crate) struct RevertPublisher {
    base: Arc<Base>,
    memory: Arc<LikeMemory>,
    quarantine: Arc<QuarantinePolicy>,
    like_quarantine: LikeQuarantine,
    /// How much of the notification log is kept.
    retention: Retention,
}

impl RevertPublisher {
    /// A publisher of the reverts in this ledger to this broker.
    pub(crate) fn new(
        base: Arc<Base>,
        memory: Arc<LikeMemory>,
        quarantine: Arc<QuarantinePolicy>,
        like_quarantine: LikeQuarantine,
        retention: Retention,
    ) -> Self {
        Self { base, memory, quarantine, like_quarantine, retention }
    }

    /// Publishes the pending reverts of a partition.
    ///
    /// # Errors
    /// If a store cannot be reached; the reverts stay pending.
    pub(super) async fn publish(&self, partition: u16, pending: &mut PendingReverts) -> Result<()> {
        while pending.any {
            let reverts = self.base.ledger.pending_reverts(partition, MAX_STEP).await?;
            pending.any = reverts.len() == MAX_STEP;
            for reverted in &reverts {
                self.memory.states.remove(&(reverted.user.clone(), reverted.object));
                let (published, cause) = isolate(self.push(reverted)).await;
                let Err(error) = published else {
                    self.quarantine.succeeded(reverted.id);
                    continue;
                };
                pending.any = true;
                let fault = self.quarantine.failed(reverted.id, &error, cause).await;
                let Some(fault) = fault else { return Err(error) };
                self.like_quarantine.set_revert_aside(reverted, fault).await?;
            }
            if !reverts.is_empty() {
                let ids: Vec<i64> = reverts.iter().map(|reverted| reverted.id).collect();
                self.base.ledger.delete_reverts(&ids).await.inspect_err(|_| pending.any = true)?;
            }
        }
        Ok(())
    }

    /// Publishes a revert to its user. A repeat publishes it once.
    pub(super) async fn push(&self, Reverted { id, user, object, reason }: &Reverted) -> Result<()> {
        self.base.lineage.note_number(REVERTS, u64::try_from(*id).unwrap_or_default()).await?;
        let event = Event::LikeReverted { id: object.number(), reason: *reason };
        let (channel, key) = (Channel::Notifications(user.clone()).to_string(), format!("revert {id}"));
        let (entry, retention) = (Entry::Data(event.encode()), self.retention);
        let append = Append { channel: &channel, entry: &entry, retention, idempotency_key: Some(&key), version: None };
        self.base.broker.append(append).await?;
        Ok(())
    }
}
