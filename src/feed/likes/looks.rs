//! Whether an object is there to be liked: from memory if that can tell.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use super::super::error::{NO_COMMENT, NO_POST};
use super::super::visibility::CommentContext;
use super::super::{Feed, Result, now};
use super::{LOOK, ON_TRUST};
use crate::model::{CommentId, Object, UserId};

pub(super) fn comment(object: Object) -> Option<CommentId> {
    match object {
        Object::Comment(comment) => Some(comment),
        Object::Post(_) => None,
    }
}

impl Feed {
    /// Refuses what memory can tell is not to be liked. Where it cannot tell, and the ledger does not answer either,
    /// settling will.
    pub(super) async fn may_like(&self, user: &UserId, object: Object) -> Result<()> {
        if self.likes.on_trust() {
            return Ok(());
        }
        if let Object::Post(post) = object
            && self.visibility.can_see_from_cache(user, post) == Some(true)
        {
            return Ok(());
        }
        // What takes longer is kept apart, so that the others do not carry what it needs.
        match tokio::time::timeout(LOOK, Box::pin(self.look_at(user, object))).await {
            Ok(Err(error)) if !error.is_temporary() => Err(error),
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(?object, "the ledger does not answer, likes are taken on trust for a while");
                let while_long = u64::try_from(ON_TRUST.as_millis()).unwrap_or(u64::MAX);
                self.likes.on_trust.store(now().saturating_add(while_long), Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Whether an object is there for this user.
    async fn look_at(&self, user: &UserId, object: Object) -> Result<()> {
        if self.each_may_like(&[(user.clone(), object)]).await?.contains(&true) {
            return Ok(());
        }
        Err(match object {
            Object::Post(_) => NO_POST,
            Object::Comment(_) => NO_COMMENT,
        })
    }

    /// Of each user and object, in their order, whether the object is there for them: the post, and of a comment also who
    /// wrote it and all that is above it.
    pub(super) async fn each_may_like(&self, pairs: &[(UserId, Object)]) -> Result<Vec<bool>> {
        let mut under = self.comment_contexts.get(pairs.iter().filter_map(|(_, object)| comment(*object))).await?;
        let may = self.each_may_there(pairs, &under).await?;
        // Whoever has deleted theirs keeps nobody away from what is below: a no out of memory is asked again.
        let refused = pairs.iter().zip(&may).filter(|(_, may)| !**may).filter_map(|((_, object), _)| comment(*object));
        let again = |comment: &CommentId| under.get(comment).is_some_and(|it| it.is_cached && !it.ancestors.is_empty());
        let again: HashSet<CommentId> = refused.filter(again).collect();
        if again.is_empty() {
            return Ok(may);
        }
        for comment in &again {
            self.comment_contexts.invalidate(*comment);
            under.remove(comment);
        }
        under.extend(self.comment_contexts.get(again.into_iter()).await?);
        self.each_may_there(pairs, &under).await
    }

    async fn each_may_there(
        &self,
        pairs: &[(UserId, Object)],
        under: &HashMap<CommentId, CommentContext>,
    ) -> Result<Vec<bool>> {
        let place = |object: &Object| match object {
            Object::Post(post) => Some((*post, None)),
            Object::Comment(comment) => under.get(comment).map(|under| (under.post, Some(under))),
        };
        let (mut posts, mut people) = (Vec::new(), Vec::new());
        for (user, (post, under)) in pairs.iter().filter_map(|(user, object)| Some((user, place(object)?))) {
            posts.push((user.clone(), post));
            people.extend(under.iter().flat_map(|under| under.people()).map(|person| (user.clone(), person.clone())));
        }
        let mut sees_post = self.visibility.can_see_posts(&posts).await?.into_iter();
        let mut sees_person = self.visibility.can_see_users(&people).await?.into_iter();
        let may = |(_, object): &(UserId, Object)| {
            let Some((_, under)) = place(object) else { return false };
            let people = under.map_or(0, |under| under.people().count());
            // All of theirs are taken, or the next would get what is left.
            let unseen = sees_person.by_ref().take(people).filter(|sees| !sees).count();
            sees_post.next() == Some(true) && unseen == 0
        };
        Ok(pairs.iter().map(may).collect())
    }
}
