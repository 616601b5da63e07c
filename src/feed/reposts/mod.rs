//! Reposts and quotes.
//!
//! A repost is a post without content that shows another post to the followers of its author. A quote is a post that
//! shows another post below its own text. Both name that post by its id. Access is checked on each read: a repost is
//! visible to those who may see both posts; a quote is shown without the quoted post to those who may not see that one.

mod input;
mod quotes;

use std::sync::Arc;

use serde_json::value::RawValue;

pub(crate) use input::{QuoteList, QuotesOfUser, RepostDraft};
pub(crate) use quotes::QuoteService;

use super::call::{Call, Caller};
use super::content::CachedPost;
use super::error::{FeedError, NO_POST, Result};
use super::input::{Done, OnePost, PostList, UserPage};
use super::paging::PageBuilder;
use super::posts::{announce_counts, delete_stored, named_post, own_post};
use super::runtime::now;
use super::visibility::ViewContext;
use crate::broker::{Attempt, Invalidation};
use crate::feed::base::Base;
use crate::ledger::{EventConsumer, JOBS, NamingOutcome};
use crate::model::{Post, PostId, UserId, Visibility};

/// The maximal number of reads for one page of reposts or quotes if the reader may not see enough of them. After that
/// the page is short, and its cursor continues.
const MAX_READS: usize = 5;

/// Creates, ends and lists reposts.
pub(crate) struct RepostService {
    base: Arc<Base>,
}

impl RepostService {
    /// Manages the reposts in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn repost(&self, call: Call, draft: RepostDraft) -> Result<Box<RawValue>> {
        let author = call.caller.user()?;
        let id = self.base.ids.for_call(&call, now())?;
        if call.attempt == Attempt::Repeated
            && let Some(stored) = own_post(&self.base, author, id).await?
        {
            return self.rendered(author, stored.post.id).await;
        }
        let reposted = named_post(&self.base, author, draft.id).await?;
        let visibility = match self.visibility(author, &reposted, draft.visibility.into()).await {
            Ok(visibility) => visibility,
            // The first repost stays, even if the post could not be reposted now.
            Err(refused) => {
                let existing = self.base.ledger.repost_by(author, reposted.post.id).await?;
                return self.rendered(author, existing.ok_or(refused)?).await;
            }
        };
        let post = Post::repost(id, author, reposted.post.id, visibility);
        let ticket = self.base.posts.ticket(id);
        let turn = self.base.jobs.begin_write(author).await;
        let new = match self.base.ledger.create_naming_post(&post, call.trace).await? {
            NamingOutcome::Stored(new) => new,
            NamingOutcome::Before => return self.rendered(author, id).await,
            NamingOutcome::Reposted(existing) => return self.rendered(author, existing).await,
            NamingOutcome::NoPost => return Err(NO_POST),
        };
        let cached = self.base.posts.insert_new(post, ticket)?;
        self.base.tracer.note_post(id, call.trace);
        let invalidated = self.base.invalidator.announce(&[Invalidation::Reposts(reposted.post.id)]).await;
        let (merged, _noted) =
            tokio::join!(self.base.broker.add_own_post(author, id), self.base.lineage.note_number(JOBS, new.job.id.0));
        if let Err(error) = merged {
            tracing::warn!(%error, post = %id, "a repost is stored, its author's timeline will follow");
        }
        self.base.jobs.submit([new], turn);
        self.base.events.wake(EventConsumer::Notifications);
        announce_counts(&self.base, reposted.post.id);
        self.base.invalidator.confirm(invalidated?).await;
        self.base.post_renderer.render(Some(author), &[cached]).await?.pop().ok_or(NO_POST)
    }

    async fn rendered(&self, author: &UserId, id: PostId) -> Result<Box<RawValue>> {
        let cached = self.base.posts.get([id]).await?.remove(&id).ok_or(NO_POST)?;
        self.base.post_renderer.render(Some(author), &[cached]).await?.pop().ok_or(NO_POST)
    }

    /// The visibility of a repost. A post of others must be visible to everyone, and its author to the caller without a
    /// request: the caller would not see the repost. The message does not tell that an author is limited. One's own
    /// post is never shown to more than it was.
    ///
    /// # Errors
    /// [`FeedError::Forbidden`] if the post may not be reposted.
    async fn visibility(&self, author: &UserId, reposted: &CachedPost, asked: Visibility) -> Result<Visibility> {
        let post = &reposted.post;
        if post.author == *author {
            return Ok(if post.visibility == Visibility::Public { asked } else { post.visibility.clone() });
        }
        let is_open = matches!(post.visibility, Visibility::Public | Visibility::NotTo(_));
        let seen = self.base.visibility.visible_posts(Some(author), ViewContext::Unrequested, [post.id]).await?;
        if seen.is_empty() && self.base.relations.between(author, &post.author).await?.muted {
            return Err(FeedError::Forbidden("posts by users that you mute cannot be reposted"));
        }
        if seen.is_empty() || !is_open || self.base.relations.is_locked(&post.author).await? {
            return Err(FeedError::Forbidden("only posts that everyone may see can be reposted"));
        }
        Ok(asked)
    }

    /// Ends a repost of the caller, named by the repost or by the post. Without one, nothing happens.
    pub(crate) async fn unrepost(&self, call: Call, post: OnePost) -> Result<Done> {
        let author = call.caller.user()?;
        let named = self.base.posts.get([post.id]).await?.remove(&post.id);
        let reposted = named.and_then(|cached| cached.post.repost).unwrap_or(post.id);
        match self.base.ledger.repost_by(author, reposted).await? {
            Some(repost) => delete_stored(&self.base, author, repost, Some(reposted)).await,
            // An earlier attempt may have been stored, and not announced.
            None => {
                self.base.invalidator.invalidate(&[Invalidation::Reposts(reposted)]).await?;
                Ok(Done {})
            }
        }
    }

    pub(crate) async fn reposters(&self, caller: Caller, list: PostList) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode::<PostId>()?;
        let reader = caller.reader();
        let cached = self.base.visibility.post(reader, list.id).await?;
        let post = cached.post.repost.unwrap_or(list.id);
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants() {
            let reposts = self.base.ledger.reposts_of(post, before.unwrap_or(PostId::MAX), count).await?;
            let ids: Vec<PostId> = reposts.iter().map(|listed| listed.repost).collect();
            let visible = self.base.visibility.visible_posts(reader, ViewContext::Direct, ids).await?;
            page.take(reposts.into_iter().map(|listed| {
                let user = visible.contains_key(&listed.repost).then_some(listed.user);
                (listed.repost, user)
            }));
        }
        Ok(page.finish().into())
    }
}
