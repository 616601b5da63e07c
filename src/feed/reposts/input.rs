//! The inputs of reposts and quotes.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::feed::expand::ExpandRequest;
use crate::feed::paging::PageRequest;
use crate::model::{PostId, UserId, Visibility};

/// A repost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepostDraft {
    /// The post, or a repost of it.
    pub(super) id: PostId,
    /// Who sees the repost, of those who see the post; absent: `public`. It is never null: no null makes an audience
    /// larger.
    #[serde(default)]
    pub(super) visibility: RepostVisibility,
}

/// Who sees a repost.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RepostVisibility {
    /// Everyone who may see the post.
    #[default]
    Public,
    /// The followers of the user who reposts, of those.
    Followers,
}

impl From<RepostVisibility> for Visibility {
    fn from(visibility: RepostVisibility) -> Self {
        match visibility {
            RepostVisibility::Public => Self::Public,
            RepostVisibility::Followers => Self::Followers,
        }
    }
}

/// A page of the posts that quote a post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuoteList {
    /// The post's id.
    pub(super) id: PostId,
    #[serde(flatten)]
    pub(super) page: PageRequest,
    #[serde(flatten)]
    pub(super) expand: ExpandRequest,
}

/// All quotes by a user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotesOfUser {
    /// The user's id.
    pub(super) user: UserId,
}
