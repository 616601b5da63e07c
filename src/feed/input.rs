//! The inputs and outputs that several operations share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::{FeedError, Result};
use super::expand::{ExpandRequest, PageItem};
use super::paging::{PageCursor, PageRequest};
use super::query_values::list;
use crate::model::{CommentId, Person, Post, PostId, User, UserId};
use crate::text::{fold, is_blank};

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

/// A post to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadPost {
    /// Its id.
    pub(crate) id: PostId,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

/// Posts to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostsByIds {
    /// Their ids, 1 to 100.
    #[serde(deserialize_with = "list")]
    #[schemars(length(min = 1, max = 100))]
    pub(crate) ids: Vec<PostId>,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

/// The maximal number of objects that one call returns by id.
const MAX_IDS: usize = 100;

/// Checks the number of ids in a request.
///
/// # Errors
/// If there are none, or too many.
pub(crate) fn check_ids<T>(ids: &[T]) -> Result<()> {
    if ids.is_empty() {
        return Err(FeedError::invalid("ids", format!("ids has 1 to {MAX_IDS} elements")));
    }
    if ids.len() > MAX_IDS {
        return Err(FeedError::LimitExceeded { field: "ids", what: "ids at once", most: MAX_IDS as u64 });
    }
    Ok(())
}

/// Comments to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentsByIds {
    /// Their ids, 1 to 100.
    #[serde(deserialize_with = "list")]
    #[schemars(length(min = 1, max = 100))]
    pub(crate) ids: Vec<CommentId>,
}

/// A comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneComment {
    /// Its id.
    pub(crate) id: CommentId,
}

/// A page of a list of a user: followers, followees, comments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserList {
    /// The user's id.
    pub(crate) id: UserId,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// A page of the posts that a user likes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthorList {
    /// The user's id.
    pub(crate) id: UserId,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

/// A kind of posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PostKind {
    /// With pictures, films or sounds.
    Media,
    /// Quotes of other posts.
    Quotes,
    /// Reposts.
    Reposts,
}

impl PostKind {
    fn includes(self, post: &Post) -> bool {
        match self {
            Self::Media => !post.media.is_empty(),
            Self::Quotes => post.quote.is_some(),
            Self::Reposts => post.repost.is_some(),
        }
    }
}

/// A page of the posts that a user wrote.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthorPosts {
    /// The user's id.
    pub(crate) id: UserId,
    /// Only posts of this kind. A page can then be short or empty, and still have a `next`.
    #[serde(default)]
    pub(crate) only: Option<PostKind>,
    /// No posts of these kinds.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Vec<PostKind>")]
    pub(crate) without: Vec<PostKind>,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

impl AuthorPosts {
    /// Whether only some kinds of posts are wanted.
    pub(crate) fn is_selective(&self) -> bool {
        self.only.is_some() || !self.without.is_empty()
    }

    /// Whether the list is to have a post.
    pub(crate) fn wants(&self, post: &Post) -> bool {
        self.only.is_none_or(|kind| kind.includes(post)) && !self.without.iter().any(|kind| kind.includes(post))
    }
}

/// A page of the likers of a post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostList {
    /// The post's id.
    pub(crate) id: PostId,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// A page of the posts of a topic.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicList {
    /// The topic, without the `#`.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

/// A page of the likers of a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentLikerList {
    /// The comment's id.
    pub(crate) id: CommentId,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// The order of a list of comments.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommentOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
}

/// A page of comments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentList {
    /// The post.
    pub(crate) id: PostId,
    /// The comment whose replies are listed; absent: the comments on the post itself.
    #[serde(default)]
    pub(crate) reply_to: Option<CommentId>,
    /// The order. A `cursor` belongs to the order that it was given with.
    #[serde(default)]
    pub(crate) order: CommentOrder,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// A page of a list of the caller.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnList {
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// A page of posts: of the caller's timeline, or of everybody's posts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostFeed {
    #[serde(flatten)]
    pub(crate) page: PageRequest,
    #[serde(flatten)]
    pub(crate) expand: ExpandRequest,
}

/// A page of what a search finds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// The beginning of the id, of a word of the name, or of the topic, ignoring case and accents.
    pub(crate) q: String,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

impl Search {
    /// The text to search for, as it is compared.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub(crate) fn prefix(&self) -> Result<String> {
        let q = self.q.trim();
        let prefix = fold(q);
        if prefix.is_empty() || q.chars().count() > 100 {
            return Err(FeedError::invalid("q", "q has 1 to 100 characters"));
        }
        Ok(prefix)
    }
}

/// A page of all topics, or of those that a search finds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicIndex {
    /// The beginning of the topics, with or without `#`, ignoring case and accents; absent: all topics.
    pub(crate) q: Option<String>,
    #[serde(flatten)]
    pub(crate) page: PageRequest,
}

/// A page of posts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PostPage {
    /// The posts, in the order of the list.
    #[schemars(with = "Vec<PageItem>")]
    pub(crate) items: Vec<Box<RawValue>>,
    /// Their authors by id, and the users that `with` adds.
    #[schemars(with = "BTreeMap<String, Person>")]
    pub(crate) people: BTreeMap<UserId, Person>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A page of users, in the order of the list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserPage {
    /// The users.
    items: Vec<User>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl<C: PageCursor> From<(Vec<User>, Option<C>)> for UserPage {
    /// Converts the result of a [`PageBuilder`](super::paging::PageBuilder).
    fn from((items, next): (Vec<User>, Option<C>)) -> Self {
        Self { items, next: next.map(|next| next.encode()) }
    }
}

/// The message for names that are no topics.
pub(crate) const TOPIC_RULE: &str =
    "a topic is 1 to 100 letters, marks, digits and underscores, with at least one letter, and not a mark first";

/// A display name, trimmed.
///
/// # Errors
/// If it has nothing to see, is too long, or has control characters or line ends.
pub(crate) fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !is_blank(name) && name.chars().count() <= 100 && !name.contains(ends_line) {
        Ok(name.to_owned())
    } else {
        Err(FeedError::invalid("name", "a name has 1 to 100 characters that can be seen, and no control characters"))
    }
}

/// No input.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoInput {}

/// The reply of an operation that returns nothing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Empty")]
pub(crate) struct Done {}

/// Whether a URL is absolute, or a path of the same origin. `//host` and `/\\host` name another origin, and so may a
/// path with control characters, which browsers remove.
pub(crate) fn is_media_url(url: &str) -> bool {
    let is_plain = !url.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\');
    is_plain && (url.starts_with("https://") || url.starts_with("http://") || is_path(url))
}

fn is_path(url: &str) -> bool {
    url.starts_with('/') && !url.starts_with("//")
}
