//! Entries of the pull log for followers of topics and for lists. Nothing is appended if no list has the author and
//! nobody follows or lists a topic of the post. A repeated job appends an entry again; inboxes that have it ignore it.

use std::collections::BTreeSet;

use crate::broker::Signal;
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::ledger::SourcesInUse;
use crate::model::{Entry, GoneReason, Post, PostId, UserId, Visibility};

/// The number of newest posts of an author that a change of the account concerns: their topics select the recipients of
/// a suspension, and a lock hides these posts, an unlock shows them.
const MAX_POSTS: usize = 200;

/// Appends an entry for lists that have the author, and for followers and lists of these topics.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn append(base: &Base, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
    let SourcesInUse { is_listed, topics } = base.list_usage.sources_in_use(author, topics).await?;
    if !is_listed && topics.is_empty() {
        return Ok(());
    }
    base.ledger.pull_by_topics(author, entry, &topics, now()).await?;
    if let Err(error) = base.broker.signal(Signal::PullLogAppended).await {
        tracing::debug!(%error, "an entry of the pull log was not signalled, nodes poll it");
    }
    Ok(())
}

/// Appends an entry about a post.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn of_post(base: &Base, post: PostId, entry: &Entry) -> Result<()> {
    let Some(cached) = base.posts.get([post]).await?.remove(&post) else { return Ok(()) };
    append(base, &cached.post.author, topics_of(&cached.post, entry), entry).await
}

/// Announces an edit. `before`: the topics before it.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn edited(base: &Base, post: PostId, before: &[String]) -> Result<()> {
    let Some(cached) = base.posts.get([post]).await?.remove(&post) else { return Ok(()) };
    let Post { author, topics, visibility, .. } = &cached.post;
    append(base, author, topics, &Entry::Edited(post)).await?;
    let others_of = |some: &[String], others: &[String]| -> Vec<String> {
        some.iter().filter(|topic| !others.contains(topic)).cloned().collect()
    };
    let [added, removed] = [others_of(topics, before), others_of(before, topics)];
    if *visibility == Visibility::Public && !added.is_empty() {
        append(base, author, &added, &Entry::Post(post)).await?;
    }
    if !removed.is_empty() {
        append(base, author, &removed, &Entry::Gone(post, GoneReason::Hidden)).await?;
    }
    Ok(())
}

/// Announces that the newest posts of an author are for followers only now, or for all again.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn lock_changed(base: &Base, author: &UserId, is_locked: bool) -> Result<()> {
    for post in newest_posts(base, author).await? {
        if !matches!(post.visibility, Visibility::Public | Visibility::NotTo(_)) {
            continue;
        }
        let entry = if is_locked { Entry::Gone(post.id, GoneReason::Hidden) } else { Entry::Post(post.id) };
        append(base, author, topics_of(&post, &entry), &entry).await?;
    }
    Ok(())
}

/// Announces that an author was suspended.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn author_gone(base: &Base, author: &UserId, entry: &Entry) -> Result<()> {
    let posts = newest_posts(base, author).await?;
    let topics: BTreeSet<String> = posts.into_iter().flat_map(|post| post.topics).collect();
    append(base, author, &topics.into_iter().collect::<Vec<_>>(), entry).await
}

/// The newest posts of an author; none if nobody follows a topic or has a list.
async fn newest_posts(base: &Base, author: &UserId) -> Result<Vec<Post>> {
    if !base.followed_topics.are_in_use().await? && !base.list_usage.are_in_use().await? {
        return Ok(Vec::new());
    }
    let posts = base.ledger.author_posts(author, PostId::MAX, MAX_POSTS).await?;
    Ok(base.ledger.posts(&posts).await?)
}

/// The topics of a post whose followers get an entry about it. Topics have no reposts. Only public posts are added.
fn topics_of<'p>(post: &'p Post, entry: &Entry) -> &'p [String] {
    let is_offered = post.visibility == Visibility::Public || !matches!(entry, Entry::Post(_));
    if is_offered && post.repost.is_none() { &post.topics } else { &[] }
}
