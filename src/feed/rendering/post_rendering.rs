//! Posts in replies: the author's part, encoded once, with counts and flags appended.
//!
//! A reply contains the current counts of the ledger and, for a signed-in reader, the reader's own flags (liked,
//! favourited). Pushes are encoded once for all recipients: their counts may be 2 seconds old, and they have no flags.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::expansions::{Expansion, ExpansionSource};
use super::named_posts::{EncodedNamed, NamedPostSource};
use super::people::{by_id, load_people};
use crate::feed::content::{CachedPost, NamedPosts, append_members};
use crate::feed::error::Result;
use crate::feed::expand::{Expand, PostPreview};
use crate::feed::filters::{AppliedFilters, ContentFilter, FilterOutcome};
use crate::feed::input::PostPage;
use crate::feed::paging::PageCursor as _;
use crate::feed::visibility::{
    PostGathering, TimelinePolicy, VisibilityPolicy, closed_to_comments, visible_named_posts,
};
use crate::ledger::{Hydration, Ledger};
use crate::model::{FilterContext, FilterId, Person, PostCounts, PostFlags, PostId, PostVia, RepostedBy, UserId};

/// The members that are appended to the author's part.
#[derive(Serialize)]
struct Appended<'a> {
    #[serde(flatten)]
    counts: PostCounts,
    #[serde(flatten)]
    flags: Option<PostFlags>,
    #[serde(flatten)]
    preview: Option<&'a PostPreview>,
    #[serde(flatten)]
    named: NamedPosts<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reposted_by: Option<&'a RepostedBy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filtered: Vec<FilterId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<PostVia>,
}

/// Renders posts.
pub(crate) struct PostRenderer {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
    filter: Arc<ContentFilter>,
}

impl PostRenderer {
    /// A renderer that reads counts, flags and people from this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, visibility: Arc<VisibilityPolicy>, filter: Arc<ContentFilter>) -> Self {
        Self { ledger, visibility, filter }
    }

    /// Posts with their counts and, for a signed-in reader, flags: one ledger call for all of them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
    ) -> Result<Vec<Box<RawValue>>> {
        Ok(self.hydrate(reader, posts, &[], &Expansion::default(), Place::Other(None)).await?.0)
    }

    /// As [`render_page`](Self::render_page), for a page of the reader's timeline or a list: with the other users who
    /// reposted its posts, and marked by the filters of the reader.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_gathered(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
    ) -> Result<PostPage> {
        self.render_list(Some(reader), posts, next, expand, Place::Gathering(gathering)).await
    }

    /// As [`render_page`](Self::render_page), for a place where the filters of the reader apply: marked by them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_filtered(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
        context: FilterContext,
    ) -> Result<PostPage> {
        self.render_list(reader, posts, next, expand, Place::Other(Some(context))).await
    }

    /// A page of posts with their people: one ledger call, and a few more for expansions. The number of calls does not
    /// depend on the number of posts.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_page(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
    ) -> Result<PostPage> {
        self.render_list(reader, posts, next, expand, Place::Other(None)).await
    }

    async fn render_list(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
        place: Place<'_>,
    ) -> Result<PostPage> {
        let filters = self.filter.of(reader).await?;
        let source = ExpansionSource { ledger: &*self.ledger, visibility: &self.visibility, filters: filters.as_ref() };
        let expansion = Expansion::load(source, reader, posts, *expand).await?;
        let authors = posts.iter().map(|cached| &cached.post.author);
        let people: HashSet<&UserId> = authors.chain(expansion.people.iter()).collect();
        let people: Vec<UserId> = people.into_iter().cloned().collect();
        let (items, people) = self.hydrate(reader, posts, &people, &expansion, place).await?;
        Ok(PostPage { items, people, next: next.map(|id| id.encode()) })
    }

    async fn hydrate(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        people: &[UserId],
        expansion: &Expansion,
        place: Place<'_>,
    ) -> Result<(Vec<Box<RawValue>>, BTreeMap<UserId, Person>)> {
        if posts.is_empty() {
            return Ok(Default::default());
        }
        let named = visible_named_posts(&self.visibility, reader, posts.iter()).await?;
        let mut page = PageContent {
            reader,
            named,
            context: place.filter_context(),
            filters: self.filter.of(reader).await?,
            ..PageContent::default()
        };
        let named_authors = page.named.values().map(|cached| &cached.post.author);
        let people: HashSet<&UserId> = people.iter().chain(named_authors.filter(|_| !people.is_empty())).collect();
        let people: Vec<UserId> = people.into_iter().cloned().collect();
        let all: HashSet<PostId> =
            posts.iter().map(|cached| cached.post.id).chain(page.named.keys().copied()).collect();
        let Hydration { counts, flags, people } =
            self.ledger.hydrate(reader, &all.into_iter().collect::<Vec<_>>(), &people).await?;
        page.counts = counts.into_iter().collect();
        page.flags = flags.into_iter().collect();
        let mut people = by_id(people);
        if let (Some(reader), Place::Gathering(gathering)) = (reader, place) {
            page.reposted_by = self.reposted_by(reader, gathering, posts, &page).await?;
            let others = page.reposted_by.values().flat_map(|by| &by.people);
            let missing: Vec<&UserId> = others.filter(|user| !people.contains_key(*user)).collect();
            people.extend(load_people(&*self.ledger, missing.into_iter()).await?);
            if matches!(gathering, PostGathering::Timeline) {
                page.topics = TimelinePolicy::of(&self.visibility).followed_topics_of(reader, posts).await?;
            }
        }
        if let Some(reader) = reader {
            let shown = posts.iter().chain(page.named.values()).map(|cached| &**cached);
            page.closed = closed_to_comments(&self.visibility, reader, shown).await?;
        }
        let render = |cached: &Arc<CachedPost>| {
            let id = cached.post.id;
            let (counts, flags) = page.members(id);
            let named = EncodedNamed::encode(cached, &page)?;
            let preview = expansion.preview(id);
            let reposted_by = page.reposted_by.get(&id);
            let filtered = page.marks(cached);
            let via = page.topics.get(&id).map(|topic| PostVia { topic: topic.clone() });
            append_members(
                cached.json_for(reader),
                &Appended { counts, flags, preview, named: named.members(), reposted_by, filtered, via },
            )
        };
        Ok((posts.iter().map(render).collect::<Result<_>>()?, people))
    }

    /// Who else reposted the posts of a page of a timeline or a list. Most were never reposted.
    async fn reposted_by(
        &self,
        reader: &UserId,
        gathering: PostGathering<'_>,
        posts: &[Arc<CachedPost>],
        page: &PageContent<'_>,
    ) -> Result<HashMap<PostId, RepostedBy>> {
        let shown = posts.iter().map(|cached| cached.post.repost.unwrap_or(cached.post.id));
        let reposted: HashSet<PostId> =
            shown.filter(|post| page.counts.get(post).is_some_and(|counts| counts.reposts > 0)).collect();
        if reposted.is_empty() {
            return Ok(HashMap::new());
        }
        TimelinePolicy::of(&self.visibility).reposted_by(reader, gathering, posts, &reposted).await
    }
}

