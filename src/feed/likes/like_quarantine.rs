//! Quarantines queue entries that cannot be settled.
//!
//! An entry that always fails is quarantined with the reason, its user is informed that the like is reverted, and the
//! partition continues behind it. An entry that is not a like is quarantined as well.

use std::sync::Arc;

use super::entry;
use crate::broker::QueuedEntry;
use crate::feed::error::Result;
use crate::ledger::{
    Fault, LIKE, Ledger, Quarantined, REVERT, RevertContent, Reverted, SettledLikes, SkippedLike, like_name,
};

/// Why an entry that cannot be decoded is set aside.
pub(super) const UNKNOWN: &str = "it is not a like that this version knows";

/// The longest entry content that is stored, in bytes.
const MAX_CONTENT: usize = 1_000;

/// Writes entries of the queue to the ledger's quarantine.
#[derive(Clone)]
pub(crate) struct LikeQuarantine {
    ledger: Arc<dyn Ledger>,
}

impl LikeQuarantine {
    /// The quarantine of this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// Quarantines an entry that always fails, and moves the ledger's position from `from` to `to`, past the entry.
    /// Returns the resulting changes; `None` if another node has moved the position.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub(super) async fn skip(
        &self,
        partition: u16,
        from: &str,
        to: &str,
        item: QueuedEntry,
        fault: Fault,
    ) -> Result<Option<SettledLikes>> {
        let cause = &fault.reason;
        tracing::error!(partition, place = %item.place, cause, "a like always fails and was quarantined");
        let like = entry::decode(&item.body);
        let skipped = SkippedLike {
            partition,
            from: from.to_owned(),
            to: to.to_owned(),
            content: text(&item),
            like: like.clone().filter(|like| like.liked),
            fault,
        };
        let Some(reverted) = self.ledger.skip_like(&skipped).await? else { return Ok(None) };
        let objects: Vec<_> = like.iter().map(|like| like.object).collect();
        // The count itself may be unreadable. Other nodes load it again later.
        let tallies = self.ledger.like_tallies(&objects).await.unwrap_or_default();
        Ok(Some(SettledLikes { tallies, added: Vec::new(), reverted }))
    }

    /// Quarantines a revert that cannot be published to its user.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub(super) async fn set_revert_aside(&self, reverted: &Reverted, fault: Fault) -> Result<()> {
        let cause = &fault.reason;
        tracing::error!(?reverted, cause, "the note of a reverted like always fails and was quarantined");
        let Reverted { id, user, object, reason } = reverted;
        let (object, reason) = (object.to_text(), reason.as_str().to_owned());
        let content = RevertContent { user: user.to_string(), object, reason };
        let content = serde_json::to_string(&content).unwrap_or_default();
        let entry = Quarantined::new(REVERT, id.to_string(), content, fault);
        self.ledger.quarantine(&[entry]).await?;
        Ok(self.ledger.delete_reverts(&[*id]).await?)
    }

    /// Quarantines the entries of a batch that are not likes. The batch settles without them.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub(super) async fn set_unreadable_aside(&self, partition: u16, epoch: &str, batch: &[QueuedEntry]) -> Result<()> {
        let unreadable = batch.iter().filter(|item| entry::decode(&item.body).is_none()).map(|item| {
            tracing::error!(partition, place = %item.place, "an entry of the queue of likes cannot be decoded");
            let name = like_name(partition, &format!("{epoch} {}", item.place));
            Quarantined::new(LIKE, name, text(item), Fault::now(UNKNOWN, 1))
        });
        let unreadable: Vec<_> = unreadable.collect();
        if unreadable.is_empty() {
            return Ok(());
        }
        Ok(self.ledger.quarantine(&unreadable).await?)
    }
}

fn text(item: &QueuedEntry) -> String {
    String::from_utf8_lossy(&item.body[..item.body.len().min(MAX_CONTENT)]).into_owned()
}
