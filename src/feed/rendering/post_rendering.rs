//! Posts in replies: the author's part, encoded once, with counts and flags appended.
//!
//! A reply contains the current counts of the ledger and, for a signed-in reader, the reader's own flags (liked,
//! favourited). Pushes are encoded once for all recipients: their counts may be 2 seconds old, and they have no flags.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::expansions::Expansion;
use super::named_posts::{EncodedNamed, NamedPostSource};
use super::people::{by_id, load_people};
use crate::feed::content::{CachedPost, NamedPosts, append_members};
use crate::feed::error::Result;
use crate::feed::expand::{Expand, PostPreview};
use crate::feed::input::PostPage;
use crate::feed::paging::PageCursor as _;
use crate::feed::visibility::{TimelinePolicy, ViewContext, VisibilityPolicy, closed_to_comments};
use crate::ledger::{Hydration, Ledger};
use crate::model::{Person, PostCounts, PostFlags, PostId, RepostedBy, UserId};

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
}

/// Renders posts.
pub(crate) struct PostRenderer {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
}

impl PostRenderer {
    /// A renderer that reads counts, flags and people from this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, visibility: Arc<VisibilityPolicy>) -> Self {
        Self { ledger, visibility }
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
        Ok(self.hydrate(reader, posts, &[], &Expansion::default(), false).await?.0)
    }

    /// As [`render_page`](Self::render_page), for a page of the reader's timeline: with the other users who reposted
    /// its posts.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render_timeline(
        &self,
        reader: &UserId,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
    ) -> Result<PostPage> {
        self.render_list(Some(reader), posts, next, expand, true).await
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
        self.render_list(reader, posts, next, expand, false).await
    }

    async fn render_list(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        next: Option<PostId>,
        expand: &Expand,
        is_timeline: bool,
    ) -> Result<PostPage> {
        let expansion = Expansion::load(&*self.ledger, &self.visibility, reader, posts, *expand).await?;
        let authors = posts.iter().map(|cached| &cached.post.author);
        let people: HashSet<&UserId> = authors.chain(expansion.people.iter()).collect();
        let people: Vec<UserId> = people.into_iter().cloned().collect();
        let (items, people) = self.hydrate(reader, posts, &people, &expansion, is_timeline).await?;
        Ok(PostPage { items, people, next: next.map(|id| id.encode()) })
    }

    async fn hydrate(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
        people: &[UserId],
        expansion: &Expansion,
        is_timeline: bool,
    ) -> Result<(Vec<Box<RawValue>>, BTreeMap<UserId, Person>)> {
        if posts.is_empty() {
            return Ok(Default::default());
        }
        let mut page = PageContent { reader, named: self.named(reader, posts).await?, ..PageContent::default() };
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
        if let Some(reader) = reader.filter(|_| is_timeline) {
            page.reposted_by = self.reposted_by(reader, posts, &page).await?;
            let others = page.reposted_by.values().flat_map(|by| &by.people);
            let missing: Vec<&UserId> = others.filter(|user| !people.contains_key(*user)).collect();
            people.extend(load_people(&*self.ledger, missing.into_iter()).await?);
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
            append_members(
                cached.json_for(reader),
                &Appended { counts, flags, preview, named: named.members(), reposted_by },
            )
        };
        Ok((posts.iter().map(render).collect::<Result<_>>()?, people))
    }

    /// Who else reposted the posts of a page of a timeline. Most were never reposted.
    async fn reposted_by(
        &self,
        reader: &UserId,
        posts: &[Arc<CachedPost>],
        page: &PageContent<'_>,
    ) -> Result<HashMap<PostId, RepostedBy>> {
        let shown = posts.iter().map(|cached| cached.post.repost.unwrap_or(cached.post.id));
        let reposted: HashSet<PostId> =
            shown.filter(|post| page.counts.get(post).is_some_and(|counts| counts.reposts > 0)).collect();
        if reposted.is_empty() {
            return Ok(HashMap::new());
        }
        TimelinePolicy::of(&self.visibility).reposted_by(reader, posts, &reposted).await
    }

    /// The posts that these posts name, which the reader may see, and those that reposted ones quote.
    async fn named(
        &self,
        reader: Option<&UserId>,
        posts: &[Arc<CachedPost>],
    ) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let named: Vec<PostId> = posts.iter().filter_map(|cached| cached.post.named()).collect();
        if named.is_empty() {
            return Ok(HashMap::new());
        }
        let mut found = self.visibility.visible_posts(reader, ViewContext::Unrequested, named).await?;
        let reposted = posts.iter().filter_map(|cached| found.get(&cached.post.repost?)?.post.quote);
        let quoted: Vec<PostId> = reposted.collect();
        if !quoted.is_empty() {
            found.extend(self.visibility.visible_posts(reader, ViewContext::Unrequested, quoted).await?);
        }
        Ok(found)
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
    /// Who else reposted the posts, on a page of a timeline.
    reposted_by: HashMap<PostId, RepostedBy>,
}

impl NamedPostSource for PageContent<'_> {
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

    fn shows(&self, _: &CachedPost) -> bool {
        true
    }
}
