//! Whether anybody has lists, and which readers a post has besides the followers of its author. While no user of the
//! deployment has a list or follows a topic, nothing is looked up.

use std::sync::Arc;

use super::followed_topics::FollowedTopics;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::UsageFlag;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::{Ledger, SourcesInUse};
use crate::model::UserId;

/// Knows whether lists are in use.
pub(crate) struct ListUsage {
    ledger: Arc<dyn Ledger>,
    topics: Arc<FollowedTopics>,
    any: UsageFlag,
}

impl ListUsage {
    /// Reads this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: &Arc<CacheLease>, topics: Arc<FollowedTopics>) -> Self {
        Self { ledger, topics, any: UsageFlag::new(lease) }
    }

    /// Whether any user of the deployment has a list.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn are_in_use(&self) -> Result<bool> {
        self.any.get(async { Ok(self.ledger.has_lists().await?) }).await
    }

    /// Whether a list has an author, and which of these topics lists have or users follow.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn sources_in_use(&self, author: &UserId, topics: &[String]) -> Result<SourcesInUse> {
        let has_readers = self.are_in_use().await? || (!topics.is_empty() && self.topics.are_in_use().await?);
        match has_readers {
            true => Ok(self.ledger.sources_in_use(author, topics).await?),
            false => Ok(SourcesInUse::default()),
        }
    }
}

impl Invalidated for ListUsage {
    fn apply(&self, change: &Invalidation) {
        if matches!(change, Invalidation::Lists(_) | Invalidation::User(_)) {
            self.any.invalidate();
        }
    }

    fn clear(&self) {
        self.any.clear();
    }
}
