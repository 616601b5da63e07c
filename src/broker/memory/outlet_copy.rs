//! There is no copy of the outlet in memory: no other program could read it.

use async_trait::async_trait;

use super::store::MemoryBroker;
use crate::broker::{BrokerError, OutletRecord, OutletStream, Result};

#[async_trait]
impl OutletStream for MemoryBroker {
    async fn outlet_stream_end(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn append_to_outlet_stream(&self, _: &[OutletRecord], _: u64) -> Result<()> {
        Err(BrokerError::Failed("outlet.stream needs Redis".to_owned()))
    }

    async fn drop_outlet_stream(&self) -> Result<()> {
        Ok(())
    }
}
