//! Notifications of likes, for the authors of the liked objects.
//!
//! The settler writes events of new likes in its own transaction. The events are processed in rounds with pauses, so
//! that the notifications of one author are recorded together, and settling, which writes to the same disk, is not
//! slowed. In a burst of likes, only some hundred likes of one object are recorded in a round: notifications have the
//! lowest priority.

use std::collections::HashMap;

use super::PendingNotification;
use crate::feed::content::PostCache;
use crate::feed::error::Result;
use crate::feed::event_queue::PendingEvent;
use crate::feed::visibility::CommentContexts;
use crate::model::{ContentId, DomainEvent, NewLikes, NotificationKind, PostId, UserId};

/// Likes of one object that are recorded in one round.
const MAX_PER_OBJECT: usize = 500;

/// The notifications of the likes among events.
///
/// # Errors
/// If the ledger cannot be read.
pub(super) async fn like_notifications(
    posts: &PostCache,
    comments: &CommentContexts,
    batch: &[PendingEvent],
) -> Result<Vec<PendingNotification>> {
    let likes = bounded(batch);
    if likes.is_empty() {
        return Ok(Vec::new());
    }
    let comment_ids = likes.iter().filter_map(|like| match like.object {
        ContentId::Post(_) => None,
        ContentId::Comment(comment) => Some(comment),
    });
    let contexts = comments.get(comment_ids).await?;
    let post_ids = likes.iter().filter_map(|like| match like.object {
        ContentId::Post(post) => Some(post),
        ContentId::Comment(_) => None,
    });
    let posts = posts.get(post_ids.collect::<Vec<PostId>>()).await?;
    let mut liked: HashMap<ContentId, (UserId, PostId)> = HashMap::new();
    liked.extend(posts.values().map(|cached| {
        let post = cached.post.id;
        (ContentId::Post(post), (cached.post.author.clone(), post))
    }));
    liked.extend(
        contexts.into_iter().map(|(comment, context)| (ContentId::Comment(comment), (context.author, context.post))),
    );
    let notification = |Like { event, by, object }: Like<'_>| {
        // Deleted objects have no author, and users are not notified of their own likes.
        let (to, post) = liked.get(&object).filter(|(author, _)| author != by)?;
        let notification = PendingNotification::new(to, NotificationKind::Like(object), by).under(*post);
        Some(PendingNotification { event, ..notification })
    };
    Ok(likes.into_iter().filter_map(notification).collect())
}

/// A like, and the number of its event.
#[derive(Clone, Copy, Debug)]
struct Like<'a> {
    event: i64,
    by: &'a UserId,
    object: ContentId,
}

/// The likes that are recorded in this round.
fn bounded(batch: &[PendingEvent]) -> Vec<Like<'_>> {
    let mut by_object: HashMap<ContentId, usize> = HashMap::new();
    let mut all = Vec::new();
    let mut dropped = 0_usize;
    for (event, NewLikes { object, by }) in batch.iter().flat_map(|pending| match &pending.event {
        DomainEvent::Liked { likes } => likes.iter().map(|likes| (pending.seq, likes)).collect(),
        _ => Vec::new(),
    }) {
        let count = by_object.entry(*object).or_default();
        let taken = by.len().min(MAX_PER_OBJECT.saturating_sub(*count));
        *count += taken;
        dropped += by.len() - taken;
        all.extend(by[..taken].iter().map(|by| Like { event, by, object: *object }));
    }
    if dropped > 0 {
        tracing::warn!(dropped, "likes come too fast for all of them to be notified of");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likes_of_a_popular_object_are_bounded() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).expect("an id"), ContentId::Post(PostId(post)));
        let hot = (0..1_200).map(|n| like(n, 1));
        let others = (0..300).map(|n| like(n, 2 + n as u64));
        let events = DomainEvent::liked(&hot.chain(others).collect::<Vec<_>>(), usize::MAX);
        let batch: Vec<_> = (1..).zip(events).map(|(seq, event)| PendingEvent { seq, at: 0, event }).collect();
        let kept = bounded(&batch);
        assert_eq!(kept.len(), MAX_PER_OBJECT + 300);
        assert!(kept.iter().filter(|like| like.object == ContentId::Post(PostId(1))).all(|like| like.event <= 2));
    }
}
