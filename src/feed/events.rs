//! Works the queue of events off: from what happened to notifications.
//!
//! Whatever happens (a post that mentions others, a comment, a follow, a like) is written to the ledger's queue in
//! the transaction that makes it happen, so that nobody who writes waits for notifications and none is lost. One
//! process at a time, the one with the lease, takes events in order, expands them to those who are to be notified,
//! and notes that in batches. Between two batches it rests as long as a batch took: it shares the disk with posts and
//! likes, and is the least urgent.
//!
//! Likes are a consumer of their own, with pauses of half a second: what else happens does not wait behind a storm of
//! them. While many events of likes wait, no more are written; some likes are not notified of then.
//!
//! An event is worked off at least once. The ledger remembers in each group up to which event of a person it is, so that once more
//! changes nothing. An event that cannot be read, or that keeps failing, is put aside with the reason, and counted.
//!
//! Pushes and webhooks will be further consumers of the same queue, see [`EventConsumer`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::notifications::Notice;
use super::{Feed, FeedError, Result, now};
use crate::ledger::{EventConsumer, QueuedEvent};
use crate::model::{Comment, CommentId, Event, Object, PostId, UserId, What};

/// How long a process keeps the lease without a sign of life, and how old it may be when a batch begins.
const LEASE: Duration = Duration::from_secs(5);
const LEASE_RENEWAL: Duration = Duration::from_secs(1);

/// How often the queue is looked at though nobody said that something was written.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest time between two looks, and between two signals to other nodes.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The longest rest between two batches.
const MAX_REST: Duration = Duration::from_millis(250);

/// Events that are read at once, and how many may have to be notified in a batch of them.
const BATCH: usize = 200;
const BATCH_RECIPIENTS: usize = 256;

/// The pause after a batch of likes, how many likes a batch has, and how many of their events are read first: in a
/// storm that many hold more likes than a batch.
const LIKES_PAUSE: Duration = Duration::from_millis(500);
const LIKES_BATCH: usize = 2_000;
const LIKES_EVENTS: usize = 20;

/// Of how many new likes of one object an event is written, each time some are settled; and how many events of likes
/// may wait before it is of none.
const LIKES_NOTED: usize = 500;
const MAX_LIKES_WAITING: u64 = 2_000;

/// How often a batch is tried as a whole, and then each event of it, while the ledger answers with errors that trying again does not
/// mend.
const MAX_ATTEMPTS: u32 = 3;

/// The longest pause between two attempts while a store cannot be reached.
const MAX_BACK_OFF: Duration = Duration::from_secs(3);

/// The signal that events were written.
pub(super) const WRITTEN: &[u8] = b"events";

/// What the workers share with those who write events.
#[derive(Default)]
pub(super) struct EventQueue {
    notifications: Worker,
    likes: Worker,
    /// Events of likes that wait, when it was last looked.
    likes_waiting: AtomicU64,
}

/// One consumer in this process.
#[derive(Default)]
struct Worker {
    /// An event was written by this process.
    written: Notify,
    /// Another process wrote events.
    signalled: Notify,
    /// Until when this process has the lease for sure.
    leased_until: Mutex<Option<Instant>>,
}

impl EventQueue {
    /// An event was written by this process.
    pub(super) fn wake(&self, consumer: EventConsumer) {
        self.worker(consumer).written.notify_one();
    }

    /// Another process said so.
    pub(super) fn on_signal(&self) {
        self.notifications.signalled.notify_one();
        self.likes.signalled.notify_one();
    }

    /// Of how many new likes of one object an event is written.
    pub(super) fn likes_noted(&self) -> usize {
        if self.likes_waiting.load(Ordering::Relaxed) < MAX_LIKES_WAITING { LIKES_NOTED } else { 0 }
    }

    fn worker(&self, consumer: EventConsumer) -> &Worker {
        match consumer {
            EventConsumer::Notifications => &self.notifications,
            EventConsumer::Likes => &self.likes,
        }
    }
}

/// How a look at the queue ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// A batch was worked off; there may be more.
    Worked,
    /// Nothing waits.
    Empty,
    /// Something waits, and another process has the lease.
    Others,
}

impl Feed {
    /// Starts the workers.
    pub(super) fn start_events(self: &Arc<Self>) {
        for consumer in [EventConsumer::Notifications, EventConsumer::Likes] {
            let feed = Arc::clone(self);
            self.fanout.tasks().spawn(async move {
                feed.work_events(consumer).await;
                if feed.events.worker(consumer).leased_until.lock().take().is_some()
                    && let Err(error) = feed.ledger.release_events(consumer, feed.fanout.holder()).await
                {
                    tracing::debug!(%error, "the lease of the event queue could not be given up and will run out");
                }
            });
        }
    }

