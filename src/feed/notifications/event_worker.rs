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

use super::failing_events::{EventQuarantine, FailingEvents};
use super::like_notifications::like_notifications;
use super::{Notifications, PendingNotification};
use crate::feed::content::PostCache;
use crate::feed::error::{Result, isolate};
use crate::feed::event_queue::EventQueue;
use crate::feed::runtime::Runtime;
use crate::feed::visibility::{CommentContexts, VisibilityPolicy};
use crate::feed::work::{Consumer, Pace, Ran, work};
use crate::ledger::{EventConsumer, Fault, Fence, Ledger, QueuedEvent};
use crate::metrics::Metrics;
use crate::model::{Comment, CommentId, ContentId, DomainEvent, NotificationKind, PostId, UserId};

/// The queue is read at this interval without a wake-up.
const PACE: Pace = Pace { poll: Duration::from_millis(500), gather: MIN_PAUSE };

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

/// The pause while only events wait that failed a moment ago.
const FAILING_PAUSE: Duration = Duration::from_millis(100);

/// Turns events into notifications.
pub(crate) struct EventWorker {
    ledger: Arc<dyn Ledger>,
    runtime: Arc<Runtime>,
    queue: Arc<EventQueue>,
    posts: Arc<PostCache>,
    comments: Arc<CommentContexts>,
    visibility: Arc<VisibilityPolicy>,
    notifications: Arc<Notifications>,
    quarantine: EventQuarantine,
    metrics: Arc<Metrics>,
}

