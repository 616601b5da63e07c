//! Editing a post: what changes, and who is told.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fanout::LIVE;
use super::posts::{Draft, marked};
use super::{Caller, Feed, FeedError, Result, now};
use crate::broker::Append;
use crate::model::{Entry, GoneReason, Left, Location, Media, Object, Post, PostId, UserId, Visibility};

/// A change of a post. What is not given stays; `null` clears.
#[derive(Deserialize, JsonSchema)]
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
    pub(super) async fn edit_own_post(&self, caller: Caller, edit: Edit) -> Result<Box<RawValue>> {
        let author = caller.user()?;
        let before = self.post(&caller, edit.id).await?;
        if before.post.author != *author {
            return Err(FeedError::Forbidden("only its author can edit a post"));
        }
        let now = now();
        let mut post = edit.of(before.post.clone()).into_post(author, before.post.id, &self.options.limits)?;
        post.created_at = before.post.created_at;
        post.edited_at = Some(now);
        let jobs = self.ledger.edit_post(&post, &self.fanout.lease(now)).await?;
        if jobs.is_empty() {
            return Err(super::posts::NO_POST);
        }
        let forgotten = self.forget(post.id).await;
        jobs.into_iter().for_each(|job| self.fanout.offer(job));
        forgotten?;
        let body = self.bodies.get([post.id]).await?.remove(&post.id).ok_or(super::posts::NO_POST)?;
        let named = body.post.mentions.iter().filter(|name| !before.post.mentions.contains(name));
        self.notify_named(named, Object::Post(post.id), author).await;
        self.present(Some(author), &[body]).await?.pop().ok_or(super::posts::NO_POST)
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

/// That a post may not be seen any more by all who could see it so.
pub(super) fn left(post: PostId, author: &UserId, visibility: &Visibility, reason: GoneReason) -> Left {
    Left { post, author: author.clone(), visibility: visibility.clone(), reason }
}
