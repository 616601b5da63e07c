//! The inputs and outputs of the operations on favourites.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::feed::expand::{ExpandField, PageItem};
use crate::feed::input::{default_limit, number};
use crate::model::{Millis, ObjectId, ObjectType, Person, UserId};

/// An object.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneObject {
    /// Its type: `post`, or any of the application's own.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// Its id.
    pub(super) id: ObjectId,
}

/// A type of objects.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneType {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
}

/// A page of one's favourites of a type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FavouriteList {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    /// Of posts: what each is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom each post and comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    pub(super) with: Option<Value>,
}

/// A page of what somebody else has among their favourites, too.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommonList {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The other.
    pub(super) user: UserId,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    /// Of posts: what each is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom each post and comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    pub(super) with: Option<Value>,
}

/// A page of who has an object.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderList {
    /// The object's type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The object's id.
    pub(super) id: ObjectId,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

/// Objects of one type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Objects {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The ids, 1 to 100.
    #[schemars(length(min = 1, max = 100))]
    pub(super) ids: Vec<ObjectId>,
}

/// An object among one's favourites.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FavouriteItem {
    /// Which, as text.
    #[schemars(with = "String")]
    pub(super) id: ObjectId,
    /// Since when, in Unix milliseconds.
    pub(super) at: Millis,
    /// If it is a post: the post.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PageItem>")]
    pub(super) post: Option<Box<RawValue>>,
}

/// Favourites, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FavouritePage {
    /// The favourites, latest first.
    pub(super) items: Vec<FavouriteItem>,
    /// Of posts: their authors, by id; and all others that they bring along, if these were asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) people: BTreeMap<String, Person>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// What two people have, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommonPage {
    /// How many both have; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(flatten)]
    pub(super) page: FavouritePage,
}

/// How many.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Count {
    pub(super) count: u64,
}

/// Whether an object is among one's favourites.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// Which, as text.
    #[schemars(with = "String")]
    pub(super) id: ObjectId,
    /// Whether it is.
    pub(super) favourited: bool,
    /// Since when, in Unix milliseconds, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Millis>,
}

/// Whether objects are among one's favourites, in the order asked.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CheckedObjects {
    pub(super) items: Vec<Checked>,
}

/// Somebody who has an object among their favourites.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HolderItem {
    #[serde(flatten)]
    pub(super) person: Person,
    /// Since when, in Unix milliseconds.
    pub(super) at: Millis,
}

/// Who has an object, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HolderPage {
    /// How many have it.
    pub(super) count: u64,
    /// Who, latest first.
    pub(super) items: Vec<HolderItem>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}
