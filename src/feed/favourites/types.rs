//! The inputs and outputs of the operations on favourites.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::feed::expand::{ExpandRequest, PageItem};
use crate::feed::paging::PageRequest;
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

/// An object that becomes a favourite.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFavourite {
    /// Its type: `post`, or any of the application's own.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// Its id.
    pub(super) id: ObjectId,
    /// Whether the favourite is private: lists and counts of other users omit it.
    #[serde(default)]
    pub(super) private: bool,
}

/// A type of objects.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneType {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
}

/// A page of the caller's favourites of a type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FavouriteList {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    #[serde(flatten)]
    pub(super) page: PageRequest,
    #[serde(flatten)]
    pub(super) expand: ExpandRequest,
}

/// A page of the favourites that the caller shares with another user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommonList {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The other user.
    pub(super) user: UserId,
    #[serde(flatten)]
    pub(super) page: PageRequest,
    #[serde(flatten)]
    pub(super) expand: ExpandRequest,
}

/// A page of the users with an object among their favourites.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderList {
    /// The object's type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The object's id.
    pub(super) id: ObjectId,
    #[serde(flatten)]
    pub(super) page: PageRequest,
}

/// Objects of one type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FavouriteIds")]
pub(crate) struct Objects {
    /// The type.
    #[serde(rename = "type")]
    pub(super) kind: ObjectType,
    /// The ids, 1 to 100.
    #[schemars(length(min = 1, max = 100))]
    pub(super) ids: Vec<ObjectId>,
}

/// A favourite.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Favourite")]
pub(crate) struct FavouriteItem {
    /// The object's id, as text.
    #[schemars(with = "String")]
    pub(super) id: ObjectId,
    /// When it was added, in Unix milliseconds.
    pub(super) created_at: Millis,
    /// Whether the favourite is private; absent if it is not.
    #[serde(skip_serializing_if = "is_public")]
    pub(super) private: bool,
    /// The post, if the object is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PageItem>")]
    pub(super) post: Option<Box<RawValue>>,
}

/// A page of favourites.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FavouritePage {
    /// The favourites, latest first.
    pub(super) items: Vec<FavouriteItem>,
    /// Of posts: their authors by id, and the users that `with` adds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Person>")]
    pub(super) people: BTreeMap<UserId, Person>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// A page of the favourites that two users share.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CommonFavouritePage")]
pub(crate) struct CommonPage {
    /// The number of shared favourites; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(flatten)]
    pub(super) page: FavouritePage,
}

/// A number of favourites.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FavouriteCount {
    pub(super) count: u64,
}

/// Whether an object is a favourite of the caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FavouriteStatus")]
pub(crate) struct Checked {
    /// The object's id, as text.
    #[schemars(with = "String")]
    pub(super) id: ObjectId,
    /// Whether it is a favourite.
    pub(super) favourited: bool,
    /// When it was added, in Unix milliseconds; absent if it is not a favourite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<Millis>,
}

/// Whether objects are favourites of the caller, in the order of the request.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FavouriteStatusList")]
pub(crate) struct CheckedObjects {
    pub(super) items: Vec<Checked>,
}

/// A user with an object among their favourites.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FavouriteHolder")]
pub(crate) struct HolderItem {
    #[serde(flatten)]
    pub(super) person: Person,
    /// When it was added, in Unix milliseconds.
    pub(super) created_at: Millis,
}

/// A page of the users with an object among their favourites.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FavouriteHolderPage")]
pub(crate) struct HolderPage {
    /// The number of these users.
    pub(super) count: u64,
    /// The users, latest first.
    pub(super) items: Vec<HolderItem>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_public(private: &bool) -> bool {
    !*private
}
