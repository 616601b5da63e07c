//! The ids of users, posts, comments and notifications.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use super::Millis;

/// A user's id: 1 to 64 of `A-Z a-z 0-9 _ - .`, not dots alone, which have a meaning in paths. Cheap to clone.
///
/// Ids are equal if they differ in case only. Stores, keys and comparisons use the lower case,
/// [`as_str`](Self::as_str).
/// The value also has the spelling that it was parsed from, [`shown`](Self::shown): JSON contains this one. The ledger
/// keeps the spelling of a user's first request or sign-up, so a user that comes from there is shown as first written.
#[derive(Clone)]
pub struct UserId(Arc<str>);

impl UserId {
    /// The longest id, in characters (all of them one byte).
    pub const MAX_LEN: usize = 64;

    /// Between the lower case and the spelling, where these differ. Both have the same length, so it is in the middle.
    const SEPARATOR: u8 = 0;

    /// The owner of what belongs to the application's backend, which is no user: nobody can have this id.
    pub fn backend() -> Self {
        Self(".".into())
    }

    /// Parses an id; `None` if the text is not a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::MAX_LEN).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        let names = text.bytes().any(|b| b != b'.');
        (fits && plain && names).then(|| {
            if text.bytes().any(|b| b.is_ascii_uppercase()) {
                Self(format!("{}\0{text}", text.to_ascii_lowercase()).into())
            } else {
                Self(text.into())
            }
        })
    }

    /// Whether the text has another meaning in paths that contain an id. Users cannot have a reserved id.
    pub fn is_reserved(&self) -> bool {
        matches!(self.as_str(), "me" | "suggested" | "explore")
    }

    /// The id in lower case, by which users are stored and found.
    pub fn as_str(&self) -> &str {
        self.separator().map_or(&*self.0, |middle| &self.0[..middle])
    }

    /// The id as it was written, for output.
    pub fn shown(&self) -> &str {
        self.separator().map_or(&*self.0, |middle| &self.0[middle + 1..])
    }

    /// The spelling, if it is not the lower case.
    pub fn handle(&self) -> Option<&str> {
        self.separator().map(|middle| &self.0[middle + 1..])
    }

    /// Replaces ids by those of `known` that are equal, which may have another spelling.
    pub fn respell<'a>(ids: impl IntoIterator<Item = &'a mut Self>, known: &HashSet<Self>) {
        for id in ids {
            if let Some(known) = known.get(id) {
                id.clone_from(known);
            }
        }
    }

    /// Serializes the lower case, in keys that statements compare with columns.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_key<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }

    fn separator(&self) -> Option<usize> {
        let middle = self.0.len() / 2;
        (self.0.as_bytes().get(middle) == Some(&Self::SEPARATOR)).then_some(middle)
    }
}

impl PartialEq for UserId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for UserId {}

impl Hash for UserId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for UserId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UserId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// The lower case: names of channels, keys and cursors are made of it.
impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.shown())
    }
}

impl Borrow<str> for UserId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for UserId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("a user id is 1 to 64 of A-Z a-z 0-9 _ - ., not dots alone"))
    }
}

impl JsonSchema for UserId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "UserId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[.]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$",
            "examples": ["ann"],
        })
    }
}

/// The largest id that is a number: 2^53 - 1.
const LARGEST: u64 = (1 << 53) - 1;

/// The id of a post: 53 bits, so it is exact as a JavaScript number, as a ZSET score and as a compact Redis integer.
///
/// 41 bits of milliseconds since 2006-01-01, which last until 2075; 8 bits of the node that created it; 4 bits of a
/// sequence. Ids of one node always grow; ids of several nodes are ordered by their clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostId(pub u64);

impl PostId {
    /// 2006-01-01T00:00:00Z in Unix milliseconds: the epoch of ids.
    pub const TIME_ZERO: Millis = 1_136_073_600_000;
    /// Bits of the node number.
    pub const NODE_BITS: u32 = 8;
    /// Bits of the sequence within one millisecond.
    pub const SEQUENCE_BITS: u32 = 4;
    /// Number of node numbers that are leased to nodes: 0 to 254.
    pub const NODES: u8 = 255;
    /// The node number of ids that no node created: those of imported objects.
    pub const IMPORT_NODE: u8 = 255;
    /// The last sequence number of a millisecond.
    pub const LAST_SEQUENCE: u8 = (1 << Self::SEQUENCE_BITS) - 1;

    /// Composes an id. `time` is in Unix milliseconds and must not be before [`Self::TIME_ZERO`]; `sequence` is at most
    /// [`Self::LAST_SEQUENCE`].
    pub fn from_parts(time: Millis, node: u8, sequence: u8) -> Self {
        let millis = time.saturating_sub(Self::TIME_ZERO);
        let low = (u64::from(node) << Self::SEQUENCE_BITS) | u64::from(sequence);
        Self((millis << (Self::NODE_BITS + Self::SEQUENCE_BITS)) | low)
    }
}

/// The id of a comment: generated like a post's id, and never equal to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommentId(pub u64);

/// The id of a notification: a number that the ledger assigns. Later notifications of a user have greater ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotificationId(pub u64);

/// A position in the notifications of a user: it grows with each change of one of their groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotificationPosition(pub u64);