/// Where posts are shown.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// In the timeline or a list of the reader.
    Gathering(PostGathering<'a>),
    /// Where these filters of the reader apply; `None`: none of them.
    Other(Option<FilterContext>),
}

impl Place<'_> {
    fn filter_context(self) -> Option<FilterContext> {
        match self {
            Self::Gathering(gathering) => Some(gathering.filter_context()),
            Self::Other(context) => context,
        }
    }
}

/// What a page shows besides its posts.
#[derive(Default)]
struct PageContent<'a> {
    reader: Option<&'a UserId>,
    /// The posts that others name, as far as the reader may see them.
    named: HashMap<PostId, Arc<CachedPost>>,
    counts: HashMap<PostId, PostCounts>,
    flags: HashMap<PostId, PostFlags>,
    /// Posts on which the reader may not comment.
    closed: HashSet<PostId>,
    /// Who else reposted the posts, on a page of a timeline or a list.
    reposted_by: HashMap<PostId, RepostedBy>,
    /// On a page of a timeline, the followed topics for which it has posts, by post.
    topics: HashMap<PostId, String>,
    /// The filters of the reader.
    filters: Option<AppliedFilters>,
    /// Where the posts are shown; `None`: where no filter applies to them.
    context: Option<FilterContext>,
}

impl PageContent<'_> {
    /// The filters that mark a post.
    fn marks(&self, cached: &CachedPost) -> Vec<FilterId> {
        let outcome = self.filters.as_ref().zip(self.context);
        match outcome.map(|(filters, context)| filters.post(cached, |post| self.find(post), context)) {
            Some(FilterOutcome::Marked(filters)) => filters,
            Some(FilterOutcome::Shown | FilterOutcome::Hidden) | None => Vec::new(),
        }
    }
}

impl NamedPostSource for PageContent<'_> {
    fn reader(&self) -> Option<&UserId> {
        self.reader
    }

    fn find(&self, post: PostId) -> Option<&CachedPost> {
        self.named.get(&post).map(|cached| &**cached)
    }

    fn members(&self, post: PostId) -> (PostCounts, Option<PostFlags>) {
        let flags = self.reader.map(|_| {
            let flags = self.flags.get(&post).copied().unwrap_or_default();
            PostFlags { can_comment: !self.closed.contains(&post), ..flags }
        });
        (self.counts.get(&post).copied().unwrap_or_default(), flags)
    }

    fn shows(&self, quoted: &CachedPost) -> bool {
        !self.filters.as_ref().is_some_and(|filters| filters.hides_quoted(quoted, self.context))
    }
}
