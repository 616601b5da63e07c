//! Normal forms: what is compared as equal.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::characters::{is_invisible, is_joiner, is_letter, is_mark, is_number, makes_emoji};

const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
const NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();

/// The longest name of a topic, in characters.
const MAX_TOPIC_LENGTH: usize = 100;

/// The maximal number of characters of a search term. Some characters become many, and the index of a store has a
/// limit. A search has 100 at most.
const MAX_TERM_LENGTH: usize = 200;

/// The text in NFC: equal texts have equal bytes.
pub(crate) fn nfc(text: &str) -> Cow<'_, str> {
    NFC.normalize(text)
}

/// The name of a topic as it is stored: NFC in lower case. `None` if the text, without its `#`, names no topic. What
/// is checked is the result, and it is its own name.
pub(crate) fn topic_name(text: &str) -> Option<String> {
    let mut name = nfc(text).into_owned();
    // A letter in lower case can compose with the mark after it.
    for _ in 0..3 {
        let lower = nfc(&name.to_lowercase()).into_owned();
        if lower == name {
            return is_name(&name).then_some(name);
        }
        name = lower;
    }
    None
}

/// Whether a text is the name of a topic as it is stored.
pub(crate) fn is_topic_name(name: &str) -> bool {
    topic_name(name).as_deref() == Some(name)
}

fn is_name(name: &str) -> bool {
    name.chars().count() <= MAX_TOPIC_LENGTH
        && name.starts_with(begins_topic)
        && name.contains(is_letter)
        && name.chars().all(|c| continues_topic(c) && !makes_emoji(c))
}

/// A character that the name of a topic can begin with.
pub(super) fn begins_topic(c: char) -> bool {
    c == '_' || is_letter(c) || is_number(c)
}

/// A character that the name of a topic can have after the first.
pub(super) fn continues_topic(c: char) -> bool {
    begins_topic(c) || is_mark(c) || is_joiner(c)
}

/// The text without case, in NFKC, with single spaces between words and without what nobody sees. Accents stay.
pub(crate) fn caseless(text: &str) -> String {
    if text.is_ascii() {
        return with_single_spaces(&text.to_ascii_lowercase());
    }
    let folded: String = NFKC.normalize(text).chars().flat_map(fold_case).collect();
    with_single_spaces(&NFKC.normalize(&folded))
}

/// The full case folding of a character: its lower case by way of its upper case, which makes `ss` of `ß`. A dotless i
/// is no i.
fn fold_case(c: char) -> impl Iterator<Item = char> {
    let lower = (c != 'ı').then(|| c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    lower.into_iter().flatten().chain((c == 'ı').then_some(c))
}

fn with_single_spaces(text: &str) -> String {
    let seen = |c: &char| c.is_whitespace() || !is_invisible(*c);
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().filter(seen) {
        match c {
            c if !c.is_whitespace() => plain.push(c),
            _ if plain.is_empty() || plain.ends_with(' ') => {}
            _ => plain.push(' '),
        }
    }
    if plain.ends_with(' ') {
        plain.pop();
    }
    plain
}

/// Normalises text for search: without case, accents and what nobody sees, in all scripts. Letters of other widths and
/// forms are the plain ones.
pub fn fold(text: &str) -> String {
    // Each character by itself: a sigma at the end of a word is any sigma.
    let lower: String = text.chars().flat_map(char::to_lowercase).collect();
    let mut plain = String::with_capacity(lower.len());
    for c in NFKD.normalize(&lower).chars().flat_map(char::to_lowercase) {
        match c {
            'ß' => plain.push_str("ss"),
            'æ' => plain.push_str("ae"),
            'œ' => plain.push_str("oe"),
            _ if is_accent(c) || (is_invisible(c) && !c.is_whitespace()) => {}
            _ => plain.push(unaccented(c)),
        }
    }
    match nfc(plain.trim_start()) {
        term if term.chars().count() <= MAX_TERM_LENGTH => term.into_owned(),
        term => term.chars().take(MAX_TERM_LENGTH).collect(),
    }
}

/// Marks that a search ignores: accents of Latin, Greek and Cyrillic, and the vowel points of Arabic and Hebrew. Marks
/// of other scripts make another letter.
fn is_accent(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6ed}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
        && is_mark(c)
}

