//! The posts by id, with a cache: one ledger fetch for concurrent requests, one encoding for all recipients.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::post_encoding::{NamedPosts, PostEventKind, encode_push};
use super::push_counts::PushCounts;
use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::{CacheReader, CoherentCache, FillTicket, MAX_BATCH, RequestCoalescer};
use crate::feed::error::{FeedError, Result};
use crate::feed::identity::ErasedUsers;
use crate::feed::invalidation::Invalidated;
use crate::ledger::Ledger;
use crate::model::{Post, PostCounts, PostId, UserId, Visibility};
use crate::text::FilterText;

/// Values by post, with a fast hash.
pub(crate) type PostMap<V> = HashMap<PostId, V, foldhash::fast::RandomState>;

/// A post with its JSON.
#[derive(Debug)]
pub(crate) struct CachedPost {
    /// The post.
    pub(crate) post: Post,
    /// The post as JSON for other users: without the list of users that its author includes or excludes by name.
    pub(crate) json: Box<RawValue>,
    /// The post as JSON for its author, if that differs.
    json_for_author: Option<Box<RawValue>>,
    /// `"data":{"type":"post","post":{…}}`: the members of its publication while all counts are zero, for posts that
    /// name no other one.
    push: Bytes,
    /// Whether it was detached from the post that it quotes.
    pub(crate) is_detached: bool,
    /// What filters search, once a reader with filters needed it.
    filter_text: OnceLock<FilterText>,
}

impl CachedPost {
    pub(crate) fn new(post: Post, is_detached: bool) -> Result<Arc<Self>> {
        let (json, json_for_author) = match &post.visibility {
            Visibility::Public | Visibility::Followers | Visibility::Friends => (encoded(&post)?, None),
            Visibility::OnlyTo(_) => {
                (encoded(&Post { visibility: Visibility::OnlyTo(Vec::new()), ..post.clone() })?, Some(encoded(&post)?))
            }
            Visibility::NotTo(_) => {
                (encoded(&Post { visibility: Visibility::Public, ..post.clone() })?, Some(encoded(&post)?))
            }
        };
        let (json, json_for_author) = match post.shown_to_author() {
            Some(shown) => (encoded(&Post { removed: None, ..post.clone() })?, Some(encoded(&shown)?)),
            None => (json, json_for_author),
        };
        let push = encode_push(PostEventKind::Created, &json, PostCounts::default(), NamedPosts::default())?;
        Ok(Arc::new(Self { post, json, json_for_author, push, is_detached, filter_text: OnceLock::new() }))
    }

    /// What filters search: the text, the text alternatives of the media, and the topics. Not the posts that it names.
    pub(crate) fn filter_text(&self) -> &FilterText {
        self.filter_text.get_or_init(|| {
            let alts = self.post.media.iter().filter_map(|media| media.alt.as_deref());
            let topics = self.post.topics.iter().map(String::as_str);
            FilterText::new(std::iter::once(&*self.post.text).chain(alts).chain(topics.clone()), topics)
        })
    }

    /// Refuses an action on a repost: it is meant for the post that was reposted.
    ///
    /// # Errors
    /// [`FeedError::Invalid`], which names that post.
    pub(crate) fn check_is_no_repost(&self) -> Result<()> {
        match self.post.repost {
            Some(post) => Err(FeedError::invalid("id", format!("this is a repost: use the id of the post, {post}"))),
            None => Ok(()),
        }
    }

    /// Whether the JSON for its author differs.
    pub(crate) fn differs_for_author(&self) -> bool {
        self.json_for_author.is_some()
    }

    /// The post as JSON for this reader.
    pub(crate) fn json_for(&self, reader: Option<&UserId>) -> &RawValue {
        self.json_for_author.as_ref().filter(|_| reader == Some(&self.post.author)).unwrap_or(&self.json)
    }

