//! What is between readers and authors, cached: every delivery asks for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::caching::{CoherentCache, FillTicket};
use super::error::Result;
use super::followees::{Followees, Ids};
use crate::broker::CacheLease;
use crate::ledger::Ledger;
use crate::model::{Relation, UserId};

/// How long a relation is cached. What closes something is in force on every node before it is answered; this bounds how
/// long a change that was not answered, because Redis could not be reached, goes unnoticed elsewhere.
const FRESH: Duration = Duration::from_secs(30);

/// How many pairs are kept, at some 200 bytes each.
const PAIRS: u64 = 250_000;

/// How many authors are kept of whom it is known whether barriers concern them.
const AUTHORS: u64 = 100_000;

/// How many pairs the ledger is asked for at once: some milliseconds of its time.
const AT_ONCE: usize = 5_000;

/// Relations by author and reader.
#[derive(Debug, Default)]
pub(super) struct Between(HashMap<UserId, HashMap<UserId, Relation>>);

impl Between {
    /// What is between the two, if it was asked for.
    pub(super) fn get(&self, reader: &UserId, author: &UserId) -> Option<Relation> {
        self.0.get(author)?.get(reader).copied()
    }

    /// Adds what others found.
    pub(super) fn extend(&mut self, others: Self) {
        for (author, readers) in others.0 {
            self.0.entry(author).or_default().extend(readers);
        }
    }

    fn insert(&mut self, reader: UserId, author: UserId, relation: Relation) {
        self.0.entry(author).or_default().insert(reader, relation);
    }
}

/// The relations of pairs, with a cache. Two hardly ever ask for the same pair at once, so nobody waits for another's
/// fetch.
pub(super) struct Relations {
    ledger: Arc<dyn Ledger>,
    /// By reader and author.
    pairs: CoherentCache<(UserId, UserId), Relation>,
    /// Whether barriers concern who may see this author's posts.
    barred: CoherentCache<UserId, bool>,
    followees: Followees,
}

impl Relations {
    /// An empty cache in front of the ledger.
    pub(super) fn new(ledger: Arc<dyn Ledger>, lease: &Arc<CacheLease>) -> Self {
        Self {
            followees: Followees::new(Arc::clone(&ledger), Arc::clone(lease)),
            ledger,
            pairs: CoherentCache::new(Arc::clone(lease), PAIRS, FRESH),
            barred: CoherentCache::new(Arc::clone(lease), AUTHORS, FRESH),
        }
    }

    /// Taken to find out later whether a user's relations [have changed](Self::have_changed) since.
    pub(super) fn ticket(&self, user: &UserId) -> FillTicket {
        self.followees.ticket(user)
    }

    /// Whether a user's relations may have changed since the ticket was taken.
    pub(super) fn have_changed(&self, user: &UserId, ticket: FillTicket) -> bool {
        self.followees.have_changed(user, ticket)
    }

    /// Forgets what is between two people, both ways.
    pub(super) fn forget(&self, one: &UserId, other: &UserId) {
        self.pairs.invalidate(&(one.clone(), other.clone()));
        self.pairs.invalidate(&(other.clone(), one.clone()));
        for person in [one, other] {
            self.barred.invalidate(person);
            self.followees.forget(person);
        }
    }

    /// Forgets everything: any of it may have changed without this node hearing of it.
    pub(super) fn forget_all(&self) {
        self.pairs.invalidate_all();
        self.barred.invalidate_all();
        self.followees.forget_all();
    }

    /// Whom a reader follows; `None` if that is too many to know them all.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn followees(&self, reader: &UserId) -> Result<Option<Arc<Ids>>> {
        self.followees.get(reader).await
    }

    /// What is between a reader and an author.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn one(&self, reader: &UserId, author: &UserId) -> Result<Relation> {
        let between = self.get([(reader.clone(), author.clone())]).await?;
        Ok(between.get(reader, author).unwrap_or_default())
    }

    /// What is between readers and authors (in this order).
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, pairs: impl IntoIterator<Item = (UserId, UserId)>) -> Result<Between> {
        let mut found = Between::default();
        let mut missing = HashSet::new();
        let cached = self.pairs.reader();
        for pair in pairs {
            match cached.get(&pair) {
                Some(relation) => found.insert(pair.0, pair.1, relation),
                None => drop(missing.insert(pair)),
            }
        }
        self.fetch(missing, &mut found).await?;
        Ok(found)
    }

    /// What is between them now, whatever the cache says. Something that was told as not to be seen is told once: a no
    /// out of the cache, from before a follow that this node has not heard of yet, would lose it.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn fresh(&self, pairs: HashSet<(UserId, UserId)>) -> Result<Between> {
        let mut found = Between::default();
        self.fetch(pairs, &mut found).await?;
        Ok(found)
    }

    async fn fetch(&self, pairs: HashSet<(UserId, UserId)>, found: &mut Between) -> Result<()> {
        let missing: Vec<_> = pairs.into_iter().collect();
        for missing in missing.chunks(AT_ONCE) {
            let tickets: Vec<_> = missing.iter().map(|pair| self.pairs.ticket(pair)).collect();
            let relations = self.ledger.relations(missing).await?;
            for ((pair, ticket), relation) in missing.iter().zip(tickets).zip(relations) {
                self.pairs.fill(pair.clone(), ticket, relation);
                found.insert(pair.0.clone(), pair.1.clone(), relation);
            }
        }
        Ok(())
    }

    /// Whether an author's posts are not for everyone alike, whatever their visibility says; `None` if it is not remembered.
    pub(super) fn is_barred(&self, author: &UserId) -> Option<bool> {
        self.barred.reader().get(author)
    }

    /// Those of `authors` whose posts are not for everyone alike, whatever their visibility says.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn barred(&self, authors: impl IntoIterator<Item = UserId>) -> Result<HashSet<UserId>> {
        let mut found = HashSet::new();
        let mut missing = HashSet::new();
        let cached = self.barred.reader();
        for author in authors {
            match cached.get(&author) {
                Some(true) => drop(found.insert(author)),
                Some(false) => {}
                None => drop(missing.insert(author)),
            }
        }
        if !missing.is_empty() {
            let missing: Vec<UserId> = missing.into_iter().collect();
            let tickets: Vec<_> = missing.iter().map(|author| self.barred.ticket(author)).collect();
            let barred: HashSet<UserId> = self.ledger.barred_among(&missing).await?.into_iter().collect();
            for (author, ticket) in missing.iter().zip(tickets) {
                self.barred.fill(author.clone(), ticket, barred.contains(author));
            }
            found.extend(barred);
        }
        Ok(found)
    }

    /// What is between many readers and one author, in their order, and not kept: most of those to whom a post is carried
    /// are not here.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn of_many(&self, readers: &[UserId], author: &UserId) -> Result<Vec<Relation>> {
        let pairs: Vec<_> = readers.iter().map(|reader| (reader.clone(), author.clone())).collect();
        Ok(self.ledger.relations(&pairs).await?)
    }
}
