//! The filters of a reader, compiled: all words are searched in one pass over a text.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::feed::error::{FeedError, Result};
use crate::model::{Filter, FilterAction, FilterContext, FilterId, Millis};
use crate::text::{FilterText, caseless, topic_name};

/// The maximal number of filters of a user. A [`FilterSet`] has a bit for each.
pub(crate) const MAX_FILTERS: usize = 20;

/// The maximal number of places of a text where a word is checked. Words that contain each other many times cannot
/// occupy the workers that deliver for all.
const MAX_CANDIDATES: usize = 10_000;

/// Filters of one reader: bit `n` is the filter with index `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterSet(u32);

impl FilterSet {
    fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    /// The filters of both sets.
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a reader sees of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterOutcome {
    /// All of it.
    Shown,
    /// All of it, marked with these filters.
    Marked(Vec<FilterId>),
    /// Nothing.
    Hidden,
}

/// A word of a filter.
#[derive(Debug)]
struct FilterWord {
    /// The index of the filter.
    filter: usize,
    whole_word: bool,
}

/// The filters of a reader.
#[derive(Debug)]
pub(crate) struct ReaderFilters {
    filters: Vec<Filter>,
    /// Finds the words; its patterns have the indices of `words`.
    search: AhoCorasick,
    words: Vec<FilterWord>,
    /// The topics, with the filters that name them.
    topics: HashMap<String, FilterSet>,
}

impl ReaderFilters {
    /// Compiles the filters of a user, [`MAX_FILTERS`] at most.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if the words are too many to be compiled.
    pub(crate) fn compile(mut filters: Vec<Filter>) -> Result<Self> {
        filters.truncate(MAX_FILTERS);
        let mut words = Vec::new();
        let mut patterns = Vec::new();
        let mut topics: HashMap<String, FilterSet> = HashMap::new();
        for (index, filter) in filters.iter().enumerate() {
            for word in &filter.words {
                if let Some(topic) = topic_of(word) {
                    topics.entry(topic).or_default().insert(index);
                    continue;
                }
                let pattern = caseless(word);
                if !pattern.is_empty() {
                    patterns.push(pattern);
                    words.push(FilterWord { filter: index, whole_word: filter.whole_word });
                }
            }
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // The smallest: each connected reader with filters has one.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .map_err(|error| {
                tracing::error!(%error, "filters could not be compiled");
                FeedError::Internal
            })?;
        Ok(Self { filters, search, words, topics })
    }

    /// The filters with a word in a text.
    pub(crate) fn matches(&self, text: &FilterText) -> FilterSet {
        let mut found = FilterSet::default();
        for one in self.search.find_overlapping_iter(text.as_str()).take(MAX_CANDIDATES) {
            let FilterWord { filter, whole_word } = self.words[one.pattern().as_usize()];
            if !found.contains(filter) && (!whole_word || text.is_whole(one.start(), one.end())) {
                found.insert(filter);
            }
        }
        for (topic, filters) in &self.topics {
            if text.has_topic(topic) {
                found = found.union(*filters);
            }
        }
        found
    }

    /// What the reader sees in a context at a time, of content with words of these filters.
    pub(crate) fn outcome(&self, found: FilterSet, context: FilterContext, now: Millis) -> FilterOutcome {
        if found == FilterSet::default() {
            return FilterOutcome::Shown;
        }
        let applies = |filter: &Filter| filter.contexts.contains(&context) && filter.until.is_none_or(|end| now < end);
        let filters =
            self.filters.iter().enumerate().filter(|(index, filter)| found.contains(*index) && applies(filter));
        let mut marks = Vec::new();
        for (_, filter) in filters {
            match filter.action {
                FilterAction::Hide => return FilterOutcome::Hidden,
                FilterAction::Warn => marks.push(filter.id),
            }
        }
        if marks.is_empty() { FilterOutcome::Shown } else { FilterOutcome::Marked(marks) }
    }

    /// Its size, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let words = self.filters.iter().flat_map(|filter| &filter.words).map(|word| word.len() + 64);
        self.search.memory_usage() + words.sum::<usize>() + 256
    }
}

