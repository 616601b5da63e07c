//! Objects of any type: posts, and objects of the application. They can be favourites.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use super::PostId;
use crate::text::is_blank;

/// The type of an object: `post`, or a type defined by the application. A letter, then up to 31 letters, digits and
/// underscores, all in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectType(Box<str>);

impl ObjectType {
    /// The type of posts. Feedline knows only the names of all other types.
    pub const POST: &str = "post";

    /// Parses a type; `None` if the text is not a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=32).contains(&text.len()) && text.starts_with(|c: char| c.is_ascii_lowercase());
        let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        (fits && plain).then(|| Self(text.into()))
    }

    /// Whether it is the type of posts.
    pub fn is_post(&self) -> bool {
        &*self.0 == Self::POST
    }

    /// The type as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ObjectType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a type is a-z, then up to 31 of a-z 0-9 _"))
    }
}

impl JsonSchema for ObjectType {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ObjectType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$", "examples": ["post", "video"] })
    }
}

/// The id of an object, unique within its type: 1 to 200 visible characters without a slash, because some proxies and
/// libraries change slashes in paths. Numbers are read as their digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId(Box<str>);

impl ObjectId {
    /// Parses an id; `None` if the text is not a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=200).contains(&text.chars().count());
        let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '/');
        (fits && plain && !is_blank(text)).then(|| Self(text.into()))
    }

    /// The id as that of a post, if it has the form of one.
    pub fn post(&self) -> Option<PostId> {
        PostId::parse(&self.0)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<PostId> for ObjectId {
    fn from(id: PostId) -> Self {
        Self(id.to_string().into())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = ObjectId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of an object: 1 to 200 visible characters without a slash, or a number")
            }
            fn visit_u64<E: de::Error>(self, id: u64) -> Result<ObjectId, E> {
                self.visit_str(&id.to_string())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ObjectId, E> {
                ObjectId::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Id)
    }
}

impl JsonSchema for ObjectId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ObjectId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minLength": 1, "maxLength": 200, "examples": ["a-17"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_types_and_ids_are_validated() {
        assert!(["post", "v", "live_2", &"a".repeat(32)].iter().all(|text| ObjectType::parse(text).is_some()));
        assert!(["", "Post", "2d", "_x", "a-b", &"a".repeat(33)].iter().all(|text| ObjectType::parse(text).is_none()));
        assert!(["1", "é:ü?#%", &"文".repeat(200)].iter().all(|text| ObjectId::parse(text).is_some()));
        assert!(["é\u{200d}", "❤\u{fe0f}"].iter().all(|text| ObjectId::parse(text).is_some()));
        for wrong in ["", "a b", "a/b", "\n", &"a".repeat(201), "\u{200b}", "\u{202e}\u{2069}", "\u{3164}", "\u{2800}"]
        {
            assert!(ObjectId::parse(wrong).is_none(), "{wrong:?} passed");
        }
    }
}
