//! The context of comments: their post, their author and the authors of their ancestors, cached.
//!
//! A comment is visible to readers that may see its post, its author and the authors of its ancestors.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::broker::{CacheLease, Invalidation};
use crate::feed::caching::CoherentCache;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidated;
use crate::ledger::Ledger;
use crate::model::{Comment, CommentId, PostId, UserId};

/// The capacity of the cache, in comments.
const CAPACITY: u64 = 200_000;

/// How long a context is cached.
const TTL: Duration = Duration::from_secs(30);

/// The context of a comment.
#[derive(Clone, Debug)]
pub(crate) struct CommentContext {
    /// The post that the comment is under.
    pub(crate) post: PostId,
    /// The author of the comment.
    pub(crate) author: UserId,
    /// The authors of the comment's ancestors, each once. May include ancestors that were deleted after the context was
    /// cached.
    pub(crate) ancestors: Arc<[UserId]>,
    /// Whether the context comes from the cache, so that the ancestors may be outdated.
    pub(crate) is_cached: bool,
}

impl CommentContext {
    /// The users that a reader must be able to see in order to see the comment.
    pub(crate) fn people(&self) -> impl Iterator<Item = &UserId> {
        std::iter::once(&self.author).chain(&*self.ancestors)
    }
}

/// The contexts of comments, with a cache.
pub(crate) struct CommentContexts {
    ledger: Arc<dyn Ledger>,
    /// `None`: the comment does not exist.
    cache: CoherentCache<CommentId, Option<CommentContext>>,
}

impl CommentContexts {
    /// An empty cache in front of the ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, lease: Arc<CacheLease>) -> Self {
        Self { ledger, cache: CoherentCache::new(lease, CAPACITY, TTL) }
    }

    /// The contexts of the existing comments among `comments`.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(
        &self,
        comments: impl Iterator<Item = CommentId> + Send,
    ) -> Result<HashMap<CommentId, CommentContext>> {
        let comments: HashSet<CommentId> = comments.collect();
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        let cached = self.cache.reader();
        for comment in comments {
            match cached.get(&comment) {
                Some(context) => found.extend(context.map(|context| (comment, context))),
                None => missing.push(comment),
            }
        }
        if !missing.is_empty() {
            let tickets: Vec<_> = missing.iter().map(|comment| self.cache.ticket(comment)).collect();
            let comments = self.ledger.comments(&missing).await?;
            let threads = self.authors_in_threads(comments.iter().map(|comment| comment.reply_to)).await?;
            for Comment { id, post, reply_to, author, .. } in comments {
                let Some(author) = author else { continue };
                let ancestors = reply_to.and_then(|parent| threads.get(&parent));
                let ancestors = ancestors.map_or_else(Arc::default, |authors| authors[..].into());
                found.insert(id, CommentContext { post, author, ancestors, is_cached: false });
            }
            for (comment, ticket) in missing.into_iter().zip(tickets) {
                let context = found.get(&comment).map(|it| CommentContext { is_cached: true, ..it.clone() });
                self.cache.fill(comment, ticket, context);
            }
        }
        Ok(found)
    }

    /// For each comment, its author and the authors of its ancestors. Makes no ledger call if no comment has a parent.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn authors_in_threads(
        &self,
        parents: impl IntoIterator<Item = Option<CommentId>>,
    ) -> Result<HashMap<CommentId, Vec<UserId>>> {
        let parents: HashSet<CommentId> = parents.into_iter().flatten().collect();
        let mut threads: HashMap<CommentId, Vec<UserId>> = HashMap::new();
        if !parents.is_empty() {
            for (comment, author) in self.ledger.lines(&parents.into_iter().collect::<Vec<_>>()).await? {
                threads.entry(comment).or_default().push(author);
            }
        }
        Ok(threads)
    }

    /// Drops the context of a comment.
    pub(crate) fn invalidate(&self, comment: CommentId) {
        self.cache.invalidate(&comment);
    }
}

impl Invalidated for CommentContexts {
    fn apply(&self, change: &Invalidation) {
        match change {
            Invalidation::Comment(comment) => self.invalidate(*comment),
            // Scans the whole cache.
            Invalidation::Thread(post) => {
                self.cache.invalidate_where(|_, context| context.as_ref().is_some_and(|known| known.post == *post));
            }
            Invalidation::User(_) => self.cache.invalidate_all(),
            Invalidation::Post(_)
            | Invalidation::Reposts(_)
            | Invalidation::Relation(..)
            | Invalidation::Erased(_)
            | Invalidation::Standing(_)
            | Invalidation::Locked(_)
            | Invalidation::Filters(_)
            | Invalidation::Topics(_)
            | Invalidation::Lists(_)
            | Invalidation::All => {}
        }
    }

    fn clear(&self) {
        self.cache.invalidate_all();
    }
}
