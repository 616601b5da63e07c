//! Numbers, flags and lists of inputs. Queries and paths can only contain them as text.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

/// Decodes a flag: a JSON boolean, or `true` or `false` as text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Json(bool),
        Text(String),
    }
    match Flag::deserialize(deserializer)? {
        Flag::Json(flag) => Ok(flag),
        Flag::Text(text) => text.parse().map_err(|_| de::Error::custom("expected true or false")),
    }
}

/// Decodes a list: a JSON array, or its elements as text, separated by commas.
pub(crate) fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let elements = match Value::deserialize(deserializer)? {
        Value::Array(elements) => elements,
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => text.split(',').map(|element| Value::from(element.trim())).collect(),
        _ => return Err(de::Error::custom("expected a list")),
    };
    elements.into_iter().map(|element| T::deserialize(element).map_err(de::Error::custom)).collect()
}

/// The number of elements that [`list`] decodes from this value. The elements are not validated.
pub(crate) fn list_length(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.len(),
        Value::String(text) => text.split(',').count(),
        _ => 0,
    }
}

/// Decodes a whole number: a JSON number, or its digits as text.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct NumberVisitor;
    impl Visitor<'_> for NumberVisitor {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_any(NumberVisitor)
}

/// The number that [`number`] decodes from this value, if there is one.
pub(crate) fn read_number(value: &Value) -> Option<u64> {
    number(value).ok()
}
