//! Filters as clients write them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::feed::error::{FeedError, Result};
use crate::feed::patch::{clearable, present, settable};
use crate::feed::query_values::number;
use crate::ledger::FilterChange;
use crate::model::{Filter, FilterAction, FilterContext, FilterId, Millis};
use crate::text::caseless;

/// The maximal number of words of a filter.
const MAX_WORDS: usize = 50;

/// The maximal number of characters of a word.
const MAX_WORD_LENGTH: usize = 100;

/// A new filter.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterDraft {
    /// The words and phrases, 1 to 50 of at most 100 characters. `#name` is a topic.
    words: Vec<String>,
    /// What happens to content with one of them.
    #[serde(default = "hide")]
    action: FilterAction,
    /// Where it applies; absent: everywhere.
    #[serde(rename = "in", default = "everywhere")]
    contexts: Vec<FilterContext>,
    /// `false`: a word is also found as a part of another one.
    #[serde(default = "yes")]
    whole_word: bool,
    /// When it ends by itself, in Unix milliseconds; absent: it does not.
    #[serde(default)]
    until: Option<Millis>,
}

/// A change of a filter. Absent members keep their values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterUpdate {
    /// The number of the filter.
    #[serde(deserialize_with = "number")]
    id: u64,
    /// The words and phrases, 1 to 50 of at most 100 characters. `#name` is a topic.
    #[serde(default)]
    #[schemars(with = "Vec<String>", transform = settable)]
    words: Option<Vec<String>>,
    /// What happens to content with one of them.
    #[serde(default)]
    #[schemars(with = "FilterAction", transform = settable)]
    action: Option<FilterAction>,
    /// Where it applies.
    #[serde(rename = "in", default)]
    #[schemars(with = "Vec<FilterContext>", transform = settable)]
    contexts: Option<Vec<FilterContext>>,
    /// `false`: a word is also found as a part of another one.
    #[serde(default)]
    #[schemars(with = "bool", transform = settable)]
    whole_word: Option<bool>,
    /// When it ends by itself, in Unix milliseconds.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    until: Option<Option<Millis>>,
}

/// Selects a filter of the caller.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneFilter {
    /// The number of the filter.
    #[serde(deserialize_with = "number")]
    id: u64,
}

fn hide() -> FilterAction {
    FilterAction::Hide
}

fn everywhere() -> Vec<FilterContext> {
    FilterContext::ALL.to_vec()
}

fn yes() -> bool {
    true
}

impl OneFilter {
    pub(super) fn id(&self) -> FilterId {
        FilterId(self.id)
    }
}

impl FilterDraft {
    /// The filter, without a number.
    ///
    /// # Errors
    /// If a member is not valid.
    pub(super) fn check(self, now: Millis) -> Result<Filter> {
        Ok(Filter {
            id: FilterId(0),
            words: checked_words(self.words)?,
            action: self.action,
            contexts: checked_contexts(self.contexts)?,
            whole_word: self.whole_word,
            until: checked_end(self.until, now)?,
            created_at: now,
        })
    }
}

impl FilterUpdate {
    pub(super) fn id(&self) -> FilterId {
        FilterId(self.id)
    }

    /// The change.
    ///
    /// # Errors
    /// If a member is not valid.
    pub(super) fn check(&self, now: Millis) -> Result<FilterChange> {
        Ok(FilterChange {
            words: self.words.clone().map(checked_words).transpose()?,
            action: self.action,
            contexts: self.contexts.clone().map(checked_contexts).transpose()?,
            whole_word: self.whole_word,
            until: self.until.map(|until| checked_end(until, now)).transpose()?,
        })
    }
}

/// Words without the space around them, each once.
fn checked_words(words: Vec<String>) -> Result<Vec<String>> {
    if words.len() > MAX_WORDS {
        return Err(FeedError::LimitExceeded { field: "words", what: "words of a filter", most: MAX_WORDS as u64 });
    }
    let mut known = BTreeSet::new();
    let mut checked = Vec::new();
    for word in words {
        let word = word.trim();
        if word.chars().count() > MAX_WORD_LENGTH {
            let what = "characters of a word";
            return Err(FeedError::LimitExceeded { field: "words", what, most: MAX_WORD_LENGTH as u64 });
        }
        let searched = caseless(word);
        if searched.is_empty() {
            return Err(FeedError::invalid("words", "a word has at least one character that can be seen"));
        }
        if known.insert(searched) {
            checked.push(word.to_owned());
        }
    }
    if checked.is_empty() {
        return Err(FeedError::invalid("words", "a filter has at least one word"));
    }
    Ok(checked)
}

fn checked_contexts(mut contexts: Vec<FilterContext>) -> Result<Vec<FilterContext>> {
    contexts.sort_unstable();
    contexts.dedup();
    if contexts.is_empty() {
        return Err(FeedError::invalid("in", "a filter applies somewhere"));
    }
    Ok(contexts)
}

fn checked_end(until: Option<Millis>, now: Millis) -> Result<Option<Millis>> {
    if until.is_some_and(|until| until <= now || i64::try_from(until).is_err()) {
        return Err(FeedError::invalid("until", "until is a time in the future, in Unix milliseconds"));
    }
    Ok(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Result<Vec<String>> {
        checked_words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn words_are_trimmed_and_kept_once() {
        assert_eq!(words(&[" Rust ", "rust", "ＲＵＳＴ", "#rust", "c"]).unwrap(), ["Rust", "#rust", "c"]);
        assert_eq!(words(&[&"é".repeat(100)]).unwrap().len(), 1);
        for refused in [&[][..], &[""], &["a", " "], &["\u{200b}"], &["\0"], &[&"é".repeat(101)], &["a"; 51]] {
            assert!(words(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn contexts_are_a_set_and_ends_are_ahead() {
        let contexts = checked_contexts(vec![FilterContext::Topics, FilterContext::Home, FilterContext::Topics]);
        assert_eq!(contexts.unwrap(), [FilterContext::Home, FilterContext::Topics]);
        assert!(checked_contexts(Vec::new()).is_err());
        assert_eq!(checked_end(Some(6), 5).unwrap(), Some(6));
        assert!(checked_end(Some(5), 5).is_err() && checked_end(Some(u64::MAX), 5).is_err());
    }
}
