//! Erasure: everything of a user goes, and the id stays as a tombstone.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | begins an erasure |
//! | `erased.rs` | the erased users as this node knows them, and the log that every node follows |
//! | `file.rs` | the erasure log beside the backups |
//! | `job.rs` | removes what was the user's, in steps |
//!
//! One transaction of the ledger makes the user a tombstone and begins the job. From then on nothing of the user is readable:
//! the ledger does not answer the id, and every node hides what caches, inboxes and lists still hold
//! ([`ErasedUsers`]). The job then removes the rows. It needs no cursor: the rows that are left say how far it is, so any node
//! takes it over.

mod erased;
mod file;
mod job;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::Done;
use super::{Caller, Feed, FeedError, Result, now};
use crate::broker::Invalidation;
use crate::model::UserId;

pub use file::{ErasureLogContents, ErasureLogEntry, read_erasure_log};

pub(super) use erased::{ErasedUsers, Erasures};
pub(super) use file::ErasureLog;

/// To be erased. There is nothing to say but that.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ErasureRequest {}

/// Why a token of an erased user is refused.
pub(super) const ERASED_USER: FeedError =
    FeedError::Unauthorized("this user was erased, and the id is not given out again");

impl Feed {
    pub(super) async fn erase_own(self: &Arc<Self>, caller: Caller, _: ErasureRequest) -> Result<Done> {
        self.erase(caller.user()?).await?;
        Ok(Done {})
    }

    /// Erases a user, known or not. When it returns, nothing of the user is readable on any node that can be reached, and the
    /// erasure is in the log beside the backups. Done again, it changes nothing.
    ///
    /// # Errors
    /// If the ledger cannot be reached, or the erasure log cannot be written. In the second case the user is erased all the
    /// same; asked for again, the log is tried again.
    pub async fn erase(&self, user: &UserId) -> Result<()> {
        if user.is_reserved() {
            return Err(FeedError::invalid("user", "that id means something else here"));
        }
        let at = now();
        self.ledger.begin_erasure(user, at).await?;
        if let Err(error) = self.invalidator.invalidate(&[Invalidation::Erased(user.clone())]).await {
            tracing::warn!(%error, "a user is erased, other nodes will notice it within a second");
        }
        self.erasures.wake.notify_one();
        self.log_erasure(user, at).await
    }
}
