//! Likes and reverts return from the quarantine to their work.
//!
//! This work is in the broker: the queue of likes, and the logs of notifications. The command of an operator therefore
//! leaves a request in the ledger, and any node carries it out. Two nodes that do so at once change nothing more.

use super::intake;
use super::settler::{Settlers, UNKNOWN};
use crate::feed::error::{FeedError, Result, isolate};
use crate::ledger::{LedgerError, Quarantined, REVERT};

/// The requests of one step.
const MAX_RETRIES: usize = 100;

impl Settlers {
    /// Carries out requests for retries.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn carry_out_retries(&self) -> Result<()> {
        let ledger = &self.base.ledger;
        for item in ledger.requested_retries(MAX_RETRIES).await? {
            // One that fails again does not hold up the others.
            let (retried, cause) = isolate(self.retry(&item)).await;
            match retried {
                Ok(()) => drop(ledger.drop_quarantined(&item.kind, &item.name).await?),
                Err(error) if error.is_outage() => return Err(error),
                Err(_) => ledger.refuse_retry(&item.kind, &item.name, &cause).await?,
            }
        }
        Ok(())
    }

    async fn retry(&self, item: &Quarantined) -> Result<()> {
        if item.kind == REVERT {
            let reverted = serde_json::from_str(&item.content).map_err(|error| unreadable(&error.to_string()))?;
            return self.push_revert(&reverted).await;
        }
        let change = intake::decode(item.content.as_bytes()).ok_or_else(|| unreadable(UNKNOWN))?;
        self.intake.enqueue(self.memory.partition(change.object), &change, None).await?;
        Ok(())
    }
}

fn unreadable(why: &str) -> FeedError {
    LedgerError::Failed(why.to_owned()).into()
}
