//! Who is notified of a like: whoever wrote what is liked.
//!
//! Settling writes events of new likes in its own transaction. They are worked off in rounds with pauses, so that
//! those of one author are noted together, and so that they do not get in the way of settling, which writes to the
//! same disk. Of one object not more than some hundred likes are noted in a round: in a storm, notifications are the
//! least of what a like is.

use std::collections::HashMap;

use super::super::notifications::Notice;
use super::super::{Feed, Result};
use super::looks::comment;
use crate::model::{Event, NewLikes, Object, PostId, UserId, What};

/// How many likes of one object are noted in a round.
const OF_ONE: usize = 500;

impl Feed {
    /// Who is to be notified of the likes among events.
    pub(in crate::feed) async fn like_notices(&self, batch: &[(i64, Event)]) -> Result<Vec<Notice>> {
        let likes = bounded(batch);
        if likes.is_empty() {
            return Ok(Vec::new());
        }
        let contexts = self.comment_contexts.get(likes.iter().filter_map(|like| comment(like.object))).await?;
        let posts = likes.iter().filter_map(|like| match like.object {
            Object::Post(post) => Some(post),
            Object::Comment(_) => None,
        });
        let bodies = self.post_cache.get(posts.collect::<Vec<PostId>>()).await?;
        let mut authors: HashMap<Object, UserId> = HashMap::new();
        authors.extend(bodies.values().map(|body| (Object::Post(body.post.id), body.post.author.clone())));
        authors.extend(contexts.into_iter().map(|(comment, context)| (Object::Comment(comment), context.author)));
        let notice = |Like { event, by, object }: Like<'_>| {
            // What was deleted meanwhile has nobody to hear of it, and nobody hears of their own.
            let to = authors.get(&object).filter(|author| *author != by)?;
            Some(Notice { event, ..Notice::new(to, What::Like(object), by) })
        };
        Ok(likes.into_iter().filter_map(notice).collect())
    }
}

/// A like, and the number of the event that it is of.
#[derive(Clone, Copy, Debug)]
struct Like<'a> {
    event: i64,
    by: &'a UserId,
    object: Object,
}

/// Those that are noted.
fn bounded(batch: &[(i64, Event)]) -> Vec<Like<'_>> {
    let mut of_each: HashMap<Object, usize> = HashMap::new();
    let mut all = Vec::new();
    let mut given_up = 0_usize;
    for (event, NewLikes { object, by }) in batch.iter().flat_map(|(seq, event)| match event {
        Event::Liked { likes } => likes.iter().map(|likes| (*seq, likes)).collect(),
        _ => Vec::new(),
    }) {
        let of_this = of_each.entry(*object).or_default();
        let taken = by.len().min(OF_ONE.saturating_sub(*of_this));
        *of_this += taken;
        given_up += by.len() - taken;
        all.extend(by[..taken].iter().map(|by| Like { event, by, object: *object }));
    }
    if given_up > 0 {
        tracing::warn!(given_up, "likes come too fast for all of them to be notified of");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_object_that_many_like_some_are_noted() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).expect("an id"), Object::Post(PostId(post)));
        let hot = (0..1_200).map(|n| like(n, 1));
        let others = (0..300).map(|n| like(n, 2 + n as u64));
        let events = Event::liked(&hot.chain(others).collect::<Vec<_>>(), usize::MAX);
        let batch: Vec<(i64, Event)> = (1..).zip(events).collect();
        let kept = bounded(&batch);
        assert_eq!(kept.len(), OF_ONE + 300);
        assert!(kept.iter().filter(|like| like.object == Object::Post(PostId(1))).all(|like| like.event <= 2));
    }
}
