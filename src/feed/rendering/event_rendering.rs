//! Renders log entries for their recipients.
//!
//! Logs contain ids. The content and the recipients of an entry are determined when it is rendered, with the current
//! posts, relations and visibility. In a timeline every entry is rendered, so that the reader's offsets have no gaps: a
//! post that the reader may not see is rendered as gone. On shared channels, readers that may not see an entry receive
//! nothing.

use std::collections::hash_map::Entry::Vacant;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::audience::{Audience, Viewer, post_kind};
use super::comment_rendering::CommentRenderer;
use super::concerned_users::{ConcernedUsers, people_of};
use super::named_rendering::{EncodedPush, NamedContent};
use super::notification_rendering::RenderedNotification;
use super::render_context::{Encoded, RenderContext, people_above, referenced_posts, shown_author};
use crate::broker::{CACHE_LEASE, CacheLease};
use crate::feed::base::Base;
use crate::feed::content::{CachedPost, PostMap};
use crate::feed::error::Result;
use crate::feed::identity::ErasedUsers;
use crate::model::{Entry, NotificationId, PostCounts, PostId, UserId, Visibility};

/// Renders log entries.
pub(crate) struct EventRenderer {
    base: Arc<Base>,
    erased: Arc<ErasedUsers>,
    comments: CommentRenderer,
    lease: Arc<CacheLease>,
}

impl EventRenderer {
    /// A renderer over these caches. The lease counts invalidations.
    pub(crate) fn new(base: Arc<Base>, erased: Arc<ErasedUsers>, lease: Arc<CacheLease>) -> Self {
        let comments = CommentRenderer::new(base.ledger.clone());
        Self { base, erased, comments, lease }
    }

    /// Loads the data for rendering these entries for public audiences and for timelines. Other audiences also need the
    /// relations of the readers, see [`load_relations`](Self::load_relations).
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn prepare(&self, entries: &[(&Audience, &Entry)]) -> Result<RenderContext> {
        let invalidations = self.lease.invalidations();
        let since = Instant::now();
        let (pushed, referenced) = posts_of(entries);
        let (posts, mut counts) = tokio::try_join!(self.base.posts.get(referenced), self.base.posts.counts(&pushed))?;
        let mut posts: PostMap<_> = posts.into_iter().collect();
        let named = NamedContent::load(&self.base, entries, &mut posts, &mut counts).await?;
        let pushes = encode(entries, &posts, &counts)?;
        let (mut authors, mut readers_by_author) = people_of(entries, &posts);
        authors.extend(named.authors.iter().cloned());
        let seen_by_readers = self.seen_by_readers(&readers_by_author, &posts);
        readers_by_author.retain(|author, _| !seen_by_readers.contains(*author));
        let readers_by_author = readers_by_author.iter().map(|(author, readers)| (*author, readers.iter().copied()));
        let mut relations = self.base.relations.get_by_author(readers_by_author).await?;
        let closed = self.base.relations.restricted_authors(authors).await?;
        let followees = |reader: &UserId| self.base.relations.cached_followees(reader);
        let topics_in_use = self.base.followed_topics.are_in_use().await?;
        let topics = self.base.followed_topics.of_all(readers_of_posts(entries, topics_in_use)).await?;
        let pairs = named.pairs(entries, &posts, |author| !closed.contains(author), followees, &topics);
        if !pairs.is_empty() {
            relations.extend(self.base.relations.get(pairs).await?);
        }
        let restricted = self.base.relations.users_with_restrictions(closed.iter().cloned()).await?;
        let strangers = self.base.relations.of_strangers(closed.iter().cloned()).await?;
        let filters_in_use = self.base.content_filter.is_in_use().await?;
        let filters = self.base.content_filter.of_all(readers_of_posts(entries, filters_in_use)).await?;
        let notifications = self.render_notifications(entries).await?;
        let comments = self.comments.render(entries.iter().map(|(_, entry)| *entry)).await?;
        let actors = entries.iter().flat_map(|(_, entry)| people_above(entry));
        let erased = actors.filter(|person| self.erased.contains(person)).cloned().collect();
        let mut context = RenderContext {
            posts,
            pushes,
            named,
            comments,
            notifications,
            closed,
            restricted,
            relations,
            seen_by_readers,
            filters_in_use,
            filters,
            topics,
            strangers,
            erased,
            invalidations,
            since,
        };
        let hidden: HashSet<_> = entries.iter().flat_map(|(audience, entry)| context.hidden(audience, entry)).collect();
        if !hidden.is_empty() {
            context.relations.extend(self.base.relations.reload(hidden).await?);
        }
        Ok(context)
    }

