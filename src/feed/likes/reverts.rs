//! Publishes to users which of their likes were reverted.
//!
//! A revert is appended to the log of the user's notifications, so that disconnected devices also remove the like
//! later.

use super::settler::Settlers;
use crate::broker::Append;
use crate::feed::error::{Result, isolate};
use crate::ledger::{Fault, Quarantined, REVERT, REVERTS, Reverted};
use crate::model::{Channel, Entry, Event};

/// Reverts of one step.
const MAX_STEP: usize = 200;

impl Settlers {
    /// Publishes the reverts of a partition, if there may be some.
    ///
    /// # Errors
    /// If a store cannot be reached; the reverts stay pending.
    pub(super) async fn publish_reverts(&self, partition: u16, has_reverts: &mut bool) -> Result<()> {
        while *has_reverts {
            let reverts = self.base.ledger.pending_reverts(partition, MAX_STEP).await?;
            for reverted in &reverts {
                self.memory.states.remove(&(reverted.user.clone(), reverted.object));
                let (published, cause) = isolate(self.push_revert(reverted)).await;
                let Err(error) = published else {
                    self.revert_quarantine.succeeded(reverted.id);
                    continue;
                };
                let fault = self.revert_quarantine.failed(reverted.id, &error, cause).await;
                let Some(fault) = fault else { return Err(error) };
                self.set_revert_aside(reverted, fault).await?;
            }
            let ids: Vec<i64> = reverts.iter().map(|reverted| reverted.id).collect();
            if !ids.is_empty() {
                self.base.ledger.delete_reverts(&ids).await?;
            }
            *has_reverts = reverts.len() == MAX_STEP;
        }
        Ok(())
    }

    /// Quarantines a revert that cannot be published to its user.
    async fn set_revert_aside(&self, reverted: &Reverted, fault: Fault) -> Result<()> {
        let cause = &fault.reason;
        tracing::error!(?reverted, cause, "the note of a reverted like always fails and was quarantined");
        let name = reverted.id.to_string();
        let content = serde_json::to_string(reverted).unwrap_or_default();
        self.base.ledger.quarantine(&[Quarantined::new(REVERT, name, content, fault)]).await?;
        Ok(self.base.ledger.delete_reverts(&[reverted.id]).await?)
    }

    /// Publishes a revert to its user. A repeat publishes it once.
    pub(super) async fn push_revert(&self, Reverted { id, user, object, reason }: &Reverted) -> Result<()> {
        self.base.lineage.note_number(REVERTS, u64::try_from(*id).unwrap_or_default()).await?;
        let event = Event::LikeReverted { id: object.number(), reason: *reason };
        let channel = Channel::Notifications(user.clone()).to_string();
        let key = format!("revert {id}");
        let entry = Entry::Data(event.encode());
        let retention = self.base.options.timeline.notification_log();
        let append = Append { channel: &channel, entry: &entry, retention, idempotency_key: Some(&key), version: None };
        self.base.broker.append(append).await?;
        Ok(())
    }
}
