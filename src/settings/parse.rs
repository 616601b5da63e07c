//! Parsers of values: one function for each type.
//!
//! Each function converts a [`ConfigValue`] to the type of its key, or returns an error that states the expected value.
//! Errors never contain a value that may be secret.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use super::secret::Secret;
use super::value::{ConfigValue, ValueKind};
use crate::net::parse_network;

/// A parsed value, or an error that states the expected value.
pub(crate) type ParseResult<T> = Result<T, String>;

/// Text, possibly empty.
pub(crate) fn text(value: &ConfigValue) -> ParseResult<String> {
    match &value.kind {
        ValueKind::Text(text) | ValueKind::Env(text) => Ok(text.clone()),
        other => Err(format!("expected text in quotes, not {}", other.name())),
    }
}

/// Text; `None` if it is empty.
pub(crate) fn optional_text(value: &ConfigValue) -> ParseResult<Option<String>> {
    text(value).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// Text that is not empty.
pub(crate) fn nonempty_text(value: &ConfigValue) -> ParseResult<String> {
    optional_text(value)?.ok_or_else(|| "must not be empty".into())
}

/// A text without the spaces and line ends around it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// A secret, without the spaces and line ends around it, which files and environments add. Quotation marks around it
/// may come from there, too, or belong to it: a guess would cost every token, so they are an error.
pub(crate) fn secret(text: &str) -> ParseResult<Secret> {
    let text = trim(text);
    if text.starts_with(['"', '\'', '`']) || text.ends_with(['"', '\'', '`']) {
        return Err("begins or ends with a quotation mark, which would be part of the key: remove it".into());
    }
    Ok(Secret::new(text.to_owned()))
}

/// A secret; `None` if it is empty.
pub(crate) fn optional_secret(value: &ConfigValue) -> ParseResult<Option<Secret>> {
    let secret = secret(&text(value)?)?;
    Ok(Some(secret).filter(|secret| !secret.reveal().is_empty()))
}

/// `true` or `false`.
pub(crate) fn boolean(value: &ConfigValue) -> ParseResult<bool> {
    match &value.kind {
        ValueKind::Boolean(flag) => Ok(*flag),
        ValueKind::Env(text) => text.parse().map_err(|_| format!("expected true or false, not {text:?}")),
        other => Err(format!("expected true or false, not {}", other.name())),
    }
}

/// `true`, `false`, or `"auto"` as `None`.
pub(crate) fn boolean_or_auto(value: &ConfigValue) -> ParseResult<Option<bool>> {
    match &value.kind {
        ValueKind::Text(text) | ValueKind::Env(text) if text == "auto" => Ok(None),
        ValueKind::Boolean(_) | ValueKind::Env(_) => {
            boolean(value).map(Some).map_err(|error| error.replace("true or false", "true, false or \"auto\""))
        }
        other => Err(format!("expected true, false or \"auto\", not {}", other.name())),
    }
}

/// A whole number within a range, as an unsigned type that can represent the range.
pub(crate) fn integer<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&ConfigValue) -> ParseResult<T> {
    move |value| {
        let low = *range.start();
        let high = *range.end();
        let expected = |what: &str| format!("expected a whole number from {low} to {high}, not {what}");
        let number = match &value.kind {
            ValueKind::Integer(number) => u64::try_from(*number).map_err(|_| expected(&number.to_string()))?,
            ValueKind::Env(text) => text.parse().map_err(|_| expected(&format!("{text:?}")))?,
            other => return Err(expected(other.name())),
        };
        if !range.contains(&number) {
            return Err(expected(&number.to_string()));
        }
        T::try_from(number).map_err(|_| expected(&number.to_string()))
    }
}

/// A limit: a whole number, or `None` for 0, which disables the limit.
pub(crate) fn limit<T: TryFrom<u64>>(highest: u64) -> impl Fn(&ConfigValue) -> ParseResult<Option<T>> {
    move |value| match integer::<u64>(0..=highest)(value)? {
        0 => Ok(None),
        _ => integer::<T>(0..=highest)(value).map(Some),
    }
}

