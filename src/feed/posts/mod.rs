//! Posts: created, read, edited and deleted; and the comments on them.

mod comment_reader;
mod comments;
mod draft;
mod edits;
mod naming;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) use comment_reader::{CommentPage, CommentReader};
pub(crate) use comments::{CommentDraft, CommentEdit, CommentService};
use draft::refuse_own_api;
pub(crate) use draft::{Draft, mentioned};
pub(crate) use edits::{Edit, PostEditor};
pub(crate) use naming::{announce_counts, delete_stored, named_post, own_post};

use super::call::{Call, Caller};
use super::content::{CachedPost, append_members, with_counts};
use super::error::{FeedError, NO_POST, Result};
use super::input::{AuthorList, AuthorPosts, Done, OnePost, PostFeed, PostPage, PostsByIds, ReadPost, check_ids};
use super::paging::{PageBuilder, PostPageBuilder};
use super::runtime::now;
use super::visibility::{ViewContext, check_lists, shows_content};
use crate::broker::{Attempt, Invalidation};
use crate::feed::base::Base;
use crate::feed::status::ledger_kind;
use crate::ledger::{EventConsumer, JOBS, NamingOutcome, NewJob, VisiblePosts};
use crate::model::{FilterContext, Person, Post, PostCounts, PostFlags, PostId, Quotable, TraceContext, UserId};
use crate::telemetry::SpanKind;

/// The maximal number of reads for one page of everybody's posts, or of the posts that a user likes, if the reader may
/// not see enough of them. After that the page is short, and its cursor continues.
const MAX_READS: usize = 5;

/// Creates, reads and deletes posts.
pub(crate) struct PostService {
    base: Arc<Base>,
}

