//! Rate limits in memory.

use std::time::Instant;

use async_trait::async_trait;

use super::store::MemoryBroker;
use crate::broker::{Permit, PermitRequest, PermitStore, Result};

#[async_trait]
impl PermitStore for MemoryBroker {
    async fn take_permit(&self, request: PermitRequest<'_>) -> Result<Permit> {
        Ok(self.permits.take(&request, Instant::now()))
    }
}
