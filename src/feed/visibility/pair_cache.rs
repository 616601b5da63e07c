//! Cached relations, by author and reader.
//!
//! A post is pushed to many readers, who all need their relation to the same author. The relations to one author are
//! therefore stored together: a look-up for 100 readers hashes the author once, and reads one table under one lock.
//!
//! The rules are those of `CoherentCache`: entries are used only while this node holds its lease; an invalidation
//! removes an entry at once; and a fetch that was under way at that time may not fill the cache, which a ticket shows.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::broker::CacheLease;
use crate::model::{Relation, UserId};

/// Shards of the cache. An invalidation discards the results of one in so many of the fetches under way.
const SHARDS: usize = 64;

/// Values by user, with a fast hash.
pub(super) type UserMap<V> = HashMap<UserId, V, RandomState>;

/// The relations of readers to one author.
type ReaderTable = UserMap<Relation>;

/// The cache.
pub(super) struct PairCache {
    lease: Arc<CacheLease>,
    hasher: RandomState,
    shards: Box<[Mutex<CacheShard>]>,
    /// Pairs written to young generations since all shards began new ones.
    written: AtomicUsize,
    /// The number of such pairs at which all shards begin new ones: half of the capacity.
    max_written: usize,
    /// The period in which a generation is the young one: half of the time to live.
    youth: Duration,
}

/// Permission to fill the relations to an author with the result of a fetch that starts after the ticket was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairTicket(u64);

/// Pairs live in two generations: the old one is dropped when half of the time to live has passed, or half of the cache
/// was written.
struct CacheShard {
    /// The number of invalidations.
    invalidations: u64,
    young: UserMap<ReaderTable>,
    old: UserMap<ReaderTable>,
    /// When the young generation began.
    since: Instant,
}

impl CacheShard {
    fn new() -> Self {
        Self { invalidations: 0, young: HashMap::default(), old: HashMap::default(), since: Instant::now() }
    }

    /// Begins a young generation if half of the time to live has passed.
    fn expire(&mut self, youth: Duration) {
        let age = self.since.elapsed();
        if age < youth {
            return;
        }
        let since = self.since;
        self.rotate();
        if age < 2 * youth {
            self.since = since + youth;
        } else {
            // After a long pause, the young generation was too old as well.
            self.old = HashMap::default();
        }
    }

    /// Begins a young generation.
    fn rotate(&mut self) {
        self.since = Instant::now();
        self.old = std::mem::take(&mut self.young);
    }
}

impl PairCache {
    /// An empty cache of at most `capacity` pairs, each valid for at most `ttl`.
    pub(super) fn new(lease: Arc<CacheLease>, capacity: usize, ttl: Duration) -> Self {
        let shards = std::iter::repeat_with(|| Mutex::new(CacheShard::new())).take(SHARDS).collect();
        let hasher = RandomState::default();
        let written = AtomicUsize::new(0);
        Self { lease, hasher, shards, written, max_written: capacity / 2, youth: ttl / 2 }
    }

    /// Visits the cached relations of readers to an author, in their order; `None` for those that are not cached. Call
    /// it after the request began: it checks the lease.
    pub(super) fn get<'r>(
        &self,
        author: &UserId,
        readers: impl IntoIterator<Item = &'r UserId>,
        mut visit: impl FnMut(&'r UserId, Option<Relation>),
    ) {
        if !self.lease.is_held() {
            return readers.into_iter().for_each(|reader| visit(reader, None));
        }
        let mut shard = self.shards[self.shard_of(author)].lock();
        shard.expire(self.youth);
        let tables = [shard.young.get(author), shard.old.get(author)];
        for reader in readers {
            let found = tables.iter().flatten().find_map(|table| table.get(reader));
            visit(reader, found.copied());
        }
    }

