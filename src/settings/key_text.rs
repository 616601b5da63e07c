//! Keys and certificates that are written as text, or as the path of a file with it.

use super::parse::{self, ParseResult};
use super::value::ConfigValue;

/// The begin of PEM.
const PEM: &str = "-----BEGIN";

/// The content of a value that is a text in PEM, or one that `is_content` recognises, or the path of a file with it;
/// `None` if the value is empty. `expected` names it in errors, which never show the value: it may be a key in a form
/// that is not recognised.
pub(crate) fn text_or_file(
    value: &ConfigValue,
    expected: &str,
    is_content: impl Fn(&str) -> bool,
) -> ParseResult<Option<String>> {
    let text = parse::optional_text(value)?.map(|text| tidy(&text)).filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(None) };
    if text.contains(PEM) || is_content(&text) {
        return Ok(Some(text));
    }
    let unread = |error| format!("expected {expected}, or the path of a file with it, which cannot be read: {error}");
    std::fs::read_to_string(text).map(|content| Some(tidy(&content))).map_err(unread)
}

/// A text without the spaces, line ends and quotation marks around it, which files and environments add. PEM in which
/// line ends are written as `\n` gets its lines.
pub(crate) fn tidy(text: &str) -> String {
    let mut text = parse::trim(text);
    for quote in ['"', '\'', '`'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            text = parse::trim(inner);
        }
    }
    // JSON has such escapes of its own.
    match text.contains(PEM) && !text.starts_with('{') {
        true => text.replace("\\r", "").replace("\\n", "\n"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ValueKind, ValueSource};

    fn read(text: &str) -> ParseResult<Option<String>> {
        let value = ConfigValue { kind: ValueKind::Env(text.into()), source: ValueSource::Env("KEY".into()) };
        text_or_file(&value, "PEM or JSON", |text| text.starts_with('{'))
    }

    #[test]
    fn content_is_recognised_in_the_forms_that_environments_give_it() {
        let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
        let escaped = pem.replace('\n', "\\n");
        for written in [
            pem.to_owned(),
            format!("  {pem}\r\n"),
            format!("\"{pem}\"\n"),
            format!("'{escaped}\\n'"),
            escaped.replace("\\n", "\\r\\n"),
            format!("\u{feff}{escaped}"),
        ] {
            assert_eq!(read(&written).map(|text| text.map(|text| text.trim().to_owned())), Ok(Some(pem.to_owned())));
        }
        let json = r#"{"private_key":"-----BEGIN X-----\nAAAA"}"#;
        for written in [json.to_owned(), format!("'{json}'"), format!("{json}\n")] {
            assert_eq!(read(&written), Ok(Some(json.to_owned())), "{written}");
        }
        for empty in ["", " \n", "\"\"", "''"] {
            assert_eq!(read(empty), Ok(None), "{empty:?}");
        }
    }

    #[test]
    fn a_value_that_is_no_path_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        std::fs::write(&path, "\"-----BEGIN X-----\\nAAAA\"\n").unwrap();
        let written = format!("{}\n", path.display());
        assert_eq!(read(&written), Ok(Some("-----BEGIN X-----\nAAAA".into())));
        for secret in ["hunter2", "\"hunter2", "MIGHhunter2\nAAAA", "/hunter2/key.pem", "hunter2\0", "[\"hunter2\"]"] {
            let error = read(secret).unwrap_err();
            assert!(error.starts_with("expected PEM or JSON") && !error.contains("hunter2"), "{error}");
        }
    }
}
