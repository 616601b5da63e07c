//! The record of the ledger in memory.

use async_trait::async_trait;

use super::store::MemoryBroker;
use crate::broker::{LedgerMatch, LedgerRecord, Result};
use crate::ledger::HighWaterMarks;

#[async_trait]
impl LedgerRecord for MemoryBroker {
    async fn match_ledger(&self, identity: &str, numbers: &HighWaterMarks) -> Result<LedgerMatch> {
        Ok(self.ledger.lock().compare(identity, numbers))
    }

    async fn replace_ledger(&self, from: &str, identity: &str, numbers: &HighWaterMarks) -> Result<bool> {
        Ok(self.ledger.lock().replace(from, identity, numbers))
    }

    async fn note_numbers(&self, identity: &str, numbers: &HighWaterMarks) -> Result<bool> {
        Ok(self.ledger.lock().note(identity, numbers))
    }

    fn use_incarnation(&self, incarnation: &str) {
        let before = std::mem::replace(&mut *self.incarnation.lock(), incarnation.to_owned());
        if before.is_empty() || before == incarnation {
            return;
        }
        self.idempotency.invalidate_all();
        self.jobs.forget_all();
        self.tallies.invalidate_all();
        // All channels: this happens only after a ledger was restored.
        for channel in &self.channels {
            channel.state.lock().discard();
        }
        self.derived.renew();
        if let Some(listener) = self.listener.get() {
            listener.resync();
        }
    }
}
