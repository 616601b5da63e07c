//! `with`: the members that a client requests with posts, and their values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{FeedError, Result};
use crate::model::{Comment, Person, RepostedBy, ShownPost, UserId};

/// The number of parts. Requests with more are refused.
const MAX_PARTS: usize = 3;

/// The items of a part, unless the request says how many.
const LIKERS: usize = 8;
const COMMENTS: usize = 3;

/// The maximal number of items of a part.
const MAX_ITEMS: usize = 20;

/// The parts that a client requests with posts. Inputs contain it with `#[serde(flatten)]`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExpandRequest {
    /// The parts that posts include: `likers` (the latest 8, by id), `comments` (the newest 3 on the post itself, as
    /// `newest_comments`), `people` (profiles of these users, and of the first 10 users that each post and comment
    /// mentions). `likers:N` and `comments:N` include the latest N, 20 at most.
    #[serde(default)]
    #[schemars(with = "Vec<RequestedPart>")]
    with: Option<Value>,
}

/// A part, for the contract.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes text that is read by hand")]
struct RequestedPart(#[schemars(regex(pattern = r"^((likers|comments)(:([1-9]|1[0-9]|20))?|people)$"))] String);

impl ExpandRequest {
    /// Decodes the requested parts.
    ///
    /// # Errors
    /// [`FeedError::Invalid`] if an element is not a known part.
    pub(crate) fn decode(&self) -> Result<Expand> {
        let mut expand = Expand::default();
        let names = self.with.as_ref().map_or(Some(Vec::new()), part_names);
        let is_known = names
            .filter(|names| names.len() <= MAX_PARTS)
            .is_some_and(|names| names.into_iter().all(|name| expand.add(name)));
        let wrong = || {
            FeedError::invalid(
                "with",
                "with is a list of likers, comments and people, or of some of them; likers:N and comments:N up to 20",
            )
        };
        is_known.then_some(expand).ok_or_else(wrong)
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

/// A part and the number of its items; `None`: it has none. `None` for other texts.
fn part(name: &str) -> Option<(&str, Option<usize>)> {
    match name.split_once(':') {
        None => Some((name, None)),
        Some((name @ ("likers" | "comments"), many)) => {
            let many = many.parse().ok().filter(|many| (1..=MAX_ITEMS).contains(many))?;
            Some((name, Some(many)))
        }
        Some(_) => None,
    }
}

/// The cost of the parts that an input requests, in units of a part with as many items as by default. The input is not
/// validated yet.
pub(crate) fn requested_parts(input: &Value) -> u32 {
    let names = input.get("with").and_then(part_names).unwrap_or_default();
    let cost = |name: &&str| match part(name) {
        Some(("likers", Some(many))) => many.div_ceil(LIKERS),
        Some(("comments", Some(many))) => many.div_ceil(COMMENTS),
        _ => 1,
    };
    u32::try_from(names.iter().take(MAX_PARTS).map(cost).sum::<usize>()).unwrap_or(0)
}

/// The parts of an [`ExpandRequest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expand {
    /// The likers of each post; 0: not requested.
    pub(crate) likers: usize,
    /// The comments of each post; 0: not requested.
    pub(crate) comments: usize,
    /// Whether the profiles of these users, and of mentioned ones, are requested.
    pub(crate) people: bool,
}

impl Expand {
    /// Adds a part by name. Returns `false` for unknown names.
    fn add(&mut self, name: &str) -> bool {
        match part(name) {
            Some(("likers", many)) => self.likers = many.unwrap_or(LIKERS),
            Some(("comments", many)) => self.comments = many.unwrap_or(COMMENTS),
            Some(("people", None)) => self.people = true,
            _ => return false,
        }
        true
    }
}

/// The likers and comments of a post, if requested.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct PostPreview {
    /// The latest likers, 8 or as many as requested; with `likers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) likers: Option<Vec<UserId>>,
    /// The newest comments on the post itself, newest first, 3 or as many as requested; with
    /// `comments`.
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
    /// The other users that the reader follows and that reposted it, on pages of timelines; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reposted_by: Option<RepostedBy>,
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
    fn parts_are_a_list_or_text_with_commas() {
        let all = Expand { likers: 8, comments: 3, people: true };
        let people = Expand { people: true, ..Expand::default() };
        let twenty = Expand { likers: 20, comments: 20, people: false };
        for (asked, parts, cost) in [
            (json!("likers,comments,people"), all, 3),
            (json!(["likers", "comments", "people"]), all, 3),
            (json!("people, people"), people, 2),
            (json!("likers:20,comments:20"), twenty, 3 + 7),
            (json!(["comments:3", "likers:8"]), Expand { people: false, ..all }, 2),
            (json!(["comments:1"]), Expand { comments: 1, ..Expand::default() }, 1),
            (json!(""), Expand::default(), 0),
            (json!([]), Expand::default(), 0),
            (Value::Null, Expand::default(), 0),
        ] {
            assert_eq!(requested_parts(&json!({ "with": &asked })), cost, "{asked}");
            assert_eq!(ExpandRequest { with: Some(asked) }.decode().unwrap(), parts);
        }
        assert_eq!(ExpandRequest { with: None }.decode().unwrap(), Expand::default());
        assert_eq!(requested_parts(&json!({ "with": "people,".repeat(100) })), 3);
        assert_eq!(requested_parts(&json!({ "with": "comments:20,".repeat(100) })), 21);
        for wrong in [
            json!("friends"),
            json!("likers,"),
            json!("Likers"),
            json!(["likers", 3]),
            json!(7),
            json!({}),
            json!("likers:0"),
            json!("likers:21"),
            json!("comments:-1"),
            json!("comments:"),
            json!("comments:3:3"),
            json!("people:3"),
            json!("people,people,people,comments:20"),
        ] {
            let error = ExpandRequest { with: Some(wrong) }.decode().expect_err("no such part");
            assert_eq!(error.field(), Some("with"));
        }
    }
}
