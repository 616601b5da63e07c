//! The relations between readers and authors, cached: every delivery needs them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::followees::{FolloweeCache, UserIdSet};
use super::pair_cache::{PairCache, UserMap};
use super::visibility_rules::{AccessContext, ViewContext};
use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::{CoherentCache, FillTicket};
use crate::feed::error::Result;
use crate::feed::identity::Standings;
use crate::feed::invalidation::Invalidated;
use crate::ledger::{Ledger, RestrictedAuthor};
use crate::model::{Relation, Standing, UserId, Visibility};

/// How long a relation is cached. A change that hides content is in force on every node before its reply. If Redis is
/// unreachable and a change fails, this limits how long other nodes can miss the change.
const TTL: Duration = Duration::from_secs(30);

/// Cached pairs, at some 200 bytes each.
const MAX_PAIRS: usize = 250_000;

/// The number of authors for which the cache records whether they have restrictions.
const MAX_AUTHORS: u64 = 100_000;

/// The maximal number of pairs of one ledger call, which takes some milliseconds.
const MAX_PAIRS_PER_CALL: usize = 5_000;

/// Why the public posts of an author are not visible to all readers alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AuthorFlags {
    /// There are restrictions between the author and some users, or the standing of the author is not active.
    restricted: bool,
    /// The account is locked.
    locked: bool,
}

/// Relations by author and reader.
#[derive(Debug, Default)]
pub(crate) struct RelationMap(UserMap<UserMap<Relation>>);

impl RelationMap {
    /// The relation of a pair, if it was loaded.
    pub(crate) fn get(&self, reader: &UserId, author: &UserId) -> Option<Relation> {
        self.0.get(author)?.get(reader).copied()
    }

    /// Adds the relations of another map.
    pub(crate) fn extend(&mut self, others: Self) {
        for (author, readers) in others.0 {
            self.0.entry(author).or_default().extend(readers);
        }
    }

    fn insert(&mut self, reader: UserId, author: &UserId, relation: Relation) {
        self.readers_of(author).insert(reader, relation);
    }

    fn readers_of(&mut self, author: &UserId) -> &mut UserMap<Relation> {
        self.0.entry(author.clone()).or_default()
    }
}

/// The relations of pairs, with a cache. Concurrent requests rarely need the same pair, so fetches are not coalesced.
///
/// What it returns has the standing of the author, as this node knows it: this is the one place that adds it.
pub(crate) struct RelationCache {
    ledger: Arc<dyn Ledger>,
    standings: Arc<Standings>,
    pairs: PairCache,
    /// The flags of authors, without their standing.
    flags: CoherentCache<UserId, AuthorFlags>,
    followees: FolloweeCache,
}

