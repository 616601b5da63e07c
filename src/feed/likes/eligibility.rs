//! Eligibility: whether a user may like an object, decided from the caches where possible.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::feed::base::Base;
use crate::feed::error::{NO_COMMENT, NO_POST, Result};
use crate::feed::runtime::now;
use crate::feed::visibility::CommentContext;
use crate::model::{CommentId, ContentId, PostId, UserId};

/// How long a like waits for the ledger. After a timeout, likes are accepted unchecked for [`UNCHECKED_PERIOD`]: the
/// settler checks them, and reverts those that are not allowed.
pub(super) const LEDGER_TIMEOUT: Duration = Duration::from_millis(500);
const UNCHECKED_PERIOD: Duration = Duration::from_secs(2);

/// Checks likes.
pub(crate) struct Eligibility {
    base: Arc<Base>,
    /// Until when likes are accepted unchecked, in Unix milliseconds.
    unchecked_until: AtomicU64,
}

impl Eligibility {
    /// Checks against this policy.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base, unchecked_until: AtomicU64::new(0) }
    }

    /// Whether likes are accepted unchecked, because the ledger did not answer recently.
    pub(super) fn is_unchecked(&self) -> bool {
        now() < self.unchecked_until.load(Ordering::Relaxed)
    }

    /// Refuses a like of an object that does not exist or that the user may not see. If neither the caches nor the
    /// ledger can decide, the like is accepted, and the settler decides.
    ///
    /// # Errors
    /// [`NO_POST`] or [`NO_COMMENT`].
    pub(super) async fn check(&self, user: &UserId, object: ContentId) -> Result<()> {
        if self.is_unchecked() {
            return Ok(());
        }
        if let ContentId::Post(post) = object
            && self.base.visibility.can_see_from_cache(user, post) == Some(true)
        {
            return Ok(());
        }
        // Boxed, so that the futures of likes that need no ledger call stay small.
        match tokio::time::timeout(LEDGER_TIMEOUT, Box::pin(self.check_in_ledger(user, object))).await {
            Ok(Err(error)) if !error.is_temporary() => Err(error),
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(?object, "the ledger does not answer, likes are taken on trust for a while");
                let period = u64::try_from(UNCHECKED_PERIOD.as_millis()).unwrap_or(u64::MAX);
                self.unchecked_until.store(now().saturating_add(period), Ordering::Relaxed);
                Ok(())
            }
        }
    }

    async fn check_in_ledger(&self, user: &UserId, object: ContentId) -> Result<()> {
        if self.may_like(&[(user.clone(), object)]).await?.contains(&true) {
            return Ok(());
        }
        if let ContentId::Post(post) = object {
            self.base.visibility.post(Some(user), post).await?.check_is_no_repost()?;
        }
        Err(match object {
            ContentId::Post(_) => NO_POST,
            ContentId::Comment(_) => NO_COMMENT,
        })
    }

    /// For each user and object, whether the user may like it: the post must be visible. For a comment, its author and
    /// the authors of its ancestors must be visible too.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn may_like(&self, pairs: &[(UserId, ContentId)]) -> Result<Vec<bool>> {
        let mut contexts = self.base.contexts.get(pairs.iter().filter_map(|(_, object)| comment(*object))).await?;
        let may = self.may_like_in(pairs, &contexts).await?;
        // A deleted ancestor does not hide the comments below it, so cached denials are re-verified before use.
        let refused = pairs.iter().zip(&may).filter(|(_, may)| !**may).filter_map(|((_, object), _)| comment(*object));
        let is_cached = |comment: &CommentId| {
            contexts.get(comment).is_some_and(|context| context.is_cached && !context.ancestors.is_empty())
        };
        let again: HashSet<CommentId> = refused.filter(is_cached).collect();
        if again.is_empty() {
            return Ok(may);
        }
        for comment in &again {
            self.base.contexts.invalidate(*comment);
            contexts.remove(comment);
        }
        contexts.extend(self.base.contexts.get(again.into_iter()).await?);
        self.may_like_in(pairs, &contexts).await
    }

    async fn may_like_in(
        &self,
        pairs: &[(UserId, ContentId)],
        contexts: &HashMap<CommentId, CommentContext>,
    ) -> Result<Vec<bool>> {
        let place = |object: &ContentId| match object {
            ContentId::Post(post) => Some((*post, None)),
            ContentId::Comment(comment) => contexts.get(comment).map(|context| (context.post, Some(context))),
        };
        let mut posts = Vec::new();
        let mut people = Vec::new();
        for (user, (post, context)) in pairs.iter().filter_map(|(user, object)| Some((user, place(object)?))) {
            posts.push((user.clone(), post));
            let authors = context.iter().flat_map(|context| context.people());
            people.extend(authors.map(|person| (user.clone(), person.clone())));
        }
        // Likes of reposts are meant for the post that was reposted.
        let cached = self.base.posts.get(posts.iter().map(|(_, post)| *post)).await?;
        let is_repost = |post: &PostId| cached.get(post).is_some_and(|cached| cached.post.repost.is_some());
        let seen = self.base.visibility.can_see_posts(&posts).await?;
        let mut sees_post = seen.into_iter().zip(&posts).map(|(sees, (_, post))| sees && !is_repost(post));
        let mut sees_person = self.base.visibility.can_see_users(&people).await?.into_iter();
        let may = |(_, object): &(UserId, ContentId)| {
            let Some((_, context)) = place(object) else { return false };
            let people = context.map_or(0, |context| context.people().count());
            // Consumes all results of this pair, so that the next pair gets its own.
            let invisible = sees_person.by_ref().take(people).filter(|sees| !sees).count();
            sees_post.next() == Some(true) && invisible == 0
        };
        Ok(pairs.iter().map(may).collect())
    }
}

/// The comment, if the object is one.
pub(super) fn comment(object: ContentId) -> Option<CommentId> {
    match object {
        ContentId::Comment(comment) => Some(comment),
        ContentId::Post(_) => None,
    }
}