    /// Whether the relations of all these readers to an author are cached and meet a condition.
    pub(super) fn all<'r>(
        &self,
        author: &UserId,
        readers: impl IntoIterator<Item = &'r UserId>,
        condition: impl Fn(Relation) -> bool,
    ) -> bool {
        if !self.lease.is_held() {
            return false;
        }
        let mut shard = self.shards[self.shard_of(author)].lock();
        shard.expire(self.youth);
        let tables = [shard.young.get(author), shard.old.get(author)];
        let relation = |reader| tables.iter().flatten().find_map(|table| table.get(reader)).copied();
        readers.into_iter().all(|reader| relation(reader).is_some_and(&condition))
    }

    /// Takes a ticket to fill relations to an author. Call it before the fetch.
    pub(super) fn ticket(&self, author: &UserId) -> PairTicket {
        PairTicket(self.shards[self.shard_of(author)].lock().invalidations)
    }

    /// Fills a pair with a fetched relation, unless the author was invalidated since the ticket was taken.
    pub(super) fn fill(&self, reader: UserId, author: &UserId, ticket: PairTicket, relation: Relation) {
        let mut shard = self.shards[self.shard_of(author)].lock();
        if shard.invalidations != ticket.0 {
            return;
        }
        shard.expire(self.youth);
        shard.young.entry(author.clone()).or_default().insert(reader, relation);
        drop(shard);
        if self.written.fetch_add(1, Ordering::Relaxed) + 1 >= self.max_written {
            self.written.store(0, Ordering::Relaxed);
            for shard in &self.shards {
                let mut shard = shard.lock();
                shard.expire(self.youth);
                shard.rotate();
            }
        }
    }

    /// Drops a pair, and discards fetches of it that are under way.
    pub(super) fn invalidate(&self, reader: &UserId, author: &UserId) {
        let mut shard = self.shards[self.shard_of(author)].lock();
        let shard = &mut *shard;
        shard.invalidations += 1;
        for table in [shard.young.get_mut(author), shard.old.get_mut(author)].into_iter().flatten() {
            table.remove(reader);
        }
    }

    /// Removes all pairs of an author.
    pub(super) fn invalidate_author(&self, author: &UserId) {
        let mut shard = self.shards[self.shard_of(author)].lock();
        shard.invalidations += 1;
        shard.young.remove(author);
        shard.old.remove(author);
    }

    /// Drops all pairs, and discards all fetches under way.
    pub(super) fn invalidate_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            *shard = CacheShard { invalidations: shard.invalidations + 1, ..CacheShard::new() };
        }
    }

    fn shard_of(&self, author: &UserId) -> usize {
        usize::try_from(self.hasher.hash_one(author) % SHARDS as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWS: Relation = Relation {
        follows: true,
        followed: false,
        hidden: false,
        muted: false,
        blocks: false,
        blocked: false,
        reposts_off: false,
        listed: false,
        locked: false,
        standing: crate::model::Standing::Active,
    };
    const MINUTE: Duration = Duration::from_secs(60);

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    fn get(cache: &PairCache, reader: &str, author: &str) -> Option<Relation> {
        let mut found = None;
        cache.get(&id(author), [&id(reader)], |_, relation| found = relation);
        found
    }

    fn fill(cache: &PairCache, reader: &str, author: &str) {
        cache.fill(id(reader), &id(author), cache.ticket(&id(author)), FOLLOWS);
    }

    #[test]
    fn overtaken_fetches_do_not_fill_the_cache() {
        let cache = PairCache::new(Arc::new(CacheLease::unlimited()), 100_000, MINUTE);
        let ann = id("ann");
        let bo = id("bo");
        for is_all in [false, true] {
            let ticket = cache.ticket(&bo);
            match is_all {
                true => cache.invalidate_all(),
                false => cache.invalidate(&ann, &bo),
            }
            cache.fill(ann.clone(), &bo, ticket, FOLLOWS);
            assert_eq!(get(&cache, "ann", "bo"), None);
            fill(&cache, "ann", "bo");
            fill(&cache, "cy", "bo");
            assert_eq!(get(&cache, "ann", "bo"), Some(FOLLOWS));
        }
        cache.invalidate(&ann, &bo);
        assert_eq!((get(&cache, "ann", "bo"), get(&cache, "cy", "bo")), (None, Some(FOLLOWS)), "one pair");
        cache.invalidate_all();
        assert_eq!(get(&cache, "cy", "bo"), None);
    }

    #[test]
    fn without_a_lease_nothing_is_served() {
        let cache = PairCache::new(Arc::new(CacheLease::lapsed()), 100_000, MINUTE);
        fill(&cache, "ann", "bo");
        assert_eq!(get(&cache, "ann", "bo"), None);
        cache.lease.renew(CacheLease::clocks());
        assert_eq!(get(&cache, "ann", "bo"), Some(FOLLOWS));
    }

    #[test]
    fn one_exception_or_unknown_pair_among_the_readers_is_found() {
        let cache = PairCache::new(Arc::new(CacheLease::lapsed()), 100_000, MINUTE);
        let ann = id("ann");
        let bo = id("bo");
        let cy = id("cy");
        let all_follow = |readers: &[&UserId]| cache.all(&bo, readers.iter().copied(), |relation| relation.follows);
        fill(&cache, "ann", "bo");
        assert!(!all_follow(&[&ann]), "without a lease");
        cache.lease.renew(CacheLease::clocks());
        assert!(all_follow(&[&ann]) && !all_follow(&[&ann, &cy]), "cy is not known");
        cache.fill(cy.clone(), &bo, cache.ticket(&bo), Relation { follows: false, ..FOLLOWS });
        assert!(!all_follow(&[&ann, &cy]), "cy does not follow bo");
        fill(&cache, "cy", "bo");
        assert!(all_follow(&[&ann, &cy]));
    }

    #[test]
    fn pairs_expire_and_are_bounded() {
        let cache = PairCache::new(Arc::new(CacheLease::unlimited()), 100_000, Duration::ZERO);
        fill(&cache, "ann", "bo");
        assert_eq!(get(&cache, "ann", "bo"), None, "expired");
        let cache = PairCache::new(Arc::new(CacheLease::unlimited()), 100, MINUTE);
        let readers: Vec<String> = (0..250).map(|n| format!("u{n}")).collect();
        readers.iter().for_each(|reader| fill(&cache, reader, "bo"));
        let kept = readers.iter().filter(|reader| get(&cache, reader, "bo").is_some()).count();
        assert!((50..=100).contains(&kept), "one author may use all of it: {kept}");
        assert!(get(&cache, "u249", "bo").is_some(), "the newest are kept");
        let authors: Vec<String> = (0..250).map(|n| format!("a{n}")).collect();
        authors.iter().for_each(|author| fill(&cache, "ann", author));
        let kept = authors.iter().filter(|author| get(&cache, "ann", author).is_some()).count();
        assert!((50..=100).contains(&kept), "{kept}");
    }
}
