//! What the data of a publication may be: JSON that every client can decode.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// How deep arrays and objects may be nested. Decoders of clients have limits of their own, mostly from 500 on, and a
/// publication is nested in the frame that carries it; serde_json has 128.
const MAX_DEPTH: u32 = 100;

/// Whether every client, and this server, can decode a publication's data: not nested too deep, no number beyond a
/// double, no half of a surrogate pair. `json` is valid JSON.
pub fn is_portable(json: &str) -> bool {
    let mut json = serde_json::Deserializer::from_str(json);
    Nested(MAX_DEPTH).deserialize(&mut json).is_ok()
}

/// A value in which so many arrays and objects may be nested.
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
        // A key is a string, decoded like any other.
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
            &nested(100),
        ] {
            assert!(is_portable(json), "{json}");
        }
        for json in ["1e999", r#""\ud800""#, r#"{"a":["\udc00"]}"#, r#"{"\ud800":1}"#, &nested(101), &nested(5_000)] {
            assert!(!is_portable(json), "{json}");
        }
    }
}
