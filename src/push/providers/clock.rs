//! The wall clock of the transports.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Millis;

/// The current Unix time in milliseconds.
pub(super) fn now() -> Millis {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(Millis::MAX)
}
