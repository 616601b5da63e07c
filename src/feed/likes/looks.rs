//! Whether an object is there to be liked: from memory if that can tell.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use super::super::{Feed, Result, now};
use super::{LOOK, NO_COMMENT, NO_POST, ON_TRUST};
use crate::model::{CommentId, Object, PostId, UserId};

/// Where a comment stands.
#[derive(Clone, Debug)]
pub(super) struct Under {
    /// Under which post.
    pub(super) post: PostId,
    /// Who wrote it.
    pub(super) author: UserId,
}

fn comment(object: Object) -> Option<CommentId> {
    match object {
        Object::Comment(comment) => Some(comment),
        Object::Post(_) => None,
    }
}

impl Feed {
    /// Refuses what memory can tell is not to be liked. Where it cannot tell, and the ledger does not answer either,
    /// settling will.
    pub(super) async fn may_like(&self, user: &UserId, object: Object) -> Result<()> {
        let trusted = &self.likes.on_trust;
        if now() < trusted.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Object::Post(post) = object
            && self.sees_public(user, post) == Some(true)
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
                trusted.store(now().saturating_add(while_long), Ordering::Relaxed);
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
    /// wrote it.
    pub(super) async fn each_may_like(&self, pairs: &[(UserId, Object)]) -> Result<Vec<bool>> {
        let under = self.under(pairs.iter().map(|(_, object)| *object)).await?;
        let place = |object: &Object| match object {
            Object::Post(post) => Some((*post, None)),
            Object::Comment(comment) => under.get(comment).map(|under| (under.post, Some(under.author.clone()))),
        };
        let (mut posts, mut people) = (Vec::new(), Vec::new());
        for (user, (post, author)) in pairs.iter().filter_map(|(user, object)| Some((user, place(object)?))) {
            posts.push((user.clone(), post));
            people.extend(author.map(|author| (user.clone(), author)));
        }
        let mut sees_post = self.each_sees(&posts).await?.into_iter();
        let mut sees_person = self.each_sees_person(&people).await?.into_iter();
        let may = |(_, object): &(UserId, Object)| match place(object) {
            None => false,
            Some((_, None)) => sees_post.next() == Some(true),
            Some((_, Some(_))) => [sees_post.next(), sees_person.next()] == [Some(true); 2],
        };
        Ok(pairs.iter().map(may).collect())
    }

    /// Where those of `objects` that are comments stand, of those that are there.
    pub(super) async fn under(
        &self,
        objects: impl Iterator<Item = Object> + Send,
    ) -> Result<HashMap<CommentId, Under>> {
        let comments: HashSet<CommentId> = objects.filter_map(comment).collect();
        let known = &self.likes.under;
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        for comment in comments {
            match known.get(&comment) {
                Some(under) => found.extend(under.map(|under| (comment, under))),
                None => missing.push(comment),
            }
        }
        if !missing.is_empty() {
            for comment in self.ledger.comments(&missing).await? {
                let under = comment.author.map(|author| Under { post: comment.post, author });
                found.extend(under.map(|under| (comment.id, under)));
            }
            for comment in &missing {
                known.insert(*comment, found.get(comment).cloned());
            }
        }
        Ok(found)
    }
}
