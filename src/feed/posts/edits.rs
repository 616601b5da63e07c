//! Edits of posts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::draft::{Draft, audience, marks, refuse_own_api};
use crate::broker::{Confirmation, Invalidation};
use crate::feed::base::Base;
use crate::feed::call::Call;
use crate::feed::error::{FeedError, NO_POST, Result};
use crate::feed::patch::{clearable, present, settable};
use crate::feed::runtime::now;
use crate::ledger::{EditOutcome, EventConsumer};
use crate::model::{CommentPolicy, DomainEvent, Location, Media, Post, PostId, UserId, Visibility};

/// The number of locks for edits: edits of posts with different locks run concurrently.
const EDIT_LOCKS: usize = 64;

/// How long an edit waits for earlier edits of the same post on this node.
const EDIT_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximal number of attempts after conflicts with edits of the same post on other nodes, and the longest pause
/// between two attempts. Each node makes one edit of a post at a time, so each round of attempts completes at least one
/// node's edit.
const MAX_EDIT_ATTEMPTS: u32 = 64;
const MAX_EDIT_PAUSE: Duration = Duration::from_millis(50);

/// A change of a post. Absent members keep their values; `null` clears those that can be without one. `visibility` is
/// never `null`: no null makes an audience larger.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PostEdit")]
pub(crate) struct Edit {
    /// The post's id.
    id: PostId,
    /// The text.
    #[serde(default)]
    #[schemars(with = "String", transform = settable)]
    text: Option<String>,
    /// Pictures and videos.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    media: Option<Option<Vec<Media>>>,
    /// The place where it was written.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    location: Option<Option<Location>>,
    /// The topics, besides the `#words` of the text.
    #[serde(default)]
    #[schemars(with = "Vec<String>", transform = settable)]
    topics: Option<Vec<String>>,
    /// The visibility of the post.
    #[serde(default, deserialize_with = "present_audience")]
    #[schemars(with = "Visibility", transform = settable)]
    visibility: Option<Visibility>,
    /// Who may comment on it, of those who can see it. Comments that are there stay.
    #[serde(default)]
    #[schemars(with = "CommentPolicy", transform = settable)]
    comment_policy: Option<CommentPolicy>,
    /// Data of the application.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    data: Option<Option<Map<String, Value>>>,
}

fn present_audience<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Visibility>, D::Error> {
    audience(deserializer).map(Some)
}

impl Edit {
    /// The draft of the post with the change applied.
    fn apply_to(self, post: Post) -> Draft {
        // Removes the topics that come from the old text; the new text defines its own.
        let named: HashSet<String> = marks(&post.text).topics.into_iter().collect();
        let topics = post.topics.into_iter().filter(|topic| !named.contains(topic)).collect();
        Draft {
            text: self.text.unwrap_or(post.text),
            media: self.media.map_or(post.media, Option::unwrap_or_default),
            location: self.location.unwrap_or(post.location),
            topics: self.topics.unwrap_or(topics),
            platform: post.platform,
            visibility: self.visibility.unwrap_or(post.visibility),
            comment_policy: self.comment_policy.unwrap_or(post.comment_policy),
            data: self.data.unwrap_or(post.data),
            quote: post.quote,
        }
    }
}

/// Edits posts.
pub(crate) struct PostEditor {
    base: Arc<Base>,
    locks: EditLocks,
}

