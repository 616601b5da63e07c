//! A page while it is being built: items that the reader may not see leave no gap, the list is read until the page is full.

use std::collections::HashMap;
use std::sync::Arc;

use super::content::CachedPost;
use crate::model::PostId;

/// The most items that are read in one step. Steps grow, so that a long run of invisible items is passed quickly.
const MAX_STEP: usize = 500;

/// A page of a list in descending order of keys, which are the cursors too.
pub(crate) struct PageBuilder<K, T> {
    /// Everything from this key on has been read; nothing yet, without one.
    before: Option<K>,
    limit: usize,
    step: usize,
    items: Vec<(K, T)>,
    end: End,
}

/// A page of posts, newest first.
pub(crate) type PostPageBuilder = PageBuilder<PostId, Arc<CachedPost>>;

#[derive(PartialEq, Eq)]
enum End {
    Unknown,
    Reached,
    /// There may be more, which this page does not look for.
    Stopped,
}

impl<K: Copy + Ord, T> PageBuilder<K, T> {
    /// An empty page of at most `limit` items below `cursor` (from the beginning, without one).
    pub(crate) fn new(cursor: Option<K>, limit: usize) -> Self {
        Self { before: cursor, limit, step: 0, items: Vec::with_capacity(limit + 1), end: End::Unknown }
    }

    /// What to read next: items below this key, at most so many. `None` once the page is full or nothing is left.
    pub(crate) fn wants(&mut self) -> Option<(Option<K>, usize)> {
        // One more than requested shows whether there is a next page.
        let missing = (self.limit + 1).saturating_sub(self.items.len());
        if missing == 0 || self.end != End::Unknown {
            return None;
        }
        self.step = if self.step == 0 { missing } else { (2 * self.step).clamp(missing, MAX_STEP.max(missing)) };
        Some((self.before, self.step))
    }

    /// Adds items in order, each with its key; `None` for one that the reader may not see. Fewer than wanted: the list has ended.
    pub(crate) fn take(&mut self, read: impl IntoIterator<Item = (K, Option<T>)>) {
        let mut many = 0;
        for (key, item) in read {
            many += 1;
            self.before = Some(key);
            self.items.extend(item.map(|item| (key, item)));
        }
        if many < self.step {
            self.end = End::Reached;
        }
    }

    /// Whether the page is full.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() > self.limit
    }

    /// The list has ended, and continues below `before` in another place.
    pub(crate) fn continue_below(&mut self, before: K) {
        self.end = End::Unknown;
        self.before = Some(self.before.map_or(before, |reached| reached.min(before)));
    }

    /// Ends the page here, full or not: enough was looked at. The next page begins below `key`.
    pub(crate) fn stop_at(&mut self, key: K) {
        self.end = End::Stopped;
        self.before = Some(key);
    }

    /// The page, and where the next one begins: below that key. `None` at the end.
    pub(crate) fn finish(mut self) -> (Vec<T>, Option<K>) {
        let more = self.is_full();
        self.items.truncate(self.limit);
        let next = match self.end {
            _ if more => self.items.last().map(|(key, _)| *key),
            End::Stopped => self.before,
            End::Unknown | End::Reached => None,
        };
        (self.items.into_iter().map(|(_, item)| item).collect(), next)
    }
}

impl PostPageBuilder {
    /// What to read next: posts below this one, at most so many.
    pub(crate) fn wants_posts(&mut self) -> Option<(PostId, usize)> {
        self.wants().map(|(before, count)| (before.unwrap_or(PostId::MAX), count))
    }

    /// Adds posts that were read, newest first; `seen` has those that the reader may see.
    pub(crate) fn take_posts(&mut self, read: &[PostId], seen: &HashMap<PostId, Arc<CachedPost>>) {
        self.take(read.iter().map(|id| (*id, seen.get(id).cloned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a list of 1 to 1000 of which every 7th is shown; how often it was read.
    fn read(cursor: Option<i64>, limit: usize) -> (Vec<i64>, Option<i64>, usize) {
        let (mut page, mut times) = (PageBuilder::new(cursor, limit), 0);
        while let Some((before, wanted)) = page.wants() {
            times += 1;
            let below = (1..before.unwrap_or(1_001)).rev().take(wanted);
            page.take(below.map(|key| (key, (key % 7 == 0).then_some(key))));
        }
        let (items, next) = page.finish();
        (items, next, times)
    }

    #[test]
    fn a_page_is_full_and_the_next_begins_where_it_ends() {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next, times) = read(cursor, 4);
            assert!(items.len() == 4 || next.is_none());
            assert!(times <= 4, "steps grow: {times}");
            all.extend(items);
            let Some(next) = next else { break };
            cursor = Some(next);
        }
        assert_eq!(all, (1..=1_000).rev().filter(|key| key % 7 == 0).collect::<Vec<i64>>());
    }

    #[test]
    fn a_full_last_page_is_the_last() {
        let (items, next, _) = read(Some(22), 3);
        assert_eq!((items, next), (vec![21, 14, 7], None));
    }

    #[test]
    fn a_page_that_stops_early_is_short_and_has_a_next_one() {
        let mut page = PageBuilder::new(None, 2);
        assert_eq!(page.wants(), Some((None, 3)));
        page.take([(9, Some(9))]);
        page.stop_at(4);
        assert_eq!(page.wants(), None);
        assert_eq!(page.finish(), (vec![9], Some(4)));
        let mut page = PageBuilder::new(None, 1);
        assert_eq!(page.wants(), Some((None, 2)));
        page.take([(9, Some(9)), (8, Some(8))]);
        page.stop_at(4);
        assert_eq!(page.finish(), (vec![9], Some(9)), "a full page ends where its items end");
    }

    #[test]
    fn a_page_that_goes_on_elsewhere_reads_nothing_twice() {
        let mut page = PageBuilder::new(None, 4);
        assert_eq!(page.wants(), Some((None, 5)));
        page.take([(9, Some(9)), (8, None)]);
        assert_eq!(page.wants(), None);
        page.continue_below(20);
        assert_eq!(page.wants().map(|(before, _)| before), Some(Some(8)));
        page.take([(7, Some(7)), (3, Some(3))]);
        page.continue_below(2);
        assert_eq!(page.wants().map(|(before, _)| before), Some(Some(2)));
        page.take([(1, Some(1))]);
        assert_eq!(page.finish(), (vec![9, 7, 3, 1], None));
    }
}
