//! Invalidation of what this node has cached, and of the same on every other node before a change is answered.
//!
//! Everything that takes something away (a deletion, an edit, a block, an unfollow) ends with
//! [`invalidate`](Feed::invalidate), after the ledger has committed it. When that returns, no node serves the state from
//! before. What only adds something uses [`announce`](Feed::announce) and does not wait.
//!
//! Every cache whose content decides what somebody may see is a
//! [`CoherentCache`](super::caching::CoherentCache) and is named in [`drop_cached`](Feed::drop_cached). A reply
//! that is being put together when the change is answered may still show the state from before, as may a push that is
//! queued for a socket already: those began before it.

use std::time::Instant;

use super::{Feed, Result};
use crate::broker::{Confirmation, Invalidation};

impl Feed {
    /// Drops what is cached of these on every node. When it returns, no node serves it any more: each has confirmed, or does
    /// not use its caches until it has caught up. Takes one round trip, and up to 520 ms if a node does not confirm.
    ///
    /// # Errors
    /// If the broker cannot be reached: this node has dropped its copies, other nodes may keep theirs for 30 seconds.
    pub async fn invalidate(&self, what: &[Invalidation]) -> Result<()> {
        let confirmation = self.announce(what).await?;
        self.confirm(confirmation).await;
        Ok(())
    }

    /// The same, without waiting for other nodes.
    ///
    /// # Errors
    /// As for [`invalidate`](Self::invalidate).
    pub(super) async fn announce(&self, what: &[Invalidation]) -> Result<Confirmation> {
        self.drop_cached(what);
        Ok(self.broker.invalidate(what).await?)
    }

    /// Waits until an announced change is in force on every node.
    pub(super) async fn confirm(&self, confirmation: Confirmation) {
        if confirmation.is_pending() {
            let begun = Instant::now();
            let unconfirmed = confirmation.wait().await;
            if unconfirmed > 0 {
                tracing::debug!(unconfirmed, "nodes did not confirm an invalidation, their caches are out of use");
            }
            self.metrics.invalidation_confirmed(begun.elapsed(), unconfirmed);
        }
    }

    /// Whether this node may use its caches now.
    pub fn holds_cache_lease(&self) -> bool {
        self.lease.is_held()
    }

    /// Drops what this node has cached of these.
    pub fn drop_cached(&self, what: &[Invalidation]) {
        for invalidation in what {
            match invalidation {
                Invalidation::Post(id) => self.bodies.forget(*id),
                Invalidation::Comment(id) => self.likes.forget_comment(*id),
                Invalidation::Relation(one, other) => self.relations.forget(one, other),
                Invalidation::Erased(user) => {
                    self.known.lock().remove(user);
                    self.hide_erased(user);
                }
                Invalidation::User(user) => {
                    self.known.lock().remove(user);
                    self.bodies.forget_author(user);
                    self.relations.forget_all();
                    self.likes.forget_comments();
                }
            }
        }
        // Counted last: what was looked up before is looked up again, see `is_current`.
        self.lease.count_invalidation();
    }

    /// Drops everything that this node has cached: it may have missed invalidations.
    pub fn drop_all_cached(&self) {
        self.known.lock().clear();
        self.bodies.forget_all();
        self.relations.forget_all();
        self.likes.forget_comments();
        self.revocations.grown.notify_one();
        self.lease.count_invalidation();
    }
}