impl EventWorker {
    /// Workers of this queue: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        runtime: Arc<Runtime>,
        queue: Arc<EventQueue>,
        posts: Arc<PostCache>,
        comments: Arc<CommentContexts>,
        visibility: Arc<VisibilityPolicy>,
        notifications: Arc<Notifications>,
        quarantine: EventQuarantine,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { ledger, runtime, queue, posts, comments, visibility, notifications, quarantine, metrics }
    }

    /// Works until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        for consumer in [EventConsumer::Notifications, EventConsumer::Likes] {
            self.runtime.supervise("event_workers", self, move |worker| async move {
                let Some(own) = worker.queue.consumer(consumer) else { return };
                let mut batches = Batches { worker: &worker, consumer, failing: FailingEvents::default() };
                let policy = worker.quarantine.of(consumer);
                work(&own.partition, &worker.runtime, &own.waker, PACE, policy, &mut batches).await;
            });
        }
    }

    /// Processes a batch, if events wait.
    async fn poll(&self, consumer: EventConsumer, failing: &mut FailingEvents) -> Result<Ran> {
        let began = Instant::now();
        let max_recipients = match consumer {
            EventConsumer::Likes => LIKES_BATCH,
            _ => BATCH_RECIPIENTS,
        };
        let mut batch = self.read_events(consumer, max_recipients).await?;
        if batch.is_empty() {
            return Ok(Ran::Idle(None));
        }
        let mut sum = 0;
        let fits = batch.iter().take_while(|event| {
            let fits = sum < max_recipients;
            sum += recipients(event);
            fits
        });
        batch.truncate(fits.count());
        let batch = self.quarantine_unreadable(consumer, batch).await?;
        let (alone, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(seq, _)| failing.contains(*seq));
        let mut has_processed = false;
        if !batch.is_empty() || alone.is_empty() {
            self.process_batch(consumer, batch, failing).await?;
            has_processed = true;
        }
        for event in alone {
            if failing.is_due(event.0) && self.process_alone(consumer, event, failing).await? {
                has_processed = true;
            }
        }
        if !has_processed {
            return Ok(Ran::Rest(FAILING_PAUSE));
        }
        self.queue.wake(EventConsumer::Outlet);
        Ok(Ran::Rest(match consumer {
            EventConsumer::Likes => LIKES_PAUSE,
            _ => began.elapsed().clamp(MIN_PAUSE, MAX_REST),
        }))
    }

    /// Processes a batch. If it keeps failing while the stores work, its events are processed alone.
    async fn process_batch(
        &self,
        consumer: EventConsumer,
        batch: Vec<(i64, DomainEvent)>,
        failing: &mut FailingEvents,
    ) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        match isolate(self.process(&batch)).await.0 {
            Ok(()) => failing.batches = 0,
            Err(error) => {
                failing.batches = if error.is_outage() { 0 } else { failing.batches + 1 };
                if failing.batches < MAX_ATTEMPTS {
                    return Err(error);
                }
                failing.batches = 0;
                for event in batch {
                    self.process_alone(consumer, event, failing).await?;
                }
                return Ok(());
            }
        }
        let done: Vec<i64> = batch.iter().map(|(seq, _)| *seq).collect();
        self.ledger.finish_events(consumer, &done).await?;
        self.quarantine.of(consumer).succeeded(batch[0].0);
        Ok(())
    }

    /// Processes an event. One that fails by itself is set aside. Returns whether it does not wait any more.
    async fn process_alone(
        &self,
        consumer: EventConsumer,
        (seq, event): (i64, DomainEvent),
        failing: &mut FailingEvents,
    ) -> Result<bool> {
        let policy = self.quarantine.of(consumer);
        let (processed, cause) = isolate(self.process(&[(seq, event)])).await;
        match processed {
            Ok(()) => {
                self.ledger.finish_events(consumer, &[seq]).await?;
                policy.succeeded(seq);
            }
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => {
                failing.failed(seq);
                let Some(fault) = policy.failed(seq, &error, cause).await else { return Ok(false) };
                self.set_aside(consumer, seq, &fault).await?;
            }
        }
        failing.remove(seq);
        Ok(true)
    }

    /// The first waiting events, enough for a batch.
    async fn read_events(&self, consumer: EventConsumer, max_recipients: usize) -> Result<Vec<QueuedEvent>> {
        let limit = match consumer {
            EventConsumer::Likes => LIKES_EVENTS,
            _ => BATCH,
        };
        let mut first = self.ledger.pending_events(consumer, limit).await?;
        let has_more = first.len() == limit;
        if has_more && limit < BATCH && first.iter().map(recipients).sum::<usize>() < max_recipients {
            first = self.ledger.pending_events(consumer, BATCH).await?;
        }
        Ok(first)
    }

    async fn quarantine_unreadable(
        &self,
        consumer: EventConsumer,
        batch: Vec<QueuedEvent>,
    ) -> Result<Vec<(i64, DomainEvent)>> {
        let mut readable = Vec::with_capacity(batch.len());
        for queued in batch {
            match queued.event {
                Ok(event) => readable.push((queued.seq, event)),
                Err(reason) => self.set_aside(consumer, queued.seq, &Fault::now(reason, 1)).await?,
            }
        }
        Ok(readable)
    }

    async fn set_aside(&self, consumer: EventConsumer, seq: i64, fault: &Fault) -> Result<()> {
        let reason = &fault.reason;
        tracing::error!(event = seq, reason, "an event is set aside, nobody is notified of it");
        self.metrics.event_failed();
        Ok(self.ledger.quarantine_event(consumer, seq, fault).await?)
    }

    async fn process(&self, batch: &[(i64, DomainEvent)]) -> Result<()> {
        let context = self.load_comments(batch).await?;
        let mut notifications = like_notifications(&self.posts, &self.comments, batch).await?;
        for (seq, event) in batch {
            let first = notifications.len();
            match event {
                DomainEvent::PostCreated { post, author, mentions }
                | DomainEvent::PostEdited { post, author, mentions } => {
                    let kind = NotificationKind::Mention(ContentId::Post(*post));
                    notifications.extend(mentions.iter().map(|to| PendingNotification::new(to, kind, author)));
                }
                DomainEvent::CommentCreated { comment, .. } => {
                    self.add_comment_notifications(*comment, event, &context, &mut notifications).await?;
                }
                DomainEvent::CommentEdited { comment, author, mentions } => {
                    let kind = NotificationKind::Mention(ContentId::Comment(*comment));
                    notifications.extend(mentions.iter().map(|to| PendingNotification::new(to, kind, author)));
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
    async fn add_comment_notifications(
        &self,
        id: CommentId,
        event: &DomainEvent,
        context: &CommentBatch,
        notifications: &mut Vec<PendingNotification>,
    ) -> Result<()> {
        let DomainEvent::CommentCreated { post, reply_to, author, mentions, .. } = event else { return Ok(()) };
        // A comment that has been deleted has no notifications.
        if context.comments.get(&id).is_none_or(|comment| comment.author.is_none()) {
            return Ok(());
        }
        let mut notified: HashSet<&UserId> = HashSet::from([author]);
        let replied_to = reply_to.and_then(|above| context.comments.get(&above)?.author.as_ref());
        if let (Some(above), Some(to)) = (reply_to, replied_to)
            && notified.insert(to)
        {
            notifications.push(PendingNotification::new(to, NotificationKind::Reply(*above), author).under(*post));
        }
        if let Some(to) = context.post_authors.get(post)
            && notified.insert(to)
        {
            let above = reply_to.and_then(|above| context.threads.get(&above)).into_iter().flatten();
            if self.visibility.can_see_all(Some(to), above).await? {
                notifications.push(PendingNotification::new(to, NotificationKind::Comment(*post), author).under(*post));
            }
        }
        let mentioned = mentions.iter().filter(|to| !notified.contains(to));
        let kind = NotificationKind::Mention(ContentId::Comment(id));
        notifications.extend(mentioned.map(|to| PendingNotification::new(to, kind, author).under(*post)));
        Ok(())
    }

    /// Loads the comments of a batch, and the authors of their ancestors.
    async fn load_comments(&self, batch: &[(i64, DomainEvent)]) -> Result<CommentBatch> {
        let (mut ids, mut posts, mut replied_to) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (_, event) in batch {
            if let DomainEvent::CommentCreated { comment, post, reply_to, .. } = event {
                ids.insert(*comment);
                ids.extend(reply_to);
                posts.insert(*post);
                replied_to.extend(reply_to);
            }
        }
        if ids.is_empty() {
            return Ok(CommentBatch::default());
        }
        let comments = self.ledger.comments(&ids.into_iter().collect::<Vec<_>>()).await?;
        let posts = self.posts.get(posts).await?;
        Ok(CommentBatch {
            comments: comments.into_iter().map(|comment| (comment.id, comment)).collect(),
            post_authors: posts.into_iter().map(|(id, cached)| (id, cached.post.author.clone())).collect(),
            threads: self.comments.authors_in_threads(replied_to.into_iter().map(Some)).await?,
        })
    }
}

/// The batches of one consumer.
struct Batches<'a> {
    worker: &'a EventWorker,
    consumer: EventConsumer,
    failing: FailingEvents,
}

#[async_trait]
impl Consumer for Batches<'_> {
    async fn begin(&mut self, _fence: &Fence) -> Result<()> {
        self.failing = FailingEvents::default();
        Ok(())
    }

    async fn run(&mut self, _fence: &Fence) -> Result<Ran> {
        self.worker.poll(self.consumer, &mut self.failing).await
    }
}

/// The maximal number of notifications that an event can create.
fn recipients(queued: &QueuedEvent) -> usize {
    queued.event.as_ref().map_or(0, DomainEvent::recipients)
}

/// The comments of a batch.
#[derive(Default)]
struct CommentBatch {
    comments: HashMap<CommentId, Comment>,
    post_authors: HashMap<PostId, UserId>,
    /// For each comment, its author and the authors of its ancestors.
    threads: HashMap<CommentId, Vec<UserId>>,
}
