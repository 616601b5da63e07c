//! The followers of authors who have few of them, cached: most jobs read the same short list. Whether anybody has
//! alerts for an author's posts is known with it.
//!
//! A follow is in force on every node before posts of the past are merged into the follower's timeline
//! (`timelines/edge_jobs.rs`). A job that still read the former list belongs to a post that was stored before, which
//! the merge finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::CoherentCache;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::Ledger;
use crate::model::UserId;

/// How long a list is cached. It limits how long a change is missed that somebody made in the ledger by hand.
const TTL: Duration = Duration::from_secs(30);

/// The number of followers in all cached lists, at some 50 bytes each.
const CAPACITY: u64 = 500_000;

/// All followers of an author.
pub(crate) struct CachedFollowers {
    list: Box<[UserId]>,
    /// Nobody has alerts for the author's posts. `false`: it is not known.
    is_without_alerts: AtomicBool,
}

impl CachedFollowers {
    /// The number of followers.
    pub(crate) fn len(&self) -> u64 {
        self.list.len() as u64
    }

    /// Whether nobody is known to have alerts for the author's posts.
    pub(crate) fn is_without_alerts(&self) -> bool {
        self.is_without_alerts.load(Ordering::Relaxed)
    }

    /// Nobody had alerts for the author's posts after this was taken from the cache. If somebody has by now, the cache
    /// has dropped it.
    pub(crate) fn note_without_alerts(&self) {
        self.is_without_alerts.store(true, Ordering::Relaxed);
    }
}

/// Followers by author.
pub(crate) struct FollowerCache {
    ledger: Arc<dyn Ledger>,
    lists: CoherentCache<UserId, Arc<CachedFollowers>>,
    /// The longest list that is cached: one page of a job (`fanout.page`).
    max_followers: usize,
}

impl FollowerCache {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>, max_followers: usize) -> Self {
        // An author without followers occupies memory, too.
        let weigh = |_: &UserId, followers: &Arc<CachedFollowers>| {
            u32::try_from(followers.list.len()).unwrap_or(u32::MAX).saturating_add(1)
        };
        Self { ledger, lists: CoherentCache::weighing(lease, CAPACITY, TTL, weigh), max_followers }
    }

    /// The first `limit` followers of an author, in the order of
    /// [`FollowStore::followers_after`](crate::ledger::FollowStore::followers_after).
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn first(&self, author: &UserId, limit: usize) -> Result<Vec<UserId>> {
        if let Some(followers) = self.cached(author) {
            return Ok(followers.list.iter().take(limit).cloned().collect());
        }
        let ticket = self.lists.ticket(author);
        let followers = self.ledger.followers_after(author, "", limit).await?;
        if followers.len() < limit && followers.len() <= self.max_followers {
            let list = followers.as_slice().into();
            let is_without_alerts = AtomicBool::new(false);
            self.lists.fill(author.clone(), ticket, Arc::new(CachedFollowers { list, is_without_alerts }));
        }
        Ok(followers)
    }

    /// The followers of an author, if they are cached.
    pub(crate) fn cached(&self, author: &UserId) -> Option<Arc<CachedFollowers>> {
        self.lists.reader().get(author)
    }
}

impl Invalidated for FollowerCache {
    fn apply(&self, change: &Invalidation) {
        match change {
            Invalidation::Relation(one, other) => [one, other].iter().for_each(|user| self.lists.invalidate(user)),
            // They may follow anybody.
            Invalidation::Erased(_) | Invalidation::User(_) => self.clear(),
            Invalidation::Post(_)
            | Invalidation::Reposts(_)
            | Invalidation::Comment(_)
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
        self.lists.invalidate_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{PeopleStore as _, SqliteLedger, SqliteOptions};

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    /// A ledger with these users. The first one is followed by all others.
    async fn ledger(folder: &tempfile::TempDir, users: &[&str]) -> Arc<dyn Ledger> {
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for user in users {
            ledger.ensure_user(&id(user), 0).await.expect("a user");
        }
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        for user in &users[1..] {
            follow(&ledger, user, users[0]).await;
        }
        ledger
    }

    async fn follow(ledger: &Arc<dyn Ledger>, reader: &str, author: &str) {
        ledger.follow(&id(reader), &id(author), 0, u64::MAX).await.expect("a follow");
    }

    #[tokio::test]
    async fn lists_are_read_once_until_a_relation_of_the_author_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = ledger(&folder, &["ann", "bo", "cy"]).await;
        let cache = FollowerCache::new(Arc::clone(&ledger), Arc::new(CacheLease::unlimited()), 2);
        let ann = id("ann");
        assert_eq!(cache.first(&ann, 9).await.expect("a list"), [id("bo"), id("cy")]);
        let reads = ledger.round_trips();
        let cached = cache.cached(&ann).expect("a list");
        assert_eq!((cached.len(), cached.is_without_alerts()), (2, false));
        cached.note_without_alerts();
        assert!(cache.cached(&ann).expect("a list").is_without_alerts());
        assert_eq!(cache.first(&ann, 9).await.expect("a list"), [id("bo"), id("cy")]);
        assert_eq!(ledger.round_trips(), reads);
        cache.apply(&Invalidation::Relation(id("bo"), ann.clone()));
        assert!(cache.cached(&ann).is_none());
        cached.note_without_alerts();
        cache.first(&ann, 9).await.expect("a list");
        assert_eq!(ledger.round_trips(), reads + 1);
        assert!(!cache.cached(&ann).expect("a list").is_without_alerts(), "it was noted for the former list");
        cache.apply(&Invalidation::Erased(id("bo")));
        cache.first(&ann, 9).await.expect("a list");
        assert_eq!(ledger.round_trips(), reads + 2);
        ledger.close().await;
    }

    #[tokio::test]
    async fn long_and_incomplete_lists_are_not_cached() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = ledger(&folder, &["ann", "bo", "cy"]).await;
        for (max_followers, limit) in [(1, 9), (2, 2)] {
            let cache = FollowerCache::new(Arc::clone(&ledger), Arc::new(CacheLease::unlimited()), max_followers);
            let reads = ledger.round_trips();
            for _ in 0..2 {
                assert_eq!(cache.first(&id("ann"), limit).await.expect("a list").len(), 2);
            }
            assert_eq!(ledger.round_trips(), reads + 2, "at most {max_followers} followers, limit {limit}");
        }
        ledger.close().await;
    }
}
