//! What happened in the feed that others outside the write are to hear of: notifications now, pushes and webhooks later.

use serde::{Deserialize, Serialize};

use super::{Comment, CommentId, Post, PostId, UserId};

/// How many of the users whom one text mentions are notified: more names than that are not meant for each of them.
pub const MAX_MENTIONED: usize = 50;

/// Something that happened. Stores keep it as JSON: variants and members are added, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A post was written that mentions others.
    PostCreated {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Other users whom it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// A post was edited and mentions others whom it did not mention before.
    PostEdited {
        /// The post.
        post: PostId,
        /// Its author.
        author: UserId,
        /// Those others, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// A comment was written.
    CommentCreated {
        /// The comment.
        comment: CommentId,
        /// The post that it is under.
        post: PostId,
        /// The comment that it replies to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<CommentId>,
        /// Its author.
        author: UserId,
        /// Other users whom it mentions, at most [`MAX_MENTIONED`].
        mentions: Vec<UserId>,
    },
    /// Somebody follows somebody new.
    Followed {
        /// Who follows.
        follower: UserId,
        /// Whom.
        followee: UserId,
    },
}

impl Event {
    /// The event of a new post; `None` if nobody is to hear of it.
    pub fn post_created(post: &Post) -> Option<Self> {
        let mentions = others(&post.mentions, &post.author);
        (!mentions.is_empty()).then(|| Self::PostCreated { post: post.id, author: post.author.clone(), mentions })
    }

    /// The event of an edit; `None` if it mentions nobody new.
    pub fn post_edited(before: &Post, after: &Post) -> Option<Self> {
        let new: Vec<UserId> = after.mentions.iter().filter(|user| !before.mentions.contains(user)).cloned().collect();
        let mentions = others(&new, &after.author);
        (!mentions.is_empty()).then(|| Self::PostEdited { post: after.id, author: after.author.clone(), mentions })
    }

    /// The event of a new comment; `None` of one that is deleted.
    pub fn comment_created(comment: &Comment) -> Option<Self> {
        let author = comment.author.clone()?;
        let mentions = others(&comment.mentions, &author);
        Some(Self::CommentCreated { comment: comment.id, post: comment.post, parent: comment.parent, author, mentions })
    }

    /// How many users may have to be notified of it.
    pub fn recipients(&self) -> usize {
        match self {
            Self::PostCreated { mentions, .. } | Self::PostEdited { mentions, .. } => mentions.len(),
            Self::CommentCreated { mentions, .. } => mentions.len() + 2,
            Self::Followed { .. } => 1,
        }
    }
}

/// Those of the mentioned users who count: without the author, at most [`MAX_MENTIONED`].
pub fn others(mentions: &[UserId], author: &UserId) -> Vec<UserId> {
    mentions.iter().filter(|user| *user != author).take(MAX_MENTIONED).cloned().collect()
}