/// The time in an id.
macro_rules! times {
    ($($id:ident)*) => {$(
        impl $id {
            /// The time of its creation, in Unix milliseconds.
            pub fn time(self) -> Millis {
                (self.0 >> (PostId::NODE_BITS + PostId::SEQUENCE_BITS)) + PostId::TIME_ZERO
            }
        }
    )*};
}

times! { PostId CommentId }

/// The common part of all numeric ids: bounds, text form and JSON.
macro_rules! numbers {
    ($($id:ident $name:literal)*) => {$(
        impl $id {
            /// The largest possible id: 2^53 - 1, JavaScript's largest exact integer.
            pub const MAX: Self = Self(LARGEST);
            /// Less than every id.
            pub const ZERO: Self = Self(0);

            /// Parses an id; `None` if the text is not a valid one.
            pub fn parse(text: &str) -> Option<Self> {
                text.parse().ok().map(Self).filter(|id| *id <= Self::MAX)
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "#{}", self.0)
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(self.0)
            }
        }

        /// Reads a number, or its digits as a string, because paths and queries are text.
        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Number).map(Self)
            }
        }

        impl JsonSchema for $id {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": LARGEST })
            }
        }
    )*};
}

numbers! {
    PostId "PostId"
    CommentId "CommentId"
    NotificationId "NotificationId"
    NotificationPosition "NotificationPosition"
}

/// Reads the number of an id.
struct Number;

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a whole number below 2^53")
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<u64, E> {
        Some(id).filter(|id| *id <= LARGEST).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(id), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        PostId::parse(text).map(|id| id.0).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The last millisecond that an id can have, in 2075.
    const LAST_TIME: Millis = PostId::TIME_ZERO + ((1 << 41) - 1);

    /// The time, the node and the sequence of an id.
    fn parts(id: PostId) -> (Millis, u8, u8) {
        let node = (id.0 >> PostId::SEQUENCE_BITS) & 0xff;
        let sequence = id.0 & 0xf;
        (id.time(), u8::try_from(node).unwrap(), u8::try_from(sequence).unwrap())
    }

    #[test]
    fn ids_from_2006_to_2074_are_exact_as_javascript_numbers() {
        // 2006-01-01T00:00:00.000Z and 2074-12-31T23:59:59.999Z.
        for time in [1_136_073_600_000, 3_313_526_399_999] {
            for (node, sequence) in [(0, 0), (254, PostId::LAST_SEQUENCE), (PostId::IMPORT_NODE, 1)] {
                let id = PostId::from_parts(time, node, sequence);
                assert_eq!(parts(id), (time, node, sequence));
                assert_eq!(id.0 as f64 as u64, id.0);
                assert_eq!(serde_json::from_str::<PostId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
            }
        }
        let last = PostId::from_parts(LAST_TIME, PostId::IMPORT_NODE, PostId::LAST_SEQUENCE);
        assert_eq!(last, PostId::MAX);
    }

    proptest! {
        #[test]
        fn ids_keep_their_parts_and_sort_by_them(
            one in (PostId::TIME_ZERO..=LAST_TIME, any::<u8>(), 0..=PostId::LAST_SEQUENCE),
            other in (PostId::TIME_ZERO..=LAST_TIME, any::<u8>(), 0..=PostId::LAST_SEQUENCE),
        ) {
            let [id, second] = [one, other].map(|(time, node, sequence)| PostId::from_parts(time, node, sequence));
            prop_assert_eq!(parts(id), one);
            prop_assert!(id <= PostId::MAX);
            prop_assert_eq!(id.0 as f64 as u64, id.0);
            prop_assert_eq!(id.cmp(&second), one.cmp(&other));
        }
    }

    #[test]
    fn user_ids_are_equal_ignoring_case_and_keep_their_spelling() {
        let ids = ["Kim", "kim", "KIM", "kIm"].map(|text| UserId::parse(text).unwrap());
        for (id, text) in ids.iter().zip(["Kim", "kim", "KIM", "kIm"]) {
            assert_eq!((id.as_str(), id.shown(), &*id.to_string()), ("kim", text, "kim"));
            assert_eq!((id, id.cmp(&ids[0])), (&ids[0], Ordering::Equal));
            assert_eq!(serde_json::to_string(id).unwrap(), format!("{text:?}"));
            assert!(std::collections::HashSet::from([ids[0].clone()]).contains("kim"));
        }
        for text in ["a", "A", "ab", "aB", &"x".repeat(64), &"X".repeat(64)] {
            let id = UserId::parse(text).unwrap();
            assert_eq!((id.as_str(), id.shown()), (&*text.to_ascii_lowercase(), text));
        }
        for reserved in ["me", "ME", "Suggested", "EXPLORE"] {
            assert!(UserId::parse(reserved).unwrap().is_reserved(), "{reserved}");
        }
    }

    #[test]
    fn a_user_id_takes_plain_characters_only() {
        assert!(UserId::parse("Ann_the-2nd.").is_some());
        assert!([".a", "a..", "..-"].iter().all(|id| UserId::parse(id).is_some()));
        for wrong in ["", ".", "..", "...", "a b", "ann:1", "é", &"a".repeat(65)] {
            assert!(UserId::parse(wrong).is_none(), "{wrong:?} passed");
        }
    }
}