impl PostEditor {
    /// Edits the posts in this ledger. Submits their fan-out to the job queue of `write`.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base, locks: EditLocks::new() }
    }

    pub(crate) async fn edit(&self, call: Call, edit: Edit) -> Result<Box<RawValue>> {
        let author = call.caller.user()?;
        let id = edit.id;
        let cached = self.base.visibility.post(call.caller.reader(), id).await?;
        if cached.post.author != *author {
            return Err(FeedError::Forbidden("only its author can edit a post"));
        }
        cached.check_is_no_repost()?;
        let media = edit.media.as_ref().and_then(Option::as_deref).unwrap_or_default();
        let data = edit.data.as_ref().and_then(Option::as_ref);
        refuse_own_api(media, data, &self.base.options.own_hosts)?;
        let confirmation = {
            let _turn = self.locks.lock(id).await?;
            self.apply_edit(&call, author, edit).await?
        };
        self.base.invalidator.confirm(confirmation).await;
        self.base.events.wake(EventConsumer::Notifications);
        let cached = self.base.posts.get([id]).await?.remove(&id).ok_or(NO_POST)?;
        self.base.post_renderer.render(Some(author), &[cached]).await?.pop().ok_or(NO_POST)
    }

    /// Applies the change to the current state of the post by compare-and-set, so that a concurrent edit of another
    /// node is neither lost nor overwritten. What changes nothing is no edit. Returns the confirmation to wait for.
    async fn apply_edit(&self, call: &Call, author: &UserId, edit: Edit) -> Result<Confirmation> {
        let id = edit.id;
        let mut known = HashSet::new();
        for attempt in 0..MAX_EDIT_ATTEMPTS {
            let cached = self.base.posts.get([id]).await?.remove(&id).ok_or(NO_POST)?;
            let before = &cached.post;
            if before.removed.is_some() {
                return Err(FeedError::Forbidden("this post was removed"));
            }
            let now = now();
            let mut post = edit.clone().apply_to(before.clone()).into_edited(before, &self.base.options.limits)?;
            post.created_at = before.created_at;
            post.edited_at = before.edited_at;
            if post == *before && self.is_stored(before).await? {
                // An earlier try may have been stored, and not announced.
                return self.base.invalidator.announce(&[Invalidation::Post(id)]).await;
            }
            // The version of the post. It grows with each edit, even if the clock does not advance or goes back.
            post.edited_at = Some(before.edited_at.map_or(now, |last| now.max(last + 1)));
            if attempt == 0 {
                let added = post.topics.iter().filter(|topic| !before.topics.contains(topic)).count();
                self.base.rates.take_topics(call, added)?;
            }
            if attempt == 0 {
                let named = post.mentions.iter().chain(post.visibility.named());
                known = self.base.identity.spellings(named).await?;
            }
            UserId::respell(post.mentions.iter_mut().chain(post.visibility.named_mut()), &known);
            let event = DomainEvent::post_edited(before, &post);
            if attempt == 0 {
                self.base.rates.take_mentions(call, &DomainEvent::newly_mentioned(before, &post)).await?;
            }
            let turn = self.base.jobs.begin_write(author).await;
            match self.base.ledger.edit_post(before, &post, event.as_ref(), now).await? {
                EditOutcome::Edited(jobs) => {
                    let invalidated = self.base.invalidator.announce(&[Invalidation::Post(id)]).await;
                    self.base.jobs.submit(jobs, turn);
                    return invalidated;
                }
                EditOutcome::Missing => return Err(NO_POST),
                EditOutcome::Conflict => self.base.posts.invalidate(id),
            }
            let pause = MAX_EDIT_PAUSE.min(Duration::from_millis(2 << attempt.min(8)));
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..1.0))).await;
        }
        Err(FeedError::Busy("this post is being edited by too many at once, try again"))
    }

    /// Whether the ledger has this state of a post. This node's copy may be older.
    async fn is_stored(&self, post: &Post) -> Result<bool> {
        self.base.posts.invalidate(post.id);
        Ok(self.base.posts.get([post.id]).await?.remove(&post.id).is_some_and(|stored| stored.post == *post))
    }
}

/// Serialises the edits of one post on this node, to avoid conflicts in the ledger.
struct EditLocks([tokio::sync::Mutex<()>; EDIT_LOCKS]);

impl EditLocks {
    fn new() -> Self {
        Self(std::array::from_fn(|_| tokio::sync::Mutex::new(())))
    }

    /// Waits for earlier edits of this post.
    async fn lock(&self, id: PostId) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        // Ids of one node often share their low bits: Fibonacci hashing uses all of them.
        let stripe = (id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % EDIT_LOCKS;
        tokio::time::timeout(EDIT_LOCK_TIMEOUT, self.0[stripe].lock())
            .await
            .map_err(|_| FeedError::Busy("this post is being edited by too many at once, try again"))
    }
}
