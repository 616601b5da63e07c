//! Links and e-mail addresses: where they begin and end. Every function reads forward once.

use super::characters::{is_format, is_joiner, is_letter, is_mark, is_number, is_unspaced};

/// A character of a word: of an id, a host, a scheme, the local part of an e-mail address.
pub(super) fn continues_word(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '+') || is_letter(c) || is_number(c) || is_mark(c) || is_joiner(c)
}

/// What a word is the beginning of.
pub(super) enum Word {
    /// A link: its place.
    Link(std::ops::Range<usize>),
    /// An e-mail address: its end.
    Address(usize),
    /// Neither: the end of the word.
    Plain(usize),
}

/// Reads the word at the start of `text`.
pub(super) fn read_word(text: &str) -> Word {
    // Where a host can begin: `谢谢` before `www.` is no part of it.
    let mut host = 0;
    let mut label = Label::default();
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        if !continues_word(c) {
            end = at;
            break;
        }
        if c == '+' {
            host = at + 1;
        }
        if label.changes_script(c) {
            host = at;
        }
        if at == host && is_www(&text[at..]) {
            return Word::Link(at..link_end(text, at, true));
        }
    }
    after_word(text, host, end)
}

/// What the word up to `end` begins, by what follows it. A host begins at `host`.
fn after_word(text: &str, host: usize, end: usize) -> Word {
    let rest = &text[end..];
    if let Some(start) = scheme_start(&text[..end]) {
        let is_mail = text[start..end].eq_ignore_ascii_case("mailto");
        let mark = if is_mail && !rest.starts_with("://") { ":" } else { "://" };
        let from = end + mark.len();
        let past = if rest.starts_with(mark) { link_end(text, from, mark != ":") } else { from };
        if past > from {
            return Word::Link(start..past);
        }
    }
    if let Some(domain) = domain(&text[..end], rest) {
        return Word::Address(end + 1 + domain.len());
    }
    let name = text[host..end].trim_start_matches(['_', '-', '.']);
    let port = rest.strip_prefix(':').map_or(0, |port| 1 + port.bytes().take(5).take_while(u8::is_ascii_digit).count());
    if (rest[port..].starts_with('/') || is_query(&rest[port..])) && is_host(name) {
        return Word::Link(end - name.len()..link_end(text, end + port, false));
    }
    Word::Plain(end)
}

/// Whether a text begins with a query, as `?name=`.
fn is_query(text: &str) -> bool {
    let name = text.strip_prefix('?').unwrap_or_default();
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    rest.len() < name.len() && rest.starts_with('=')
}

/// Whether an e-mail address begins a text: `#a@example.org` is no topic.
pub(super) fn is_address(text: &str) -> bool {
    let end = text.find(|c| !continues_word(c)).unwrap_or(text.len());
    domain(&text[..end], &text[end..]).is_some()
}

/// The domain of the e-mail address whose local part is a word before `rest`.
fn domain<'a>(word: &str, rest: &'a str) -> Option<&'a str> {
    let domain = rest.strip_prefix('@').filter(|_| is_local_part(word))?;
    let domain = &domain[..domain.find(|c| !continues_word(c)).unwrap_or(domain.len())];
    Some(domain.trim_end_matches(['_', '-', '.', '+'])).filter(|domain| is_host(domain))
}

/// Whether a scheme with `://` follows: `@https://…` is no mention.
pub(super) fn is_scheme(text: &str) -> bool {
    let end = text.find(|c: char| !is_of_scheme(c)).unwrap_or(text.len());
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text[end..].starts_with("://")
}

fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

/// The start of the scheme at the end of a word.
fn scheme_start(word: &str) -> Option<usize> {
    let start = word.trim_end_matches(is_of_scheme).len();
    word[start..].find(|c: char| c.is_ascii_alphabetic()).map(|skipped| start + skipped)
}

fn is_www(text: &str) -> bool {
    text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."))
        && text[4..].starts_with(|c| is_letter(c) || is_number(c))
}

