//! The newest reposts of posts, with a cache: they decide whether a repost repeats what a timeline has already.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::CoherentCache;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::{Ledger, NewestRepost};
use crate::model::PostId;

/// The reposts of a post that are considered: the newest ones.
pub(crate) const MAX_CONSIDERED: usize = 64;

/// The capacity of the cache, in posts.
const CAPACITY: u64 = 100_000;

/// How long a list is cached. A new repost is in force on every node before its reply.
const TTL: Duration = Duration::from_secs(30);

/// The newest reposts of posts.
pub(crate) struct NewestReposts {
    ledger: Arc<dyn Ledger>,
    /// The reposts of a post, newest first.
    cache: CoherentCache<PostId, Arc<[NewestRepost]>>,
}

impl NewestReposts {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>) -> Self {
        Self { ledger, cache: CoherentCache::new(lease, CAPACITY, TTL) }
    }

    /// The newest reposts of each of these posts, newest first, [`MAX_CONSIDERED`] at most.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(
        &self,
        posts: impl IntoIterator<Item = PostId> + Send,
    ) -> Result<HashMap<PostId, Arc<[NewestRepost]>>> {
        let load = async |missing: &[PostId]| {
            let mut newest: HashMap<PostId, Vec<NewestRepost>> = HashMap::new();
            for repost in self.ledger.newest_reposts(missing, MAX_CONSIDERED).await? {
                newest.entry(repost.post).or_default().push(repost);
            }
            let sorted = newest.into_iter().map(|(post, mut reposts)| {
                reposts.sort_unstable_by(|one, other| other.cmp(one));
                (post, reposts.into())
            });
            Ok(sorted.collect())
        };
        self.cache.get_or_load(posts, load).await
    }
}

impl Invalidated for NewestReposts {
    fn apply(&self, change: &Invalidation) {
        match change {
            Invalidation::Reposts(post) => self.cache.invalidate(post),
            Invalidation::User(_) => self.clear(),
            Invalidation::Post(_)
            | Invalidation::Comment(_)
            | Invalidation::Relation(..)
            | Invalidation::Erased(_)
            | Invalidation::Standing(_)
            | Invalidation::Locked(_)
            | Invalidation::Filters(_)
            | Invalidation::Topics(_)
            | Invalidation::Lists(_)
            | Invalidation::Thread(_)
            | Invalidation::All => {}
        }
    }

    fn clear(&self) {
        self.cache.invalidate_all();
    }
}
