//! The workers of the event queue: they turn events into notifications.
//!
//! An event (a post that mentions users, a comment, a follow, a like) is written to the ledger's queue in the
//! transaction of the write. Writes therefore do not wait for notifications, and no event is lost. The owner of the
//! partition `events/notifications` (`feed/work/`) takes events in order, expands them to their recipients, and records
//! notifications in batches. After each batch it pauses for as long as the batch took: it shares the disk with posts
//! and likes, and has the lowest priority.
//!
//! Likes are a separate partition, `events/likes`, with pauses of half a second, so that other events do not wait
//! behind a burst of likes. While many like events wait, no more are written; some likes then have no notification.
//!
//! Each group in the ledger stores the last event of each user, so that a repeat changes nothing. Other events end what
//! earlier ones caused (`endings.rs`).
//!
//! The outlet is a further consumer of the same queue, see `feed/outlet/`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::like_notifications::like_notifications;
use super::{Notifications, PendingNotification};
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::event_queue::{EVENT_BATCH, EventHandler, MIN_EVENT_PAUSE, PendingEvent};
use crate::feed::visibility::CommentContext;
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{EventConsumer, Fence, QueuedEvent};
use crate::model::{CommentId, ContentId, DomainEvent, NotificationKind, UserId};

/// The longest pause between two batches.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The maximal number of recipients of a batch.
const BATCH_RECIPIENTS: usize = 256;

/// The pause after a batch of likes, the likes of a batch, and the events that are read first. In a burst, these events
/// contain more likes than a batch.
const LIKES_PAUSE: Duration = Duration::from_millis(500);
const LIKES_BATCH: usize = 2_000;
const LIKES_EVENTS: usize = 20;

/// Turns events into notifications. `wiring/mod.rs` sets the fields.
pub(crate) struct EventWorker {
    pub(crate) base: Arc<Base>,
    pub(crate) notifications: Arc<Notifications>,
    /// Decides about events of likes.
    pub(crate) like_quarantine: Arc<QuarantinePolicy>,
    /// Decides about other events.
    pub(crate) quarantine: Arc<QuarantinePolicy>,
}

impl EventWorker {
    /// Works until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for consumer in [EventConsumer::Notifications, EventConsumer::Likes] {
            self.base.runtime.supervise("event_workers", self, move |worker| async move {
                let is_likes = consumer == EventConsumer::Likes;
                let policy = if is_likes { &worker.like_quarantine } else { &worker.quarantine };
                let handler = NotificationHandler { worker: &worker, consumer, is_likes };
                worker.base.events.consume(consumer, policy, &handler).await;
            });
        }
    }

    async fn process(&self, batch: &[PendingEvent]) -> Result<()> {
        batch.iter().for_each(|pending| self.notifications.drop_cached(&pending.event));
        let mut comments = HashSet::new();
        let mut posts = HashSet::new();
        for PendingEvent { event, .. } in batch {
            if let DomainEvent::CommentCreated { comment, post, reply_to, .. } = event {
                comments.insert(*comment);
                comments.extend(reply_to);
                posts.insert(*post);
            }
        }
        let comments = self.base.contexts.get(comments.into_iter()).await?;
        let posts = self.base.posts.get(posts).await?;
        let mut notifications = like_notifications(&self.base.posts, &self.base.contexts, batch).await?;
        for PendingEvent { seq, event, .. } in batch {
            let first = notifications.len();
            match event {
                DomainEvent::PostCreated { post, author, mentions } => {
                    notifications.extend(mentioned(ContentId::Post(*post), author, mentions));
                }
                DomainEvent::PostEdited { post, author, mentions, still_mentioned, .. } => {
                    // Some of those who are mentioned still may see the post only now.
                    let all = mentions.iter().chain(still_mentioned.iter().flatten());
                    notifications.extend(mentioned(ContentId::Post(*post), author, all));
                }
                DomainEvent::CommentCreated { post, .. } => {
                    let post_author = posts.get(post).map(|cached| &cached.post.author);
                    notifications.extend(self.comment_notifications(event, post_author, &comments).await?);
                }
                DomainEvent::CommentEdited { comment, author, mentions, .. } => {
                    notifications.extend(mentioned(ContentId::Comment(*comment), author, mentions));
                }
                DomainEvent::Followed { follower, followee } => {
                    notifications.push(PendingNotification::new(followee, NotificationKind::Follow, follower));
                }
                // Likes are expanded above. The next ones end notifications, the others concern the outlet alone.
                DomainEvent::Liked { .. }
                | DomainEvent::CommentDeleted { .. }
                | DomainEvent::Unliked { .. }
                | DomainEvent::Restricted { .. }
                | DomainEvent::PostDeleted { .. }
                | DomainEvent::Unfollowed { .. }
                | DomainEvent::Notified { .. }
                | DomainEvent::UserConnected { .. }
                | DomainEvent::UserAway { .. }
                | DomainEvent::ChannelSubscribed { .. }
                | DomainEvent::ChannelVacated { .. } => {}
            }
            notifications[first..].iter_mut().for_each(|notification| notification.event = *seq);
        }
        self.notifications.notify(notifications).await?;
        self.notifications.end(batch).await
    }

    /// Notifies each recipient of a comment once: the user that it replies to, the post's author, and mentioned users.
    /// The visibility of its ancestors is checked when the notification is recorded; for the post's author it is
    /// checked here.
    async fn comment_notifications(
        &self,
        event: &DomainEvent,
        post_author: Option<&UserId>,
        comments: &HashMap<CommentId, CommentContext>,
    ) -> Result<Vec<PendingNotification>> {
        let DomainEvent::CommentCreated { comment, post, reply_to, author, mentions } = event else {
            return Ok(Vec::new());
        };
        // A comment that has been deleted has no notifications.
        let Some(context) = comments.get(comment) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut notified: HashSet<&UserId> = HashSet::from([author]);
        if let Some((above, replied_to)) = reply_to.and_then(|above| Some((above, comments.get(&above)?)))
            && notified.insert(&replied_to.author)
        {
            let reply = PendingNotification::new(&replied_to.author, NotificationKind::Reply(above), author);
            found.push(reply.caused_by(*comment));
        }
        if let Some(to) = post_author
            && notified.insert(to)
            && self.sees_ancestors(to, *comment, context).await?
        {
            found.push(PendingNotification::new(to, NotificationKind::Comment(*post), author).caused_by(*comment));
        }
        let others = mentions.iter().filter(|to| !notified.contains(to));
        found.extend(mentioned(ContentId::Comment(*comment), author, others));
        Ok(found.into_iter().map(|notification| notification.under(*post)).collect())
    }

    /// Whether a user may see the authors of all ancestors of a comment. A deleted ancestor does not hide the comments
    /// below it, so a cached denial is verified again.
    async fn sees_ancestors(&self, user: &UserId, comment: CommentId, context: &CommentContext) -> Result<bool> {
        let Base { contexts, visibility, .. } = &*self.base;
        if visibility.can_see_all(Some(user), context.ancestors.iter()).await? {
            return Ok(true);
        }
        if !context.is_cached {
            return Ok(false);
        }
        contexts.invalidate(comment);
        match contexts.get([comment].into_iter()).await?.get(&comment) {
            Some(context) => visibility.can_see_all(Some(user), context.ancestors.iter()).await,
            None => Ok(false),
        }
    }
}

