//! Appends the changes of a job to the logs of profiles, topics and posts, once for each job.

use crate::broker::Append;
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::ledger::JobId;
use crate::model::{Channel, Entry, PostRemoved, Retention, UserId};

/// Appends an entry to the profile of an author and to topics.
///
/// # Errors
/// If the broker cannot be reached.
pub(super) async fn publish(base: &Base, job: JobId, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
    let channels = topics.iter().map(|topic| topic_channel(topic));
    for channel in std::iter::once(Channel::User(author.clone())).chain(channels) {
        append(base, job, &channel, entry).await?;
    }
    Ok(())
}

/// Appends an edit to the profile of the author, to the post and to its topics. The post is removed for readers
/// that lost access by the edit, and from topics that the edit removed.
///
/// # Errors
/// If a store cannot be reached.
pub(super) async fn publish_edit(base: &Base, job: JobId, before: PostRemoved, topics: &[String]) -> Result<()> {
    let id = before.post;
    let Some(cached) = base.posts.get([id]).await?.remove(&id) else { return Ok(()) };
    let edited = Entry::Edited(id);
    let everywhere = [Channel::User(before.author.clone()), Channel::Post(id)];
    let narrowed = before.visibility != cached.post.visibility;
    let removed = Entry::PostRemoved(Box::new(before));
    for channel in &everywhere {
        append(base, job, channel, &edited).await?;
        if narrowed {
            append(base, job, channel, &removed).await?;
        }
    }
    for topic in &cached.post.topics {
        let entry = if topics.contains(topic) { edited.clone() } else { Entry::Post(id) };
        append(base, job, &topic_channel(topic), &entry).await?;
    }
    for topic in topics.iter().filter(|topic| narrowed || !cached.post.topics.contains(topic)) {
        append(base, job, &topic_channel(topic), &removed).await?;
    }
    Ok(())
}

/// Appends an entry, at most once of each kind for each job.
///
/// # Errors
/// If the broker cannot be reached.
pub(super) async fn append(base: &Base, job: JobId, channel: &Channel, entry: &Entry) -> Result<()> {
    let channel = channel.to_string();
    let kind = char::from(entry.encode().0);
    let key = format!("job {job} {kind}");
    let retention = Retention::SHARED;
    let append = Append { channel: &channel, entry, retention, idempotency_key: Some(&key), version: None };
    base.broker.append(append).await?;
    Ok(())
}

fn topic_channel(topic: &str) -> Channel {
    Channel::Topic(topic.into())
}
