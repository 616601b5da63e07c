//! Makes the joined script and the style sheets smaller, without a parser.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A private name of a class where it is declared, at the beginning of a line.
static DECLARED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^(?:static |async |get |set )*#([A-Za-z]\w*)").ok());

/// A word that may be a private name. Other `#` are colours, addresses and topics.
static USED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)(^|[.\s;{])#([A-Za-z]\w*)").ok());

/// What a statement cannot end with: the next line continues it.
const CONTINUED: [&str; 9] = [";", "{", ",", "(", "[", "=>", "&&", "||", "?"];

/// A script without empty lines and needless line ends, and with short private names.
pub(super) fn script(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.is_empty()) {
        joined.push_str(line);
        if !CONTINUED.iter().any(|end| line.ends_with(end)) {
            joined.push('\n');
        }
    }
    let Some((declared, used)) = DECLARED.as_ref().zip(USED.as_ref()) else { return joined };
    let mut short: BTreeMap<&str, String> = BTreeMap::new();
    for found in declared.captures_iter(text) {
        let next = short_name(short.len());
        short.entry(found.get(1).map_or("", |name| name.as_str())).or_insert(next);
    }
    let replaced = |found: &Captures<'_>| match short.get(&found[2]) {
        Some(name) => format!("{}#{name}", &found[1]),
        None => found[0].to_owned(),
    };
    used.replace_all(&joined, replaced).into_owned()
}

/// The names in the order a, b, …, z, aa, ab, …
fn short_name(place: usize) -> String {
    let letter = |place: usize| char::from(b'a' + u8::try_from(place % 26).unwrap_or_default());
    let last = letter(place);
    if place < 26 { last.to_string() } else { format!("{}{last}", short_name(place / 26 - 1)) }
}

/// A style sheet in one line, without needless spaces.
pub(super) fn style(text: &str) -> String {
    let mut shrunk = text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    for (long, short) in [(": ", ":"), (", ", ","), (" {", "{"), ("{ ", "{"), ("; ", ";"), (";}", "}"), ("} ", "}")] {
        shrunk = shrunk.replace(long, short);
    }
    shrunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_names_are_short_and_strings_stay() {
        let text = "class A {\n#timer = null;\n\nget #state() {\nreturn this.#timer?.#state ?? \"a #harbour\";\n}\n}\n";
        assert_eq!(script(text), "class A {#a = null;get #b() {return this.#a?.#b ?? \"a #harbour\";}\n}\n");
        assert_eq!([short_name(25), short_name(26), short_name(701)], ["z", "aa", "zz"]);
    }

    #[test]
    fn style_sheets_keep_what_they_say() {
        let text = "@media (max-width: 599px) {\n.a :is(.b, .c):hover { color: red; top: 0; }\n}\n";
        assert_eq!(style(text), "@media (max-width:599px){.a :is(.b,.c):hover{color:red;top:0}}");
    }
}