/// The topic that a word with a `#` names, without case and width.
fn topic_of(word: &str) -> Option<String> {
    topic_name(word.trim().strip_prefix(['#', '＃'])?).map(|name| caseless(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::content::CachedPost;
    use crate::model::{Media, MediaKind, Post, PostId, UserId};

    fn filter(id: u64, words: &[&str]) -> Filter {
        Filter {
            id: FilterId(id),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            action: FilterAction::Hide,
            contexts: FilterContext::ALL.to_vec(),
            whole_word: true,
            until: None,
            created_at: 0,
        }
    }

    fn finds(filter: Filter, text: &str) -> bool {
        let filters = ReaderFilters::compile(vec![filter]).unwrap();
        filters.matches(&FilterText::of_texts([text])) != FilterSet::default()
    }

    #[test]
    fn whole_words_are_found_in_all_scripts() {
        // The word, a text, whether it is found as a whole word, and whether as a part of one.
        let rows = [
            ("rust", "I like Rust.", true, true),
            ("rust", "trust", false, true),
            ("rust", "rusty", false, true),
            ("rust", "RUST!", true, true),
            ("rust", "(rust)", true, true),
            ("rust", "rust-lang", true, true),
            ("rust", "rust_lang", false, true),
            ("rust", "#rust", true, true),
            ("rust", "ru\u{200b}st", true, true),
            ("Rust", "ｒｕｓｔ", true, true),
            ("don", "don't", false, true),
            ("don't", "I DON'T know", true, true),
            ("3", "3.14", false, true),
            ("c++", "c++ or c", true, true),
            ("cafe", "café", false, false),
            ("café", "CAFE\u{301}", true, true),
            ("x", "x\u{302}y", false, true),
            ("straße", "STRASSE", true, true),
            ("οδος", "ΟΔΟΣ", true, true),
            ("кот", "Кот спит", true, true),
            ("кот", "который", false, true),
            ("بيت", "في بيت كبير", true, true),
            ("machine learning", "Machine\n  Learning!", true, true),
            ("machine learning", "machine-learning", false, false),
            ("🔥", "so 🔥🔥", true, true),
            ("猫", "黒猫だ", true, true),
            ("東京", "東京都", true, true),
            ("カレー", "カレーライス", true, true),
            ("ｶﾚｰ", "カレー", true, true),
            ("か", "が", false, false),
            ("ねこ", "こねこね", true, true),
            ("谢谢", "谢谢你", true, true),
            ("rust", "日本rust語", true, true),
            ("rust", "rust를 배우다", true, true),
            ("고양이", "고양이가 왔다", true, true),
            ("고양이", "강아지", false, false),
            ("กา", "มากาแฟ", true, true),
            ("ai", "维ai图", true, true),
            ("ai", "said 图", false, true),
            ("abc猫", "xabc猫", false, true),
        ];
        for (word, text, whole, part) in rows {
            assert_eq!(finds(filter(1, &[word]), text), whole, "{word:?} as a word in {text:?}");
            let anywhere = Filter { whole_word: false, ..filter(1, &[word]) };
            assert_eq!(finds(anywhere, text), part, "{word:?} in {text:?}");
        }
    }

    #[test]
    fn marks_do_not_end_a_word() {
        for (word, text) in [
            ("во", "во\u{301}да"),
            ("за", "за\u{301}мок"),
            ("rust", "rust\u{301}y"),
            ("x", "x\u{301}y"),
            ("wo", "wo\u{308}rd"),
            ("ש", "ש\u{5b8}לום"),
        ] {
            assert!(!finds(filter(1, &[word]), text), "{word:?} in {text:?}");
        }
        assert!(finds(filter(1, &["вода"]), "вода") && finds(filter(1, &["ที่"]), "ที่นี่"));
    }

    #[test]
    fn topics_are_found_by_name() {
        for (word, text, found) in [
            ("#rust", "#ｒｕｓｔ", true),
            ("#ｒｕｓｔ", "#rust", true),
            ("#strasse", "#Straße", true),
            ("#rust", "learn #Rust", true),
            ("＃Rust", "learn ＃rust", true),
            ("#rust", "learn rust", false),
            ("#rust", "#rustlang", false),
            ("#ねこ", "#ねこ", true),
            // Not the name of a topic: a word.
            ("#1", "we are #1 here", true),
        ] {
            assert_eq!(finds(filter(1, &[word]), text), found, "{word:?} in {text:?}");
            let anywhere = Filter { whole_word: false, ..filter(1, &[word]) };
            assert_eq!(finds(anywhere, text), found, "{word:?} anywhere in {text:?}");
        }
    }

    #[test]
    fn posts_are_searched_with_media_and_topics() {
        let alt = |text: &str| Media {
            kind: MediaKind::Image,
            url: "/a.png".into(),
            width: None,
            height: None,
            alt: Some(text.into()),
        };
        let post = Post {
            text: "one".into(),
            media: vec![alt("two three"), alt("four")],
            topics: vec!["five".into()],
            ..Post::blank(PostId(1), UserId::parse("secret").unwrap())
        };
        let text = CachedPost::new(post, false).unwrap();
        let text = text.filter_text();
        let finds =
            |word| ReaderFilters::compile(vec![filter(1, &[word])]).unwrap().matches(text) != FilterSet::default();
        for word in ["one", "Two Three", "four", "five", "#five"] {
            assert!(finds(word), "{word}");
        }
        for word in ["secret", "one two", "three four", "#one", "png", " ", "\u{200b}"] {
            assert!(!finds(word), "{word:?}");
        }
    }

    #[test]
    fn each_filter_applies_where_and_while_it_is_wanted() {
        let warn = |id, words: &[&str]| Filter { action: FilterAction::Warn, ..filter(id, words) };
        let filters = ReaderFilters::compile(vec![
            warn(7, &["a", "b"]),
            Filter { contexts: vec![FilterContext::Home], ..filter(8, &["c", "cd"]) },
            warn(9, &["b"]),
            Filter { until: Some(100), ..warn(10, &["d"]) },
        ])
        .unwrap();
        let outcome =
            |text: &str, context, now| filters.outcome(filters.matches(&FilterText::of_texts([text])), context, now);
        let marked = |ids: &[u64]| FilterOutcome::Marked(ids.iter().map(|id| FilterId(*id)).collect());
        let home = FilterContext::Home;
        for (text, context, now, expected) in [
            ("x", home, 0, FilterOutcome::Shown),
            ("a", home, 0, marked(&[7])),
            ("b", home, 0, marked(&[7, 9])),
            ("a b c", home, 0, FilterOutcome::Hidden),
            ("a b c", FilterContext::Topics, 0, marked(&[7, 9])),
            ("cd", home, 0, FilterOutcome::Hidden),
            ("c", FilterContext::Comments, 0, FilterOutcome::Shown),
            ("d", home, 99, marked(&[10])),
            ("d", home, 100, FilterOutcome::Shown),
        ] {
            assert_eq!(outcome(text, context, now), expected, "{text:?} {context:?} {now}");
        }
    }
}