    /// The members of the publication that shows this reader the post, with the posts that it names.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if it cannot be encoded.
    pub(crate) fn push_for(
        &self,
        reader: Option<&UserId>,
        kind: PostEventKind,
        counts: Option<PostCounts>,
        named: NamedPosts<'_>,
    ) -> Result<Bytes> {
        if kind == PostEventKind::Created && counts.is_none() && reader.is_none() && self.post.named().is_none() {
            return Ok(self.push.clone());
        }
        encode_push(kind, self.json_for(reader), counts.unwrap_or_default(), named)
    }
}

/// The members of a post as readers see them. The posts that it names are appended later.
fn encoded(post: &Post) -> Result<Box<RawValue>> {
    let own = post.named().map(|_| Post { repost: None, quote: None, ..post.clone() });
    serde_json::value::to_raw_value(own.as_ref().unwrap_or(post)).map_err(|error| {
        tracing::error!(%error, post = %post.id, "a post could not be encoded");
        FeedError::Internal
    })
}

/// How long a post is cached. Edits and deletions take effect on every node before they are answered. If Redis is
/// unreachable and a change fails, this limits how long other nodes can miss the change.
const TTL: Duration = Duration::from_secs(30);

/// The size of the cache, in bytes of JSON.
const CAPACITY: u64 = 64 << 20;

/// The posts, with a cache.
pub(crate) struct PostCache {
    ledger: Arc<dyn Ledger>,
    counts: PushCounts,
    /// `None`: the post does not exist, or was deleted.
    cache: CoherentCache<PostId, Option<Arc<CachedPost>>>,
    misses: RequestCoalescer<PostId>,
    /// Erased users. Their posts are hidden, although the cache and the ledger may still have them.
    erased: Arc<ErasedUsers>,
}

