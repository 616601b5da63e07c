//! The domain events of changes of posts and comments.

use super::domain_event::{DomainEvent, MAX_MENTIONED};
use super::{Comment, Post, PostId, UserId};

impl DomainEvent {
    /// The event of a new post; `None` if the post mentions no other users, unless the `outlet` wants every post.
    pub fn post_created(post: &Post, outlet: bool) -> Option<Self> {
        let mentions = others(&post.mentions, &post.author);
        let Post { repost, quote, .. } = *post;
        let is_wanted = outlet || !mentions.is_empty() || post.named().is_some();
        is_wanted.then(|| Self::PostCreated { post: post.id, author: post.author.clone(), mentions, repost, quote })
    }

    /// The event of a deleted post; `None` for `post`: it could not be decoded.
    pub fn post_deleted(id: PostId, author: &UserId, post: Option<&Post>) -> Self {
        Self::PostDeleted {
            post: id,
            author: author.clone(),
            mentions: post.map(|post| others(&post.mentions, author)).unwrap_or_default(),
            repost: post.and_then(|post| post.repost),
            quote: post.and_then(|post| post.quote),
        }
    }

    /// The event of an edit; `None` if it changes neither mentions nor the visibility. The outlet gets an event in any
    /// case.
    pub fn post_edited(before: &Post, after: &Post) -> Option<Self> {
        let author = &after.author;
        let unmentioned = added_mentions(&after.mentions, &before.mentions, author);
        let mentions = Self::newly_mentioned(before, after);
        let still_mentioned = (before.visibility != after.visibility).then(|| {
            let kept: Vec<UserId> =
                after.mentions.iter().filter(|user| before.mentions.contains(user)).cloned().collect();
            others(&kept, author)
        });
        let is_event = still_mentioned.is_some() || !(mentions.is_empty() && unmentioned.is_empty());
        let author = author.clone();
        is_event.then_some(Self::PostEdited { post: after.id, author, mentions, unmentioned, still_mentioned })
    }

    /// The users that an edit of a post newly mentions, at most [`MAX_MENTIONED`].
    pub fn newly_mentioned(before: &Post, after: &Post) -> Vec<UserId> {
        added_mentions(&before.mentions, &after.mentions, &after.author)
    }

    /// The event that an edit stores: with an outlet, every edit has one. A removal has its own, and its end has none.
    pub fn edit_for(event: Option<&Self>, before: &Post, after: &Post, outlet: bool) -> Option<Self> {
        let plain = || Self::PostEdited {
            post: after.id,
            author: after.author.clone(),
            mentions: Vec::new(),
            unmentioned: Vec::new(),
            still_mentioned: None,
        };
        let is_edit = before.removed == after.removed;
        event.cloned().or_else(|| (outlet && is_edit).then(plain))
    }

    /// The event of a new comment; `None` if the comment is deleted.
    pub fn comment_created(comment: &Comment) -> Option<Self> {
        let author = comment.author.clone()?;
        let mentions = others(&comment.mentions, &author);
        Some(Self::CommentCreated {
            comment: comment.id,
            post: comment.post,
            reply_to: comment.reply_to,
            author,
            mentions,
        })
    }

    /// The event of an edit of a comment; `None` if the edit neither adds mentions nor takes some out.
    pub fn comment_edited(before: &Comment, after: &Comment) -> Option<Self> {
        let author = after.author.clone()?;
        let mentions = added_mentions(&before.mentions, &after.mentions, &author);
        let unmentioned = added_mentions(&after.mentions, &before.mentions, &author);
        let is_event = !(mentions.is_empty() && unmentioned.is_empty());
        is_event.then_some(Self::CommentEdited { comment: after.id, author, mentions, unmentioned })
    }

    /// The event of the deletion of a comment; `None` if the comment is deleted already.
    pub fn comment_deleted(comment: &Comment) -> Option<Self> {
        let author = comment.author.clone()?;
        let mentions = others(&comment.mentions, &author);
        let Comment { id, post, reply_to, .. } = *comment;
        Some(Self::CommentDeleted { comment: id, post, reply_to, author, mentions })
    }

    /// The event of the removal of a post.
    pub fn post_removed(post: &Post) -> Self {
        let mentions = others(&post.mentions, &post.author);
        Self::PostRemoved { post: post.id, author: post.author.clone(), mentions }
    }

    /// The event of the removal of a comment; `None` if the comment is deleted already.
    pub fn comment_removed(comment: &Comment) -> Option<Self> {
        let author = comment.author.clone()?;
        let mentions = others(&comment.mentions, &author);
        let Comment { id, post, reply_to, .. } = *comment;
        Some(Self::CommentRemoved { comment: id, post, reply_to, author, mentions })
    }
}

/// The users that an edit newly mentions, without the author, at most [`MAX_MENTIONED`].
fn added_mentions(before: &[UserId], after: &[UserId], author: &UserId) -> Vec<UserId> {
    let new: Vec<UserId> = after.iter().filter(|user| !before.contains(user)).cloned().collect();
    others(&new, author)
}

/// The mentioned users without the author, at most [`MAX_MENTIONED`].
pub fn others(mentions: &[UserId], author: &UserId) -> Vec<UserId> {
    mentions.iter().filter(|user| *user != author).take(MAX_MENTIONED).cloned().collect()
}
