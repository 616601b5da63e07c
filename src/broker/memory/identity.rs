//! The identity of the broker in memory: its folder has the queue of likes, which one process at a time may use. So a
//! process that is started again after a kill has the same broker, and nobody else does.

use async_trait::async_trait;

use super::store::MemoryBroker;
use crate::broker::{BrokerIdentity, IdentityStore, MEMORY_PLACE, Result};
use crate::ledger::{Partner, PartnerChange};
use crate::model::Millis;

#[async_trait]
impl IdentityStore for MemoryBroker {
    fn place(&self) -> String {
        MEMORY_PLACE.to_owned()
    }

    async fn identity(&self) -> Result<BrokerIdentity> {
        Ok(BrokerIdentity { id: Some(self.id.to_string()), ..BrokerIdentity::default() })
    }

    async fn pair_ledger(&self, _: &str, _: &PartnerChange) -> Result<bool> {
        Ok(true)
    }

    async fn adopt_ledger(&self, _: &str, _: &PartnerChange) -> Result<bool> {
        Ok(true)
    }

    async fn show_node(&self, _: &str, _: Millis, _: &str, _: &Partner) -> Result<bool> {
        Ok(true)
    }

    async fn hide_node(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
