//! Returns likes and reverts from the quarantine to their work, when an operator asked for it.
//!
//! Their work is in the broker: the queue of likes, and the logs of notifications. The command therefore leaves a
//! request in the ledger, and any node carries it out. Two nodes that do so at once change nothing more.

use std::sync::Arc;
use std::time::Duration;

use super::entry;
use super::intake::LikeIntake;
use super::like_quarantine::UNKNOWN;
use super::memory::LikeMemory;
use super::reverts::RevertPublisher;
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result, isolate};
use crate::ledger::{LIKE, LedgerError, Quarantined, REVERT, RevertContent, RevertReason, Reverted};
use crate::model::{ContentId, UserId};

/// The interval at which requests are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The requests of one step.
const MAX_STEP: usize = 100;

/// Carries out requests for retries.
pub(crate) struct LikeRetries {
    base: Arc<Base>,
    memory: Arc<LikeMemory>,
    intake: Arc<LikeIntake>,
    reverts: Arc<RevertPublisher>,
}

impl LikeRetries {
    /// Retries of this ledger: see [`start`](Self::start).
    pub(crate) fn new(
        base: Arc<Base>,
        memory: Arc<LikeMemory>,
        intake: Arc<LikeIntake>,
        reverts: Arc<RevertPublisher>,
    ) -> Self {
        Self { base, memory, intake, reverts }
    }

    /// Works until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("like_retries", self, |retries| async move {
            while retries.base.runtime.sleep(POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                if let Err(error) = retries.step().await {
                    tracing::warn!(%error, "retries of likes wait for their stores");
                }
            }
        });
    }

    async fn step(&self) -> Result<()> {
        for kind in [LIKE, REVERT] {
            for item in self.base.ledger.requested_retries(kind, MAX_STEP).await? {
                // One that fails again does not hold up the others.
                let (retried, cause) = isolate(self.retry(&item)).await;
                match retried {
                    Ok(()) => drop(self.base.ledger.drop_quarantined(kind, &item.name).await?),
                    Err(error) if error.is_outage() => return Err(error),
                    Err(_) => drop(self.base.ledger.refuse_retry(kind, &item.name, &cause).await?),
                }
            }
        }
        Ok(())
    }

    async fn retry(&self, item: &Quarantined) -> Result<()> {
        if item.kind == REVERT {
            return self.reverts.push(&reverted(item).ok_or_else(|| unreadable("it cannot be decoded"))?).await;
        }
        let change = entry::decode(item.content.as_bytes()).ok_or_else(|| unreadable(UNKNOWN))?;
        self.intake.enqueue(self.memory.partition(change.object), &change, None).await?;
        Ok(())
    }
}

fn unreadable(why: &str) -> FeedError {
    LedgerError::Failed(why.to_owned()).into()
}

/// The revert of an item; `None` if it cannot be decoded.
fn reverted(item: &Quarantined) -> Option<Reverted> {
    let RevertContent { user, object, reason } = serde_json::from_str(&item.content).ok()?;
    Some(Reverted {
        id: item.name.parse().ok()?,
        user: UserId::parse(&user)?,
        object: ContentId::parse(&object)?,
        reason: RevertReason::parse(&reason)?,
    })
}
