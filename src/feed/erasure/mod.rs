//! Erasure: everything of a user is removed, and the id stays as a tombstone.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | begins an erasure |
//! | `job.rs` | removes the user's data, in steps |
//!
//! One ledger transaction makes the user a tombstone and begins the job. From then on nothing of the user is readable:
//! the ledger does not return the id, and every node hides data that caches, inboxes and lists still hold
//! ([`ErasedUsers`](crate::feed::identity::ErasedUsers)). The job then removes the rows. It needs no cursor, because
//! the remaining rows show its progress, so any node can continue it. Every node finds erasures in the ledger's
//! revocation log, which it follows ([`RevocationService`](crate::feed::identity::RevocationService)).

mod job;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::base::Base;
use super::call::Caller;
use super::error::{FeedError, Result};
use super::identity::ErasureRecords;
use super::input::Done;
use super::runtime::now;
use crate::broker::Invalidation;
use crate::model::UserId;

pub(crate) use job::{ErasureJob, PARTITION};

/// The input of an erasure: it has no members.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErasureRequest {}

/// Begins erasures.
pub(crate) struct ErasureService {
    base: Arc<Base>,
    records: Arc<ErasureRecords>,
}

impl ErasureService {
    /// Erasures in this ledger.
    pub(crate) fn new(base: Arc<Base>, records: Arc<ErasureRecords>) -> Self {
        Self { base, records }
    }

    pub(crate) async fn erase_own(&self, caller: Caller, _: ErasureRequest) -> Result<Done> {
        self.erase(caller.user()?).await?;
        Ok(Done {})
    }

    /// Erases a user, known or not. When it returns, nothing of the user is readable on any reachable node, and the
    /// erasure is in the log beside the backups. A repeat changes nothing.
    ///
    /// # Errors
    /// If the ledger cannot be reached, or the erasure log cannot be written. In the second case the user is erased,
    /// and a repeat writes the log.
    pub(crate) async fn erase(&self, user: &UserId) -> Result<()> {
        if user.is_reserved() {
            return Err(FeedError::invalid("user", "that id means something else here"));
        }
        let at = now();
        self.base.ledger.begin_erasure(user, at).await?;
        if let Err(error) = self.base.invalidator.invalidate(&[Invalidation::Erased(user.clone())]).await {
            tracing::warn!(%error, "a user is erased, other nodes will notice it within a second");
        }
        self.records.wake_job();
        self.records.record(user, at).await
    }
}