impl PostService {
    /// Manages the posts in this ledger. Submits their fan-out to the job queue of `write`.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn create(&self, call: Call, draft: Draft) -> Result<Box<RawValue>> {
        let author = call.caller.user()?;
        let now = now();
        refuse_own_api(&draft.media, draft.data.as_ref(), &self.base.options.own_hosts)?;
        let mut post = draft.into_post(author, self.base.ids.for_call(&call, now)?, &self.base.options.limits)?;
        self.base.rates.take_topics(&call, post.topics.len())?;
        if let Some(quoted) = post.quote {
            if call.attempt == Attempt::Repeated
                && let Some(stored) = own_post(&self.base, author, post.id).await?
            {
                return self.created(author, stored).await;
            }
            post.quote = Some(self.quoted(author, quoted).await?);
        }
        let ((), known) = tokio::try_join!(
            self.base.rates.take_mentions(&call, &post.mentions),
            self.base.identity.spellings(post.mentions.iter().chain(post.visibility.named())),
        )?;
        UserId::respell(post.mentions.iter_mut().chain(post.visibility.named_mut()), &known);
        let ticket = self.base.posts.ticket(post.id);
        let turn = self.base.jobs.begin_write(author).await;
        let Some(new) = self.store(&post, call.trace).await? else {
            // An earlier attempt stored the post together with its job. Returns the same reply.
            return self.created(author, CachedPost::new(post, false)?).await;
        };
        let cached = self.base.posts.insert_new(post, ticket)?;
        // For the author's own sockets here, which may receive the post before its fan-out begins.
        self.base.tracer.note_post(cached.post.id, call.trace);
        // Adds the post to the author's timeline before the reply. Records the number of the job concurrently, so that
        // the worker need not wait for it.
        let (merged, _noted) = tokio::join!(
            self.base.broker.add_own_post(author, cached.post.id),
            self.base.lineage.note_number(JOBS, new.job.id.0),
        );
        if let Err(error) = merged {
            tracing::warn!(%error, post = %cached.post.id, "a post is stored, its author's timeline will follow");
        }
        self.base.jobs.submit([new], turn);
        // Nobody is notified of a post without mentions and quotes: it has an event for the outlet at most.
        let is_silent = cached.post.mentions.is_empty() && cached.post.quote.is_none();
        self.base.events.wake(if is_silent { EventConsumer::Outlet } else { EventConsumer::Notifications });
        if let Some(quoted) = cached.post.quote {
            announce_counts(&self.base, quoted);
        }
        self.created(author, cached).await
    }

    /// The reply to the author of a new post.
    async fn created(&self, author: &UserId, cached: Arc<CachedPost>) -> Result<Box<RawValue>> {
        if cached.post.quote.is_some() {
            return self.base.post_renderer.render(Some(author), &[cached]).await?.pop().ok_or(NO_POST);
        }
        with_counts(cached.json_for(Some(author)), PostCounts::default(), Some(PostFlags::default()))
    }

    /// The post that the caller quotes.
    ///
    /// # Errors
    /// [`NO_POST`] if the caller may not see it; [`FeedError::Forbidden`] if its author does not let the caller quote
    /// it.
    async fn quoted(&self, caller: &UserId, id: PostId) -> Result<PostId> {
        let cached = named_post(&self.base, caller, id).await?;
        let author = &cached.post.author;
        if author == caller {
            return Ok(cached.post.id);
        }
        let profile = self.base.ledger.profile(author, Some(caller), now()).await?.ok_or(NO_POST)?;
        let may_quote = match profile.about.quotable {
            Quotable::Everyone => true,
            Quotable::Followers => profile.edges.following,
            Quotable::Nobody => false,
        };
        if may_quote { Ok(cached.post.id) } else { Err(FeedError::Forbidden("the author limits who may quote them")) }
    }

    /// Commits a post and its job.
    async fn store(&self, post: &Post, trace: Option<TraceContext>) -> Result<Option<NewJob>> {
        let mut span = self.base.tracer.child(trace, "create_post", SpanKind::Client);
        if span.is_recorded() {
            span.set("db.system.name", ledger_kind(&self.base.ledger.place()));
        }
        let stored = match post.quote {
            None => self.base.ledger.create_post(post, trace).await.map_err(FeedError::from),
            Some(_) => match self.base.ledger.create_naming_post(post, trace).await {
                Ok(NamingOutcome::Stored(new)) => Ok(Some(new)),
                Ok(NamingOutcome::Before | NamingOutcome::Reposted(_)) => Ok(None),
                Ok(NamingOutcome::NoPost) => Err(NO_POST),
                Err(error) => Err(error.into()),
            },
        };
        if stored.is_err() {
            span.fail("not committed");
        }
        span.end();
        stored
    }

    pub(crate) async fn get(&self, caller: Caller, post: ReadPost) -> Result<Box<RawValue>> {
        #[derive(Serialize)]
        struct People {
            people: BTreeMap<UserId, Person>,
        }
        let expand = post.expand.decode()?;
        let cached = self.base.visibility.post(caller.reader(), post.id).await?;
        let PostPage { mut items, people, .. } =
            self.base.post_renderer.render_page(caller.reader(), &[cached], None, &expand).await?;
        let post = items.pop().ok_or(NO_POST)?;
        if expand.people { append_members(&post, &People { people }) } else { Ok(post) }
    }

    pub(crate) async fn many(&self, caller: Caller, list: PostsByIds) -> Result<PostPage> {
        let expand = list.expand.decode()?;
        check_ids(&list.ids)?;
        let reader = caller.reader();
        let mut visible =
            self.base.visibility.visible_posts(reader, ViewContext::Direct, list.ids.iter().copied()).await?;
        // An id that is named twice is returned at its first place.
        let posts: Vec<_> = list.ids.iter().filter_map(|id| visible.remove(id)).collect();
        self.base.post_renderer.render_page(reader, &posts, None, &expand).await
    }

    pub(crate) async fn explore(&self, caller: Caller, list: PostFeed) -> Result<PostPage> {
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let mut page = PostPageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants_posts() {
            let ids = self.base.ledger.public_posts(before, count).await?;
            let mut visible = self.base.visibility.posts_for_all(caller.reader(), ids.iter().copied()).await?;
            self.base.content_filter.remove_hidden(caller.reader(), FilterContext::Topics, &mut visible).await?;
            page.take_posts(&ids, &visible);
        }
        let (items, next) = page.finish();
        self.base.post_renderer.render_filtered(caller.reader(), &items, next, &expand, FilterContext::Topics).await
    }

    pub(crate) async fn delete(&self, call: Call, post: OnePost) -> Result<Done> {
        let id = post.id;
        let done = self.delete_own_post(&call.caller, post).await;
        self.base.invalidator.repeated_deletion(&call, done, Invalidation::Post(id)).await
    }

    async fn delete_own_post(&self, caller: &Caller, post: OnePost) -> Result<Done> {
        let author = caller.user()?;
        // Their author can delete reposts of posts that they may not see any more.
        let found = self.base.posts.get([post.id]).await?.remove(&post.id).filter(|found| found.post.author == *author);
        let cached = match found {
            Some(cached) => cached,
            None => self.base.visibility.post(caller.reader(), post.id).await?,
        };
        if cached.post.author != *author {
            return Err(FeedError::Forbidden("only its author can delete a post"));
        }
        delete_stored(&self.base, author, post.id, cached.post.named()).await
    }

    pub(crate) async fn by_author(&self, caller: Caller, list: AuthorPosts) -> Result<PostPage> {
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        check_lists(&*self.base.ledger, &self.base.visibility, caller.reader(), &list.id).await?;
        let max_reads = if list.is_selective() { MAX_READS } else { usize::MAX };
        let mut page = PostPageBuilder::with_max_reads(cursor, limit, max_reads);
        while let Some((before, count)) = page.wants_posts() {
            let VisiblePosts { posts: ids, stopped_at } =
                self.base.ledger.visible_posts(&list.id, caller.reader(), before, count).await?;
            let mut visible =
                self.base.visibility.visible_posts(caller.reader(), ViewContext::Direct, ids.iter().copied()).await?;
            visible.retain(|_, cached| list.wants(&cached.post));
            page.take_posts(&ids, &visible);
            if let Some(post) = stopped_at {
                page.stop_at(post);
            }
        }
        let (items, next) = page.finish();
        self.base.post_renderer.render_page(caller.reader(), &items, next, &expand).await
    }

    /// The posts that a user likes, as far as the reader may see them.
    pub(crate) async fn liked_by(&self, caller: Caller, list: AuthorList) -> Result<PostPage> {
        let ((limit, cursor), expand) = (list.page.decode::<PostId>()?, list.expand.decode()?);
        let reader = caller.reader();
        if !shows_content(&*self.base.ledger, &self.base.visibility, reader, &list.id).await? {
            return self.base.post_renderer.render_page(reader, &[], None, &expand).await;
        }
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants() {
            let posts = self.base.ledger.likes_by(&list.id, before.unwrap_or(PostId::MAX), count).await?;
            let mut visible =
                self.base.visibility.visible_posts(reader, ViewContext::Direct, posts.iter().copied()).await?;
            page.take(posts.into_iter().map(|post| (post, visible.remove(&post))));
        }
        let (items, next) = page.finish();
        self.base.post_renderer.render_page(reader, &items, next, &expand).await
    }
}
