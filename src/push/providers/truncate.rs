//! Shortens texts so that a message fits a provider's limit. The result depends on the text and the limit only.

/// The mark at the end of a shortened text.
const ELLIPSIS: char = '…';

/// Ranges of marks: whole ranges where a script mixes marks with unassigned characters only.
#[rustfmt::skip]
const MARKS: [(u32, u32); 104] = [
    (0x0300, 0x036f), (0x0483, 0x0489), (0x0591, 0x05bd), (0x05bf, 0x05bf), (0x05c1, 0x05c2), (0x05c4, 0x05c5),
    (0x05c7, 0x05c7), (0x0610, 0x061a), (0x064b, 0x065f), (0x0670, 0x0670), (0x06d6, 0x06dc), (0x06df, 0x06e4),
    (0x06e7, 0x06e8), (0x06ea, 0x06ed), (0x0711, 0x0711), (0x0730, 0x074a), (0x07a6, 0x07b0), (0x07eb, 0x07f3),
    (0x0816, 0x0819), (0x081b, 0x0823), (0x0825, 0x0827), (0x0829, 0x082d), (0x0859, 0x085b), (0x0898, 0x089f),
    (0x08ca, 0x08e1), (0x08e3, 0x0903), (0x093a, 0x093c), (0x093e, 0x094f), (0x0951, 0x0957), (0x0962, 0x0963),
    (0x0981, 0x0983), (0x09bc, 0x09bc), (0x09be, 0x09cd), (0x09d7, 0x09d7), (0x09e2, 0x09e3), (0x0a01, 0x0a03),
    (0x0a3c, 0x0a51), (0x0a70, 0x0a71), (0x0a75, 0x0a75), (0x0a81, 0x0a83), (0x0abc, 0x0abc), (0x0abe, 0x0acd),
    (0x0ae2, 0x0ae3), (0x0afa, 0x0aff), (0x0b01, 0x0b03), (0x0b3c, 0x0b3c), (0x0b3e, 0x0b57), (0x0b62, 0x0b63),
    (0x0b82, 0x0b82), (0x0bbe, 0x0bcd), (0x0bd7, 0x0bd7), (0x0c00, 0x0c04), (0x0c3c, 0x0c3c), (0x0c3e, 0x0c56),
    (0x0c62, 0x0c63), (0x0c81, 0x0c83), (0x0cbc, 0x0cbc), (0x0cbe, 0x0cd6), (0x0ce2, 0x0ce3), (0x0d00, 0x0d03),
    (0x0d3b, 0x0d3c), (0x0d3e, 0x0d4d), (0x0d57, 0x0d57), (0x0d62, 0x0d63), (0x0d81, 0x0d83), (0x0dca, 0x0ddf),
    (0x0df2, 0x0df3), (0x0e31, 0x0e31), (0x0e33, 0x0e3a), (0x0e47, 0x0e4e), (0x0eb1, 0x0eb1), (0x0eb3, 0x0ebc),
    (0x0ec8, 0x0ece), (0x0f18, 0x0f19), (0x0f35, 0x0f35), (0x0f37, 0x0f37), (0x0f39, 0x0f39), (0x0f3e, 0x0f3f),
    (0x0f71, 0x0f84), (0x0f86, 0x0f87), (0x0f8d, 0x0fbc), (0x102b, 0x103e), (0x1056, 0x1059), (0x135d, 0x135f),
    (0x17b4, 0x17d3), (0x180b, 0x180f), (0x1920, 0x193b), (0x1a55, 0x1a7f), (0x1ab0, 0x1aff), (0x1b00, 0x1b04),
    (0x1b34, 0x1b44), (0x1dc0, 0x1dff), (0x200c, 0x200d), (0x20d0, 0x20f0), (0x302a, 0x302f), (0x3099, 0x309a),
    (0xa66f, 0xa67d), (0xa823, 0xa827), (0xaa29, 0xaa36), (0xabe3, 0xabed), (0xfe00, 0xfe0f), (0xfe20, 0xfe2f),
    (0x1f3fb, 0x1f3ff), (0xe0020, 0xe01ef),
];

/// The longest prefix of `text`, with an ellipsis, for which `size` is at most `limit`. `size` is the encoded size of
/// the whole message with a candidate, so that escaping and encryption count. `None`: not even an empty text fits.
///
/// Text is cut between characters as a reader sees them: not inside of combining marks, emoji sequences, flags, or
/// syllables of Hangul.
pub fn fit(text: &str, limit: usize, size: impl Fn(&str) -> usize) -> Option<String> {
    if size(text) <= limit {
        return Some(text.to_owned());
    }
    if size("") > limit {
        return None;
    }
    let cuts: Vec<usize> = boundaries(text).collect();
    // Candidates grow with their place in `cuts`, and so does their size.
    let fitting = cuts.partition_point(|cut| size(&shortened(text, *cut)) <= limit);
    Some(fitting.checked_sub(1).map_or_else(String::new, |place| shortened(text, cuts[place])))
}

fn shortened(text: &str, cut: usize) -> String {
    let mut kept = text[..cut].trim_end().to_owned();
    kept.push(ELLIPSIS);
    kept
}

