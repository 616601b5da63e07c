//! Adds and removes posts in the log of a list, after its members changed, or what its owner may see of them.
//!
//! Pages of lists are read from the ledger, so the log is for open sockets and recoveries. Nothing is done for a list
//! without an inbox: nobody has read it lately.

use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::visibility::ViewContext;
use crate::ledger::MAX_LIST_POSTS;
use crate::model::{GoneReason, InboxId, ListMember, OwnedList, PostId, UserId};

/// Merges the newest posts of a new member into the log of a list, as far as the owner may see them.
///
/// # Errors
/// If a store cannot be reached.
pub(crate) async fn merge_member(base: &Base, list: &OwnedList, member: &ListMember) -> Result<()> {
    if base.broker.read_inbox(&InboxId::List(list.id)).await?.is_none() {
        return Ok(());
    }
    let most = base.options.timeline.follow_merge;
    let posts = match member {
        ListMember::User(user) => base.ledger.author_posts(user, PostId::MAX, most + 1).await?,
        ListMember::Topic(topic) => base.ledger.newest_with_topics(std::slice::from_ref(topic), most + 1).await?,
    };
    merge(base, list, posts).await?;
    // The member may have been removed before the posts were merged.
    purge_unlisted(base, list).await
}

/// Removes posts from the log of a list that are no longer by a member of it, and deleted ones: the queued removal of a
/// deleted post reaches the lists that have its author when it is delivered.
///
/// # Errors
/// If a store cannot be reached.
pub(crate) async fn purge_unlisted(base: &Base, list: &OwnedList) -> Result<()> {
    let inbox = InboxId::List(list.id);
    let Some(read) = base.broker.read_inbox(&inbox).await? else { return Ok(()) };
    let added = read.added_posts();
    let held = base.posts.get(added.iter().copied()).await?;
    let deleted: Vec<PostId> = added.into_iter().filter(|id| !held.contains_key(id)).collect();
    base.broker.purge_inbox(&inbox, &deleted, GoneReason::Deleted).await?;
    let listed = base.ledger.listed_among(list.id, &held.keys().copied().collect::<Vec<_>>()).await?;
    let mut gone: Vec<PostId> = held.into_keys().filter(|id| !listed.contains(id)).collect();
    gone.sort_unstable();
    base.broker.purge_inbox(&inbox, &gone, GoneReason::Unlisted).await?;
    Ok(())
}

/// Brings the logs of a user's lists in line with what the user may see of an author now.
///
/// # Errors
/// If a store cannot be reached.
pub(super) async fn sync_author(base: &Base, owner: &UserId, author: &UserId) -> Result<()> {
    if owner == author || !base.list_usage.are_in_use().await? {
        return Ok(());
    }
    let lists = base.ledger.lists(owner).await?;
    if lists.is_empty() {
        return Ok(());
    }
    let newest = base.ledger.author_posts(author, PostId::MAX, base.options.timeline.follow_merge + 1).await?;
    for list in lists {
        let Some(inbox) = base.broker.read_inbox(&InboxId::List(list.id)).await? else { continue };
        let list = OwnedList { owner: owner.clone(), id: list.id };
        let mut theirs = base.posts.get(inbox.added_posts()).await?;
        theirs.retain(|_, cached| cached.post.author == *author);
        let mut theirs: Vec<PostId> = theirs.into_keys().collect();
        theirs.sort_unstable();
        purge_hidden(base, &list, theirs).await?;
        let listed = base.ledger.listed_among(list.id, &newest).await?;
        merge(base, &list, newest.iter().copied().filter(|id| listed.contains(id)).collect()).await?;
    }
    Ok(())
}

/// The posts that fill the inbox of a list, newest first, as far as its owner may see them.
///
/// # Errors
/// If a store cannot be reached.
pub(super) async fn past_of_list(base: &Base, list: &OwnedList) -> Result<Vec<PostId>> {
    let mut posts = base.ledger.list_posts(list.id, PostId::MAX, MAX_LIST_POSTS).await?;
    let seen = base.visibility.visible_posts(Some(&list.owner), ViewContext::List, posts.iter().copied()).await?;
    posts.retain(|id| seen.contains_key(id));
    Ok(posts)
}

/// Removes those of `posts` from the inbox of a list that its owner may not see.
///
/// # Errors
/// If a store cannot be reached.
pub(super) async fn purge_hidden(base: &Base, list: &OwnedList, mut posts: Vec<PostId>) -> Result<()> {
    let seen = base.visibility.visible_posts(Some(&list.owner), ViewContext::List, posts.iter().copied()).await?;
    posts.retain(|id| !seen.contains_key(id));
    base.broker.purge_inbox(&InboxId::List(list.id), &posts, GoneReason::Hidden).await?;
    Ok(())
}

/// Merges posts, newest first, into the inbox of a list. Posts that the owner may not see are omitted.
async fn merge(base: &Base, list: &OwnedList, mut posts: Vec<PostId>) -> Result<()> {
    let most = base.options.timeline.follow_merge;
    let floor = posts.get(most).copied().unwrap_or(PostId::ZERO);
    posts.truncate(most);
    let seen = base.visibility.visible_posts(Some(&list.owner), ViewContext::List, posts.iter().copied()).await?;
    let merged: Vec<PostId> = posts.into_iter().rev().filter(|id| seen.contains_key(id)).collect();
    base.broker.merge_inbox(&InboxId::List(list.id), &merged, floor).await?;
    purge_hidden(base, list, merged).await
}