/// Letters with a stroke have no decomposition.
fn unaccented(c: char) -> char {
    match c {
        'đ' | 'ð' => 'd',
        'ħ' => 'h',
        'ı' => 'i',
        'ł' => 'l',
        'ø' => 'o',
        'ŧ' => 't',
        'ς' => 'σ',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn topics_are_checked_after_lowering() {
        for (text, name) in [
            ("Rust", "rust"),
            ("İstanbul", "i\u{307}stanbul"),
            ("Tie\u{302}\u{301}ng", "tiếng"),
            ("हिन्दी", "हिन्दी"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("ΟΔΟΣ", "οδος"),
            ("2024年", "2024年"),
            ("\u{212b}", "å"),
            ("_x", "_x"),
        ] {
            assert_eq!(topic_name(text).as_deref(), Some(name), "{text:?}");
        }
        let long = "İ".repeat(60);
        for text in ["", "1", "_", "1_2", "a b", "a-b", "\u{301}a", "a\u{fe0f}", "\u{3164}", "\u{200d}a", "#a", &long] {
            assert_eq!(topic_name(text), None, "{text:?}");
        }
        assert!(topic_name(&"é".repeat(100)).is_some() && topic_name(&"e\u{301}".repeat(101)).is_none());
    }

    #[test]
    fn every_letter_makes_a_topic_that_can_be_read() {
        // Nothing composes with the letters of Chinese, and each syllable of Korean is as the others.
        let varied = |c: &char| !matches!(c, '\u{3400}'..='\u{9fff}' | '\u{ac80}'..='\u{d7ff}' | '\u{20000}'..);
        for c in (char::MIN..=char::MAX).filter(varied).filter(|c| is_letter(*c)) {
            for text in [format!("{c}"), format!("a{c}\u{307}\u{323}")] {
                let name = topic_name(&text).unwrap_or_else(|| panic!("{c:?} is no topic"));
                assert_eq!(topic_name(&name).as_deref(), Some(&*name), "{c:?}");
            }
        }
    }

    #[test]
    fn caseless_texts_keep_their_accents() {
        for (text, caseless_text) in [
            ("  Two \n\t Words ", "two words"),
            ("Straße STRASSE ẞ", "strasse strasse ss"),
            ("ΟΔΥΣΣΕΥΣ ὀδυσσεύς", "οδυσσευσ ὀδυσσεύσ"),
            ("CAFÉ cafe\u{301}", "café café"),
            ("ＦＵＬＬ　Ｗｉｄｔｈ ①", "full width 1"),
            ("ｶﾞ ガ", "ガ ガ"),
            ("İzmir ısı", "i\u{307}zmir ısı"),
            ("ru\u{200b}s\u{ad}t\u{200d}", "rust"),
            ("❤\u{fe0f}", "❤"),
            ("ﬁle ǆ ŉ", "file dž ʼn"),
            ("\u{0}a\u{7}", "a"),
            (" \u{200b} ", ""),
        ] {
            assert_eq!(caseless(text), caseless_text, "{text:?}");
        }
    }

    #[test]
    fn search_ignores_case_accents_and_forms() {
        for (text, term) in [
            ("Zoë", "zoe"),
            ("ZOE\u{308}", "zoe"),
            ("Đặng Ångström", "dang angstrom"),
            ("İstanbul ısı", "istanbul isi"),
            ("Straße ŒUVRE Łódź Øst", "strasse oeuvre lodz ost"),
            ("ΟΔΥΣΣΕΎΣ", "οδυσσευσ"),
            ("Йод", "иод"),
            ("Ａｎｎ １", "ann 1"),
            ("ガガ", "ガガ"),
            ("ｶﾞ", "ガ"),
            ("김", "김"),
            ("हिन्दी", "हिन्दी"),
            ("مُحَمَّد", "محمد"),
            ("a\u{200b}\u{ad}b\u{3164}c", "abc"),
            ("\u{202e} a b", "a b"),
            ("\u{2066}\u{2069} \u{200f}", ""),
        ] {
            assert_eq!(fold(text), term, "{text:?}");
            assert_eq!(fold(term), term, "{text:?} again");
        }
        assert!(fold(&"\u{fdfa}".repeat(100)).chars().count() <= MAX_TERM_LENGTH);
    }

    proptest! {
        #[test]
        fn normal_forms_stay(text in "\\PC{0,40}") {
            if let Some(name) = topic_name(&text) {
                prop_assert_eq!(topic_name(&name), Some(name.clone()));
            }
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
            prop_assert_eq!(caseless(&caseless(&text)), caseless(&text));
        }
    }
}
