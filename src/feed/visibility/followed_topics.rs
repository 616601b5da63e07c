//! The topics that readers follow, cached.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::SparseCache;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::Ledger;
use crate::model::{Post, UserId, Visibility};

/// The size of the cache, in bytes: some 5,000 readers with 100 topics, and 100,000 without.
const CAPACITY: u64 = 32 << 20;

/// The maximal number of readers of one ledger call.
const MAX_READERS_PER_CALL: usize = 1_000;

/// The names of topics.
#[derive(Debug, Default)]
pub(crate) struct TopicSet(HashSet<String>);

impl TopicSet {
    /// The first topic of a post that is in the set. `None` for posts that topics do not have: reposts, and posts that
    /// are not public.
    pub(crate) fn matching<'p>(&self, post: &'p Post) -> Option<&'p str> {
        let is_offered = post.visibility == Visibility::Public && post.repost.is_none() && post.removed.is_none();
        post.topics.iter().find(|topic| is_offered && self.0.contains(*topic)).map(String::as_str)
    }

    /// Whether the set has a topic.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.0.contains(topic)
    }

    /// The names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|name| name.len() + 48).sum()
    }
}

impl FromIterator<String> for TopicSet {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// The followed topics of some readers: of those who follow any.
pub(crate) type TopicsByReader = HashMap<UserId, Arc<TopicSet>>;

/// The topics that readers follow, with a cache.
pub(crate) struct FollowedTopics {
    ledger: Arc<dyn Ledger>,
    cache: SparseCache<TopicSet>,
}

impl FollowedTopics {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: &Arc<CacheLease>) -> Self {
        Self { ledger, cache: SparseCache::new(lease, CAPACITY, TopicSet::bytes) }
    }

    /// The topics that a reader follows; `None`: there are none.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn of(&self, reader: &UserId) -> Result<Option<Arc<TopicSet>>> {
        Ok(self.of_all([reader]).await?.into_values().next())
    }

    /// The topics of the readers among these who follow any.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn of_all<'a>(
        &self,
        readers: impl IntoIterator<Item = &'a UserId> + Send,
    ) -> Result<TopicsByReader> {
        self.cache.of_all(readers, self.load_any(), async |missing| self.load(missing).await).await
    }

    /// Whether any user of the deployment follows a topic.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn are_in_use(&self) -> Result<bool> {
        self.cache.is_in_use(self.load_any()).await
    }

    async fn load_any(&self) -> Result<bool> {
        Ok(self.ledger.has_topic_follows().await?)
    }

    async fn load(&self, readers: &[UserId]) -> Result<HashMap<UserId, Option<Arc<TopicSet>>>> {
        let mut stored: HashMap<UserId, TopicSet> = HashMap::new();
        for some in readers.chunks(MAX_READERS_PER_CALL) {
            for (reader, topic) in self.ledger.topics_of(some).await? {
                stored.entry(reader).or_default().0.insert(topic);
            }
        }
        Ok(stored.into_iter().map(|(reader, topics)| (reader, Some(Arc::new(topics)))).collect())
    }
}

impl Invalidated for FollowedTopics {
    fn apply(&self, change: &Invalidation) {
        if let Invalidation::Topics(user) | Invalidation::User(user) = change {
            self.cache.invalidate(user);
        }
    }

    fn clear(&self) {
        self.cache.clear();
    }
}