/// Whether a word can be the local part of an e-mail address. `Hi.@ann` ends a sentence.
fn is_local_part(word: &str) -> bool {
    let last = word.chars().rev().find(|c| !is_mark(*c) && !is_joiner(*c));
    last.is_some_and(|last| last != '.' && !is_unspaced(last)) && word.contains(|c| is_letter(c) || is_number(c))
}

/// Whether a word is a host with a dot: its last label has letters only, or it is an IPv4 address.
fn is_host(word: &str) -> bool {
    let labels = word.split('.');
    if labels.clone().any(|label| label.is_empty() || label.starts_with('-') || label.ends_with('-')) {
        return false;
    }
    let count = labels.clone().count();
    let is_number = |label: &str| label.len() <= 3 && label.bytes().all(|b| b.is_ascii_digit());
    if count == 4 && labels.clone().all(is_number) {
        return true;
    }
    let last = word.rsplit('.').next().unwrap_or_default();
    let is_name = last.chars().all(|c| is_letter(c) || is_mark(c) || is_joiner(c));
    count > 1 && (is_name || last.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--")))
}

/// The script of the label that is read.
#[derive(Default)]
struct Label {
    is_unspaced: Option<bool>,
}

impl Label {
    /// Whether a letter is of another kind of script than the letters before it in the same label.
    fn changes_script(&mut self, c: char) -> bool {
        if matches!(c, '.' | '-' | '_' | '+' | ':' | '@') {
            self.is_unspaced = None;
        }
        if !is_letter(c) {
            return false;
        }
        let kind = Some(is_unspaced(c));
        let before = std::mem::replace(&mut self.is_unspaced, kind);
        before.is_some() && before != kind
    }
}

/// Whether a link ends before a character: quotes and brackets of the text around it, punctuation of other scripts,
/// what nobody sees.
fn ends_link(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '<' | '>' | '"' | '`' | '“' | '”' | '„' | '«' | '»' | '‹' | '›'
            | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}'
            | '！' | '＂' | '＇' | '（' | '）' | '，' | '．' | '：' | '；' | '＜' | '＞' | '？' | '［' | '］'
            | '\u{ff5b}' | '\u{ff5d}' | '\u{ff5f}'..='\u{ff64}')
        || (is_format(c) && !is_joiner(c))
}

/// Punctuation that ends a sentence or a clause, not a link.
const TRAILING: [char; 11] = ['.', ',', ';', ':', '!', '?', '\'', '*', '…', '’', '‘'];

/// The end of a link of which `from` is read. `in_host`: a host follows. With a dot in it, it ends before a letter of a
/// script without spaces: `https://example.org谢谢`.
fn link_end(text: &str, from: usize, mut in_host: bool) -> usize {
    let mut label = Label::default();
    let mut has_dot = false;
    // The number of opening brackets less that of closing ones.
    let mut open = [0_i64; 3];
    let mut end = text.len();
    for (at, c) in text[from..].char_indices() {
        in_host &= !matches!(c, '/' | '?' | '#');
        has_dot |= c == '.';
        let is_next_word = in_host && label.changes_script(c) && has_dot && is_unspaced(c);
        if is_next_word || ends_link(c) {
            end = from + at;
            break;
        }
        match bracket(c) {
            Some((kind, true)) => open[kind] += 1,
            Some((kind, false)) => open[kind] -= 1,
            None => {}
        }
    }
    while let Some(last) = text[from..end].chars().next_back() {
        match bracket(last) {
            Some((kind, false)) if open[kind] < 0 => open[kind] += 1,
            None if TRAILING.contains(&last) => {}
            _ => break,
        }
        end -= last.len_utf8();
    }
    end
}

/// The kind of a bracket, and whether it opens.
fn bracket(c: char) -> Option<(usize, bool)> {
    Some(match c {
        '(' => (0, true),
        ')' => (0, false),
        '[' => (1, true),
        ']' => (1, false),
        '{' => (2, true),
        '}' => (2, false),
        _ => return None,
    })
}
