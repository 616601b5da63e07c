//! The queue of events: what happened, written in the transaction that made it happen, for those who work it off later.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::model::{DomainEvent, Millis};

/// Works events off. Each event waits for every consumer that wants it; a new consumer gets the events written from
/// then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventConsumer {
    /// Writes notifications, but for those of likes.
    Notifications,
    /// Writes notifications of likes, at a pace of its own: they are many, and nothing else is to wait for them.
    Likes,
}

impl EventConsumer {
    /// The consumers that want an event, as a set of [bits](Self::bit).
    pub fn all_of(event: &DomainEvent) -> i32 {
        match event {
            DomainEvent::Liked { .. } => Self::Likes.bit(),
            _ => Self::Notifications.bit(),
        }
    }

    /// Its bit in the set of those who have not dealt with an event yet.
    pub fn bit(self) -> i32 {
        match self {
            Self::Notifications => 1,
            Self::Likes => 2,
        }
    }

    /// Its name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notifications => "notifications",
            Self::Likes => "likes",
        }
    }
}

/// An event that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEvent {
    /// Its number. Numbers are never given twice; that of an event which was committed later may be smaller.
    pub seq: i64,
    /// When it happened, in Unix milliseconds.
    pub at: Millis,
    /// The event, or why the row cannot be read.
    pub event: std::result::Result<DomainEvent, String>,
}

/// How much waits for a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBacklog {
    /// Events.
    pub events: u64,
    /// When the oldest happened, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// How many events that could not be dealt with are kept, the newest, with the reasons.
pub const MAX_FAILED_EVENTS: u64 = 10_000;

/// The queue of events. [`PostStore::create_post`](super::PostStore::create_post),
/// [`PostStore::edit_post`](super::PostStore::edit_post),
/// [`CommentStore::create_comment`](super::CommentStore::create_comment),
/// [`FollowStore::follow`](super::FollowStore::follow) and [`LikeStore::settle_likes`](super::LikeStore::settle_likes)
/// write them, each in its own transaction.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Makes `holder` the one worker of a consumer for `ttl` from now, by the clock of the store, unless another is.
    /// Whether it is now.
    async fn lease_events(&self, consumer: EventConsumer, holder: &str, ttl: Duration) -> Result<bool>;

    /// Gives the lease up, if `holder` has it.
    async fn release_events(&self, consumer: EventConsumer, holder: &str) -> Result<()>;

    /// The first events that wait for a consumer, in the order of their numbers.
    async fn pending_events(&self, consumer: EventConsumer, limit: usize) -> Result<Vec<QueuedEvent>>;

    /// The consumer has dealt with these events: they go once no other waits for them.
    async fn finish_events(&self, consumer: EventConsumer, done: &[i64]) -> Result<()>;

    /// The consumer gives up on an event. It is kept with the reason, as one of the newest [`MAX_FAILED_EVENTS`].
    async fn fail_event(&self, consumer: EventConsumer, seq: i64, reason: &str) -> Result<()>;

    /// How much waits.
    async fn event_backlog(&self, consumer: EventConsumer) -> Result<EventBacklog>;
}
