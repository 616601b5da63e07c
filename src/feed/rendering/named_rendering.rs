//! The posts that the posts of log entries name: loaded for a batch of entries, encoded once for all recipients.

use std::collections::hash_map::Entry::Vacant;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::audience::{Audience, post_kind};
use super::named_posts::{EncodedNamed, NamedPostSource, quoted};
use super::people::load_people;
use crate::feed::base::Base;
use crate::feed::content::{CachedPost, PostEventKind, PostMap};
use crate::feed::error::Result;
use crate::feed::visibility::{ListMemberSet, PostSources, TimelinePolicy, TopicsByReader, UserIdSet};
use crate::model::{ClientEvent, Entry, ListId, Post, PostCounts, PostFlags, PostId, UserId, Visibility};

/// The publications that show a post.
#[derive(Debug)]
pub(super) struct EncodedPush {
    /// With all that it names.
    pub(super) members: Bytes,
    /// If it shows a quoted post: that post, and the publication for readers that may not see it.
    pub(super) without_quote: Option<(PostId, Bytes)>,
}

impl EncodedPush {
    /// Encodes a post for this reader (`None`: all who are not the author of a shown post).
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(super) fn new(
        cached: &CachedPost,
        reader: Option<&UserId>,
        kind: PostEventKind,
        posts: &PostMap<Arc<CachedPost>>,
        counts: &HashMap<PostId, PostCounts>,
    ) -> Result<Self> {
        let own = counts.get(&cached.post.id).copied();
        let encode = |shows_quote| {
            let source = PushedPosts { reader, posts, counts, shows_quote };
            let named = EncodedNamed::encode(cached, &source)?;
            cached.push_for(reader, kind, own, named.members())
        };
        let find = |id| posts.get(&id).map(|cached| &**cached);
        let quoted = quoted(cached, find).filter(|quoted| posts.contains_key(quoted));
        let without_quote = match quoted {
            Some(quoted) => Some((quoted, encode(false)?)),
            None => None,
        };
        Ok(Self { members: encode(true)?, without_quote })
    }
}

/// The posts of a push, without flags of a reader.
struct PushedPosts<'a> {
    reader: Option<&'a UserId>,
    posts: &'a PostMap<Arc<CachedPost>>,
    counts: &'a HashMap<PostId, PostCounts>,
    shows_quote: bool,
}

impl NamedPostSource for PushedPosts<'_> {
    fn reader(&self) -> Option<&UserId> {
        self.reader
    }

    fn find(&self, post: PostId) -> Option<&CachedPost> {
        self.posts.get(&post).map(|cached| &**cached)
    }

    fn members(&self, post: PostId) -> (PostCounts, Option<PostFlags>) {
        (self.counts.get(&post).copied().unwrap_or_default(), None)
    }

    fn shows(&self, _: &CachedPost) -> bool {
        self.shows_quote
    }
}

/// What entries need of the posts that their posts name. Empty if they name none.
#[derive(Debug, Default)]
pub(super) struct NamedContent {
    /// The sources of the reposted posts: with them, a repost may be a repeat.
    pub(super) sources: PostSources,
    /// The publications of reposts that repeat what a timeline has, by repost.
    pub(super) repeats: HashMap<PostId, Bytes>,
    /// The authors of named posts.
    pub(super) authors: HashSet<UserId>,
    /// The members of the lists in which reposts are delivered.
    lists: HashMap<ListId, ListMemberSet>,
}

