//! Quotes: their list, and how authors of quoted posts detach them.

use std::sync::Arc;

use super::{MAX_READS, QuoteList, QuotesOfUser};
use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_POST, Result};
use crate::feed::input::{Done, OnePost, PostPage};
use crate::feed::paging::PostPageBuilder;
use crate::feed::posts::announce_counts;
use crate::feed::visibility::ViewContext;
use crate::model::PostId;

/// The quotes that are detached in one step.
const DETACHED_PER_STEP: usize = 200;

/// Lists and detaches quotes.
pub(crate) struct QuoteService {
    base: Arc<Base>,
}

impl QuoteService {
    /// Manages the quotes in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn list(&self, caller: Caller, list: QuoteList) -> Result<PostPage> {
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let reader = caller.reader();
        let cached = self.base.visibility.post(reader, list.id).await?;
        let post = cached.post.repost.unwrap_or(list.id);
        let mut page = PostPageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants_posts() {
            let ids = self.base.ledger.quotes_of(post, before, count).await?;
            let visible = self.base.visibility.visible_posts(reader, ViewContext::Direct, ids.iter().copied()).await?;
            page.take_posts(&ids, &visible);
        }
        let (items, next) = page.finish();
        self.base.post_renderer.render_page(reader, &items, next, &expand).await
    }

    /// Detaches a quote of a post of the caller for good. The caller need not see the quote: its author may block them.
    pub(crate) async fn detach(&self, caller: Caller, quote: OnePost) -> Result<Done> {
        let user = caller.user()?;
        let (post, author) = self.base.ledger.quoted_by(quote.id).await?.ok_or(NO_POST)?;
        if author != *user {
            let is_visible = self.base.visibility.can_see_post(Some(user), quote.id).await?;
            return Err(if is_visible {
                FeedError::Forbidden("only the author of the quoted post can detach a quote")
            } else {
                NO_POST
            });
        }
        self.base.ledger.detach_quote(user, quote.id).await?;
        // Also after a repeat: an earlier attempt may have been stored, and not announced.
        self.base.invalidator.invalidate(&[Invalidation::Post(quote.id)]).await?;
        announce_counts(&self.base, post);
        Ok(Done {})
    }

    /// Detaches all quotes of the caller's posts by one user.
    pub(crate) async fn detach_all(&self, caller: Caller, of: QuotesOfUser) -> Result<Done> {
        let user = caller.user()?;
        loop {
            let quotes = self.base.ledger.detach_quotes_by(user, &of.user, DETACHED_PER_STEP).await?;
            let changes: Vec<Invalidation> = quotes.iter().map(|quote| Invalidation::Post(*quote)).collect();
            if !changes.is_empty() {
                self.base.invalidator.invalidate(&changes).await?;
            }
            let posts = self.base.posts.get(quotes.iter().copied()).await?;
            let mut quoted: Vec<PostId> = posts.values().filter_map(|cached| cached.post.quote).collect();
            quoted.sort_unstable();
            quoted.dedup();
            for post in quoted {
                announce_counts(&self.base, post);
            }
            if quotes.len() < DETACHED_PER_STEP {
                return Ok(Done {});
            }
        }
    }
}