/// Processes the events of one consumer.
struct NotificationHandler<'a> {
    worker: &'a EventWorker,
    consumer: EventConsumer,
    is_likes: bool,
}

#[async_trait]
impl EventHandler for NotificationHandler<'_> {
    async fn read(&self) -> Result<Vec<QueuedEvent>> {
        let (limit, max_recipients) =
            if self.is_likes { (LIKES_EVENTS, LIKES_BATCH) } else { (EVENT_BATCH, BATCH_RECIPIENTS) };
        let mut events = self.worker.base.ledger.pending_events(self.consumer, limit).await?;
        let has_more = events.len() == limit;
        if has_more && limit < EVENT_BATCH && events.iter().map(recipients).sum::<usize>() < max_recipients {
            events = self.worker.base.ledger.pending_events(self.consumer, EVENT_BATCH).await?;
        }
        let mut sum = 0;
        events.retain(|event| {
            let fits = sum < max_recipients;
            sum += recipients(event);
            fits
        });
        Ok(events)
    }

    async fn process(&self, _fence: &Fence, events: &[PendingEvent]) -> Result<bool> {
        let EventWorker { base, .. } = self.worker;
        self.worker.process(events).await?;
        let done: Vec<i64> = events.iter().map(|pending| pending.seq).collect();
        base.ledger.finish_events(self.consumer, &done).await?;
        // The outlet gets events of notifications.
        base.events.wake(EventConsumer::Outlet);
        Ok(true)
    }

    fn pause(&self, took: Duration) -> Duration {
        if self.is_likes { LIKES_PAUSE } else { took.clamp(MIN_EVENT_PAUSE, MAX_PAUSE) }
    }
}

/// Notifies users who are mentioned in a post or a comment.
fn mentioned<'a>(
    object: ContentId,
    author: &'a UserId,
    mentions: impl IntoIterator<Item = &'a UserId> + 'a,
) -> impl Iterator<Item = PendingNotification> + 'a {
    mentions.into_iter().map(move |to| PendingNotification::new(to, NotificationKind::Mention(object), author))
}

/// The maximal number of notifications that an event can create.
fn recipients(queued: &QueuedEvent) -> usize {
    queued.event.as_ref().map_or(0, DomainEvent::recipients)
}
