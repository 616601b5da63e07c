//! The members that the inputs and outputs of several operations share.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{FeedError, Result};
use super::expand::{Expand, ExpandField, PageItem};
use crate::model::{CommentId, Person, PostId, User, UserId};

/// Items of a page: by default, and at most.
pub(crate) const DEFAULT_LIMIT: u64 = 20;
pub(crate) const MAX_LIMIT: u64 = 100;

/// Yes or no; in a query it is text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Plain(bool),
        Text(String),
    }
    match Flag::deserialize(deserializer)? {
        Flag::Plain(flag) => Ok(flag),
        Flag::Text(text) => text.parse().map_err(|_| de::Error::custom("expected true or false")),
    }
}

/// A user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneUser {
    /// Its id.
    pub(crate) id: UserId,
}

/// A post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnePost {
    /// Its id.
    pub(crate) id: PostId,
}

/// A post, to be read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadPost {
    /// Its id.
    pub(crate) id: PostId,
    /// What it is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom it and each comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    with: Option<Value>,
}

/// A comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneComment {
    /// Its id.
    pub(crate) id: CommentId,
}

/// A page of what belongs to a user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserList {
    /// The user's id.
    pub(crate) id: UserId,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of what a user wrote.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthorList {
    /// The author's id.
    pub(crate) id: UserId,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
    /// What each post is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom each post and comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    with: Option<Value>,
}

/// A page of what belongs to a post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostList {
    /// The post's id.
    pub(crate) id: PostId,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of what belongs to a topic.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicList {
    /// The topic, without the `#`.
    pub(crate) name: String,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
    /// What each post is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom each post and comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    with: Option<Value>,
}

/// A page of comments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentList {
    /// The post.
    pub(crate) id: PostId,
    /// The comment whose replies are wanted; absent: the comments on the post itself.
    #[serde(default)]
    pub(crate) under: Option<CommentId>,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of one's own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnList {
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of one's timeline.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimelineList {
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
    /// What each post is to bring along: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (who all of these are, and the first 10 whom each post and comment names).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    with: Option<Value>,
}

/// People to be found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// How their id or name begins, in any case.
    pub(crate) q: String,
    /// How many, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// Where the page before said to go on.
    #[serde(default)]
    cursor: Option<String>,
}

macro_rules! pages {
    ($($list:ty),*) => {$(
        impl $list {
            pub(crate) fn limit(&self) -> Result<usize> {
                checked_limit(self.limit)
            }

            pub(crate) fn cursor<C: Cursor>(&self) -> Result<Option<C>> {
                cursor_of(self.cursor.as_deref())
            }
        }
    )*};
}

pages!(UserList, AuthorList, PostList, TopicList, CommentList, OwnList, TimelineList, Search);

macro_rules! expansions {
    ($($list:ty),*) => {$(
        impl $list {
            pub(crate) fn expand(&self) -> Result<Expand> {
                Expand::parse(self.with.as_ref())
            }
        }
    )*};
}

expansions!(ReadPost, AuthorList, TopicList, TimelineList);

pub(crate) fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

pub(crate) fn checked_limit(limit: u64) -> Result<usize> {
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(limit as usize)
    } else {
        Err(FeedError::invalid("limit", format!("limit is 1 to {MAX_LIMIT}")))
    }
}

/// What a cursor stands for. Its text is opaque to clients.
pub(crate) trait Cursor: Sized {
    fn read(text: &str) -> Option<Self>;
}

impl Cursor for PostId {
    fn read(text: &str) -> Option<Self> {
        Self::parse(text.strip_prefix('p')?)
    }
}

impl Cursor for CommentId {
    fn read(text: &str) -> Option<Self> {
        Self::parse(text.strip_prefix('c')?)
    }
}

impl Cursor for i64 {
    fn read(text: &str) -> Option<Self> {
        text.strip_prefix('e')?.parse().ok()
    }
}

/// Where a page begins, if not at the beginning.
pub(crate) fn cursor_of<C: Cursor>(text: Option<&str>) -> Result<Option<C>> {
    let wrong = || FeedError::invalid("cursor", "this cursor is not one that this list gave");
    text.filter(|text| !text.is_empty()).map(|text| C::read(text).ok_or_else(wrong)).transpose()
}

/// Posts, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PostPage {
    /// The posts, newest first.
    #[schemars(with = "Vec<PageItem>")]
    pub(crate) items: Vec<Box<RawValue>>,
    /// Their authors, by id; and all others that they bring along, if these were asked for.
    pub(crate) people: BTreeMap<String, Person>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// People, as a page in the order of its list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserPage {
    /// The people.
    pub(crate) items: Vec<User>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl From<crate::ledger::Listed<User>> for UserPage {
    fn from(listed: crate::ledger::Listed<User>) -> Self {
        Self { items: listed.items, next: listed.next.map(|next| format!("e{next}")) }
    }
}

/// A display name, trimmed.
///
/// # Errors
/// If it is empty, too long or has control characters.
pub(crate) fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if (1..=100).contains(&name.chars().count()) && !name.contains(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(FeedError::invalid("name", "a name has 1 to 100 characters, none of them a control character"))
    }
}

/// The reply of an operation that returns nothing.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {}

/// Reads a whole number, or (queries are text) its digits.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    struct Number;
    impl Visitor<'_> for Number {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<u64, E> {
            Ok(number)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<u64, E> {
            text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_any(Number)
}
