//! `with`: the members that a client requests with posts, and their values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{FeedError, Result};
use crate::model::{Comment, Person, ShownPost, UserId};

/// A part of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExpandField {
    /// The latest 8 likers of each post.
    Likers,
    /// The newest 3 comments on each post.
    Comments,
    /// The likers, the commenters, and the users that posts and comments mention.
    People,
}

/// The number of parts. More are refused, and cost as many as these.
const MAX_PARTS: usize = 3;

/// The parts that a client requests with posts. Inputs contain it with `#[serde(flatten)]`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExpandRequest {
    /// The parts that posts include: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (profiles of these users, and of the first 10 users that each post and comment
    /// mentions).
    #[serde(default)]
    #[schemars(with = "Vec<ExpandField>")]
    with: Option<Value>,
}

impl ExpandRequest {
    /// Decodes the requested parts.
    ///
    /// # Errors
    /// [`FeedError::Invalid`] if an element is not a known part.
    pub(crate) fn decode(&self) -> Result<Expand> {
        let part = |name: &str| ExpandField::deserialize(Value::from(name)).ok();
        let parts = self.with.as_ref().map_or(Some(Vec::new()), part_names);
        let parts = parts.and_then(|names| names.into_iter().map(part).collect::<Option<Vec<_>>>());
        let wrong = || FeedError::invalid("with", "with is a list of likers, comments and people, or of some of them");
        parts.map(Expand).ok_or_else(wrong)
    }
}

/// The names in a list, which is a JSON array or comma-separated text. `None` for other values.
fn part_names(with: &Value) -> Option<Vec<&str>> {
    match with {
        Value::Null => Some(Vec::new()),
        Value::String(text) if text.is_empty() => Some(Vec::new()),
        Value::String(text) => Some(text.split(',').map(str::trim).collect()),
        Value::Array(names) => names.iter().map(|name| Some(name.as_str()?.trim())).collect(),
        _ => None,
    }
}

/// The number of parts that an input requests; the cost of a read depends on it. The input is not validated yet.
pub(crate) fn requested_parts(input: &Value) -> u32 {
    let names = input.get("with").and_then(part_names).unwrap_or_default();
    u32::try_from(names.len().min(MAX_PARTS)).unwrap_or(0)
}

/// The parts of an [`ExpandRequest`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expand(Vec<ExpandField>);

impl Expand {
    pub(crate) fn has(&self, part: ExpandField) -> bool {
        self.0.contains(&part)
    }
}

/// The likers and comments of a post, if requested.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct PostPreview {
    /// The latest likers, at most 8; with `likers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) likers: Option<Vec<UserId>>,
    /// The newest comments on the post itself, newest first, at most 3; with `comments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_comments: Option<Vec<Comment>>,
}

/// A post of a page, with its preview.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
#[schemars(rename = "PostWithPreview")]
pub(crate) struct PageItem {
    #[serde(flatten)]
    post: ShownPost,
    #[serde(flatten)]
    preview: PostPreview,
}

/// A single post, with its preview and people.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
pub(crate) struct SinglePost {
    #[serde(flatten)]
    item: PageItem,
    /// Profiles of its author, likers and commenters, and of mentioned users, by id; with `people`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Person>>")]
    people: Option<BTreeMap<UserId, Person>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_a_list_or_text_with_commas() {
        let all = [ExpandField::Likers, ExpandField::Comments, ExpandField::People];
        for (asked, parts) in [
            (json!("likers,comments,people"), &all[..]),
            (json!(["likers", "comments", "people"]), &all),
            (json!("people, people"), &[ExpandField::People, ExpandField::People]),
            (json!(""), &[]),
            (json!([]), &[]),
            (Value::Null, &[]),
        ] {
            let count = u32::try_from(parts.len()).unwrap();
            assert_eq!(requested_parts(&json!({ "with": &asked })), count, "{asked}");
            assert_eq!(ExpandRequest { with: Some(asked) }.decode().unwrap(), Expand(parts.to_vec()));
        }
        assert_eq!(ExpandRequest { with: None }.decode().unwrap(), Expand::default());
        assert_eq!(requested_parts(&json!({ "with": "people,".repeat(100) })), 3);
        for wrong in [json!("friends"), json!("likers,"), json!("Likers"), json!(["likers", 3]), json!(7), json!({})] {
            let error = ExpandRequest { with: Some(wrong) }.decode().expect_err("no such field");
            assert_eq!(error.field(), Some("with"));
        }
    }
}
