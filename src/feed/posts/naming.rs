//! What posts that repost or quote another one have in common.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::{Append, Invalidation};
use crate::feed::base::Base;
use crate::feed::content::CachedPost;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::Done;
use crate::feed::runtime::now;
use crate::ledger::EventConsumer;
use crate::model::{Channel, ClientEvent, Entry, PostId, Retention, UserId, VersionedCounts};

/// The post that a caller reposts or quotes: of a repost, the post that was reposted.
///
/// # Errors
/// [`FeedError::NotFound`] if the caller may not see it; [`FeedError::Forbidden`] if it was removed.
pub(crate) async fn named_post(base: &Base, caller: &UserId, id: PostId) -> Result<Arc<CachedPost>> {
    let mut cached = base.visibility.post(Some(caller), id).await?;
    if let Some(reposted) = cached.post.repost {
        cached = base.visibility.post(Some(caller), reposted).await?;
    }
    match cached.post.removed {
        Some(_) => Err(FeedError::Forbidden("this post was removed")),
        None => Ok(cached),
    }
}

/// A post of a caller, if it is stored: an earlier attempt of the same call stored it, whatever has changed since.
///
/// # Errors
/// If the ledger cannot be read.
pub(crate) async fn own_post(base: &Base, caller: &UserId, id: PostId) -> Result<Option<Arc<CachedPost>>> {
    Ok(base.posts.get([id]).await?.remove(&id).filter(|cached| cached.post.author == *caller))
}

/// Pushes the counts of a post that was reposted or quoted to its subscribers, `likes.counts_per_second` times a second
/// at most. A lost push is made good by the next one, and by each read of the post.
pub(crate) fn announce_counts(base: &Arc<Base>, post: PostId) {
    if !base.waiting_counts.add(post) {
        return;
    }
    let interval = Duration::from_secs(1) / base.options.likes.counts_per_second.max(1);
    let base = Arc::clone(base);
    base.clone().runtime.spawn(async move {
        base.runtime.sleep(interval).await;
        base.waiting_counts.remove(post);
        if let Err(error) = publish_counts(&base, post).await {
            tracing::debug!(%error, %post, "the counts of a post were not pushed");
        }
    });
}

async fn publish_counts(base: &Base, post: PostId) -> Result<()> {
    let VersionedCounts { counts, version } = base.ledger.versioned_counts(post).await?;
    let entry = Entry::Data(ClientEvent::all_counts(post, counts, version).encode());
    let channel = Channel::Post(post).to_string();
    let version = Some((version, "counts"));
    let retention = Retention::SHARED;
    base.broker.append(Append { channel: &channel, entry: &entry, retention, idempotency_key: None, version }).await?;
    Ok(())
}

/// Deletes a post of `author`, which may repost or quote another one.
///
/// # Errors
/// If a store cannot be reached.
pub(crate) async fn delete_stored(
    base: &Arc<Base>,
    author: &UserId,
    id: PostId,
    named: Option<PostId>,
) -> Result<Done> {
    let turn = base.jobs.begin_write(author).await;
    let job = base.ledger.delete_post(id, author, now()).await?;
    base.events.wake(EventConsumer::Notifications);
    let mut changed = vec![Invalidation::Post(id)];
    changed.extend(named.map(Invalidation::Reposts));
    let invalidated = base.invalidator.announce(&changed).await;
    // Without a job, a concurrent deletion came first, and its job removes the post.
    base.jobs.submit(job, turn);
    base.invalidator.confirm(invalidated?).await;
    if let Some(named) = named {
        announce_counts(base, named);
    }
    Ok(Done {})
}
