//! Who may comment on a post, of the users who can see it.

use std::collections::HashSet;

use super::policy::VisibilityPolicy;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::model::{CommentPolicy, Post, PostId, UserId};

/// Whether the policy of a post needs to be checked for a reader: most posts are open to all, and authors may always
/// comment, except on a removed post and on a repost.
fn is_limited(post: &Post, reader: &UserId) -> bool {
    is_closed_to_all(post) || (post.comment_policy != CommentPolicy::Everyone && post.author != *reader)
}

/// Whether nobody may comment on a post: it was removed, or it is a repost, whose comments are those of the other post.
fn is_closed_to_all(post: &Post) -> bool {
    post.removed.is_some() || post.repost.is_some()
}

/// Whether a reader may comment on a post that [`is_limited`]. `follows`: whether the reader follows its author.
fn admits(post: &Post, reader: &UserId, follows: bool) -> bool {
    !is_closed_to_all(post)
        && match post.comment_policy {
            CommentPolicy::Everyone => true,
            CommentPolicy::Followers => follows,
            CommentPolicy::Mentioned => post.mentions.contains(reader),
            CommentPolicy::Nobody => false,
        }
}

/// The posts among these, which the reader can see, on which the reader may not comment, as far as the caches know.
/// Only posts that followers may comment on need relations.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn closed_to_comments(
    policy: &VisibilityPolicy,
    reader: &UserId,
    posts: impl IntoIterator<Item = &CachedPost> + Send,
) -> Result<HashSet<PostId>> {
    let limited: Vec<&Post> =
        posts.into_iter().map(|cached| &cached.post).filter(|post| is_limited(post, reader)).collect();
    let for_followers = limited.iter().filter(|post| post.comment_policy == CommentPolicy::Followers);
    let authors: HashSet<UserId> = for_followers.map(|post| post.author.clone()).collect();
    let followed = policy.followees_among(reader, authors).await?;
    let closed = limited.into_iter().filter(|post| !admits(post, reader, followed.contains(&post.author)));
    Ok(closed.map(|post| post.id).collect())
}

/// Whether a reader who can see a post may comment on it. A cached denial may be from before a follow, so it is
/// verified.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn may_comment(policy: &VisibilityPolicy, reader: &UserId, cached: &CachedPost) -> Result<bool> {
    if closed_to_comments(policy, reader, [cached]).await?.is_empty() {
        return Ok(true);
    }
    let post = &cached.post;
    if !admits(post, reader, true) {
        return Ok(false);
    }
    let pair = (reader.clone(), post.author.clone());
    let relations = policy.relations.reload(HashSet::from([pair])).await?;
    Ok(relations.get(reader, &post.author).is_some_and(|relation| relation.follows))
}
