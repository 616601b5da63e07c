//! Puts bodies to ids: one fetch from the ledger however many wait, and one encoding however many are told.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::error::{FeedError, Result};
use super::presentation::{PushedCounts, pushed};
use crate::ledger::Ledger;
use crate::model::{Entry, GoneReason, Post, PostCounts, PostId};

/// A post, ready to be shown.
#[derive(Debug)]
pub struct Body {
    /// The post.
    pub post: Post,
    /// The post as JSON.
    pub json: Box<RawValue>,
    /// `"data":{"type":"post","post":{…}}`: the members of its publication, as long as nothing came of it.
    pub arrived: Bytes,
}

impl Body {
    fn new(post: Post) -> Result<Arc<Self>> {
        let json = serde_json::value::to_raw_value(&post).map_err(|error| {
            tracing::error!(%error, post = %post.id, "a post could not be encoded");
            FeedError::Internal
        })?;
        let arrived = pushed("post", &json, PostCounts::default())?;
        Ok(Arc::new(Self { post, json, arrived }))
    }
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
    /// Held while fetching: whoever comes second finds the first one's catch in the cache.
    fetching: Mutex<()>,
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
        Self { ledger, counts, cache, fetching: Mutex::new(()), forgotten: AtomicU64::new(0) }
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

    /// The bodies of those of `ids` that exist.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, ids: impl IntoIterator<Item = PostId>) -> Result<HashMap<PostId, Arc<Body>>> {
        let mut found = HashMap::new();
        let mut missing = self.cached(ids, &mut found);
        if !missing.is_empty() {
            let _one_at_a_time = self.fetching.lock().await;
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

    async fn fetch(&self, ids: &[PostId], found: &mut HashMap<PostId, Arc<Body>>) -> Result<()> {
        let before = self.forgotten.load(Ordering::SeqCst);
        for post in self.ledger.posts(ids).await? {
            let body = self.insert(post)?;
            found.insert(body.post.id, body);
        }
        for id in ids.iter().filter(|id| !found.contains_key(id)) {
            self.cache.insert(*id, None);
        }
        if self.forgotten.load(Ordering::SeqCst) != before {
            ids.iter().for_each(|id| self.cache.invalidate(id));
        }
        Ok(())
    }

    /// The publication members of log entries, in their order. Every entry gets one, so that offsets stay contiguous
    /// for readers: a post that is not there any more is told as gone.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn publications(&self, entries: &[Entry]) -> Result<Vec<Bytes>> {
        let wanted = |entry: &Entry| match entry {
            Entry::Post(id) | Entry::Edited(id) => Some(*id),
            Entry::Gone(..) | Entry::Data(_) => None,
        };
        let wanted: Vec<PostId> = entries.iter().filter_map(wanted).collect();
        let (bodies, counts) = tokio::try_join!(self.get(wanted.iter().copied()), self.counts.get(&wanted))?;
        // One encoding, however many timelines of this batch a post came to.
        let mut encoded: HashMap<(PostId, &str), Bytes> = HashMap::new();
        let mut show = |id: PostId, kind: &'static str| {
            let Some(body) = bodies.get(&id) else { return Ok(gone(id, GoneReason::Deleted)) };
            let counts = counts.get(&id).copied();
            match (encoded.get(&(id, kind)), counts, kind) {
                (Some(members), ..) => Ok(members.clone()),
                (None, None, "post") => Ok(body.arrived.clone()),
                (None, counts, _) => {
                    let members = pushed(kind, &body.json, counts.unwrap_or_default())?;
                    encoded.insert((id, kind), members.clone());
                    Ok(members)
                }
            }
        };
        let publication = |entry: &Entry| match entry {
            Entry::Data(members) => Ok(members.clone()),
            Entry::Gone(id, reason) => Ok(gone(*id, *reason)),
            Entry::Post(id) => show(*id, "post"),
            Entry::Edited(id) => show(*id, "edited"),
        };
        entries.iter().map(publication).collect()
    }
}

fn gone(id: PostId, reason: GoneReason) -> Bytes {
    let reason = match reason {
        GoneReason::Deleted => "deleted",
        GoneReason::Unfollowed => "unfollowed",
        GoneReason::Hidden => "hidden",
    };
    format!(r#""data":{{"type":"gone","id":{id},"reason":"{reason}"}}"#).into()
}
