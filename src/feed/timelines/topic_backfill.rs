//! Adds and removes posts of followed topics in a timeline.
//!
//! Unlike a follow of a user, a follow of a topic has no job: pages and deliveries follow the stored topics, and a
//! repeated command does again what an earlier attempt did not finish.

use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::visibility::ViewContext;
use crate::model::{GoneReason, InboxId, PostId, UserId};

/// Merges the newest posts of topics that a reader follows into the reader's inbox, as far as the reader may see them:
/// posts above the inbox's floor, up to a maximum. If there are more, the floor rises.
///
/// # Errors
/// If a store cannot be reached.
pub(crate) async fn merge_topics(base: &Base, reader: &UserId, topics: &[String]) -> Result<()> {
    let most = base.options.timeline.follow_merge;
    let mut posts = base.ledger.newest_with_topics(topics, most + 1).await?;
    let floor = posts.get(most).copied().unwrap_or(PostId::ZERO);
    posts.truncate(most);
    let seen = base.visibility.visible_posts(Some(reader), ViewContext::Inbox, posts.iter().copied()).await?;
    let merged: Vec<PostId> = posts.into_iter().rev().filter(|id| seen.contains_key(id)).collect();
    base.broker.merge_inbox(&InboxId::Timeline(reader.clone()), &merged, floor).await?;
    // The reader may have unfollowed a topic, or restricted an author, before the posts were merged.
    purge_unseen(base, reader, merged).await
}

/// Removes posts from a reader's inbox that do not belong to the timeline without a topic, and deleted ones: changes of
/// a post that are queued reach the followers of its topics when they are delivered.
///
/// # Errors
/// If a store cannot be reached.
pub(crate) async fn purge_topic(base: &Base, reader: &UserId, topic: &str) -> Result<()> {
    let Some(inbox) = base.broker.read_inbox(&InboxId::Timeline(reader.clone())).await? else { return Ok(()) };
    let held = inbox.added_posts();
    let posts = base.posts.get(held.iter().copied()).await?;
    let (there, deleted): (Vec<PostId>, Vec<PostId>) = held.into_iter().partition(|id| posts.contains_key(id));
    base.broker.purge_inbox(&InboxId::Timeline(reader.clone()), &deleted, GoneReason::Deleted).await?;
    purge_unseen(base, reader, there).await?;
    // A concurrent follow found the posts in the inbox and did not merge them.
    let topics = base.followed_topics.of(reader).await?;
    match topics.filter(|topics| topics.has(topic)) {
        Some(_) => merge_topics(base, reader, &[topic.to_owned()]).await,
        None => Ok(()),
    }
}

/// Removes those of `posts` from a reader's inbox that do not belong to the timeline.
async fn purge_unseen(base: &Base, reader: &UserId, mut posts: Vec<PostId>) -> Result<()> {
    let seen = base.visibility.visible_posts(Some(reader), ViewContext::Inbox, posts.iter().copied()).await?;
    posts.retain(|id| !seen.contains_key(id));
    base.broker.purge_inbox(&InboxId::Timeline(reader.clone()), &posts, GoneReason::Unfollowed).await?;
    Ok(())
}
