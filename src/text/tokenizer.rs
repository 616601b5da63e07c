//! Finds mentions, topics and links in one pass over a text.

use super::characters::{base_before, is_joiner, is_mark, is_spaced, makes_emoji};
use super::links::{Word, is_address, is_scheme, read_word};
use super::normal::{begins_topic, continues_topic, topic_name};

/// The longest id of a user, in characters.
const MAX_ID_LENGTH: usize = 64;

/// A part of a text with a meaning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextToken<'a> {
    /// A mention: the id as it is written. It is a valid one.
    Mention(&'a str),
    /// A topic: its name.
    Topic(String),
    /// A link, as it is written.
    Link(&'a str),
}

/// Whether a text has a sign that mentions and topics begin with.
pub(crate) fn has_marks(text: &str) -> bool {
    text.contains(['@', '#', '＠', '＃'])
}

/// The mentions, topics and links of a text, in order.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = TextToken<'_>> {
    Tokens { text, at: 0 }
}

struct Tokens<'a> {
    text: &'a str,
    /// The place that is read next.
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = TextToken<'a>;

    fn next(&mut self) -> Option<TextToken<'a>> {
        while let Some(c) = self.text[self.at..].chars().next() {
            let found = match c {
                '@' | '＠' => self.mention(c.len_utf8()),
                '#' | '＃' => self.topic(c.len_utf8()),
                _ if begins_topic(c) => {
                    if let Some(link) = self.word() {
                        return Some(link);
                    }
                    continue;
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
            self.at += c.len_utf8();
        }
        None
    }
}

impl<'a> Tokens<'a> {
    /// Reads a word. Nothing in a link or an e-mail address has a meaning of its own.
    fn word(&mut self) -> Option<TextToken<'a>> {
        let start = self.at;
        match read_word(&self.text[start..]) {
            Word::Link(place) => {
                self.at = start + place.end;
                Some(TextToken::Link(&self.text[start + place.start..self.at]))
            }
            Word::Address(end) | Word::Plain(end) => {
                self.at = start + end;
                None
            }
        }
    }

    /// The mention at a sign of this length.
    fn mention(&mut self, sign: usize) -> Option<TextToken<'a>> {
        let rest = &self.text[self.at + sign..];
        let is_of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let id = &rest[..rest.find(|c| !is_of_id(c)).unwrap_or(rest.len())];
        let id = id.trim_end_matches(['.', '-']);
        if base_before(&self.text[..self.at]).is_some_and(is_spaced)
            || rest[id.len()..].starts_with(['@', '＠'])
            || !(1..=MAX_ID_LENGTH).contains(&id.len())
            || is_scheme(rest)
        {
            return None;
        }
        self.at += sign + id.len();
        Some(TextToken::Mention(id))
    }

    /// The topic at a sign of this length.
    fn topic(&mut self, sign: usize) -> Option<TextToken<'a>> {
        let rest = &self.text[self.at + sign..];
        let is_refused = |c| matches!(c, '_' | '/' | '&' | '#' | '＃') || is_spaced(c);
        if !rest.starts_with(begins_topic) || base_before(&self.text[..self.at]).is_some_and(is_refused) {
            return None;
        }
        let topic = &rest[..topic_end(rest)];
        let name = topic_name(topic)?;
        if is_scheme(rest) || is_address(rest) {
            return None;
        }
        self.at += sign + topic.len();
        Some(TextToken::Topic(name))
    }
}

/// The end of the topic at the start of a text: before an emoji, which can be a digit with marks.
fn topic_end(text: &str) -> usize {
    let mut base = 0;
    for (at, c) in text.char_indices() {
        if makes_emoji(c) {
            return base;
        }
        if !continues_topic(c) {
            return at;
        }
        if !is_mark(c) && !is_joiner(c) {
            base = at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde::Deserialize;

    use super::*;

    /// A case of the table that the page's tests run, too.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        text: String,
        mentions: Vec<String>,
        topics: Vec<String>,
        links: Vec<String>,
    }

    #[test]
    fn the_table_of_cases_holds() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/text-cases.json")).unwrap();
        let mut wrong = Vec::new();
        for case in cases {
            let mut found = [Vec::new(), Vec::new(), Vec::new()];
            for token in tokens(&case.text) {
                let (kind, token) = match token {
                    TextToken::Mention(id) => (0, id.to_owned()),
                    TextToken::Topic(name) => (1, name),
                    TextToken::Link(link) => (2, link.to_owned()),
                };
                if !found[kind].contains(&token) {
                    found[kind].push(token);
                }
            }
            // The most that a post has.
            found[1].truncate(10);
            let expected = [case.mentions, case.topics, case.links];
            if found != expected {
                wrong.push(format!("{:?}\n  found    {found:?}\n  expected {expected:?}", case.text));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Texts that an attacker writes: a pass that begins anew at each sign would take minutes.
    #[test]
    fn long_texts_take_one_pass() {
        const LENGTH: usize = 64 << 10;
        let parts = [
            "@",
            "#",
            "/",
            ":",
            ".",
            "-",
            "_",
            "+",
            "&",
            "(",
            ")",
            "a@",
            "@a",
            "@a@",
            "#a",
            "#a@",
            "a://",
            "://",
            "a:/",
            "a:",
            "www.",
            "#www.a!",
            "@www.a!",
            "a.b/",
            "a.b:1",
            "@a.b/",
            "mailto:",
            "\u{301}",
            "\u{301}@",
            "\u{301}#",
            "谢",
            "谢@",
            "谢#",
            "谢a",
            "a\u{301}",
            "1\u{fe0f}\u{20e3}#",
            "#\u{200d}",
            "＠",
            "＃",
            "a+#",
            "x@y.z ",
            "#x@y.z!",
            "https://a)",
            "@a-",
            "ﷺ",
            "#İ",
            "a",
            "#1_",
            "[",
            "a://(",
        ];
        for part in parts {
            for (first, last) in [("", ""), ("a", "@b#c")] {
                let text = format!("{first}{}{last}", part.repeat(LENGTH / part.len()));
                let start = Instant::now();
                let count = tokens(&text).count();
                let took = start.elapsed();
                assert!(took < Duration::from_secs(5), "{took:?} for {count} tokens of {first:?} {part:?} {last:?}");
            }
        }
    }
}