impl PostCache {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>, erased: Arc<ErasedUsers>) -> Self {
        let weigh = |_: &PostId, cached: &Option<Arc<CachedPost>>| {
            let bytes = cached.as_ref().map_or(0, |cached| 2 * cached.json.get().len());
            u32::try_from(bytes + 128).unwrap_or(u32::MAX)
        };
        let cache = CoherentCache::weighing(lease, CAPACITY, TTL, weigh);
        let counts = PushCounts::new(Arc::clone(&ledger));
        Self { ledger, counts, cache, misses: RequestCoalescer::new(), erased }
    }

    /// A ticket for [`insert_new`](Self::insert_new), taken before the post is written.
    pub(crate) fn ticket(&self, id: PostId) -> FillTicket {
        self.cache.ticket(&id)
    }

    /// Adds a post that was just written, with counts of zero.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if it cannot be encoded.
    pub(crate) fn insert_new(&self, post: Post, ticket: FillTicket) -> Result<Arc<CachedPost>> {
        self.counts.insert_new(post.id);
        self.insert(post, false, ticket)
    }

    fn insert(&self, post: Post, is_detached: bool, ticket: FillTicket) -> Result<Arc<CachedPost>> {
        let cached = CachedPost::new(post, is_detached)?;
        self.cache.fill(cached.post.id, ticket, Some(Arc::clone(&cached)));
        Ok(cached)
    }

    /// The non-zero counts of posts among `ids`, for pushes: at most 2 seconds old.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn counts(&self, ids: &[PostId]) -> Result<HashMap<PostId, PostCounts>> {
        self.counts.get(ids).await
    }

    /// Drops a post that changed.
    pub(crate) fn invalidate(&self, id: PostId) {
        self.cache.invalidate(&id);
    }

    /// The cached post: `Some(None)` if the cache records that the post does not exist.
    pub(crate) fn peek(&self, id: PostId) -> Option<Option<Arc<CachedPost>>> {
        let cached = self.cache.reader().get(&id)?;
        Some(cached.filter(|cached| !self.erased.contains(&cached.post.author)))
    }

    /// The existing posts among `ids`.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(&self, ids: impl IntoIterator<Item = PostId>) -> Result<HashMap<PostId, Arc<CachedPost>>> {
        let mut found = HashMap::new();
        let reader = self.cache.reader();
        let mut missing = self.lookup(&reader, ids, &mut found);
        while !missing.is_empty() {
            let later = missing.split_off(missing.len().min(MAX_BATCH));
            self.get_missing(missing, &mut found).await?;
            missing = later;
        }
        Ok(found)
    }

    /// Loads posts that were not in the cache, at most [`MAX_BATCH`].
    async fn get_missing(&self, missing: Vec<PostId>, found: &mut HashMap<PostId, Arc<CachedPost>>) -> Result<()> {
        if !self.cache.reader().is_usable() {
            // Without a cache, fetches cannot be shared.
            return self.fetch(&missing, &missing, found).await;
        }
        let _turn = self.misses.turn(&missing).await;
        let reader = self.cache.reader();
        let missing = self.lookup(&reader, missing, found);
        if missing.is_empty() {
            return Ok(());
        }
        let ids = self.misses.take(&missing, |id| reader.get(id).is_some());
        self.fetch(&ids, &missing, found).await
    }

    fn lookup(
        &self,
        reader: &CacheReader<'_, PostId, Option<Arc<CachedPost>>>,
        ids: impl IntoIterator<Item = PostId>,
        found: &mut HashMap<PostId, Arc<CachedPost>>,
    ) -> Vec<PostId> {
        let mut missing = Vec::new();
        for id in ids {
            if found.contains_key(&id) || missing.contains(&id) {
                continue;
            }
            match reader.get(&id) {
                Some(Some(cached)) if !self.erased.contains(&cached.post.author) => drop(found.insert(id, cached)),
                Some(_) => {}
                None => missing.push(id),
            }
        }
        missing
    }

    /// Fetches `ids`: the posts `missing` here, and those that concurrent requests wait for.
    async fn fetch(
        &self,
        ids: &[PostId],
        missing: &[PostId],
        found: &mut HashMap<PostId, Arc<CachedPost>>,
    ) -> Result<()> {
        let mut tickets: HashMap<PostId, FillTicket> = ids.iter().map(|id| (*id, self.cache.ticket(id))).collect();
        let posts = self.ledger.posts(ids).await?;
        let quotes: Vec<PostId> = posts.iter().filter(|post| post.quote.is_some()).map(|post| post.id).collect();
        let detached = if quotes.is_empty() { quotes } else { self.ledger.detached_among(&quotes).await? };
        for post in posts {
            let Some(ticket) = tickets.remove(&post.id) else { continue };
            let is_detached = detached.contains(&post.id);
            let cached = self.insert(post, is_detached, ticket)?;
            if missing.contains(&cached.post.id) && !self.erased.contains(&cached.post.author) {
                found.insert(cached.post.id, cached);
            }
        }
        // The remaining posts do not exist.
        tickets.into_iter().for_each(|(id, ticket)| self.cache.fill(id, ticket, None));
        Ok(())
    }
}

impl Invalidated for PostCache {
    fn apply(&self, change: &Invalidation) {
        match change {
            Invalidation::Post(id) => self.invalidate(*id),
            // Scans the whole cache.
            Invalidation::User(author) => {
                let may_be_theirs = |cached: &Option<Arc<CachedPost>>| {
                    cached.as_ref().is_none_or(|cached| cached.post.author == *author)
                };
                self.cache.invalidate_where(|_, cached| may_be_theirs(cached));
            }
            Invalidation::Reposts(_)
            | Invalidation::Comment(_)
            | Invalidation::Relation(..)
            | Invalidation::Erased(_)
            | Invalidation::Standing(_)
            | Invalidation::Locked(_)
            | Invalidation::Filters(_)
            | Invalidation::Topics(_)
            | Invalidation::Lists(_)
            | Invalidation::Thread(_)
            | Invalidation::All => {}
        }
    }

    fn clear(&self) {
        self.cache.invalidate_all();
    }
}