/// A share: a number from 0 to 1.
pub(crate) fn share(value: &ConfigValue) -> ParseResult<f64> {
    let expected = |what: &str| format!("expected a number from 0 to 1, such as 0.01, not {what}");
    let share = match &value.kind {
        ValueKind::Float(share) => *share,
        // No whole number of the range is rounded.
        ValueKind::Integer(number) => *number as f64,
        ValueKind::Env(text) => text.parse().map_err(|_| expected(&format!("{text:?}")))?,
        other => return Err(expected(other.name())),
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(expected(&share.to_string())) }
}

/// A duration within a range.
pub(crate) fn duration(range: RangeInclusive<&'static str>) -> impl Fn(&ConfigValue) -> ParseResult<Duration> {
    move |value| {
        let text = match &value.kind {
            ValueKind::Text(text) | ValueKind::Env(text) => text,
            other => return Err(format!("expected a duration in quotes, such as \"10s\", not {}", other.name())),
        };
        let duration = parse_duration(text)?;
        let within = parse_duration(range.start())? <= duration && duration <= parse_duration(range.end())?;
        within
            .then_some(duration)
            .ok_or_else(|| format!("expected a duration from {} to {}, not {text:?}", range.start(), range.end()))
    }
}

/// A duration within a range, or `None` for `"0s"`, which disables it.
pub(crate) fn duration_limit(
    range: RangeInclusive<&'static str>,
) -> impl Fn(&ConfigValue) -> ParseResult<Option<Duration>> {
    let within = duration(range);
    move |value| match duration("0s"..="0s")(value) {
        Ok(_) => Ok(None),
        Err(_) => within(value).map(Some),
    }
}

/// Parses a whole number followed by `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
///
/// If the text has another form, or the duration is too long to represent. The error states the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as 250ms, 10s, 5m, 24h or 14d, not {text:?}");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_millis).map(Duration::from_millis).ok_or_else(wrong)
}

/// An address and a port.
pub(crate) fn address(value: &ConfigValue) -> ParseResult<SocketAddr> {
    let text = text(value)?;
    text.parse().map_err(|_| format!("expected an address and a port, such as 127.0.0.1:8000, not {text:?}"))
}

/// An address and a port; `None` if the text is empty.
pub(crate) fn optional_address(value: &ConfigValue) -> ParseResult<Option<SocketAddr>> {
    optional_text(value)?.map(|_| address(value)).transpose()
}

/// One of several keywords.
pub(crate) fn one_of<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&ConfigValue) -> ParseResult<T> {
    move |value| {
        let text = text(value)?;
        words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("expected {}, not {text:?}", words.join(" or "))
        })
    }
}

/// A text without spaces or quotes around it, which would be a part of it and match nothing; `None` if it is empty.
pub(crate) fn exact_text(value: &ConfigValue) -> ParseResult<Option<String>> {
    let Some(text) = optional_text(value)? else { return Ok(None) };
    if text.starts_with('[') && text.ends_with(']') {
        return Err("expected one text, not a list".into());
    }
    exact(text, "the text").map(Some)
}

/// A list of texts, none of them empty. In an environment variable, commas separate them, or it is a list in JSON.
pub(crate) fn text_list(value: &ConfigValue) -> ParseResult<Vec<String>> {
    let json;
    let items = match &value.kind {
        ValueKind::List(items) => items,
        ValueKind::Env(text) if text.trim().is_empty() => return Ok(Vec::new()),
        ValueKind::Env(text) if is_json_list(text) => {
            json = json_list(text, value)?;
            &json
        }
        ValueKind::Env(text) => {
            let items = text.split(',').map(|item| Some(item.trim()).filter(|item| !item.is_empty()));
            let item = |item: Option<&str>| item.map(str::to_owned).ok_or_else(|| "must not hold an empty item".into());
            return items.map(|text| item(text).and_then(|text| exact(text, "an item"))).collect();
        }
        other => return Err(format!("expected a list of texts, not {}", other.name())),
    };
    items.iter().map(|item| nonempty_text(item).and_then(|text| exact(text, "an item"))).collect()
}

/// Whether an environment variable is written as JSON. An address of IPv6 begins with a bracket, too.
fn is_json_list(text: &str) -> bool {
    let address = text.trim().strip_prefix('[').and_then(|rest| rest.split(']').next());
    address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_err())
}