    /// Adds the relations of pairs of a reader and an author.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn load_relations(
        &self,
        context: &mut RenderContext,
        pairs: HashSet<(UserId, UserId)>,
    ) -> Result<()> {
        if !pairs.is_empty() {
            context.relations.extend(self.base.relations.get(pairs).await?);
        }
        Ok(())
    }

    /// Adds the filters of readers of shared channels.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn load_filters(&self, context: &mut RenderContext, readers: &HashSet<UserId>) -> Result<()> {
        if !readers.is_empty() {
            context.filters.extend(self.base.content_filter.of_all(readers).await?);
        }
        Ok(())
    }

    /// Whether nothing that these entries show or depend on has changed since the context was prepared for them, as far
    /// as this node knows. `false` if the node has lost its cache lease and the context is older than [`CACHE_LEASE`].
    pub(crate) fn is_current(&self, context: &RenderContext, entries: &[(&Audience, &Entry)]) -> bool {
        let knows = self.lease.is_held() || context.since.elapsed() < CACHE_LEASE;
        knows
            && (self.lease.invalidations() == context.invalidations || {
                let users = ConcernedUsers::of(entries, &context.posts);
                !self.lease.is_invalidated_since(context.invalidations, |one, other| users.are_concerned(one, other))
            })
    }

    /// The publication members of log entries, in their order; `None` for entries that this viewer may not receive.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn render(
        &self,
        audience: &Audience,
        viewer: Viewer<'_>,
        entries: &[Entry],
    ) -> Result<Vec<Option<Bytes>>> {
        let addressed: Vec<_> = entries.iter().map(|entry| (audience, entry)).collect();
        let mut context = self.prepare(&addressed).await?;
        if let Viewer::Client(Some(reader)) = viewer {
            if entries.iter().any(|entry| context.may_filter(audience, entry)) {
                self.load_filters(&mut context, &HashSet::from([reader.clone()])).await?;
            }
            let rendered = entries
                .iter()
                .filter_map(|entry| context.render(audience, entry))
                .filter(|rendered| !rendered.is_public);
            let authors: HashSet<UserId> =
                rendered.flat_map(|rendered| rendered.authors().cloned().collect::<Vec<_>>()).collect();
            let pairs = authors.into_iter().map(|author| (reader.clone(), author)).collect();
            self.load_relations(&mut context, pairs).await?;
        }
        let publication = |entry| {
            let rendered = context.render(audience, entry)?;
            match viewer {
                Viewer::Client(reader) if !rendered.is_public => context.members_for(&rendered, reader),
                Viewer::Client(_) | Viewer::Backend => Some(rendered.members),
            }
        };
        Ok(entries.iter().map(publication).collect())
    }

    /// The authors of timeline entries whose posts among these are public, no reposts, and visible to all readers of
    /// the entries.
    fn seen_by_readers(
        &self,
        readers_by_author: &HashMap<&UserId, Vec<&UserId>, RandomState>,
        posts: &PostMap<Arc<CachedPost>>,
    ) -> HashSet<UserId, RandomState> {
        let restricted = posts
            .values()
            .filter(|cached| cached.post.visibility != Visibility::Public || cached.post.repost.is_some());
        let with_restricted: HashSet<&UserId> = restricted.map(|cached| &cached.post.author).collect();
        let authors = readers_by_author.iter().filter(|(author, _)| !with_restricted.contains(*author));
        let seen = authors.filter(|(author, readers)| self.base.relations.all_see_public_posts(author, readers));
        seen.map(|(author, _)| UserId::clone(author)).collect()
    }

    async fn render_notifications(
        &self,
        entries: &[(&Audience, &Entry)],
    ) -> Result<HashMap<NotificationId, RenderedNotification>> {
        let mut by_owner: HashMap<UserId, HashSet<NotificationId>> = HashMap::new();
        for (audience, entry) in entries {
            if let (Audience::Notifications(owner), Entry::NotificationChanged(id)) = (audience, entry) {
                by_owner.entry(owner.clone()).or_default().insert(*id);
            }
        }
        self.base.notification_renderer.render_updates(by_owner).await
    }
}

/// The readers of the timelines among these entries that show posts, if what they have is in use.
fn readers_of_posts<'a>(entries: &'a [(&'a Audience, &'a Entry)], in_use: bool) -> HashSet<&'a UserId> {
    let shown = entries.iter().filter(|(_, entry)| in_use && post_kind(entry).is_some());
    shown.filter_map(|(audience, _)| audience.owner()).collect()
}

/// The posts that these entries push, and all that are needed to render them.
fn posts_of(entries: &[(&Audience, &Entry)]) -> (Vec<PostId>, HashSet<PostId, RandomState>) {
    let mut pushed = HashSet::with_hasher(RandomState::default());
    let mut referenced = HashSet::with_hasher(RandomState::default());
    for (audience, entry) in entries {
        pushed.extend(entry.post().filter(|_| post_kind(entry).is_some()));
        referenced.extend(referenced_posts(audience, entry));
    }
    (pushed.into_iter().collect(), referenced)
}

/// Encodes the publications that show the posts of these entries: for all readers, and for authors who see their own
/// posts otherwise than others.
fn encode(
    entries: &[(&Audience, &Entry)],
    posts: &PostMap<Arc<CachedPost>>,
    counts: &HashMap<PostId, PostCounts>,
) -> Result<Encoded> {
    let mut encoded = Encoded::default();
    for (audience, entry) in entries {
        let (Some(kind), Some(cached)) = (post_kind(entry), entry.post().and_then(|id| posts.get(&id))) else {
            continue;
        };
        let author = shown_author(audience, cached, posts);
        if let Vacant(place) = encoded.entry((cached.post.id, kind, author.cloned())) {
            place.insert(EncodedPush::new(cached, author, kind, posts, counts)?);
        }
    }
    Ok(encoded)
}
