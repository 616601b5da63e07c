//! Language tags (BCP 47).

/// The maximum length of a language tag.
const MAX_LENGTH: usize = 35;

/// A language tag in lower case with hyphens. `None`: the text is not a language tag.
pub(super) fn normalize(tag: &str) -> Option<String> {
    let tag = tag.trim().replace('_', "-").to_ascii_lowercase();
    let mut subtags = tag.split('-');
    let language = subtags.next()?;
    let is_language = (2..=8).contains(&language.len()) && language.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_subtag =
        |subtag: &str| (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_language && tag.len() <= MAX_LENGTH && subtags.all(is_subtag)).then_some(tag)
}

/// A tag and what it falls back to: `zh-hant-tw`, `zh-hant`, `zh`. Empty if the text is not a language tag.
pub(super) fn fallbacks(tag: &str) -> Vec<String> {
    let Some(mut tag) = normalize(tag) else { return Vec::new() };
    let mut tags = Vec::new();
    loop {
        let shorter = tag.rsplit_once('-').map(|(shorter, _)| shorter.to_owned());
        tags.push(tag);
        match shorter {
            Some(shorter) => tag = shorter,
            None => return tags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_fall_back_from_the_end() {
        assert_eq!(fallbacks("zh-TW"), ["zh-tw", "zh"]);
        assert_eq!(fallbacks("zh_Hant_TW"), ["zh-hant-tw", "zh-hant", "zh"]);
        assert_eq!(fallbacks("EN"), ["en"]);
        for wrong in ["", "e", "*", "en--us", "../../x", "1a", &"a-".repeat(30), "en-US;q=0.8"] {
            assert!(fallbacks(wrong).is_empty(), "{wrong}");
        }
    }
}
