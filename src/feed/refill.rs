//! Fills a page from a list that something is left out of, with an exact cursor.

/// How much is read at once, at least, after the first reading left the page short.
const MORE: usize = 100;

/// A page of a list in the order of falling `seq`s, being filled.
pub(super) struct Refill<T> {
    limit: usize,
    /// Read below this.
    before: Option<i64>,
    /// How many were asked for last; 0 before the first time.
    asked: usize,
    ended: bool,
    kept: Vec<(i64, T)>,
}

impl<T> Refill<T> {
    /// An empty page of at most `limit`, that begins below `cursor`.
    pub(super) fn new(cursor: Option<i64>, limit: usize) -> Self {
        Self { limit, before: cursor, asked: 0, ended: false, kept: Vec::with_capacity(limit + 1) }
    }

    /// Below which `seq` to read on, and how many; `None` once the page is full or the list has ended. One more than the
    /// page holds tells whether there is another.
    pub(super) fn wants(&mut self) -> Option<(Option<i64>, usize)> {
        if self.ended || self.kept.len() > self.limit {
            return None;
        }
        self.asked = if self.asked == 0 { self.limit + 1 } else { MORE.max(self.limit + 1) };
        Some((self.before, self.asked))
    }

    /// Takes what was read: every item with its `seq`, and `None` for one to be left out.
    pub(super) fn take(&mut self, read: impl IntoIterator<Item = (i64, Option<T>)>) {
        let mut many = 0;
        for (seq, item) in read {
            many += 1;
            self.before = Some(seq);
            self.kept.extend(item.map(|item| (seq, item)));
        }
        self.ended = many < self.asked;
    }

    /// The page, and the cursor of the next one.
    pub(super) fn page(mut self) -> (Vec<T>, Option<String>) {
        let more = self.kept.len() > self.limit;
        self.kept.truncate(self.limit);
        let next = self.kept.last().filter(|_| more).map(|(seq, _)| format!("e{seq}"));
        (self.kept.into_iter().map(|(_, item)| item).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a list of the `seq`s 1 to 1000 of which every 7th is shown.
    fn read(cursor: Option<i64>, limit: usize) -> (Vec<i64>, Option<String>, usize) {
        let (mut page, mut times) = (Refill::new(cursor, limit), 0);
        while let Some((before, wanted)) = page.wants() {
            times += 1;
            let below = (1..before.unwrap_or(1_001)).rev().take(wanted);
            page.take(below.map(|seq| (seq, (seq % 7 == 0).then_some(seq))));
        }
        let (items, next) = page.page();
        (items, next, times)
    }

    #[test]
    fn a_page_is_full_and_the_next_begins_where_it_ends() {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next, times) = read(cursor, 4);
            assert!(items.len() == 4 || next.is_none());
            assert!(times <= 2, "one more reading finds enough");
            all.extend(items);
            let Some(next) = next else { break };
            cursor = next.strip_prefix('e').and_then(|seq| seq.parse().ok());
        }
        assert_eq!(all, (1..=1_000).rev().filter(|seq| seq % 7 == 0).collect::<Vec<i64>>());
    }

    #[test]
    fn a_full_last_page_is_the_last() {
        assert_eq!(read(Some(22), 3), (vec![21, 14, 7], None, 2));
    }
}
