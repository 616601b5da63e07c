//! The filters of readers, applied to posts and comments.
//!
//! A reader's own posts and comments are never filtered, nor is content that is requested by its id. A post is
//! searched together with the posts that it names, as far as the reader may see them: what a reader may not see decides
//! nothing, so that no filter reveals a word of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::filter_cache::FilterCache;
use super::word_search::{FilterOutcome, FilterSet, ReaderFilters};
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::feed::visibility::{VisibilityPolicy, visible_named_posts};
use crate::model::{AppNotification, Comment, FilterContext, PostId, UserId};
use crate::text::FilterText;

/// The filters of some readers: of those who have any.
pub(crate) type FiltersByReader = HashMap<UserId, AppliedFilters>;

/// Applies filters.
pub(crate) struct ContentFilter {
    cache: Arc<FilterCache>,
    visibility: Arc<VisibilityPolicy>,
}

impl ContentFilter {
    /// Applies the filters of this cache.
    pub(crate) fn new(cache: Arc<FilterCache>, visibility: Arc<VisibilityPolicy>) -> Self {
        Self { cache, visibility }
    }

    /// The filters of a reader; `None`: an anonymous client, or there are none.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn of(&self, reader: Option<&UserId>) -> Result<Option<AppliedFilters>> {
        let Some(reader) = reader else { return Ok(None) };
        let filters = self.cache.of_all([reader]).await?.into_values().next();
        Ok(filters.map(|filters| AppliedFilters::new(reader, filters)))
    }

    /// The filters of the readers among these who have any.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn of_all<'a>(
        &self,
        readers: impl IntoIterator<Item = &'a UserId> + Send,
    ) -> Result<FiltersByReader> {
        let found = self.cache.of_all(readers).await?.into_iter();
        let applied = |(reader, filters): (UserId, Arc<ReaderFilters>)| {
            let applied = AppliedFilters::new(&reader, filters);
            (reader, applied)
        };
        Ok(found.map(applied).collect())
    }

    /// Whether any user of the deployment has a filter.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn is_in_use(&self) -> Result<bool> {
        self.cache.has_any().await
    }

    /// Removes posts that the filters of a reader hide in a context, from posts that the reader may see.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn remove_hidden(
        &self,
        reader: Option<&UserId>,
        context: FilterContext,
        posts: &mut HashMap<PostId, Arc<CachedPost>>,
    ) -> Result<()> {
        if posts.is_empty() {
            return Ok(());
        }
        let Some(filters) = self.of(reader).await? else { return Ok(()) };
        let named = visible_named_posts(&self.visibility, reader, posts.values()).await?;
        let find = |post| named.get(&post).map(|cached| &**cached);
        posts.retain(|_, cached| filters.post(cached, find, context) != FilterOutcome::Hidden);
        Ok(())
    }
}

/// The filters of a reader, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct AppliedFilters {
    reader: UserId,
    filters: Arc<ReaderFilters>,
}

impl AppliedFilters {
    /// The filters of this reader.
    pub(crate) fn new(reader: &UserId, filters: Arc<ReaderFilters>) -> Self {
        Self { reader: reader.clone(), filters }
    }

    /// What the reader sees of a post in a context. `find` returns the posts that it names, if the reader may see them.
    pub(crate) fn post<'p>(
        &self,
        cached: &CachedPost,
        find: impl Fn(PostId) -> Option<&'p CachedPost>,
        context: FilterContext,
    ) -> FilterOutcome {
        if cached.post.author == self.reader {
            return FilterOutcome::Shown;
        }
        let reposted = cached.post.repost.and_then(&find);
        let quoting = reposted.unwrap_or(cached);
        let quoted = quoting.post.quote.filter(|_| !quoting.is_detached).and_then(&find);
        let all = [Some(cached), reposted, quoted].into_iter().flatten();
        let found = all.map(|cached| self.matches(cached)).fold(FilterSet::default(), FilterSet::union);
        self.filters.outcome(found, context, now())
    }

    /// Whether a quoted post is left out of the post that quotes it, in a context; `None`: where that post is shown by
    /// its id or on a profile, which filters of the timeline decide.
    pub(crate) fn hides_quoted(&self, quoted: &CachedPost, context: Option<FilterContext>) -> bool {
        let context = context.unwrap_or(FilterContext::Home);
        self.filters.outcome(self.matches(quoted), context, now()) == FilterOutcome::Hidden
    }

    /// Marks a comment under a post. Returns `false` if it is hidden.
    pub(crate) fn mark(&self, comment: &mut Comment) -> bool {
        match self.comment(comment, FilterContext::Comments) {
            FilterOutcome::Shown => true,
            FilterOutcome::Marked(filters) => {
                comment.filtered = filters;
                true
            }
            FilterOutcome::Hidden => false,
        }
    }

    /// What the reader sees of a comment.
    pub(crate) fn comment(&self, comment: &Comment, context: FilterContext) -> FilterOutcome {
        let text = comment.text.as_deref().unwrap_or_default();
        self.text(comment.author.as_ref(), &FilterText::of_texts([text]), context)
    }

    /// What the reader sees of a notification that the application sent. Of what it says by itself, all.
    pub(crate) fn app_notification(&self, content: &AppNotification) -> FilterOutcome {
        let text = FilterText::of_texts([&content.title, &content.body]);
        self.text(content.from.as_ref(), &text, FilterContext::Notifications)
    }

    /// What the reader sees of a text by a user; `None`: by nobody.
    fn text(&self, by: Option<&UserId>, text: &FilterText, context: FilterContext) -> FilterOutcome {
        if by.is_none_or(|by| *by == self.reader) {
            return FilterOutcome::Shown;
        }
        self.filters.outcome(self.filters.matches(text), context, now())
    }

    fn matches(&self, cached: &CachedPost) -> FilterSet {
        if cached.post.author == self.reader {
            FilterSet::default()
        } else {
            self.filters.matches(cached.filter_text())
        }
    }
}
