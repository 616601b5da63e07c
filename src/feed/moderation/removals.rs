//! Removal and restoration of posts and comments.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::checked_reason;
use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_COMMENT, NO_POST, Result};
use crate::feed::input::{Done, OneComment, OnePost};
use crate::feed::posts::CommentService;
use crate::feed::runtime::now;
use crate::ledger::{EditOutcome, EventConsumer};
use crate::model::{CommentId, DomainEvent, Post, PostId};

/// The maximal number of attempts after conflicts with edits of the same post, and the pause between two of them.
const MAX_ATTEMPTS: u32 = 16;
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// The removal of a post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostRemoval {
    /// The post's id.
    id: PostId,
    /// The reason, for its author, 500 characters at most.
    #[serde(default)]
    reason: Option<String>,
}

/// The removal of a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentRemoval {
    /// The comment's id.
    id: CommentId,
    /// The reason, for its author, 500 characters at most.
    #[serde(default)]
    reason: Option<String>,
}

/// Removes and restores posts and comments, whatever the standing and the restrictions of their authors.
pub(crate) struct Removals {
    base: Arc<Base>,
    comments: Arc<CommentService>,
}

impl Removals {
    /// Removes posts and comments in this ledger.
    pub(crate) fn new(base: Arc<Base>, comments: Arc<CommentService>) -> Self {
        Self { base, comments }
    }

    pub(crate) async fn remove_post(&self, _: Caller, removal: PostRemoval) -> Result<Done> {
        let reason = checked_reason(removal.reason)?;
        self.replace(removal.id, |post, at| {
            let is_new = post.removed.is_none();
            is_new.then(|| (post.removed(reason.clone(), at), Some(DomainEvent::post_removed(post))))
        })
        .await
    }

    pub(crate) async fn restore_post(&self, _: Caller, post: OnePost) -> Result<Done> {
        self.replace(post.id, |post, _| Some((post.restored()?, None))).await
    }

    /// Replaces a post by compare-and-set, and waits until the change is in force on every node. `replacement` returns
    /// the new state and its event; `None`: the post is in that state already.
    async fn replace(
        &self,
        id: PostId,
        replacement: impl Fn(&Post, u64) -> Option<(Post, Option<DomainEvent>)> + Send,
    ) -> Result<Done> {
        for attempt in 0..MAX_ATTEMPTS {
            let before = self.base.ledger.posts(&[id]).await?.pop().ok_or(NO_POST)?;
            let at = now();
            let Some((after, event)) = replacement(&before, at) else {
                // An earlier attempt may have been stored, and not announced.
                self.base.invalidator.invalidate(&[Invalidation::Post(id)]).await?;
                return Ok(Done {});
            };
            let turn = self.base.jobs.begin_write(&before.author).await;
            match self.base.ledger.edit_post(&before, &after, event.as_ref(), at).await? {
                EditOutcome::Edited(jobs) => {
                    let invalidated = self.base.invalidator.announce(&[Invalidation::Post(id)]).await;
                    self.base.jobs.submit(jobs, turn);
                    self.base.events.wake(EventConsumer::Notifications);
                    self.base.invalidator.confirm(invalidated?).await;
                    return Ok(Done {});
                }
                EditOutcome::Missing => return Err(NO_POST),
                EditOutcome::Conflict => {}
            }
            let pause = MAX_PAUSE.min(Duration::from_millis(2 << attempt.min(8)));
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..1.0))).await;
        }
        Err(FeedError::Busy("this post is being edited by too many at once, try again"))
    }

    pub(crate) async fn remove_comment(&self, _: Caller, removal: CommentRemoval) -> Result<Done> {
        let reason = checked_reason(removal.reason)?;
        let found = self.base.ledger.comments(&[removal.id]).await?.pop().ok_or(NO_COMMENT)?;
        if found.author.is_none() && !self.is_removed(removal.id).await? {
            return Err(NO_COMMENT);
        }
        self.comments.take_out(&found, reason.as_deref()).await?;
        Ok(Done {})
    }

    pub(crate) async fn restore_comment(&self, _: Caller, comment: OneComment) -> Result<Done> {
        if let Some(removed) = self.base.ledger.removed_comments(&[comment.id]).await?.pop() {
            self.comments.put_back(removed).await?;
            return Ok(Done {});
        }
        let found = self.base.ledger.comments(&[comment.id]).await?.pop();
        found.and_then(|comment| comment.author).ok_or(NO_COMMENT)?;
        self.base.invalidator.invalidate(&[Invalidation::Comment(comment.id)]).await?;
        Ok(Done {})
    }

    async fn is_removed(&self, id: CommentId) -> Result<bool> {
        Ok(!self.base.ledger.removed_comments(&[id]).await?.is_empty())
    }
}
