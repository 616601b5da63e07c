//! Fills a page: reads a list until the page has the requested number of items that the reader may see.

use std::collections::HashMap;
use std::sync::Arc;

use crate::feed::content::CachedPost;
use crate::model::{PostId, User};

/// The maximal number of rows of one read. Reads grow, so that a long run of invisible rows is passed quickly.
const MAX_STEP: usize = 500;

/// A page of a list in descending order of keys, which are the cursors too.
///
/// ```text
/// while let Some((after, count)) = page.wants() {
///     page.take(/* at most `count` rows after `after` */);
/// }
/// let (items, next) = page.finish();
/// ```
pub(crate) struct PageBuilder<K, T> {
    /// The key of the last row that was read; before the first read, the client's cursor.
    after: Option<K>,
    /// The number of items that the client requested.
    limit: usize,
    /// The number of rows of the last read.
    step: usize,
    /// The number of reads left for this page.
    reads_left: usize,
    /// The items that the reader may see: those of the page, and at least one more if there is a next page.
    items: Vec<T>,
    /// The key of the last item of the page, once it is full.
    last: Option<K>,
    progress: Progress,
}

/// A page of posts, newest first.
pub(crate) type PostPageBuilder = PageBuilder<PostId, Arc<CachedPost>>;

/// A page of users, in the order in which the ledger stored the rows that name them.
pub(crate) type UserPageBuilder = PageBuilder<i64, User>;

#[derive(PartialEq, Eq)]
enum Progress {
    /// There may be more rows.
    Reading,
    /// All rows were read.
    Ended,
    /// There may be more rows, for the next page.
    Stopped,
}

impl<K: Clone, T> PageBuilder<K, T> {
    /// An empty page of at most `limit` items after `cursor`; without one, the first page.
    pub(crate) fn new(cursor: Option<K>, limit: usize) -> Self {
        Self::with_max_reads(cursor, limit, usize::MAX)
    }

    /// As [`new`](Self::new), with at most `max_reads` reads. After them the page is short, and its cursor continues.
    pub(crate) fn with_max_reads(cursor: Option<K>, limit: usize, max_reads: usize) -> Self {
        Self {
            after: cursor,
            limit,
            step: 0,
            reads_left: max_reads,
            items: Vec::with_capacity(limit + 1),
            last: None,
            progress: Progress::Reading,
        }
    }

    /// The next rows to read: the key to start after, and the maximal number of rows. `None` once the page is full or
    /// the list has ended.
    pub(crate) fn wants(&mut self) -> Option<(Option<K>, usize)> {
        // The additional row shows whether there is a next page.
        let missing = (self.limit + 1).saturating_sub(self.items.len());
        if missing == 0 || !self.may_read() {
            return None;
        }
        self.step = if self.step == 0 { missing } else { (2 * self.step).clamp(missing, MAX_STEP.max(missing)) };
        Some((self.after.clone(), self.step))
    }

    fn may_read(&mut self) -> bool {
        if self.progress == Progress::Reading && self.reads_left == 0 {
            self.progress = Progress::Stopped;
        }
        self.reads_left = self.reads_left.saturating_sub(1);
        self.progress == Progress::Reading
    }

    /// Adds rows in order, each with its key; `None` for a row that the reader may not see. Fewer rows than requested
    /// end the list.
    pub(crate) fn take(&mut self, rows: impl IntoIterator<Item = (K, Option<T>)>) {
        let mut count = 0;
        for (key, item) in rows {
            count += 1;
            if let Some(item) = item {
                self.items.push(item);
                if self.items.len() == self.limit {
                    self.last = Some(key.clone());
                }
            }
            self.after = Some(key);
        }
        if count < self.step {
            self.progress = Progress::Ended;
        }
    }

    /// Adds rows with these keys; `visible` has the items that the reader may see, in the same order.
    pub(crate) fn take_visible(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        visible: Vec<T>,
        is_of: impl Fn(&T, &K) -> bool,
    ) {
        let mut visible = visible.into_iter().peekable();
        self.take(keys.into_iter().map(|key| {
            let item = visible.next_if(|item| is_of(item, &key));
            (key, item)
        }));
    }

    /// Adds all remaining rows of a list.
    pub(crate) fn take_rest(&mut self, rows: impl IntoIterator<Item = (K, T)>) {
        self.take(rows.into_iter().map(|(key, item)| (key, Some(item))));
        self.progress = Progress::Ended;
    }

    /// Whether the page is full, and there is a next page.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() > self.limit
    }

    /// Whether the page ends before the end of the list, full or not.
    pub(crate) fn is_stopped(&self) -> bool {
        self.progress == Progress::Stopped
    }

    /// Ends the page here, full or not. The next page begins after `key`.
    pub(crate) fn stop_at(&mut self, key: K) {
        self.progress = Progress::Stopped;
        self.after = Some(key);
    }

    /// The items, and the cursor of the next page; `None` at the end of the list.
    pub(crate) fn finish(mut self) -> (Vec<T>, Option<K>) {
        let next = match self.progress {
            _ if self.is_full() => self.last,
            Progress::Stopped => self.after,
            Progress::Reading | Progress::Ended => None,
        };
        self.items.truncate(self.limit);
        (self.items, next)
    }
}

