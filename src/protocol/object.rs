//! JSON objects as structs. The derived implementations of serde would also take an array as the members of a struct,
//! in their order.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::model::without_nulls;

/// A struct that is deserialized from an object alone.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = deserializer.deserialize_any(ObjectVisitor(PhantomData))?;
        object.map(Self).ok_or_else(|| Error::custom("null is not an object"))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// Deserializes an object; `null` is `None`.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(ObjectVisitor(PhantomData))
}

/// Deserializes a map of objects.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let map = BTreeMap::<String, Object<T>>::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(key, object)| (key, object.0)).collect())
}

/// Parses an object. Its members that are `null` count as absent.
pub(super) fn from_object<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str::<Object<T>>(&without_nulls(json)).map(|object| object.0)
}