/// The places, in bytes, at which a text may be cut, in order. The whole text is not among them.
fn boundaries(text: &str) -> impl Iterator<Item = usize> {
    let mut previous = None;
    let mut flags = 0_usize;
    text.char_indices().filter_map(move |(at, c)| {
        let joined = previous.is_some_and(|before| is_joined(before, c, flags));
        flags = if is_regional_indicator(c) { flags + 1 } else { 0 };
        previous = Some(c);
        (!joined).then_some(at)
    })
}

/// Whether two characters belong together. `flags` is the number of regional indicators that end with `before`: a pair
/// of them is a flag.
fn is_joined(before: char, c: char, flags: usize) -> bool {
    const ZERO_WIDTH_JOINER: char = '\u{200d}';
    extends(c)
        || before == ZERO_WIDTH_JOINER
        || is_prepended(before)
        || (before == '\r' && c == '\n')
        || (is_regional_indicator(before) && is_regional_indicator(c) && flags % 2 == 1)
        || is_hangul_pair(before, c)
        || is_virama(before)
}

fn is_regional_indicator(c: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&c)
}

/// Whether a character belongs to the one before it: combining marks, joiners, variation selectors, skin tones, tags.
fn extends(c: char) -> bool {
    let code = u32::from(c);
    code >= MARKS[0].0 && MARKS[..MARKS.partition_point(|(from, _)| *from <= code)].last().is_some_and(|m| code <= m.1)
}

/// Signs that stand before the character that they change, such as Arabic number signs.
fn is_prepended(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{d4e}')
}

/// The signs that join two consonants of an Indic script.
fn is_virama(c: char) -> bool {
    matches!(c, '\u{94d}' | '\u{9cd}' | '\u{acd}' | '\u{b4d}' | '\u{c4d}' | '\u{d4d}')
}

/// Hangul that is written with one code point for each sound.
fn is_hangul_pair(before: char, c: char) -> bool {
    let leading = |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{a960}'..='\u{a97c}');
    let vowel = |c: char| matches!(c, '\u{1160}'..='\u{11a7}' | '\u{d7b0}'..='\u{d7c6}');
    let trailing = |c: char| matches!(c, '\u{11a8}'..='\u{11ff}' | '\u{d7cb}'..='\u{d7fb}');
    let syllable = |c: char| ('\u{ac00}'..='\u{d7a3}').contains(&c);
    (leading(before) && (leading(c) || vowel(c) || syllable(c)))
        || ((vowel(before) || syllable(before)) && (vowel(c) || trailing(c)))
        || (trailing(before) && trailing(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters as a reader sees them.
    const WHOLE: [&str; 12] = [
        "a",
        "é",
        "e\u{301}\u{323}",
        "漢",
        "👨‍👩‍👧‍👦",
        "👍🏽",
        "❤️",
        "🇨🇭",
        "1️⃣",
        "🏴\u{e0067}\u{e0062}\u{e0065}\u{e007f}",
        "क्षि",
        "\u{1112}\u{1161}\u{11ab}",
    ];

    #[test]
    fn characters_stay_whole_at_every_limit() {
        let text: String = WHOLE.iter().chain(&WHOLE).copied().collect();
        let prefixes: Vec<String> =
            (0..2 * WHOLE.len()).map(|n| WHOLE.iter().cycle().take(n).copied().collect()).collect();
        for limit in 3..text.len() {
            let fitted = fit(&text, limit, str::len).unwrap();
            assert!(fitted.len() <= limit);
            let kept = fitted.strip_suffix(ELLIPSIS).unwrap();
            assert!(prefixes.iter().any(|prefix| prefix == kept), "{limit}: {kept:?} ends inside of a character");
            let longer = prefixes.iter().find(|prefix| prefix.len() > kept.len()).map(|prefix| prefix.len() + 3);
            assert!(longer.is_none_or(|longer| longer > limit), "{limit}: {kept:?} could be longer");
        }
        assert_eq!(fit(&text, text.len(), str::len).unwrap(), text);
    }

    #[test]
    fn flags_are_cut_between_pairs() {
        assert_eq!(fit("🇨🇭🇩🇪🇫🇷", 8 + 3, str::len).unwrap(), "🇨🇭…");
        assert_eq!(fit("x🇨🇭🇩🇪🇫🇷", 1 + 16 + 3, str::len).unwrap(), "x🇨🇭🇩🇪…");
    }

    #[test]
    fn the_encoded_size_counts() {
        let size = |text: &str| serde_json::to_string(text).unwrap().len();
        let fitted = fit(&"\"\u{1}".repeat(100), 100, size).unwrap();
        assert!(size(&fitted) <= 100 && size(&fitted) > 90, "{fitted}");
    }

    #[test]
    fn nothing_fits_a_message_that_is_too_large_without_text() {
        assert_eq!(fit("abc", 4, |text| 5 + text.len()), None);
        assert_eq!(fit("abcdef", 5, |text| 5 + text.len()).as_deref(), Some(""));
        assert_eq!(fit("one two", 7, |text| text.len() + 1).as_deref(), Some("one…"));
    }

    #[test]
    fn ranges_of_marks_are_sorted() {
        assert!(extends('\u{301}') && extends('\u{fe0f}') && extends('\u{200d}') && extends('\u{1f3fd}'));
        assert!(!extends('a') && !extends('漢') && !extends('あ') && !extends('\u{1f600}'));
    }
}
