//! Puts bodies to ids: one fetch from the ledger however many wait, and one encoding however many are told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::caching::{CacheReader, CoherentCache, FillTicket};
use super::caching::{MAX_BATCH, RequestCoalescer};
use super::erasure::ErasedUsers;
use super::error::{FeedError, Result};
use super::presentation::{PushedCounts, pushed};
use crate::broker::CacheLease;
use crate::ledger::Ledger;
use crate::model::{GoneReason, Post, PostCounts, PostId, UserId, Visibility};

/// A post, ready to be shown.
#[derive(Debug)]
pub struct Body {
    /// The post.
    pub post: Post,
    /// The post as JSON, as others see it: whom its author lets in or keeps out by name is not told.
    pub json: Box<RawValue>,
    /// The post as its author sees it, where that is not the same.
    whole: Option<Box<RawValue>>,
    /// `"data":{"type":"post","post":{…}}`: the members of its publication, as long as nothing came of it.
    pub arrived: Bytes,
}

impl Body {
    pub(super) fn new(post: Post) -> Result<Arc<Self>> {
        let (json, whole) = match &post.visibility {
            Visibility::Public | Visibility::Followers | Visibility::Friends => (encoded(&post)?, None),
            Visibility::OnlyTo(_) => {
                (encoded(&Post { visibility: Visibility::OnlyTo(Vec::new()), ..post.clone() })?, Some(encoded(&post)?))
            }
            Visibility::NotTo(_) => {
                (encoded(&Post { visibility: Visibility::Public, ..post.clone() })?, Some(encoded(&post)?))
            }
        };
        let arrived = pushed("post", &json, PostCounts::default())?;
        Ok(Arc::new(Self { post, json, whole, arrived }))
    }

    /// Whether its author sees it otherwise than others do.
    pub(super) fn has_two_sides(&self) -> bool {
        self.whole.is_some()
    }

    /// The post as JSON, as this reader sees it.
    pub fn json_for(&self, reader: Option<&UserId>) -> &RawValue {
        self.whole.as_ref().filter(|_| reader == Some(&self.post.author)).unwrap_or(&self.json)
    }

    /// The members of the publication that shows this reader the post.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if it cannot be put together.
    pub(super) fn shown_to(&self, reader: Option<&UserId>, kind: &str, counts: Option<PostCounts>) -> Result<Bytes> {
        if kind == "post" && counts.is_none() && reader.is_none() {
            return Ok(self.arrived.clone());
        }
        pushed(kind, self.json_for(reader), counts.unwrap_or_default())
    }
}

fn encoded(post: &Post) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(post).map_err(|error| {
        tracing::error!(%error, post = %post.id, "a post could not be encoded");
        FeedError::Internal
    })
}

/// How long a body is cached. Edits and deletes are in force on every node before they are answered; this bounds how long a
/// change that was not answered, because Redis could not be reached, goes unnoticed elsewhere.
const FRESH: Duration = Duration::from_secs(30);

/// How much the cache may hold, in bytes of JSON.
const CAPACITY: u64 = 64 << 20;

/// The bodies of posts, with a cache.
pub(super) struct Bodies {
    ledger: Arc<dyn Ledger>,
    counts: PushedCounts,
    /// `None` of a post that is not there (any more).
    cache: CoherentCache<PostId, Option<Arc<Body>>>,
    gather: RequestCoalescer<PostId>,
    /// Their posts are not there, whatever the cache and the ledger hold still.
    erased: Arc<ErasedUsers>,
}

