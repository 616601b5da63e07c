//! `with`: what a client requests with posts, and the members that posts get for it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{FeedError, Result};
use crate::model::{Comment, Person, ShownPost, UserId};

/// A part of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Part")]
pub(crate) enum ExpandField {
    /// The latest 8 likers of each post.
    Likers,
    /// The newest 3 comments on each post.
    Comments,
    /// The likers, the commenters, and the users that posts and comments mention.
    People,
}

/// The parts that a client requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expand(Vec<ExpandField>);

impl Expand {
    /// Parses a list, as JSON or as text with commas.
    ///
    /// # Errors
    /// If an element is none of the parts.
    pub(crate) fn parse(asked: Option<&Value>) -> Result<Self> {
        let part = |name: &str| ExpandField::deserialize(Value::from(name.trim())).ok();
        let parts: Option<Vec<ExpandField>> = match asked {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(text)) if text.is_empty() => Some(Vec::new()),
            Some(Value::String(text)) => text.split(',').map(part).collect(),
            Some(Value::Array(names)) => names.iter().map(|name| part(name.as_str()?)).collect(),
            Some(_) => None,
        };
        let wrong = || FeedError::invalid("with", "with is a list of likers, comments and people, or of some of them");
        parts.map(Self).ok_or_else(wrong)
    }

    pub(crate) fn has(&self, part: ExpandField) -> bool {
        self.0.contains(&part)
    }
}

/// The likers and comments of a post, as far as they were requested.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct PostPreview {
    /// Who likes it, latest first, 8 at most; if `likers` were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) likers: Option<Vec<UserId>>,
    /// The newest comments on the post itself, newest first, 3 at most; if `comments` were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_comments: Option<Vec<Comment>>,
}

/// A post of a page, with its preview.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
pub(crate) struct PageItem {
    #[serde(flatten)]
    post: ShownPost,
    #[serde(flatten)]
    preview: PostPreview,
}

/// A single post, with its preview and people.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes JSON that is put together as text")]
#[schemars(rename = "LonePost")]
pub(crate) struct SinglePost {
    #[serde(flatten)]
    item: PageItem,
    /// Who its author, its likers and commenters and those named are, by id; if `people` were asked for.
    people: Option<BTreeMap<String, Person>>,
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
            assert_eq!(Expand::parse(Some(&asked)).unwrap(), Expand(parts.to_vec()), "{asked}");
        }
        assert_eq!(Expand::parse(None).unwrap(), Expand::default());
        for wrong in [json!("friends"), json!("likers,"), json!("Likers"), json!(["likers", 3]), json!(7), json!({})] {
            let error = Expand::parse(Some(&wrong)).expect_err("no such field");
            assert!(matches!(error, FeedError::Invalid { field: Some(field), .. } if field == "with"), "{wrong}");
        }
    }
}