/// The items of a list in JSON. The error repeats nothing of them: they may be secrets.
fn json_list(text: &str, value: &ConfigValue) -> ParseResult<Vec<ConfigValue>> {
    let items: Vec<serde_json::Value> = serde_json::from_str(text)
        .map_err(|_| "is no list in JSON: expected [\"one\",\"two\"], or the same as one,two".to_owned())?;
    Ok(items.into_iter().map(|item| ConfigValue::from_json(item, &value.source)).collect())
}

/// Refuses spaces and quotes around a text. The error does not repeat it: it may be a secret.
fn exact(text: String, name: &str) -> ParseResult<String> {
    let is_quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
    if text.trim() != text {
        return Err(format!("{name} has spaces or a line end around it, which would be a part of it: remove them"));
    }
    if is_quoted('"') || is_quoted('\'') {
        return Err(format!("{name} begins or ends with a quotation mark, which would be a part of it: remove it"));
    }
    Ok(text)
}

/// A text or a list of texts; empty text: no item. In an environment variable, commas separate the items.
pub(crate) fn text_or_list(value: &ConfigValue) -> ParseResult<Vec<String>> {
    match &value.kind {
        ValueKind::Text(_) => Ok(exact_text(value)?.into_iter().collect()),
        ValueKind::List(_) | ValueKind::Env(_) => text_list(value),
        other => Err(format!("expected text in quotes, or a list of texts, not {}", other.name())),
    }
}

/// An `http` or `https` address that requests may be sent to; `None` if it is empty.
pub(crate) fn optional_url(value: &ConfigValue, example: &str) -> ParseResult<Option<Url>> {
    let Some(text) = optional_text(value)? else { return Ok(None) };
    let expected = || format!("expected an address such as {example}");
    if text.contains(char::is_whitespace) {
        return Err(format!("{}, without spaces", expected()));
    }
    let url = Url::parse(&text).map_err(|_| expected())?;
    let is_http = matches!(url.scheme(), "http" | "https") && text.contains("://");
    if !is_http || url.port() == Some(0) {
        return Err(expected());
    }
    if url.fragment().is_some() {
        return Err(format!("{}: what follows # is never sent", expected()));
    }
    Ok(Some(url))
}

/// A list of secrets.
pub(crate) fn secret_list(value: &ConfigValue) -> ParseResult<Vec<Secret>> {
    let secrets: Vec<Secret> = text_list(value)?.iter().map(|text| secret(text)).collect::<ParseResult<_>>()?;
    match secrets.iter().any(|secret| secret.reveal().is_empty()) {
        true => Err("must not hold an empty item".into()),
        false => Ok(secrets),
    }
}

/// Networks, such as `10.0.0.0/8`.
pub(crate) fn networks(value: &ConfigValue) -> ParseResult<Vec<IpNet>> {
    let network = |text: String| {
        parse_network(&text).ok_or_else(|| format!("expected a network such as 10.0.0.0/8, not {text:?}"))
    };
    text_list(value)?.into_iter().map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ValueSource;

    #[test]
    fn a_list_in_the_environment_is_json_or_has_commas() {
        let list = |text: &str| {
            let source = ValueSource::Env("X".into());
            text_list(&ConfigValue { kind: ValueKind::Env(text.into()), source })
        };
        let items: &[&str] = &["one", "two"];
        for text in ["one,two", " one , two ", r#"["one","two"]"#, " [ \"one\" , \"two\" ] "] {
            assert_eq!(list(text).unwrap(), items, "{text}");
        }
        assert_eq!(list("[::1],[fe80::1]").unwrap(), ["[::1]", "[fe80::1]"]);
        assert_eq!((list("").unwrap().len(), list("[]").unwrap().len()), (0, 0));
        for text in ["[one]", "[one,two]", r#"["one""#, r#"["one",]"#, r#"[["one"]]"#, "[1]", r#"[""]"#, r#"[" one"]"#]
        {
            let error = list(text).unwrap_err();
            assert!(!error.contains("one\"") || error.contains("expected ["), "{text}: {error}");
        }
        for text in [r#""one","two""#, "'one'", "one,,two"] {
            assert!(!list(text).unwrap_err().contains("one"), "{text}");
        }
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("14d"), Ok(Duration::from_secs(14 * 24 * 3600)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for wrong in
            ["", "5", "s", "-1s", "1.5h", "1h30m", "5 s", "10S", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(parse_duration(wrong).is_err(), "{wrong:?} passed");
        }
    }
}
