//! The followees of readers, cached: every page of a timeline needs them.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::CacheLease;
use crate::feed::caching::{CoherentCache, FillTicket};
use crate::feed::error::Result;
use crate::ledger::Ledger;
use crate::model::UserId;

/// The size of the cache, in bytes: some 10,000 readers with 300 followees each.
const CAPACITY: u64 = 48 << 20;

/// How long a list is cached. An unfollow is in force on every node before its reply. A wrong entry would do little
/// harm: an unfollow removes posts from the stored timeline, and authors that are not in the list are looked up again.
const TTL: Duration = Duration::from_secs(600);

/// The lists of readers with more followees are not cached: a request would load the whole list for a few of its
/// entries.
const MAX_FOLLOWEES: usize = 10_000;

/// A compact set of user ids, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct UserIdSet {
    text: Box<str>,
    /// The end of each id in `text`.
    ends: Box<[u32]>,
}

impl UserIdSet {
    /// A set of ids that are in ascending order, byte by byte.
    fn new(ids: &[UserId]) -> Self {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(ids.len());
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

    /// Whether an id is in the set.
    pub(crate) fn contains(&self, id: &UserId) -> bool {
        let mut low = 0;
        let mut high = self.ends.len();
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

/// The followees of readers, with a cache.
pub(crate) struct FolloweeCache {
    ledger: Arc<dyn Ledger>,
    /// `None`: the reader follows too many.
    cache: CoherentCache<UserId, Option<Arc<UserIdSet>>>,
}

impl FolloweeCache {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>) -> Self {
        let weigh = |reader: &UserId, ids: &Option<Arc<UserIdSet>>| {
            let bytes = reader.as_str().len() + ids.as_ref().map_or(0, |ids| ids.bytes()) + 256;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self { ledger, cache: CoherentCache::weighing(lease, CAPACITY, TTL, weigh) }
    }

    /// A ticket for [`have_changed`](Self::have_changed).
    pub(crate) fn ticket(&self, reader: &UserId) -> FillTicket {
        self.cache.ticket(reader)
    }

    /// Whether the followees of a reader may have changed since the ticket was taken.
    pub(crate) fn have_changed(&self, reader: &UserId, ticket: FillTicket) -> bool {
        !self.cache.is_current(reader, ticket)
    }

    /// Drops the followees of a reader: they changed.
    pub(crate) fn invalidate(&self, reader: &UserId) {
        self.cache.invalidate(reader);
    }

    /// Drops everything.
    pub(crate) fn invalidate_all(&self) {
        self.cache.invalidate_all();
    }

    /// The followees of a reader, if they are cached.
    pub(crate) fn cached(&self, reader: &UserId) -> Option<Arc<UserIdSet>> {
        self.cache.reader().get(reader).flatten()
    }

    /// The followees of a reader; `None` if there are too many to cache.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(&self, reader: &UserId) -> Result<Option<Arc<UserIdSet>>> {
        if let Some(known) = self.cache.reader().get(reader) {
            return Ok(known);
        }
        let ticket = self.cache.ticket(reader);
        let ids = self.ledger.followees(reader, MAX_FOLLOWEES + 1).await?;
        let found = (ids.len() <= MAX_FOLLOWEES).then(|| Arc::new(UserIdSet::new(&ids)));
        self.cache.fill(reader.clone(), ticket, found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_contains_its_ids_and_no_other() {
        let ids = |names: &[&str]| names.iter().filter_map(|name| UserId::parse(name)).collect::<Vec<_>>();
        let here = ids(&["a", "ab", "B", "bb", "c.1", "Z"]);
        let set = UserIdSet::new(&here);
        assert!(here.iter().all(|id| set.contains(id)));
        assert!(ids(&["A", "z"]).iter().all(|id| set.contains(id)), "in any case");
        assert!(ids(&["aa", "abb", "ba", "c", "c.", "c.11", "d", "bc"]).iter().all(|id| !set.contains(id)));
        assert!(!UserIdSet::default().contains(&here[0]));
    }
}
