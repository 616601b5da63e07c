//! What batches use: the feed, the providers and the texts of pushes.

use std::sync::Arc;
use std::time::Duration;

use super::config::PushConfig;
use super::providers::Providers;
use super::texts::Texts;
use crate::feed::Feed;
use crate::model::Millis;

/// The pushes of a batch.
pub(super) const BATCH: usize = 128;

/// The shortest time without a look at the queue, and the shortest pause after a failure.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between two attempts while the ledger cannot be reached.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// What a batch needs to send pushes.
pub(super) struct PushSender {
    pub(super) feed: Arc<Feed>,
    pub(super) providers: Arc<Providers>,
    pub(super) texts: Texts,
    pub(super) config: PushConfig,
}

/// A duration in milliseconds.
pub(super) fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
