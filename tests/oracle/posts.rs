//! Posts, and who may see them.

use serde_json::{Value, json};

use crate::comment_policy::CommentPolicy;
use crate::model::User;

/// The audience of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Public,
    Followers,
    /// Mutual follows of the author.
    Friends,
    /// The listed users, if they follow the author.
    OnlyTo(Vec<User>),
    NotTo(Vec<User>),
}

/// The place where a reader sees a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewContext {
    /// Requested by id, or on a profile.
    Direct,
    /// Listed with others, or named by another post. Limited authors are visible to their followers.
    Listed,
    /// Offered: topics, the public posts of all, lists. Limited authors are in none of it.
    Offered,
}

#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) author: User,
    pub(crate) text: String,
    pub(crate) topic: Option<&'static str>,
    pub(crate) visibility: Visibility,
    /// Removed by the backend: only the author sees it.
    pub(crate) is_removed: bool,
    /// The reposted post.
    pub(crate) repost: Option<u64>,
    /// The post that it quotes.
    pub(crate) quote: Option<u64>,
    /// Detached from that post by its author.
    pub(crate) is_detached: bool,
    pub(crate) comment_policy: CommentPolicy,
}

impl Post {
    /// The quoted post, unless this one was detached from it.
    pub(crate) fn attached(&self) -> Option<u64> {
        self.quote.filter(|_| !self.is_detached)
    }

    /// A post with a text alone.
    pub(crate) fn new(author: User, text: String, visibility: Visibility) -> Self {
        Self {
            author,
            text,
            topic: None,
            visibility,
            is_removed: false,
            repost: None,
            quote: None,
            is_detached: false,
            comment_policy: CommentPolicy::Everyone,
        }
    }
}

impl Visibility {
    /// The visibility as the API has it.
    pub(crate) fn as_json(&self) -> Value {
        match self {
            Self::Public => json!("public"),
            Self::Followers => json!("followers"),
            Self::Friends => json!("friends"),
            Self::OnlyTo(those) => json!({ "only_to": those }),
            Self::NotTo(those) => json!({ "not_to": those }),
        }
    }
}
