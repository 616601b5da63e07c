//! Rate limits that all nodes share, in Redis.

use std::time::Duration;

use async_trait::async_trait;

use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::{Permit, PermitRequest, PermitStore, Result};

#[async_trait]
impl PermitStore for RedisBroker {
    async fn take_permit(&self, request: PermitRequest<'_>) -> Result<Permit> {
        let (interval, full, cost) = request.micros();
        let mut call = SCRIPTS.permit.call(1);
        call.arg(self.keys.rate(request.key)).arg(interval).arg(full).arg(cost);
        Ok(match replies::parse::<u64>(self.commands.send(&call).await?)? {
            0 => Permit::Granted,
            wait => Permit::Denied { retry_after: Duration::from_micros(wait) },
        })
    }
}
