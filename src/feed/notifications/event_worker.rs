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
//! Delivery is at least once. Each group in the ledger stores the last event of each user, so that a repeat changes
//! nothing. An event that cannot be decoded, or that keeps failing, is quarantined with the reason, and counted.
//!
//! The outlet is a further consumer of the same queue, see `feed/outlet/`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::like_notifications::like_notifications;
use super::{Notifications, PendingNotification};
use crate::backoff::Backoff;
use crate::feed::base::Base;
use crate::feed::error::{Result, isolate};
use crate::feed::visibility::CommentContext;
use crate::feed::work::{Consumer, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::ledger::{EventConsumer, Fault, Fence, QueuedEvent};
use crate::model::{CommentId, ContentId, DomainEvent, NotificationKind, UserId};

/// The queue is read at this interval without a wake-up.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_millis(500), gather: MIN_PAUSE };

/// The shortest time between two batches.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause between two batches.
const MAX_REST: Duration = Duration::from_millis(250);

/// The maximal number of events of one read, and of recipients of a batch.
const BATCH: usize = 200;
const BATCH_RECIPIENTS: usize = 256;

/// The pause after a batch of likes, the likes of a batch, and the events that are read first. In a burst, these events
/// contain more likes than a batch.
const LIKES_PAUSE: Duration = Duration::from_millis(500);
const LIKES_BATCH: usize = 2_000;
const LIKES_EVENTS: usize = 20;

/// Attempts at a whole batch while the ledger returns permanent errors. After that, each event is processed alone.
const MAX_ATTEMPTS: u32 = 3;

/// The range of pauses between two attempts at a failing event, and the pause while only such events wait.
const MIN_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(3);
const FAILING_PAUSE: Duration = Duration::from_millis(100);

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
                let Some(own) = worker.base.events.consumer(consumer) else { return };
                let is_likes = consumer == EventConsumer::Likes;
                let policy = if is_likes { &worker.like_quarantine } else { &worker.quarantine };
                let (failures, failing) = (0, HashMap::new());
                let mut batches = EventBatches { worker: &worker, consumer, is_likes, policy, failures, failing };
                work(&own.partition, &worker.base.runtime, &own.waker, SCHEDULE, policy, &mut batches).await;
            });
        }
    }

    async fn process(&self, batch: &[(i64, DomainEvent)]) -> Result<()> {
        let (mut comments, mut posts) = (HashSet::new(), HashSet::new());
        for (_, event) in batch {
            if let DomainEvent::CommentCreated { comment, post, reply_to, .. } = event {
                comments.insert(*comment);
                comments.extend(reply_to);
                posts.insert(*post);
            }
        }
        let comments = self.base.contexts.get(comments.into_iter()).await?;
        let posts = self.base.posts.get(posts).await?;
        let mut notifications = like_notifications(&self.base.posts, &self.base.contexts, batch).await?;
        for (seq, event) in batch {
            let first = notifications.len();
            match event {
                DomainEvent::PostCreated { post, author, mentions }
                | DomainEvent::PostEdited { post, author, mentions } => {
                    notifications.extend(mentioned(ContentId::Post(*post), author, mentions));
                }
                DomainEvent::CommentCreated { post, .. } => {
                    let post_author = posts.get(post).map(|cached| &cached.post.author);
                    notifications.extend(self.comment_notifications(event, post_author, &comments).await?);
                }
                DomainEvent::CommentEdited { comment, author, mentions } => {
                    notifications.extend(mentioned(ContentId::Comment(*comment), author, mentions));
                }
                DomainEvent::Followed { follower, followee } => {
                    notifications.push(PendingNotification::new(followee, NotificationKind::Follow, follower));
                }
                // Likes are expanded above. The others concern the outlet alone.
                DomainEvent::Liked { .. }
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
        self.notifications.notify(notifications).await
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
            found.push(PendingNotification::new(&replied_to.author, NotificationKind::Reply(above), author));
        }
        if let Some(to) = post_author
            && notified.insert(to)
            && self.sees_ancestors(to, *comment, context).await?
        {
            found.push(PendingNotification::new(to, NotificationKind::Comment(*post), author));
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

/// The batches of one consumer.
struct EventBatches<'a> {
    worker: &'a EventWorker,
    consumer: EventConsumer,
    is_likes: bool,
    policy: &'a QuarantinePolicy,
    /// Consecutive failures of whole batches.
    failures: u32,
    /// The events that failed by themselves, and when they are due. Each is tried alone, and the others go on. They are
    /// among the first events that wait, so their number is bounded.
    failing: HashMap<i64, (Backoff, Instant)>,
}

#[async_trait]
impl Consumer for EventBatches<'_> {
    async fn begin(&mut self, _fence: &Fence) -> Result<()> {
        (self.failures, self.failing) = (0, HashMap::new());
        Ok(())
    }

    /// Processes a batch, if events wait.
    async fn run(&mut self, _fence: &Fence) -> Result<RunOutcome> {
        let began = Instant::now();
        let waiting = self.read().await?;
        if waiting.is_empty() {
            return Ok(RunOutcome::Idle(None));
        }
        let events = self.quarantine_unreadable(waiting).await?;
        let (alone, batch): (Vec<_>, Vec<_>) = events.into_iter().partition(|(seq, _)| self.failing.contains_key(seq));
        let mut has_processed = !batch.is_empty() || alone.is_empty();
        self.process_batch(batch).await?;
        for event in alone {
            let is_due = self.failing.get(&event.0).is_none_or(|(_, due)| *due <= Instant::now());
            has_processed |= is_due && self.process_alone(event).await?;
        }
        if !has_processed {
            return Ok(RunOutcome::Rest(FAILING_PAUSE));
        }
        self.worker.base.events.wake(EventConsumer::Outlet);
        Ok(RunOutcome::Rest(if self.is_likes { LIKES_PAUSE } else { began.elapsed().clamp(MIN_PAUSE, MAX_REST) }))
    }
}

impl EventBatches<'_> {
    /// The first waiting events, enough for a batch.
    async fn read(&self) -> Result<Vec<QueuedEvent>> {
        let (limit, max_recipients) =
            if self.is_likes { (LIKES_EVENTS, LIKES_BATCH) } else { (BATCH, BATCH_RECIPIENTS) };
        let mut events = self.worker.base.ledger.pending_events(self.consumer, limit).await?;
        let has_more = events.len() == limit;
        if has_more && limit < BATCH && events.iter().map(recipients).sum::<usize>() < max_recipients {
            events = self.worker.base.ledger.pending_events(self.consumer, BATCH).await?;
        }
        let mut sum = 0;
        events.retain(|event| {
            let fits = sum < max_recipients;
            sum += recipients(event);
            fits
        });
        Ok(events)
    }

    /// Processes a batch. If it keeps failing while the stores work, its events are processed alone.
    async fn process_batch(&mut self, batch: Vec<(i64, DomainEvent)>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let Err(error) = isolate(self.worker.process(&batch)).await.0 else {
            self.failures = 0;
            return self.finish(&batch).await;
        };
        self.failures = if error.is_outage() { 0 } else { self.failures + 1 };
        if self.failures < MAX_ATTEMPTS {
            return Err(error);
        }
        self.failures = 0;
        for event in batch {
            self.process_alone(event).await?;
        }
        Ok(())
    }

    /// Processes an event. One that fails by itself is set aside. Returns whether it does not wait any more.
    async fn process_alone(&mut self, event: (i64, DomainEvent)) -> Result<bool> {
        let (seq, event) = (event.0, [event]);
        let (processed, cause) = isolate(self.worker.process(&event)).await;
        match processed {
            Ok(()) => self.finish(&event).await?,
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => {
                let first = || (Backoff::new(MIN_RETRY, MAX_RETRY), Instant::now());
                let (backoff, due) = self.failing.entry(seq).or_insert_with(first);
                *due = Instant::now() + backoff.next_delay();
                let Some(fault) = self.policy.failed(seq, &error, cause).await else { return Ok(false) };
                self.set_aside(seq, &fault).await?;
            }
        }
        self.failing.remove(&seq);
        Ok(true)
    }

    /// Removes processed events from the queue.
    async fn finish(&self, events: &[(i64, DomainEvent)]) -> Result<()> {
        let done: Vec<i64> = events.iter().map(|(seq, _)| *seq).collect();
        self.worker.base.ledger.finish_events(self.consumer, &done).await?;
        self.policy.succeeded(done[0]);
        Ok(())
    }

    async fn quarantine_unreadable(&self, waiting: Vec<QueuedEvent>) -> Result<Vec<(i64, DomainEvent)>> {
        let mut readable = Vec::with_capacity(waiting.len());
        for QueuedEvent { seq, event, .. } in waiting {
            match event {
                Ok(event) => readable.push((seq, event)),
                Err(reason) => self.set_aside(seq, &Fault::now(reason, 1)).await?,
            }
        }
        Ok(readable)
    }

    async fn set_aside(&self, seq: i64, fault: &Fault) -> Result<()> {
        let reason = &fault.reason;
        tracing::error!(event = seq, reason, "an event is set aside, nobody is notified of it");
        self.worker.base.metrics.event_failed();
        Ok(self.worker.base.ledger.quarantine_event(self.consumer, seq, fault).await?)
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
