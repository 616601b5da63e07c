//! What batches of pushes have in common: the providers, the texts, the record of results.

use std::sync::Arc;
use std::time::Duration;

use super::providers::Providers;
use super::texts::Texts;
use crate::backoff::Backoff;
use crate::feed::{Feed, SendReservation, now as unix_now};
use crate::ledger::{PushLease, PushResult, QueuedPush, SettledPush};
use crate::metrics::Metrics;
use crate::model::Millis;

/// The pushes of a batch.
pub(super) const BATCH: usize = 128;

/// The pauses between two attempts to record results.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The options of the bridge.
#[derive(Clone, Copy, Debug)]
pub struct PushBridgeOptions {
    /// The time from a post to the alerts about it (`push.grace`).
    pub grace: Duration,
    /// The time for a request to a provider (`push.timeout`).
    pub timeout: Duration,
    /// How long after its notification a push is of use (`push.ttl`).
    pub time_to_live: Duration,
    /// The time between two pushes of a group of likes or follows (`push.digest`).
    pub digest: Duration,
}

/// Sends messages for batches.
pub(super) struct PushSender {
    pub(super) feed: Arc<Feed>,
    pub(super) providers: Arc<Providers>,
    pub(super) texts: Texts,
    pub(super) metrics: Arc<Metrics>,
    pub(super) options: PushBridgeOptions,
}

/// A push whose result is not recorded yet.
pub(super) struct SentPush {
    pub(super) settled: SettledPush,
    /// Counts towards the daily cap meanwhile.
    pub(super) reservation: Option<SendReservation>,
}

impl SentPush {
    /// A push that does not count towards the daily cap.
    pub(super) fn new(push: &QueuedPush, result: PushResult) -> Self {
        let settled = SettledPush { key: push.key.clone(), seq: push.seq, result };
        Self { settled, reservation: None }
    }
}

impl PushSender {
    /// Records results. A result that cannot be recorded is repeated when the lease ends.
    pub(super) async fn settle(&self, sent: Vec<SentPush>, lease: &PushLease) {
        let (settled, reservations): (Vec<SettledPush>, Vec<_>) =
            sent.into_iter().map(|sent| (sent.settled, sent.reservation)).unzip();
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        while !settled.is_empty() && lease.until > unix_now() {
            let (now, digest) = (unix_now(), millis(self.options.digest));
            match self.feed.base.ledger.settle_pushes(&settled, lease, now, digest).await {
                Ok(_) => return reservations.into_iter().flatten().for_each(SendReservation::recorded),
                Err(error) => tracing::warn!(%error, pushes = settled.len(), "sent pushes are not recorded yet"),
            }
            if !self.feed.base.runtime.sleep(backoff.next_delay()).await {
                return;
            }
        }
    }
}

/// A duration in milliseconds.
pub(super) fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
