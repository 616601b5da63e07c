//! Whom readers follow, cached: every page of a timeline asks for it.

use std::sync::Arc;
use std::time::Duration;

use super::caching::{CoherentCache, FillTicket};
use super::error::Result;
use crate::broker::CacheLease;
use crate::ledger::Ledger;
use crate::model::UserId;

/// How much the cache may hold, in bytes: of people who follow 300, some 10,000.
const CAPACITY: u64 = 48 << 20;

/// How long it is cached. An unfollow is in force on every node before it is answered. Should an entry be wrong all the
/// same, little depends on it: an unfollow removes posts from the stored timeline, and authors that are not in the list
/// are looked up again.
const FRESH: Duration = Duration::from_secs(600);

/// Of somebody who follows more, nothing is kept: all of them would be read to know of a few.
const MOST: usize = 10_000;

/// Whom somebody follows: ids in ascending order, one after the other.
#[derive(Debug, Default)]
pub(super) struct Ids {
    text: Box<str>,
    /// Where each ends.
    ends: Box<[u32]>,
}

impl Ids {
    /// Of ids in ascending order, byte by byte.
    fn new(ids: &[UserId]) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(ids.len()));
        for id in ids {
            text.push_str(id.as_str());
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    fn at(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start as usize..self.ends[place] as usize).unwrap_or_default()
    }

    /// Whether somebody is among them.
    pub(super) fn contains(&self, id: &UserId) -> bool {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.at(middle).cmp(id.as_str()) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }

    fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }
}

/// Whom readers follow.
pub(super) struct Followees {
    ledger: Arc<dyn Ledger>,
    /// `None` of those who follow too many.
    cache: CoherentCache<UserId, Option<Arc<Ids>>>,
}

impl Followees {
    /// An empty cache in front of the ledger.
    pub(super) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>) -> Self {
        let weigh = |reader: &UserId, ids: &Option<Arc<Ids>>| {
            let bytes = reader.as_str().len() + ids.as_ref().map_or(0, |ids| ids.bytes()) + 256;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self { ledger, cache: CoherentCache::weighing(lease, CAPACITY, FRESH, weigh) }
    }

    /// Taken to find out later whether whom somebody follows has changed since.
    pub(super) fn ticket(&self, reader: &UserId) -> FillTicket {
        self.cache.ticket(reader)
    }

    /// Whether it may have changed since.
    pub(super) fn have_changed(&self, reader: &UserId, ticket: FillTicket) -> bool {
        !self.cache.is_current(reader, ticket)
    }

    /// Forgets whom somebody follows: it changed.
    pub(super) fn forget(&self, reader: &UserId) {
        self.cache.invalidate(reader);
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self) {
        self.cache.invalidate_all();
    }

    /// Whom somebody follows; `None` if that is too many to know them all.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, reader: &UserId) -> Result<Option<Arc<Ids>>> {
        if let Some(known) = self.cache.reader().get(reader) {
            return Ok(known);
        }
        let ticket = self.cache.ticket(reader);
        let ids = self.ledger.followees(reader, MOST + 1).await?;
        let found = (ids.len() <= MOST).then(|| Arc::new(Ids::new(&ids)));
        self.cache.fill(reader.clone(), ticket, found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_put_in_is_found_and_nobody_else() {
        let ids = |names: &[&str]| names.iter().filter_map(|name| UserId::parse(name)).collect::<Vec<_>>();
        let here = ids(&["Z", "a", "ab", "b", "bb", "c.1"]);
        let set = Ids::new(&here);
        assert!(here.iter().all(|id| set.contains(id)));
        assert!(ids(&["A", "aa", "abb", "ba", "c", "c.", "c.11", "d", "bc"]).iter().all(|id| !set.contains(id)));
        assert!(!Ids::default().contains(&here[0]));
    }
}
