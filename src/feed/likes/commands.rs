//! The commands: like and unlike posts and comments, and list the likers of a post.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::eligibility::{Eligibility, LEDGER_TIMEOUT};
use super::intake::LikeIntake;
use super::memory::LikeMemory;
use super::pending::ProvisionalCount;
use crate::feed::base::Base;
use crate::feed::call::{Call, Caller};
use crate::feed::error::{FeedError, NO_POST, Result};
use crate::feed::input::{PostList, UserPage};
use crate::feed::paging::UserPageBuilder;
use crate::feed::runtime::now;
use crate::feed::visibility::ViewContext;
use crate::ledger::ListPage;
use crate::model::{CommentId, ContentId, LikeChange, PostId, UserId};

/// The acknowledgement of a like.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AcceptedLike {
    /// It is stored durably, and settled in a moment.
    state: AcceptedState,
    /// Whether the user likes it now.
    liked: bool,
    /// The number of likes, as far as this node knows it; absent if neither store could be read, or if the object is
    /// not visible to the user any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    likes: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LikeState")]
enum AcceptedState {
    Accepted,
}

/// The object of a like: exactly one of the two. Over HTTP the path names it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LikeTarget {
    /// The id of the post.
    #[serde(default)]
    post: Option<PostId>,
    /// The id of the comment.
    #[serde(default)]
    comment: Option<CommentId>,
}

impl LikeTarget {
    fn object(&self) -> Result<ContentId> {
        match (self.post, self.comment) {
            (Some(post), None) => Ok(ContentId::Post(post)),
            (None, Some(comment)) => Ok(ContentId::Comment(comment)),
            _ => Err(FeedError::invalid("post", "a like takes either the post or the comment")),
        }
    }
}

/// Takes likes, and lists likers.
pub(crate) struct LikeService {
    base: Arc<Base>,
    eligibility: Arc<Eligibility>,
    memory: Arc<LikeMemory>,
    intake: Arc<LikeIntake>,
}

impl LikeService {
    /// A service that checks likes with `eligibility` and appends them to the queue with `intake`.
    pub(crate) fn new(
        base: Arc<Base>,
        eligibility: Arc<Eligibility>,
        memory: Arc<LikeMemory>,
        intake: Arc<LikeIntake>,
    ) -> Self {
        Self { base, eligibility, memory, intake }
    }

    pub(crate) async fn add(&self, call: Call, target: LikeTarget) -> Result<AcceptedLike> {
        self.set(call, target.object()?, true).await
    }

    pub(crate) async fn remove(&self, call: Call, target: LikeTarget) -> Result<AcceptedLike> {
        self.set(call, target.object()?, false).await
    }

    pub(crate) async fn likers(&self, caller: Caller, list: PostList) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode()?;
        let reader = caller.reader();
        if !self.base.visibility.can_see_post(reader, list.id).await? {
            return Err(NO_POST);
        }
        let mut page = UserPageBuilder::new(cursor, limit);
        while let Some((before, count)) = page.wants_users() {
            let ListPage { items: mut likers, next } = self.base.ledger.likers(list.id, before, count).await?;
            let people = likers.iter().map(|user| user.id.clone()).collect::<Vec<_>>();
            let seen = self.base.visibility.visible_users(reader, ViewContext::Direct, people).await?;
            likers.retain(|user| seen.contains(&user.id));
            page.take_users(likers, next);
        }
        Ok(page.finish().into())
    }

    async fn set(&self, call: Call, object: ContentId, liked: bool) -> Result<AcceptedLike> {
        let user = call.caller.user()?;
        let is_visible = match self.eligibility.check(user, object).await {
            Ok(()) => true,
            // A withdrawal needs no right to see the object, only a like.
            Err(FeedError::NotFound(_)) if !liked && self.is_liked(user, object).await? => false,
            Err(error) => return Err(error),
        };
        // Looked up before the like is queued, so that the cached count records settlements in between.
        let count = match self.memory.counts.get(object) {
            Some(count) => Some(count),
            None => Box::pin(self.load_count(object)).await,
        };
        let partition = self.memory.partition(object);
        let change = LikeChange { user: user.clone(), object, liked, at: now() };
        let place = self.intake.enqueue(partition, &change, call.client).await?;
        let before = self.memory.states.insert((change.user, object), liked);
        let difference = match (before == Some(liked), liked) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        };
        let likes = count.map(|count| count.accept(partition, place, difference)).filter(|_| is_visible);
        Ok(AcceptedLike { state: AcceptedState::Accepted, liked, likes })
    }

    /// Whether the user likes an object, which may be deleted or hidden: as acknowledged by this node, or as settled. A
    /// like that another node has acknowledged and nobody settled yet is reverted, because the object is not visible.
    async fn is_liked(&self, user: &UserId, object: ContentId) -> Result<bool> {
        if self.memory.states.get(&(user.clone(), object)) == Some(true) {
            return Ok(true);
        }
        Ok(!self.base.ledger.likes_among(&[(object, user.clone())]).await?.is_empty())
    }

    /// Loads the count of an object from the broker, or from the ledger. `None` if neither answers in time.
    async fn load_count(&self, object: ContentId) -> Option<ProvisionalCount> {
        let counts = &self.memory.counts;
        let cached = tokio::time::timeout(LEDGER_TIMEOUT, self.base.broker.tallies(&[object])).await.ok()?.ok()?;
        if let Some(tally) = cached.into_iter().flatten().next() {
            return Some(counts.insert(object, tally));
        }
        if self.eligibility.is_unchecked() {
            return None;
        }
        // The timeout of the fetch excludes the time spent waiting for a turn. Otherwise the callers that waited
        // longest would time out one after the other.
        if let Ok(_turn) = tokio::time::timeout(LEDGER_TIMEOUT, counts.misses.turn(&[object])).await
            && counts.get(object).is_none()
        {
            let objects = counts.misses.take(&[object], |object| counts.get(*object).is_some());
            // The result is in the cache, or the fetch failed.
            let _ = tokio::time::timeout(LEDGER_TIMEOUT, self.fetch_counts(&objects)).await;
        }
        counts.get(object)
    }

    async fn fetch_counts(&self, objects: &[ContentId]) -> Result<()> {
        let tallies = self.base.ledger.like_tallies(objects).await?;
        // If a settler has written a newer tally, the broker keeps that one.
        self.base.broker.set_tallies(&tallies).await?;
        tallies.into_iter().for_each(|(object, tally)| _ = self.memory.counts.insert(object, tally));
        Ok(())
    }
}
