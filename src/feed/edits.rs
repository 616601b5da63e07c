//! Editing a post: what changes, and who is told.

use std::collections::HashSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fanout::LIVE;
use super::posts::{Draft, NO_POST, marked};
use super::{Call, Feed, FeedError, Result, now};
use crate::broker::{Append, Confirmation, Invalidation};
use crate::ledger::{EditOutcome, EventConsumer};
use crate::model::{Entry, Event, GoneReason, Left, Location, Media, Post, PostId, UserId, Visibility};

/// How many edits of different posts run at once without waiting for each other.
const EDIT_LOCKS: usize = 64;

/// How long an edit waits for the edits of the same post that came to this node before it.
const EDIT_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How often an edit is retried after another node edited the same post, and the longest pause between two attempts.
/// Each node has one edit of a post under way at a time, so each round of attempts completes at least one node's edit.
const MAX_EDIT_ATTEMPTS: u32 = 64;
const MAX_EDIT_PAUSE: Duration = Duration::from_millis(50);

/// A change of a post. What is not given stays; `null` clears.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The post's id.
    id: PostId,
    /// What it says.
    #[serde(default, deserialize_with = "given")]
    text: Option<Option<String>>,
    /// What it shows.
    #[serde(default, deserialize_with = "given")]
    media: Option<Option<Vec<Media>>>,
    /// Where it was written.
    #[serde(default, deserialize_with = "given")]
    location: Option<Option<Location>>,
    /// What it is about, besides the `#words` of the text.
    #[serde(default, deserialize_with = "given")]
    topics: Option<Option<Vec<String>>>,
    /// Who may see it.
    #[serde(default, deserialize_with = "given")]
    visibility: Option<Option<Visibility>>,
    /// The application's own part.
    #[serde(default, deserialize_with = "given")]
    data: Option<Option<Map<String, Value>>>,
}

/// A member that is there, if only as `null`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Edit {
    /// The post as it would be written anew.
    fn of(self, post: Post) -> Draft {
        // Topics that the old text named go with it.
        let named: HashSet<String> = marked(&post.text, '#').map(str::to_lowercase).collect();
        let topics = post.topics.into_iter().filter(|topic| !named.contains(topic)).collect();
        Draft {
            text: self.text.map_or(post.text, Option::unwrap_or_default),
            media: self.media.map_or(post.media, Option::unwrap_or_default),
            location: self.location.unwrap_or(post.location),
            topics: self.topics.map_or(topics, Option::unwrap_or_default),
            platform: post.platform,
            visibility: self.visibility.map_or(post.visibility, Option::unwrap_or_default),
            data: self.data.unwrap_or(post.data),
        }
    }
}

impl Feed {
    pub(super) async fn edit_own_post(&self, call: Call, edit: Edit) -> Result<Box<RawValue>> {
        let author = call.caller.user()?;
        let id = edit.id;
        if self.post(&call.caller, id).await?.post.author != *author {
            return Err(FeedError::Forbidden("only its author can edit a post"));
        }
        let confirmation = {
            let _turn = self.edit_locks.lock(id).await?;
            self.apply_edit(&call, author, edit).await?
        };
        self.confirm(confirmation).await;
        self.events.wake(EventConsumer::Notifications);
        let body = self.bodies.get([id]).await?.remove(&id).ok_or(NO_POST)?;
        self.present(Some(author), &[body]).await?.pop().ok_or(NO_POST)
    }

    /// Applies the patch to the post as it is now, by compare-and-set: an edit that another node committed meanwhile is
    /// neither lost nor overwritten. Answers with what to wait for.
    async fn apply_edit(&self, call: &Call, author: &UserId, edit: Edit) -> Result<Confirmation> {
        let id = edit.id;
        for attempt in 0..MAX_EDIT_ATTEMPTS {
            let body = self.bodies.get([id]).await?.remove(&id).ok_or(NO_POST)?;
            let before = &body.post;
            let now = now();
            let mut post = edit.clone().of(before.clone()).into_post(author, id, &self.options.limits)?;
            post.created_at = before.created_at;
            // The version of the post: it grows with each edit, also where the clock stands still or goes back.
            post.edited_at = Some(before.edited_at.map_or(now, |last| now.max(last + 1)));
            let event = Event::post_edited(before, &post);
            if let (0, Some(Event::PostEdited { mentions, .. })) = (attempt, &event) {
                self.count_mentions(call, mentions).await?;
            }
            let reserved = self.fanout.reserve(author);
            match self.ledger.edit_post(&post, before.edited_at, event.as_ref(), reserved.lease()).await? {
                EditOutcome::Edited(jobs) => {
                    let invalidated = self.announce(&[Invalidation::Post(id)]).await;
                    self.fanout.offer(jobs, reserved);
                    return invalidated;
                }
                EditOutcome::Missing => return Err(NO_POST),
                EditOutcome::Conflict => self.bodies.forget(id),
            }
            let pause = MAX_EDIT_PAUSE.min(Duration::from_millis(2 << attempt.min(8)));
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..1.0))).await;
        }
        Err(FeedError::Busy("this post is being edited by too many at once, try again"))
    }

    /// Tells those who look at the author's profile, at a topic or at the post. It has left those who could see it, and
    /// may not any more, and the topics that it is not about any more.
    pub(super) async fn tell_edit(&self, job: i64, before: Left, topics: &[String]) -> Result<()> {
        let id = before.post;
        let Some(body) = self.bodies.get([id]).await?.remove(&id) else { return Ok(()) };
        let edited = Entry::Edited(id);
        let everywhere = [format!("user:{}", before.author), format!("post:{id}")];
        let narrowed = before.visibility != body.post.visibility;
        let left = Entry::Left(Box::new(before));
        for channel in &everywhere {
            self.tell_live(job, channel, &edited).await?;
            if narrowed {
                self.tell_live(job, channel, &left).await?;
            }
        }
        for topic in &body.post.topics {
            let entry = if topics.contains(topic) { edited.clone() } else { Entry::Post(id) };
            self.tell_live(job, &format!("topic:{topic}"), &entry).await?;
        }
        for topic in topics.iter().filter(|topic| narrowed || !body.post.topics.contains(topic)) {
            self.tell_live(job, &format!("topic:{topic}"), &left).await?;
        }
        Ok(())
    }

    /// Tells one channel, once of each kind for each job.
    async fn tell_live(&self, job: i64, channel: &str, entry: &Entry) -> Result<()> {
        let key = format!("job {job} {}", char::from(entry.encode().0));
        let append = Append { channel, entry, keep: LIVE, idempotency_key: Some(&key), version: None };
        self.broker.append(append).await?;
        Ok(())
    }
}

/// Serialises the edits of one post on this node, so that they do not conflict with each other in the ledger.
pub(super) struct EditLocks([tokio::sync::Mutex<()>; EDIT_LOCKS]);

impl EditLocks {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| tokio::sync::Mutex::new(())))
    }

    /// Waits for the edits of this post that came before.
    async fn lock(&self, id: PostId) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        // Ids of one node often share their low bits: Fibonacci hashing uses all of them.
        let stripe = (id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % EDIT_LOCKS;
        tokio::time::timeout(EDIT_LOCK_TIMEOUT, self.0[stripe].lock())
            .await
            .map_err(|_| FeedError::Busy("this post is being edited by too many at once, try again"))
    }
}

/// That a post may not be seen any more by all who could see it so.
pub(super) fn left(post: PostId, author: &UserId, visibility: &Visibility, reason: GoneReason) -> Left {
    Left { post, author: author.clone(), visibility: visibility.clone(), reason }
}