impl<T> PageBuilder<PostId, T> {
    /// Continues below `before` in another source, after the first source has ended.
    pub(crate) fn continue_below(&mut self, before: PostId) {
        self.progress = Progress::Reading;
        self.after = Some(self.after.map_or(before, |reached| reached.min(before)));
    }
}

impl PostPageBuilder {
    /// The next posts to read: the id to start below, and the maximal number of posts.
    pub(crate) fn wants_posts(&mut self) -> Option<(PostId, usize)> {
        self.wants().map(|(before, count)| (before.unwrap_or(PostId::MAX), count))
    }

    /// Adds posts that were read, newest first; `visible` has those that the reader may see.
    pub(crate) fn take_posts(&mut self, read: &[PostId], visible: &HashMap<PostId, Arc<CachedPost>>) {
        self.take(read.iter().map(|id| (*id, visible.get(id).cloned())));
    }
}

impl UserPageBuilder {
    /// The next users to read: the key to start after, and the number of missing users. Lists of users return their
    /// next position, so no additional row is read.
    pub(crate) fn wants_users(&mut self) -> Option<(Option<i64>, usize)> {
        self.may_read().then(|| (self.after, self.limit - self.items.len()))
    }

    /// Adds the users of a list that the reader may see. `next` is its [`next`](crate::ledger::ListPage::next).
    pub(crate) fn take_users(&mut self, visible: Vec<User>, next: Option<i64>) {
        self.items.extend(visible);
        self.after = next;
        self.progress = match next {
            None => Progress::Ended,
            Some(_) if self.items.len() >= self.limit => Progress::Stopped,
            Some(_) => Progress::Reading,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UserId;

    /// Reads a list of 1 to 1000 of which every 7th item is visible. Returns the number of reads as well.
    fn read(cursor: Option<i64>, limit: usize) -> (Vec<i64>, Option<i64>, usize) {
        let mut page = PageBuilder::new(cursor, limit);
        let mut times = 0;
        while let Some((before, wanted)) = page.wants() {
            times += 1;
            let below = (1..before.unwrap_or(1_001)).rev().take(wanted);
            page.take(below.map(|key| (key, (key % 7 == 0).then_some(key))));
        }
        let (items, next) = page.finish();
        (items, next, times)
    }

    #[test]
    fn pages_are_full_and_continue_where_they_end() {
        let mut all = Vec::new();
        let mut cursor = None;
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
    fn pages_that_stop_early_have_a_next_page() {
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
    fn pages_continued_elsewhere_read_nothing_twice() {
        let rows = |ids: &[u64]| ids.iter().map(|id| (PostId(*id), Some(*id))).collect::<Vec<_>>();
        let mut page: PageBuilder<PostId, u64> = PageBuilder::new(None, 4);
        assert_eq!(page.wants(), Some((None, 5)));
        page.take([(PostId(9), Some(9)), (PostId(8), None)]);
        assert_eq!(page.wants(), None);
        page.continue_below(PostId(20));
        assert_eq!(page.wants().map(|(before, _)| before), Some(Some(PostId(8))));
        page.take(rows(&[7, 3]));
        page.continue_below(PostId(2));
        assert_eq!(page.wants().map(|(before, _)| before), Some(Some(PostId(2))));
        page.take(rows(&[1]));
        assert_eq!(page.finish(), (vec![9, 7, 3, 1], None));
    }

    #[test]
    fn a_page_after_its_last_read_is_short_and_has_a_next_one() {
        let mut page = PageBuilder::with_max_reads(None, 3, 2);
        assert_eq!(page.wants(), Some((None, 4)));
        page.take([(9, Some(9)), (8, None), (7, None), (6, None)]);
        assert_eq!(page.wants(), Some((Some(6), 8)));
        page.take_visible((0..=5).rev().chain([-1, -2]), vec![4, 0], |item, key| item == key);
        assert_eq!(page.wants(), None);
        assert_eq!(page.finish(), (vec![9, 4, 0], Some(-2)));
    }

    #[test]
    fn a_page_of_users_asks_for_those_that_are_missing() {
        let user = |id: &str| User { id: UserId::parse(id).unwrap(), name: id.to_owned(), avatar: None, created_at: 0 };
        let mut page = UserPageBuilder::new(None, 3);
        assert_eq!(page.wants_users(), Some((None, 3)));
        page.take_users(vec![user("ann")], Some(17));
        assert_eq!(page.wants_users(), Some((Some(17), 2)));
        page.take_users(vec![user("bob"), user("cat")], Some(9));
        assert_eq!(page.wants_users(), None);
        assert_eq!((page.items.len(), page.finish().1), (3, Some(9)));
        let mut page = UserPageBuilder::new(Some(9), 3);
        assert_eq!(page.wants_users(), Some((Some(9), 3)));
        page.take_users(vec![user("dan")], None);
        assert_eq!(page.wants_users(), None);
        assert_eq!(page.finish().1, None);
    }
}
