//! Patterns of channel names: `*` for any characters, `?` for one, `[abc]`, `[a-z]` and `[!a]` for one of a set, and
//! `\` before a character that stands for itself.

/// The longest pattern, in characters.
const MAX_LENGTH: usize = 255;

/// A pattern of channel names.
#[derive(Debug, PartialEq, Eq)]
pub struct ChannelPattern {
    tokens: Vec<PatternToken>,
}

#[derive(Debug, PartialEq, Eq)]
enum PatternToken {
    /// Any characters, or none.
    Any,
    /// One character.
    One,
    /// This character.
    Literal(char),
    /// A character of these ranges, or with `negated` none of them.
    Set { ranges: Vec<(char, char)>, negated: bool },
}

impl ChannelPattern {
    /// Parses a pattern. An empty one matches every name. `None` if it is malformed or too long.
    pub fn parse(pattern: &str) -> Option<Self> {
        if pattern.len() > MAX_LENGTH {
            return None;
        }
        if pattern.is_empty() {
            return Some(Self { tokens: vec![PatternToken::Any] });
        }
        let mut tokens = Vec::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let token = match character {
                '*' => PatternToken::Any,
                '?' => PatternToken::One,
                '\\' => PatternToken::Literal(characters.next()?),
                '[' => read_set(&mut characters)?,
                other => PatternToken::Literal(other),
            };
            // Two in a row match what one does.
            if token != PatternToken::Any || tokens.last() != Some(&PatternToken::Any) {
                tokens.push(token);
            }
        }
        Some(Self { tokens })
    }

    /// Whether a name matches. Takes at most the length of the name times that of the pattern.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let mut at = 0;
        let mut token = 0;
        // Where to continue after a mismatch: behind the last `*`, which then takes one character more.
        let mut retry: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.tokens.get(token) {
                Some(PatternToken::Any) => {
                    retry = Some((at, token));
                    token += 1;
                }
                Some(one) if one.matches(name[at]) => (at, token) = (at + 1, token + 1),
                _ => {
                    let Some((from, any)) = retry else { return false };
                    retry = Some((from + 1, any));
                    (at, token) = (from + 1, any + 1);
                }
            }
        }
        self.tokens[token..].iter().all(|token| *token == PatternToken::Any)
    }
}

impl PatternToken {
    /// Whether one character matches.
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(literal) => *literal == character,
            Self::Set { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

/// Reads a set behind its opening bracket.
fn read_set(characters: &mut std::str::Chars<'_>) -> Option<PatternToken> {
    let mut inner = Vec::new();
    loop {
        match characters.next()? {
            ']' if !inner.is_empty() => break,
            character => inner.push(character),
        }
    }
    let negated = matches!(inner[0], '!' | '^') && inner.len() > 1;
    let mut rest = &inner[usize::from(negated)..];
    let mut ranges = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        match after {
            ['-', last, more @ ..] => {
                ranges.push((*first, *last));
                rest = more;
            }
            _ => {
                ranges.push((*first, *first));
                rest = after;
            }
        }
    }
    Some(PatternToken::Set { ranges, negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_patterns() {
        for (pattern, name, expected) in [
            ("", "chat:1", true),
            ("*", "", true),
            ("chat:*", "chat:1", true),
            ("chat:*", "chatter", false),
            ("chat:*", "a chat:1", false),
            ("*:1", "chat:1", true),
            ("*a*b*", "xaxxbx", true),
            ("*a*b*", "xbxxax", false),
            ("ch?t:é", "chät:é", true),
            ("chat:[a-c1]", "chat:b", true),
            ("chat:[a-c1]", "chat:1", true),
            ("chat:[!a-c]", "chat:b", false),
            ("chat:[!a-c]", "chat:x", true),
            ("[]]", "]", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("**a", "a", true),
        ] {
            let parsed = ChannelPattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(name), expected, "{pattern} {name}");
        }
        for malformed in ["[", "[a", "a\\", &"x".repeat(256)] {
            assert_eq!(ChannelPattern::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn hostile_patterns_take_bounded_time() {
        let pattern = ChannelPattern::parse(&"*a".repeat(127)).expect("a pattern");
        let started = std::time::Instant::now();
        assert!(!pattern.matches(&"a".repeat(126)));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(250))));
        assert!(started.elapsed() < std::time::Duration::from_secs(1));
    }
}