impl RelationCache {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: &Arc<CacheLease>, standings: Arc<Standings>) -> Self {
        Self {
            standings,
            followees: FolloweeCache::new(Arc::clone(&ledger), Arc::clone(lease)),
            ledger,
            pairs: PairCache::new(Arc::clone(lease), MAX_PAIRS, TTL),
            flags: CoherentCache::new(Arc::clone(lease), MAX_AUTHORS, TTL),
        }
    }

    /// A ticket for [`have_changed`](Self::have_changed).
    pub(crate) fn ticket(&self, user: &UserId) -> FillTicket {
        self.followees.ticket(user)
    }

    /// Whether a user's relations may have changed since the ticket was taken.
    pub(crate) fn have_changed(&self, user: &UserId, ticket: FillTicket) -> bool {
        self.followees.have_changed(user, ticket)
    }

    /// The followees of a reader; `None` if there are too many to cache.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn followees(&self, reader: &UserId) -> Result<Option<Arc<UserIdSet>>> {
        self.followees.get(reader).await
    }

    /// The followees of a reader, if they are cached.
    pub(crate) fn cached_followees(&self, reader: &UserId) -> Option<Arc<UserIdSet>> {
        self.followees.cached(reader)
    }

    /// The relation of a reader and an author.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn between(&self, reader: &UserId, author: &UserId) -> Result<Relation> {
        let relations = self.get([(reader.clone(), author.clone())]).await?;
        Ok(relations.get(reader, author).unwrap_or_default())
    }

    /// The relations of pairs of a reader and an author.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(&self, pairs: impl IntoIterator<Item = (UserId, UserId)>) -> Result<RelationMap> {
        let mut by_author: UserMap<Vec<UserId>> = UserMap::default();
        for (reader, author) in pairs {
            by_author.entry(author).or_default().push(reader);
        }
        self.get_by_author(by_author.iter().map(|(author, readers)| (author, readers.iter()))).await
    }

    /// The same for readers by author.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get_by_author<'a>(
        &self,
        readers_by_author: impl Iterator<Item = (&'a UserId, impl ExactSizeIterator<Item = &'a UserId> + Send)> + Send,
    ) -> Result<RelationMap> {
        self.standings.catch_up().await?;
        let mut found = RelationMap::default();
        let mut missing = HashSet::new();
        for (author, readers) in readers_by_author {
            let standing = self.standings.of(author);
            let relations = found.readers_of(author);
            relations.reserve(readers.len());
            self.pairs.get(author, readers, |reader, relation| match relation {
                Some(relation) => drop(relations.insert(reader.clone(), Relation { standing, ..relation })),
                None => drop(missing.insert((reader.clone(), author.clone()))),
            });
        }
        self.fetch(missing, &mut found).await?;
        Ok(found)
    }

    /// Whether all these readers are known to see the author's public posts in their timelines. It is one look-up for
    /// each, and most deliveries need nothing else.
    pub(crate) fn all_see_public_posts(&self, author: &UserId, readers: &[&UserId]) -> bool {
        let sees = |relation| {
            AccessContext { reader: None, relation, view: ViewContext::Timeline }.can_see(author, &Visibility::Public)
        };
        let standing = if self.standings.is_current() { self.standings.of(author) } else { Standing::Suspended };
        standing == Standing::Active && self.pairs.all(author, readers.iter().copied(), sees)
    }

    /// The current relations of pairs in the ledger. Cached denials are re-verified before use: an entry is rendered
    /// once, so an outdated cached relation from before a follow would lose it.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn reload(&self, pairs: HashSet<(UserId, UserId)>) -> Result<RelationMap> {
        self.standings.catch_up().await?;
        let mut found = RelationMap::default();
        self.fetch(pairs, &mut found).await?;
        Ok(found)
    }

    async fn fetch(&self, pairs: HashSet<(UserId, UserId)>, found: &mut RelationMap) -> Result<()> {
        let missing: Vec<_> = pairs.into_iter().collect();
        for missing in missing.chunks(MAX_PAIRS_PER_CALL) {
            let tickets: Vec<_> = missing.iter().map(|(_, author)| self.pairs.ticket(author)).collect();
            let relations = self.ledger.relations(missing).await?;
            for (((reader, author), ticket), relation) in missing.iter().zip(tickets).zip(relations) {
                self.pairs.fill(reader.clone(), author, ticket, relation);
                let standing = self.standings.of(author);
                found.insert(reader.clone(), author, Relation { standing, ..relation });
            }
        }
        Ok(())
    }

    /// The relation of an anonymous client to an author, or of a reader who has none, as far as the standing of the
    /// author decides it: accounts count as open. Call it after [`catch_up_standings`](Self::catch_up_standings), or
    /// after a method that loads relations.
    pub(crate) fn of_stranger(&self, author: &UserId) -> Relation {
        Relation { standing: self.standings.of(author), ..Relation::default() }
    }

    /// The relations of a reader who has none, such as an anonymous client, to authors.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn of_strangers(
        &self,
        authors: impl IntoIterator<Item = UserId> + Clone,
    ) -> Result<HashMap<UserId, Relation>> {
        let flags = self.flags_of(authors.clone()).await?;
        let relation = |author: UserId| {
            let locked = flags.get(&author).is_some_and(|flags| flags.locked);
            let relation = Relation { locked, ..self.of_stranger(&author) };
            (author, relation)
        };
        Ok(authors.into_iter().map(relation).collect())
    }

    /// Whether the account of a user is locked.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn is_locked(&self, user: &UserId) -> Result<bool> {
        Ok(self.flags_of([user.clone()]).await?.values().any(|flags| flags.locked))
    }

    /// The users among these whose accounts are locked.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn locked_among(&self, users: impl IntoIterator<Item = UserId>) -> Result<HashSet<UserId>> {
        let flags = self.flags_of(users).await?;
        Ok(flags.into_iter().filter(|(_, flags)| flags.locked).map(|(user, _)| user).collect())
    }

    /// The standing of a user.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn standing(&self, user: &UserId) -> Result<Standing> {
        self.standings.catch_up().await?;
        Ok(self.standings.of(user))
    }

    /// Waits until this node knows all standings that were answered. Makes no ledger call if it does.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn catch_up_standings(&self) -> Result<()> {
        self.standings.catch_up().await
    }

    /// Whether an author has restrictions, a locked account, or a standing that is not active; `None` if it is not
    /// known.
    pub(crate) fn has_restrictions(&self, author: &UserId) -> Option<bool> {
        if !self.standings.is_current() {
            return None;
        }
        match self.standings.of(author) {
            Standing::Active => self.flags.reader().get(author).map(|flags| flags != AuthorFlags::default()),
            Standing::Limited | Standing::Suspended => Some(true),
        }
    }

    /// The authors among `authors` with restrictions, with a locked account, or with a standing that is not active:
    /// their public posts are not visible to all readers.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn restricted_authors(
        &self,
        authors: impl IntoIterator<Item = UserId>,
    ) -> Result<HashSet<UserId>> {
        Ok(self.flags_of(authors).await?.into_keys().collect())
    }

    /// The same without locked accounts: a lock makes no difference in timelines, which contain posts of followees
    /// only, and for content that is not a post.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn users_with_restrictions(
        &self,
        authors: impl IntoIterator<Item = UserId>,
    ) -> Result<HashSet<UserId>> {
        let flags = self.flags_of(authors).await?;
        Ok(flags.into_iter().filter(|(_, flags)| flags.restricted).map(|(author, _)| author).collect())
    }

    /// The flags of authors who have any.
    async fn flags_of(&self, authors: impl IntoIterator<Item = UserId>) -> Result<UserMap<AuthorFlags>> {
        self.standings.catch_up().await?;
        let load = async |missing: &[UserId]| -> Result<UserMap<AuthorFlags>> {
            let restricted = self.ledger.restricted_authors(missing).await?.into_iter();
            let flags = |RestrictedAuthor { author, restricted, locked }| (author, AuthorFlags { restricted, locked });
            Ok(restricted.map(flags).collect())
        };
        let mut found = self.flags.get_or_load(authors, load).await?;
        found.retain(|author, flags| {
            flags.restricted |= self.standings.of(author) != Standing::Active;
            *flags != AuthorFlags::default()
        });
        Ok(found)
    }

    /// The relations of many readers to one author, in their order. Bypasses the cache: most recipients of a fan-out
    /// are not connected to this node. Without the standing of the author: a standing may end, and is checked at each
    /// delivery.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn load_uncached(&self, readers: &[UserId], author: &UserId) -> Result<Vec<Relation>> {
        let pairs: Vec<_> = readers.iter().map(|reader| (reader.clone(), author.clone())).collect();
        Ok(self.ledger.relations(&pairs).await?)
    }
}

impl Invalidated for RelationCache {
    fn apply(&self, change: &Invalidation) {
        match change {
            Invalidation::Relation(one, other) => {
                self.pairs.invalidate(one, other);
                self.pairs.invalidate(other, one);
                for user in [one, other] {
                    self.flags.invalidate(user);
                    self.followees.invalidate(user);
                }
            }
            Invalidation::Locked(author) => {
                self.pairs.invalidate_author(author);
                self.flags.invalidate(author);
            }
            Invalidation::User(_) => self.clear(),
            Invalidation::Post(_)
            | Invalidation::Reposts(_)
            | Invalidation::Comment(_)
            | Invalidation::Erased(_)
            | Invalidation::Standing(_)
            | Invalidation::Filters(_)
            | Invalidation::Topics(_)
            | Invalidation::Lists(_)
            | Invalidation::Thread(_)
            | Invalidation::All => {}
        }
    }

    fn clear(&self) {
        self.pairs.invalidate_all();
        self.flags.invalidate_all();
        self.followees.invalidate_all();
    }
}