    async fn work_events(&self, consumer: EventConsumer) {
        let (mut back_off, mut attempts, mut signalled_at) = (MIN_PAUSE, 0, None::<Instant>);
        let worker = self.events.worker(consumer);
        let mut written = false;
        loop {
            let began = Instant::now();
            let pause = match self.look_at_events(consumer, &mut attempts).await {
                Ok(Look::Worked) => {
                    back_off = MIN_PAUSE;
                    match consumer {
                        EventConsumer::Notifications => began.elapsed().clamp(MIN_PAUSE, MAX_REST),
                        EventConsumer::Likes => LIKES_PAUSE,
                    }
                }
                Ok(look) => {
                    back_off = MIN_PAUSE;
                    if look == Look::Others && written && signalled_at.is_none_or(|at| at.elapsed() > SIGNAL_INTERVAL) {
                        signalled_at = Some(Instant::now());
                        // If it is not heard, the other process looks by itself.
                        let _ = self.broker.signal(WRITTEN.into()).await;
                    }
                    match (look, consumer) {
                        (Look::Others, EventConsumer::Likes) => LIKES_PAUSE,
                        _ => Duration::ZERO,
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "notifications wait for the ledger");
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    back_off.mul_f64(rand::random_range(0.5..1.5))
                }
            };
            written = false;
            if !pause.is_zero() {
                if !self.fanout.sleep(pause).await {
                    return;
                }
                continue;
            }
            tokio::select! {
                () = worker.written.notified() => written = true,
                () = worker.signalled.notified() => {}
                more = self.fanout.sleep(POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2))) => if !more { return },
            }
            if !self.fanout.sleep(MIN_PAUSE).await {
                return;
            }
        }
    }

    /// Works off a batch, if something waits and no other process is at it.
    async fn look_at_events(&self, consumer: EventConsumer, attempts: &mut u32) -> Result<Look> {
        let most = match consumer {
            EventConsumer::Notifications => BATCH_RECIPIENTS,
            EventConsumer::Likes => LIKES_BATCH,
        };
        let mut batch = self.read_events(consumer, most).await?;
        if batch.is_empty() {
            return Ok(Look::Empty);
        }
        if !self.lease_events(consumer).await? {
            return Ok(Look::Others);
        }
        let mut sum = 0;
        let fits = batch.iter().take_while(|event| {
            let fits = sum < most;
            sum += recipients(event);
            fits
        });
        batch.truncate(fits.count());
        let batch = self.put_unreadable_aside(consumer, batch).await?;
        match self.notify_of_events(&batch).await {
            Ok(()) => *attempts = 0,
            // The stores are there, and something in the batch is wrong.
            Err(FeedError::Internal) => {
                *attempts += 1;
                if *attempts < MAX_ATTEMPTS {
                    return Err(FeedError::Internal);
                }
                *attempts = 0;
                self.notify_one_by_one(consumer, batch).await?;
                return Ok(Look::Worked);
            }
            Err(error) => return Err(error),
        }
        let done: Vec<i64> = batch.iter().map(|(seq, _)| *seq).collect();
        self.ledger.finish_events(consumer, &done).await?;
        Ok(Look::Worked)
    }

    /// The first events that wait, enough for a batch. Notes how many there are.
    async fn read_events(&self, consumer: EventConsumer, most: usize) -> Result<Vec<QueuedEvent>> {
        let limit = match consumer {
            EventConsumer::Notifications => BATCH,
            EventConsumer::Likes => LIKES_EVENTS,
        };
        let mut first = self.ledger.pending_events(consumer, limit).await?;
        let all_read = first.len() < limit;
        if !all_read && limit < BATCH && first.iter().map(recipients).sum::<usize>() < most {
            first = self.ledger.pending_events(consumer, BATCH).await?;
        }
        let waiting = match all_read {
            true => first.len() as u64,
            false => self.ledger.event_backlog(consumer).await?.events,
        };
        let oldest = first.first().map(|event| now().saturating_sub(event.at));
        match consumer {
            EventConsumer::Notifications => self.metrics.event_backlog(waiting, oldest),
            EventConsumer::Likes => {
                let before = self.events.likes_waiting.swap(waiting, Ordering::Relaxed);
                if before < MAX_LIKES_WAITING && waiting >= MAX_LIKES_WAITING {
                    tracing::warn!(waiting, "likes come too fast for all of them to be notified of");
                }
                self.metrics.like_event_backlog(waiting);
            }
        }
        Ok(first)
    }

    async fn lease_events(&self, consumer: EventConsumer) -> Result<bool> {
        let (now, leased_until) = (Instant::now(), &self.events.worker(consumer).leased_until);
        if leased_until.lock().is_some_and(|until| until > now + LEASE - LEASE_RENEWAL) {
            return Ok(true);
        }
        let is_ours = self.ledger.lease_events(consumer, self.fanout.holder(), LEASE).await?;
        *leased_until.lock() = is_ours.then_some(now + LEASE);
        Ok(is_ours)
    }

    async fn put_unreadable_aside(
        &self,
        consumer: EventConsumer,
        batch: Vec<QueuedEvent>,
    ) -> Result<Vec<(i64, Event)>> {
        let mut readable = Vec::with_capacity(batch.len());
        for queued in batch {
            match queued.event {
                Ok(event) => readable.push((queued.seq, event)),
                Err(reason) => self.put_aside(consumer, queued.seq, &reason).await?,
            }
        }
        Ok(readable)
    }

    async fn put_aside(&self, consumer: EventConsumer, seq: i64, reason: &str) -> Result<()> {
        tracing::error!(event = seq, reason, "an event is put aside, nobody is notified of it");
        self.metrics.event_failed();
        Ok(self.ledger.fail_event(consumer, seq, reason).await?)
    }

    /// Finds out which event of a batch cannot be dealt with.
    async fn notify_one_by_one(&self, consumer: EventConsumer, batch: Vec<(i64, Event)>) -> Result<()> {
        for (seq, event) in batch {
            match self.notify_of_events(&[(seq, event)]).await {
                Ok(()) => self.ledger.finish_events(consumer, &[seq]).await?,
                Err(FeedError::Internal) => {
                    self.put_aside(consumer, seq, "the ledger refused its notifications, see the log").await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn notify_of_events(&self, batch: &[(i64, Event)]) -> Result<()> {
        let context = self.comment_context(batch).await?;
        let mut notices = self.like_notices(batch).await?;
        for (seq, event) in batch {
            let first = notices.len();
            match event {
                Event::PostCreated { post, author, mentions } | Event::PostEdited { post, author, mentions } => {
                    let what = What::Mention(Object::Post(*post));
                    notices.extend(mentions.iter().map(|to| Notice::new(to, what, author)));
                }
                Event::CommentCreated { comment, .. } => {
                    self.expand_comment(*comment, event, &context, &mut notices).await?;
                }
                Event::Followed { follower, followee } => notices.push(Notice::new(followee, What::Follow, follower)),
                // See above.
                Event::Liked { .. } => {}
            }
            notices[first..].iter_mut().for_each(|notice| notice.event = *seq);
        }
        self.notifications.notify(notices).await
    }

    /// Everyone whom a comment concerns hears of it once: the user it replies to, the post's author, and those it mentions. Whether
    /// they may see what is above it is asked when they are notified of the comment; of the post it is asked here.
    async fn expand_comment(
        &self,
        id: CommentId,
        event: &Event,
        context: &CommentContext,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let Event::CommentCreated { post, parent, author, mentions, .. } = event else { return Ok(()) };
        // Nobody is notified of a comment that is deleted by now.
        if context.comments.get(&id).is_none_or(|comment| comment.author.is_none()) {
            return Ok(());
        }
        let mut told: HashSet<&UserId> = HashSet::from([author]);
        let replied_to = parent.and_then(|parent| context.comments.get(&parent)?.author.as_ref());
        if let (Some(parent), Some(to)) = (parent, replied_to)
            && told.insert(to)
        {
            notices.push(Notice::new(to, What::Reply(*parent), author));
        }
        if let Some(to) = context.post_authors.get(post)
            && told.insert(to)
        {
            let above = parent.and_then(|parent| context.lines.get(&parent)).into_iter().flatten();
            if self.visibility.can_see_all(Some(to), above).await? {
                notices.push(Notice::new(to, What::Comment(*post), author));
            }
        }
        let mentioned = mentions.iter().filter(|to| !told.contains(to));
        notices.extend(mentioned.map(|to| Notice::new(to, What::Mention(Object::Comment(id)), author)));
        Ok(())
    }

    /// What is known of the comments of a batch, and of what is above them.
    async fn comment_context(&self, batch: &[(i64, Event)]) -> Result<CommentContext> {
        let (mut ids, mut posts, mut parents) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (_, event) in batch {
            if let Event::CommentCreated { comment, post, parent, .. } = event {
                ids.insert(*comment);
                ids.extend(parent);
                posts.insert(*post);
                parents.extend(parent);
            }
        }
        if ids.is_empty() {
            return Ok(CommentContext::default());
        }
        let comments = self.ledger.comments(&ids.into_iter().collect::<Vec<_>>()).await?;
        let bodies = self.post_cache.get(posts).await?;
        Ok(CommentContext {
            comments: comments.into_iter().map(|comment| (comment.id, comment)).collect(),
            post_authors: bodies.into_iter().map(|(id, body)| (id, body.post.author.clone())).collect(),
            lines: self.comment_contexts.authors_in_threads(parents.into_iter().map(Some)).await?,
        })
    }
}

/// How many notifications may come of an event.
fn recipients(queued: &QueuedEvent) -> usize {
    queued.event.as_ref().map_or(0, Event::recipients)
}

/// What is known of comments.
#[derive(Default)]
struct CommentContext {
    comments: HashMap<CommentId, Comment>,
    post_authors: HashMap<PostId, UserId>,
    /// By comment the authors of it and of what is above it.
    lines: HashMap<CommentId, Vec<UserId>>,
}