impl NamedContent {
    /// Loads what entries name, and adds it to their posts and counts.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn load(
        base: &Base,
        entries: &[(&Audience, &Entry)],
        posts: &mut PostMap<Arc<CachedPost>>,
        counts: &mut HashMap<PostId, PostCounts>,
    ) -> Result<Self> {
        let named: HashSet<PostId> = posts.values().filter_map(|cached| cached.post.named()).collect();
        if named.is_empty() {
            return Ok(Self::default());
        }
        let mut found = base.posts.get(named.iter().copied()).await?;
        let reposted = posts.values().filter_map(|cached| found.get(&cached.post.repost?)?.post.quote);
        let quoted: Vec<PostId> = reposted.collect();
        found.extend(base.posts.get(quoted).await?);
        let ids: Vec<PostId> = found.keys().copied().collect();
        let authors = found.values().map(|cached| cached.post.author.clone()).collect();
        posts.extend(found);
        let readers: Vec<_> = reposts_of_timelines(entries, posts).collect();
        let followees: HashMap<&UserId, Option<Arc<UserIdSet>>> =
            readers.iter().map(|(reader, ..)| (*reader, base.relations.cached_followees(reader))).collect();
        let reposts: HashMap<PostId, PostId> = readers.iter().map(|(_, repost, post)| (*repost, *post)).collect();
        // Most readers of a timeline have read a page, so their followees are known.
        let follows =
            |author: &UserId| followees.iter().any(|(reader, all)| may_follow(reader, all.as_deref(), author));
        let lists = lists_with_reposts(base, entries, posts).await?;
        let gathers = |author: &UserId| follows(author) || lists.values().any(|members| members.has_user(author));
        // All recipients of the batch wait for these reads.
        let reposters = reposts.keys().filter_map(|repost| Some(&posts.get(repost)?.post.author));
        let policy = TimelinePolicy::of(&base.visibility);
        let (named_counts, sources, people) = tokio::try_join!(
            base.posts.counts(&ids),
            policy.sources(reposts.values().copied(), gathers),
            load_people(&*base.ledger, reposters),
        )?;
        counts.extend(named_counts);
        let may_repeat = reposts.iter().filter(|(repost, post)| sources.before(**repost, **post).next().is_some());
        let may_repeat: Vec<(&Arc<CachedPost>, PostId)> =
            may_repeat.filter_map(|(repost, post)| Some((posts.get(repost)?, *post))).collect();
        let encode = |(cached, id): (&Arc<CachedPost>, PostId)| {
            let repost = cached.post.id;
            let by = people.get(cached.post.author.as_str())?;
            Some((repost, ClientEvent::Reposted { id, repost, by }.encode()))
        };
        let repeats = may_repeat.into_iter().filter_map(encode).collect();
        Ok(Self { sources, repeats, authors, lists })
    }

    /// The pairs of a reader of a timeline and an author whose relation decides how the reader sees an entry, besides
    /// the author of its post; and the pairs of the authors of a repost and of the reposted post. `is_open`: whether
    /// the public posts of an author are visible to all readers alike. `topics`: those that readers follow.
    pub(super) fn pairs(
        &self,
        entries: &[(&Audience, &Entry)],
        posts: &PostMap<Arc<CachedPost>>,
        is_open: impl Fn(&UserId) -> bool,
        followees: impl Fn(&UserId) -> Option<Arc<UserIdSet>>,
        topics: &TopicsByReader,
    ) -> HashSet<(UserId, UserId)> {
        let mut pairs = HashSet::new();
        for (audience, entry) in entries {
            if post_kind(entry).is_none() {
                continue;
            }
            let Some(cached) = entry.post().and_then(|id| posts.get(&id)) else { continue };
            if let Some(reposted) = cached.post.repost.and_then(|id| posts.get(&id))
                && !is_open(&reposted.post.author)
                && reposted.post.author != cached.post.author
            {
                pairs.insert((cached.post.author.clone(), reposted.post.author.clone()));
            }
            let Some(reader) = audience.owner() else { continue };
            let find = |id| posts.get(&id).map(|cached| &**cached);
            let shown = [cached.post.repost, quoted(cached, find)].into_iter().flatten().filter_map(find);
            let closed =
                shown.filter(|cached| cached.post.visibility != Visibility::Public || !is_open(&cached.post.author));
            let mut authors: Vec<&UserId> = closed.map(|cached| &cached.post.author).collect();
            if let Some(post) = cached.post.repost {
                let all = followees(reader);
                let topics = topics.get(reader);
                let may_have = |source: &&Arc<CachedPost>| match audience.list() {
                    Some(list) => self.is_listed(list, &source.post),
                    None => {
                        topics.is_some_and(|topics| topics.matching(&source.post).is_some())
                            || may_follow(reader, all.as_deref(), &source.post.author)
                    }
                };
                let sources = self.sources.before(cached.post.id, post).filter(may_have);
                authors.extend(sources.map(|source| &source.post.author));
            }
            let others = authors.into_iter().filter(|author| *author != reader);
            pairs.extend(others.map(|author| (reader.clone(), author.clone())));
        }
        pairs
    }

    /// Whether a list shows a post. Of lists, only those that show one of the rendered reposts are known.
    pub(super) fn is_listed(&self, list: ListId, post: &Post) -> bool {
        self.lists.get(&list).is_some_and(|members| members.match_post(post))
    }
}

/// Whether a reader may follow an author: their followees say so, or are not known. The reader counts, too.
fn may_follow(reader: &UserId, followees: Option<&UserIdSet>, author: &UserId) -> bool {
    reader == author || followees.is_none_or(|all| all.contains(author))
}

/// The members of the lists that show reposts among these entries. Most entries are of timelines.
async fn lists_with_reposts(
    base: &Base,
    entries: &[(&Audience, &Entry)],
    posts: &PostMap<Arc<CachedPost>>,
) -> Result<HashMap<ListId, ListMemberSet>> {
    let mut lists = HashMap::new();
    for (audience, entry) in entries {
        let is_repost =
            || entry.post().and_then(|id| posts.get(&id)).is_some_and(|cached| cached.post.repost.is_some());
        if let Some(list) = audience.list()
            && is_repost()
            && let Vacant(place) = lists.entry(list)
        {
            place.insert(ListMemberSet::load(&*base.ledger, list).await?);
        }
    }
    Ok(lists)
}

/// The reposts in timelines and lists among the posts of entries: the reader, the repost, and the reposted post.
fn reposts_of_timelines<'a>(
    entries: &'a [(&'a Audience, &'a Entry)],
    posts: &'a PostMap<Arc<CachedPost>>,
) -> impl Iterator<Item = (&'a UserId, PostId, PostId)> + 'a {
    entries.iter().filter_map(|(audience, entry)| {
        let cached = posts.get(&entry.post()?)?;
        Some((audience.owner()?, cached.post.id, cached.post.repost?))
    })
}
