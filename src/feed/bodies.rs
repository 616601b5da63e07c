//! Puts bodies to ids: one fetch from the ledger however many wait, and one encoding however many are told.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;
use serde_json::value::RawValue;

use super::error::{FeedError, Result};
use super::gather::Gather;
use super::presentation::{PushedCounts, pushed};
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

/// How long a body may be served from the cache. Edits and deletes drop it on every node at once; this bounds how long
/// a node that missed the message can be wrong.
const FRESH: Duration = Duration::from_secs(30);

/// How much the cache may hold, in bytes of JSON.
const CAPACITY: u64 = 64 << 20;

/// The bodies of posts, with a cache.
pub(super) struct Bodies {
    ledger: Arc<dyn Ledger>,
    counts: PushedCounts,
    /// `None` of a post that is not there (any more).
    cache: Cache<PostId, Option<Arc<Body>>>,
    gather: Gather<PostId>,
    /// How often something was forgotten. What is fetched meanwhile may be from before, and is not kept.
    forgotten: AtomicU64,
}

impl Bodies {
    /// An empty cache in front of the ledger.
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> Self {
        let weigh = |_: &PostId, body: &Option<Arc<Body>>| {
            let bytes = body.as_ref().map_or(0, |body| 2 * body.json.get().len());
            u32::try_from(bytes + 128).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_live(FRESH).build();
        let counts = PushedCounts::new(Arc::clone(&ledger));
        Self { ledger, counts, cache, gather: Gather::new(), forgotten: AtomicU64::new(0) }
    }

    /// Puts a post in that was just written: nothing came of it yet.
    ///
    /// # Errors
    /// [`FeedError::Internal`] if it cannot be encoded.
    pub(super) fn begin(&self, post: Post) -> Result<Arc<Body>> {
        self.counts.begin(post.id);
        self.insert(post)
    }

    fn insert(&self, post: Post) -> Result<Arc<Body>> {
        let body = Body::new(post)?;
        self.cache.insert(body.post.id, Some(Arc::clone(&body)));
        Ok(body)
    }

    /// Grows whenever something is forgotten.
    pub(super) fn age(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
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
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.cache.invalidate(&id);
    }

    /// Forgets all posts: any of them may have changed without this node hearing of it.
    pub(super) fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.cache.invalidate_all();
    }

    /// The body of a post as it is remembered: `Some(None)` of one that is not there.
    pub(super) fn remembered(&self, id: PostId) -> Option<Option<Arc<Body>>> {
        self.cache.get(&id)
    }

    /// The bodies of those of `ids` that exist.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, ids: impl IntoIterator<Item = PostId>) -> Result<HashMap<PostId, Arc<Body>>> {
        let mut found = HashMap::new();
        let mut missing = self.cached(ids, &mut found);
        if !missing.is_empty() {
            let _turn = self.gather.turn(&missing).await;
            missing = self.cached(missing, &mut found);
            if !missing.is_empty() {
                self.fetch(&missing, &mut found).await?;
            }
        }
        Ok(found)
    }

    fn cached(&self, ids: impl IntoIterator<Item = PostId>, found: &mut HashMap<PostId, Arc<Body>>) -> Vec<PostId> {
        let mut missing = Vec::new();
        for id in ids {
            if found.contains_key(&id) || missing.contains(&id) {
                continue;
            }
            match self.cache.get(&id) {
                Some(Some(body)) => drop(found.insert(id, body)),
                Some(None) => {}
                None => missing.push(id),
            }
        }
        missing
    }

    /// Fetches these, and with them what others wait for.
    async fn fetch(&self, missing: &[PostId], found: &mut HashMap<PostId, Arc<Body>>) -> Result<()> {
        let ids = self.gather.take(missing, |id| self.cache.contains_key(id));
        let before = self.forgotten.load(Ordering::SeqCst);
        let mut nowhere: HashSet<PostId> = ids.iter().copied().collect();
        for post in self.ledger.posts(&ids).await? {
            nowhere.remove(&post.id);
            let body = self.insert(post)?;
            if missing.contains(&body.post.id) {
                found.insert(body.post.id, body);
            }
        }
        nowhere.into_iter().for_each(|id| self.cache.insert(id, None));
        if self.forgotten.load(Ordering::SeqCst) != before {
            ids.iter().for_each(|id| self.cache.invalidate(id));
        }
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
