//! Classes of characters.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup, Script};
use icu_properties::script::{ScriptWithExtensions, ScriptWithExtensionsBorrowed};
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed, CodePointSetData, CodePointSetDataBorrowed};

const CATEGORIES: CodePointMapDataBorrowed<'static, GeneralCategory> = CodePointMapData::<GeneralCategory>::new();
const IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// The scripts whose words stand without spaces between them, or beside those of other scripts: Chinese, Japanese,
/// Korean, and those of South-East Asia and Tibet.
const UNSPACED: [Script; 19] = [
    Script::Han,
    Script::Hiragana,
    Script::Katakana,
    Script::Hangul,
    Script::Thai,
    Script::Lao,
    Script::Khmer,
    Script::Myanmar,
    Script::Tibetan,
    Script::Bopomofo,
    Script::Yi,
    Script::Nushu,
    Script::Tangut,
    Script::TaiLe,
    Script::NewTaiLue,
    Script::TaiTham,
    Script::TaiViet,
    Script::Javanese,
    Script::Balinese,
];

/// The sign that makes an emoji of the character before it, and the sign that makes a key of it.
pub(super) fn makes_emoji(c: char) -> bool {
    matches!(c, '\u{fe0f}' | '\u{20e3}')
}

/// Zero-width joiner and non-joiner: they belong to the spelling of words in Persian, Sinhala and others.
pub(super) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// A letter that can be seen: fillers are letters, too.
pub(super) fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    GeneralCategoryGroup::Letter.contains(CATEGORIES.get(c)) && !IGNORABLE.contains(c)
}

/// A digit or number.
pub(super) fn is_number(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { GeneralCategoryGroup::Number.contains(CATEGORIES.get(c)) }
}

/// A mark that belongs to the letter before it: an accent, a vowel sign, a variation selector.
pub(super) fn is_mark(c: char) -> bool {
    !c.is_ascii() && GeneralCategoryGroup::Mark.contains(CATEGORIES.get(c))
}

/// A format character: direction, joiners, tags, soft hyphen.
pub(super) fn is_format(c: char) -> bool {
    !c.is_ascii() && CATEGORIES.get(c) == GeneralCategory::Format
}

/// Whether a letter or digit is of a script without spaces.
pub(super) fn is_unspaced(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    let scripts: ScriptWithExtensionsBorrowed<'static> = ScriptWithExtensions::new();
    match scripts.get_script_val(c) {
        // Such as the long vowel sign, which both scripts of Japanese have.
        Script::Common | Script::Inherited => {
            scripts.get_script_extensions_val(c).iter().any(|script| UNSPACED.contains(&script))
        }
        script => UNSPACED.contains(&script),
    }
}

/// A letter or digit of a script with spaces: what follows it belongs to the same word.
pub(super) fn is_spaced(c: char) -> bool {
    (is_letter(c) || is_number(c)) && !is_unspaced(c)
}

/// Whether nobody sees a character: white space, controls, format characters, fillers.
pub(super) fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || c == '\u{2800}'
        || (!c.is_ascii() && (IGNORABLE.contains(c) || CATEGORIES.get(c) == GeneralCategory::Format))
}

/// Whether a text has nothing to see.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

/// The character that a position follows, without its marks: `None` at the start of the text, and after an emoji that
/// is a digit with marks.
pub(super) fn base_before(text: &str) -> Option<char> {
    for c in text.chars().rev() {
        if makes_emoji(c) {
            return None;
        }
        if !is_mark(c) && !is_joiner(c) {
            return Some(c);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_text_is_blank() {
        for text in [
            "",
            " \t\r\n\u{a0}\u{3000}\u{2028}\u{85}",
            "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}",
            "\u{ad}\u{34f}\u{61c}\u{180e}",
            "\u{202e}",
            "\u{2066}\u{2069}",
            "\u{115f}\u{1160}\u{3164}\u{ffa0}",
            "\u{2800}",
            "\u{fe0f}\u{e0100}",
            "\u{e0001}\u{e0067}\u{e007f}",
            "\0\u{1b}\u{7f}",
            "\u{fff9}\u{fffa}\u{1d173}\u{600}",
        ] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in
            [".", "\u{301}", "👩‍💻", "🏴\u{e0067}\u{e0062}\u{e007f}", "❤\u{fe0f}", "می\u{200c}خواهم", "\u{ad}a", "ー"]
        {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_known() {
        for c in "谢さサー々〇안ไท๑ລខမབㄅ龘".chars() {
            assert!(is_unspaced(c), "{c}");
        }
        for c in "aéяαעبहகಕ1１Ａ२٣ıաა".chars() {
            assert!(!is_unspaced(c), "{c}");
        }
    }

    #[test]
    fn marks_belong_to_the_letter_before() {
        for (text, base) in [
            ("", None),
            ("e\u{301}", Some('e')),
            ("नमस्ते", Some('त')),
            ("ที่", Some('ท')),
            ("1\u{fe0f}\u{20e3}", None),
            ("❤\u{fe0f}", None),
            ("\u{301}", None),
            ("a ", Some(' ')),
        ] {
            assert_eq!(base_before(text), base, "{text:?}");
        }
    }
}
