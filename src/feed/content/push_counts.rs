//! The counts of posts that are being pushed.
//!
//! A push is encoded once for all of its recipients. Its counts may be [`TTL`] old, so that the ledger counts a post
//! with many recipients once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use crate::feed::error::Result;
use crate::ledger::Ledger;
use crate::model::{PostCounts, PostId};

/// How old the counts of a push can be.
const TTL: Duration = Duration::from_secs(2);

/// Posts with cached counts.
const CAPACITY: u64 = 100_000;

/// The cache of those counts.
pub(super) struct PushCounts {
    ledger: Arc<dyn Ledger>,
    recent: Cache<PostId, PostCounts>,
}

impl PushCounts {
    /// An empty cache in front of the ledger.
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, recent: Cache::builder().max_capacity(CAPACITY).time_to_live(TTL).build() }
    }

    /// Adds a post that was just created, with counts of zero.
    pub(super) fn insert_new(&self, id: PostId) {
        self.recent.insert(id, PostCounts::default());
    }

    /// The non-zero counts of posts among `ids`, in at most one ledger call.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, ids: &[PostId]) -> Result<HashMap<PostId, PostCounts>> {
        let mut found: HashMap<PostId, PostCounts> =
            ids.iter().filter_map(|id| Some((*id, self.recent.get(id)?))).collect();
        let missing: HashSet<PostId> = ids.iter().copied().filter(|id| !found.contains_key(id)).collect();
        if !missing.is_empty() {
            let missing: Vec<PostId> = missing.into_iter().collect();
            let counted: HashMap<PostId, PostCounts> = self.ledger.counts(&missing).await?.into_iter().collect();
            for id in missing {
                let counts = counted.get(&id).copied().unwrap_or_default();
                self.recent.insert(id, counts);
                found.insert(id, counts);
            }
        }
        found.retain(|_, counts| *counts != PostCounts::default());
        Ok(found)
    }
}
