//! What a value says, read as what it must be: one function a kind of value.
//!
//! Each takes the [`Value`] somebody wrote and answers with the typed one, or with what was expected instead. Values
//! that may be secret are never repeated in an error.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::layers::{Kind, Value};
use super::secrets::Secret;

/// What reading a value gives: it, or what was expected.
pub(super) type Read<T> = Result<T, String>;

/// Any text, also an empty one.
pub(super) fn text(value: &Value) -> Read<String> {
    match &value.kind {
        Kind::Text(text) | Kind::Env(text) => Ok(text.clone()),
        other => Err(format!("expected text in quotes, not {}", other.name())),
    }
}

/// Text that says nothing when it is empty.
pub(super) fn optional_text(value: &Value) -> Read<Option<String>> {
    text(value).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// Text that must say something.
pub(super) fn nonempty_text(value: &Value) -> Read<String> {
    optional_text(value)?.ok_or_else(|| "must not be empty".into())
}

/// A secret; none when empty.
pub(super) fn optional_secret(value: &Value) -> Read<Option<Secret>> {
    Ok(optional_text(value)?.map(Secret::new))
}

/// Yes or no.
pub(super) fn flag(value: &Value) -> Read<bool> {
    match &value.kind {
        Kind::Boolean(flag) => Ok(*flag),
        Kind::Env(text) => text.parse().map_err(|_| format!("expected true or false, not {text:?}")),
        other => Err(format!("expected true or false, not {}", other.name())),
    }
}

/// Yes, no, or `"auto"`: what the rest of the configuration suggests.
pub(super) fn flag_or_auto(value: &Value) -> Read<Option<bool>> {
    match &value.kind {
        Kind::Text(text) | Kind::Env(text) if text == "auto" => Ok(None),
        Kind::Boolean(_) | Kind::Env(_) => {
            flag(value).map(Some).map_err(|error| error.replace("true or false", "true, false or \"auto\""))
        }
        other => Err(format!("expected true, false or \"auto\", not {}", other.name())),
    }
}

/// A whole number within a range, as any unsigned type that holds the range.
pub(super) fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Value) -> Read<T> {
    move |value| {
        let (low, high) = (*range.start(), *range.end());
        let expected = |what: &str| format!("expected a whole number from {low} to {high}, not {what}");
        let number = match &value.kind {
            Kind::Integer(number) => u64::try_from(*number).map_err(|_| expected(&number.to_string()))?,
            Kind::Env(text) => text.parse().map_err(|_| expected(&format!("{text:?}")))?,
            other => return Err(expected(other.name())),
        };
        if !range.contains(&number) {
            return Err(expected(&number.to_string()));
        }
        T::try_from(number).map_err(|_| expected(&number.to_string()))
    }
}

/// A cap: a whole number of which 0 means that there is none.
pub(super) fn cap<T: TryFrom<u64>>(highest: u64) -> impl Fn(&Value) -> Read<Option<T>> {
    move |value| match whole::<u64>(0..=highest)(value)? {
        0 => Ok(None),
        _ => whole::<T>(0..=highest)(value).map(Some),
    }
}

/// A duration within a range.
pub(super) fn duration(range: RangeInclusive<&'static str>) -> impl Fn(&Value) -> Read<Duration> {
    move |value| {
        let written = match &value.kind {
            Kind::Text(text) | Kind::Env(text) => text,
            other => return Err(format!("expected a duration in quotes, such as \"10s\", not {}", other.name())),
        };
        let duration = parse_duration(written)?;
        let within = parse_duration(range.start())? <= duration && duration <= parse_duration(range.end())?;
        within
            .then_some(duration)
            .ok_or_else(|| format!("expected a duration from {} to {}, not {written:?}", range.start(), range.end()))
    }
}

/// Reads a whole number followed by `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
///
/// What was expected, if the text is not that, or says more than the clock can hold.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as 250ms, 10s, 5m, 24h or 14d, not {text:?}");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis_a_unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis_a_unit).map(Duration::from_millis).ok_or_else(wrong)
}

/// An address and a port.
pub(super) fn address(value: &Value) -> Read<SocketAddr> {
    let text = text(value)?;
    text.parse().map_err(|_| format!("expected an address and a port, such as 127.0.0.1:8000, not {text:?}"))
}

/// An address and a port; none when empty.
pub(super) fn optional_address(value: &Value) -> Read<Option<SocketAddr>> {
    optional_text(value)?.map(|_| address(value)).transpose()
}

/// One of several words.
pub(super) fn one_of<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Value) -> Read<T> {
    move |value| {
        let text = text(value)?;
        words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("expected {}, not {text:?}", words.join(" or "))
        })
    }
}

/// A list of texts, none of them empty. From the environment: separated by commas.
pub(super) fn texts(value: &Value) -> Read<Vec<String>> {
    match &value.kind {
        Kind::List(items) => items.iter().map(nonempty_text).collect(),
        Kind::Env(text) if text.trim().is_empty() => Ok(Vec::new()),
        Kind::Env(text) => text
            .split(',')
            .map(|item| Some(item.trim()).filter(|item| !item.is_empty()))
            .map(|item| item.map(str::to_owned).ok_or_else(|| "must not hold an empty item".into()))
            .collect(),
        other => Err(format!("expected a list of texts, not {}", other.name())),
    }
}

/// A list of secrets.
pub(super) fn secrets(value: &Value) -> Read<Vec<Secret>> {
    Ok(texts(value)?.into_iter().map(Secret::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
