//! Appends the changes of a job to the logs of profiles, topics and posts, once for each job.

use std::sync::Arc;

use crate::broker::Append;
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::ledger::JobId;
use crate::model::{Channel, Entry, GoneReason, PostId, PostRemoved, Retention, UserId, Visibility};

/// Appends to the logs of shared channels.
pub(super) struct ChannelUpdates {
    base: Arc<Base>,
}

impl ChannelUpdates {
    /// Appends to the logs of this broker.
    pub(super) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Appends an entry to the profile of an author and to topics.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(super) async fn publish(&self, job: JobId, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
        let key = format!("job {job}");
        let channels = topics.iter().map(|topic| topic_channel(topic));
        for channel in std::iter::once(Channel::User(author.clone())).chain(channels) {
            self.append(&channel, entry, &key).await?;
        }
        Ok(())
    }

    /// Appends an entry to the channel of a post.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(super) async fn publish_to_post(&self, job: JobId, post: PostId, entry: &Entry) -> Result<()> {
        self.append(&Channel::Post(post), entry, &format!("job {job}")).await
    }

    /// Appends an edit to the profile of the author, to the post and to its topics. The post is removed for readers
    /// that lost access by the edit, and from topics that the edit removed.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn publish_edit(&self, job: JobId, before: PostRemoved, topics: &[String]) -> Result<()> {
        let id = before.post;
        let Some(cached) = self.base.posts.get([id]).await?.remove(&id) else { return Ok(()) };
        let edited = Entry::Edited(id);
        let everywhere = [Channel::User(before.author.clone()), Channel::Post(id)];
        let narrowed = before.visibility != cached.post.visibility;
        let removed = Entry::PostRemoved(Box::new(before));
        for channel in &everywhere {
            self.append_kind(job, channel, &edited).await?;
            if narrowed {
                self.append_kind(job, channel, &removed).await?;
            }
        }
        for topic in &cached.post.topics {
            let entry = if topics.contains(topic) { edited.clone() } else { Entry::Post(id) };
            self.append_kind(job, &topic_channel(topic), &entry).await?;
        }
        for topic in topics.iter().filter(|topic| narrowed || !cached.post.topics.contains(topic)) {
            self.append_kind(job, &topic_channel(topic), &removed).await?;
        }
        Ok(())
    }

    /// Appends an entry, at most once of each kind for each job.
    async fn append_kind(&self, job: JobId, channel: &Channel, entry: &Entry) -> Result<()> {
        self.append(channel, entry, &format!("job {job} {}", char::from(entry.encode().0))).await
    }

    async fn append(&self, channel: &Channel, entry: &Entry, key: &str) -> Result<()> {
        let (channel, retention) = (channel.to_string(), Retention::SHARED);
        let append = Append { channel: &channel, entry, retention, idempotency_key: Some(key), version: None };
        self.base.broker.append(append).await?;
        Ok(())
    }
}

fn topic_channel(topic: &str) -> Channel {
    Channel::Topic(topic.into())
}

/// The removal of a post for all readers that could see it under its former visibility.
pub(super) fn removed(post: PostId, author: &UserId, visibility: &Visibility, reason: GoneReason) -> PostRemoved {
    PostRemoved { post, author: author.clone(), visibility: visibility.clone(), reason }
}
