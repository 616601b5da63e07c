//! The services that commands share when they write on behalf of a user.

use std::sync::Arc;

use super::call::Call;
use super::error::{FeedError, Result};
use super::event_queue::EventQueue;
use super::identity::IdentityService;
use super::input::Done;
use super::invalidation::Invalidator;
use super::node_ids::NodeIds;
use super::rate_limits::RateLimits;
use super::work::JobQueue;
use crate::broker::{Attempt, Invalidation};

/// The services that a command needs to write: they check the caller, make an id, count mentions, and submit jobs,
/// events and invalidations.
#[derive(Clone)]
pub(crate) struct WritePath {
    /// Records new users, and refuses erased ones.
    pub(crate) identity: Arc<IdentityService>,
    /// Makes the ids of posts and comments.
    pub(crate) ids: Arc<NodeIds>,
    /// Counts mentioned users against the rate limit.
    pub(crate) rates: Arc<RateLimits>,
    /// Queues the fan-out jobs of changes.
    pub(crate) jobs: Arc<JobQueue>,
    /// Woken after a write that puts an event into the ledger's queue.
    pub(crate) events: Arc<EventQueue>,
    /// Puts changes in force on all nodes.
    pub(crate) invalidator: Arc<Invalidator>,
}

impl WritePath {
    /// The result of a deletion that may be a repeat: an object that does not exist may have been deleted by an earlier
    /// attempt, which may have ended before the invalidation.
    ///
    /// # Errors
    /// The errors of the deletion, except `not_found` for a repeat; or the broker cannot be reached.
    pub(crate) async fn repeated_deletion(
        &self,
        call: &Call,
        done: Result<Done>,
        change: Invalidation,
    ) -> Result<Done> {
        match (done, call.attempt) {
            (Err(FeedError::NotFound(_)), Attempt::Repeated) => {
                self.invalidator.invalidate(&[change]).await?;
                Ok(Done {})
            }
            (done, _) => done,
        }
    }
}