impl Bodies {
    /// An empty cache in front of the ledger.
    pub(super) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>, erased: Arc<ErasedUsers>) -> Self {
        let weigh = |_: &PostId, body: &Option<Arc<Body>>| {
            let bytes = body.as_ref().map_or(0, |body| 2 * body.json.get().len());
            u32::try_from(bytes + 128).unwrap_or(u32::MAX)
        };
        let cache = CoherentCache::weighing(lease, CAPACITY, FRESH, weigh);
        let counts = PushedCounts::new(Arc::clone(&ledger));
        Self { ledger, counts, cache, gather: RequestCoalescer::new(), erased }
    }

    /// Taken before a post is written, for [`begin`](Self::begin).
    pub(super) fn ticket(&self, id: PostId) -> FillTicket {
        self.cache.ticket(&id)
    }

    /// Puts a post in that was just written: nothing came of it yet.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if it cannot be encoded.
    pub(super) fn begin(&self, post: Post, ticket: FillTicket) -> Result<Arc<Body>> {
        self.counts.begin(post.id);
        self.insert(post, ticket)
    }

    fn insert(&self, post: Post, ticket: FillTicket) -> Result<Arc<Body>> {
        let body = Body::new(post)?;
        self.cache.fill(body.post.id, ticket, Some(Arc::clone(&body)));
        Ok(body)
    }

    /// The counts of those of `ids` that something came of, for what is pushed.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn counts(&self, ids: &[PostId]) -> Result<HashMap<PostId, PostCounts>> {
        self.counts.get(ids).await
    }

    /// Forgets a post: it changed.
    pub(super) fn forget(&self, id: PostId) {
        self.cache.invalidate(&id);
    }

    /// Forgets the posts of an author. Looks through the whole cache.
    pub(super) fn forget_author(&self, author: &UserId) {
        self.cache.invalidate_where(|_, body| body.as_ref().is_none_or(|body| body.post.author == *author));
    }

    /// Forgets all posts: any of them may have changed without this node hearing of it.
    pub(super) fn forget_all(&self) {
        self.cache.invalidate_all();
    }

    /// The body of a post as it is remembered: `Some(None)` of one that is not there.
    pub(super) fn remembered(&self, id: PostId) -> Option<Option<Arc<Body>>> {
        let remembered = self.cache.reader().get(&id)?;
        Some(remembered.filter(|body| !self.erased.contains(&body.post.author)))
    }

    /// The bodies of those of `ids` that exist.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, ids: impl IntoIterator<Item = PostId>) -> Result<HashMap<PostId, Arc<Body>>> {
        let mut found = HashMap::new();
        let reader = self.cache.reader();
        let mut missing = self.cached(&reader, ids, &mut found);
        while !missing.is_empty() {
            let later = missing.split_off(missing.len().min(MAX_BATCH));
            self.get_missing(missing, &mut found).await?;
            missing = later;
        }
        Ok(found)
    }

    /// Finds those that were not in the cache, at most [`MAX_BATCH`].
    async fn get_missing(&self, missing: Vec<PostId>, found: &mut HashMap<PostId, Arc<Body>>) -> Result<()> {
        if !self.cache.reader().is_usable() {
            // What others fetch cannot be handed over: they need not wait for each other.
            return self.fetch(&missing, &missing, found).await;
        }
        let _turn = self.gather.turn(&missing).await;
        let reader = self.cache.reader();
        let missing = self.cached(&reader, missing, found);
        if missing.is_empty() {
            return Ok(());
        }
        let ids = self.gather.take(&missing, |id| reader.get(id).is_some());
        self.fetch(&ids, &missing, found).await
    }

    fn cached(
        &self,
        reader: &CacheReader<'_, PostId, Option<Arc<Body>>>,
        ids: impl IntoIterator<Item = PostId>,
        found: &mut HashMap<PostId, Arc<Body>>,
    ) -> Vec<PostId> {
        let mut missing = Vec::new();
        for id in ids {
            if found.contains_key(&id) || missing.contains(&id) {
                continue;
            }
            match reader.get(&id) {
                Some(Some(body)) if !self.erased.contains(&body.post.author) => drop(found.insert(id, body)),
                Some(_) => {}
                None => missing.push(id),
            }
        }
        missing
    }

    /// Fetches `ids`: what is `missing` here, and with it what others wait for.
    async fn fetch(&self, ids: &[PostId], missing: &[PostId], found: &mut HashMap<PostId, Arc<Body>>) -> Result<()> {
        let mut tickets: HashMap<PostId, FillTicket> = ids.iter().map(|id| (*id, self.cache.ticket(id))).collect();
        for post in self.ledger.posts(ids).await? {
            let Some(ticket) = tickets.remove(&post.id) else { continue };
            let body = self.insert(post, ticket)?;
            if missing.contains(&body.post.id) && !self.erased.contains(&body.post.author) {
                found.insert(body.post.id, body);
            }
        }
        // These are nowhere.
        tickets.into_iter().for_each(|(id, ticket)| self.cache.fill(id, ticket, None));
        Ok(())
    }
}

/// The members of the publication that tells of a post that left.
pub(super) fn gone(id: PostId, reason: GoneReason) -> Bytes {
    let reason = match reason {
        GoneReason::Deleted => "deleted",
        GoneReason::Unfollowed => "unfollowed",
        GoneReason::Hidden => "hidden",
    };
    format!(r#""data":{{"type":"gone","id":{id},"reason":"{reason}"}}"#).into()
}
