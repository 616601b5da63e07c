//! A text as filters search it: without case, in NFKC, with the bounds of its words.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation as _;

use super::characters::{is_mark, is_unspaced};
use super::normal::caseless;
use super::tokenizer::{TextToken, has_marks, tokens};

/// Separates the parts of a text: no word contains it, so no phrase is found across parts.
const SEPARATOR: char = '\0';

/// What filters search in a post, a comment or a notification.
#[derive(Debug, Default)]
pub(crate) struct FilterText {
    /// The parts, each followed by the separator.
    text: Box<str>,
    /// For each byte of `text` that a word begins at, and for its end: a bit.
    bounds: Box<[u64]>,
    topics: HashSet<Box<str>>,
}

impl FilterText {
    /// Texts by themselves, and the topics that they name.
    pub(crate) fn of_texts<const COUNT: usize>(texts: [&str; COUNT]) -> Self {
        let topic = |token| if let TextToken::Topic(name) = token { Some(name) } else { None };
        let marked = texts.into_iter().filter(|text| has_marks(text));
        let topics: Vec<String> = marked.flat_map(|text| tokens(text).filter_map(topic)).collect();
        Self::new(texts, topics.iter().map(String::as_str))
    }

    /// The parts of a text, and its topics.
    pub(crate) fn new<'a>(parts: impl IntoIterator<Item = &'a str>, topics: impl Iterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for part in parts {
            text.push_str(&caseless(part));
            text.push(SEPARATOR);
        }
        let mut bounds = vec![0; text.len() / 64 + 1];
        for at in text.split_word_bound_indices().map(|(at, _)| at).chain([text.len()]) {
            bounds[at / 64] |= 1 << (at % 64);
        }
        Self { text: text.into(), bounds: bounds.into(), topics: topics.map(|name| caseless(name).into()).collect() }
    }

    /// The parts, in which words are searched.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has a topic: its name as [`caseless`] returns it.
    pub(crate) fn has_topic(&self, name: &str) -> bool {
        self.topics.contains(name)
    }

    /// Whether the text from `start` to `end` begins and ends with a word. Characters of scripts without spaces
    /// between words are words by themselves, and so is what stands beside them.
    pub(crate) fn is_whole(&self, start: usize, end: usize) -> bool {
        self.is_bound(start) && self.is_bound(end)
    }

    fn is_bound(&self, at: usize) -> bool {
        let is_word_bound = self.bounds[at / 64] >> (at % 64) & 1 == 1;
        // A mark is a part of its letter, also one that scripts without spaces share with others.
        let is_word = |c: char| is_unspaced(c) && !is_mark(c);
        is_word_bound
            || self.text[..at].chars().next_back().is_some_and(is_word)
            || self.text[at..].chars().next().is_some_and(is_word)
    }
}
