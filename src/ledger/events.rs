//! The queue of events. Each event is written in the transaction of its cause and processed later by consumers.

use async_trait::async_trait;

use super::Result;
use crate::model::{DomainEvent, Millis};

/// A consumer of events. Each event is kept for all consumers that want it; a new consumer gets the events written from
/// then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventConsumer {
    /// Writes notifications, and ends those whose cause ended, except for likes. Publishes reverted likes.
    Notifications = 1,
    /// Writes notifications of likes. They are numerous, so they have their own consumer and do not delay other
    /// notifications.
    Likes = 2,
    /// Appends events to the log of the outlet.
    Outlet = 4,
}

impl EventConsumer {
    /// The consumers that want an event, as a set of [bits](Self::bit). `outlet`: whether there is an outlet.
    pub fn all_of(event: &DomainEvent, outlet: bool) -> i32 {
        let outlet = if outlet { Self::Outlet.bit() } else { 0 };
        match event {
            DomainEvent::Liked { .. } | DomainEvent::Unliked { .. } => Self::Likes.bit(),
            DomainEvent::PostCreated { mentions, repost, quote, .. } => {
                let is_plain = mentions.is_empty() && repost.is_none() && quote.is_none();
                outlet | if is_plain { 0 } else { Self::Notifications.bit() }
            }
            DomainEvent::PostEdited { mentions, unmentioned, still_mentioned, .. } => {
                let is_plain = mentions.is_empty() && unmentioned.is_empty() && still_mentioned.is_none();
                outlet | if is_plain { 0 } else { Self::Notifications.bit() }
            }
            DomainEvent::CommentCreated { .. }
            | DomainEvent::CommentEdited { .. }
            | DomainEvent::CommentDeleted { .. }
            | DomainEvent::LikeReverted { .. }
            | DomainEvent::AppNotified { .. }
            | DomainEvent::Restricted { .. } => Self::Notifications.bit(),
            DomainEvent::FollowRequested { .. } | DomainEvent::FollowRequestEnded { .. } => Self::Notifications.bit(),
            DomainEvent::Followed { .. }
            | DomainEvent::FollowAccepted { .. }
            | DomainEvent::Unfollowed { .. }
            | DomainEvent::PostDeleted { .. }
            | DomainEvent::PostRemoved { .. }
            | DomainEvent::CommentRemoved { .. } => Self::Notifications.bit() | outlet,
            DomainEvent::Notified { .. }
            | DomainEvent::UserSuspended { .. }
            | DomainEvent::ReportCreated { .. }
            | DomainEvent::UserConnected { .. }
            | DomainEvent::UserAway { .. }
            | DomainEvent::ChannelSubscribed { .. }
            | DomainEvent::ChannelVacated { .. } => outlet,
        }
    }

    /// The bit of this consumer in the set of consumers that have not processed an event yet.
    pub fn bit(self) -> i32 {
        self as i32
    }

    /// Its name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notifications => "notifications",
            Self::Likes => "likes",
            Self::Outlet => "outlet",
        }
    }
}

/// An event in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEvent {
    /// Its number. Numbers are never reused. An event that was committed later may have a smaller number.
    pub seq: i64,
    /// When it happened, in Unix milliseconds.
    pub at: Millis,
    /// The event, or the reason why the row cannot be decoded.
    pub event: std::result::Result<DomainEvent, String>,
}

/// The backlog of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBacklog {
    /// The number of events that the consumer has not processed yet.
    pub events: u64,
    /// The time of the oldest of these events, in Unix milliseconds.
    pub oldest: Option<Millis>,
}

/// The queue of events. The methods that create, edit and delete posts and comments, follow and unfollow, restrict,
/// and settle likes write them, each in its own transaction. With an outlet,
/// [`NotificationStore::notify_many`](super::NotificationStore::notify_many) does, too.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// The first events that wait for a consumer, ordered by number.
    async fn pending_events(&self, consumer: EventConsumer, limit: usize) -> Result<Vec<QueuedEvent>>;

    /// Marks events as processed by the consumer. An event is removed once no consumer waits for it. Also those that a
    /// former owner of the consumer processed: what is done need not be repeated.
    async fn finish_events(&self, consumer: EventConsumer, done: &[i64]) -> Result<()>;

    /// The backlog of a consumer.
    async fn event_backlog(&self, consumer: EventConsumer) -> Result<EventBacklog>;
}
