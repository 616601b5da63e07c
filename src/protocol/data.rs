//! Validation of JSON that clients receive: every client must be able to decode it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::json::one_line;
use crate::model::MAX_DEPTH;

/// Whether every client, and this server, can decode the data of a publication: it has at most [`MAX_DEPTH`] levels,
/// and contains no number beyond the range of a double, and no unpaired surrogate. `json` must be valid JSON.
pub fn is_portable(json: &str) -> bool {
    let mut json = serde_json::Deserializer::from_str(json);
    Nested(MAX_DEPTH).deserialize(&mut json).is_ok()
}

/// JSON for clients: on one line, because line breaks separate messages. `None` if it is not portable.
pub fn to_portable(json: &RawValue) -> Option<Box<RawValue>> {
    let text = one_line(json.get());
    if is_portable(&text) { RawValue::from_string(text.into_owned()).ok() } else { None }
}

/// Accepts a value that contains at most this many levels of arrays and objects.
#[derive(Clone, Copy)]
struct Nested(u32);

impl Nested {
    fn inner<E: Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while seq.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        // A key is a string and is checked like any other.
        while map.next_key_seed(inner)?.is_some() {
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_must_be_decodable_by_every_client() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for json in [
            "null",
            "true",
            "-1.5e300",
            "18446744073709551616",
            r#""\ud83d\ude00 \n""#,
            r#"{"a":[1,{"b":"c"},[]],"é":null}"#,
            &nested(32),
        ] {
            assert!(is_portable(json), "{json}");
        }
        for json in ["1e999", r#""\ud800""#, r#"{"a":["\udc00"]}"#, r#"{"\ud800":1}"#, &nested(33), &nested(5_000)] {
            assert!(!is_portable(json), "{json}");
        }
    }
}
