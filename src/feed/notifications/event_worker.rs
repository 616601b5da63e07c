//! The workers of the event queue: they turn events into notifications.
//!
//! An event (a post that mentions users, a comment, a follow, a like) is written to the ledger's queue in the
//! transaction of the write. Writes therefore do not wait for notifications, and no event is lost. The owner of the
//! partition `events/notifications` (`feed/work/`) takes events in order, expands them to their recipients, and records
//! notifications in batches. After each batch it pauses for as long as the batch took: it shares the disk with posts
//! and likes, and has the lowest priority.
//!
//! Likes are a separate partition, `events/likes`, with pauses of half a second, so that other events do not wait
//! behind a burst of likes. Notifications of one author are thereby recorded together, and settling, which writes to
//! the same disk, is not slowed. While many like events wait, no more are written; some likes then have no
//! notification.
//!
//! Each group in the ledger stores the last event of each user, so that a repeat changes nothing. Other events end what
//! earlier ones caused (`endings.rs`).
//!
//! An event of a reverted like informs its user.
//!
//! The outlet is a further consumer of the same queue, see `feed/outlet/`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Notifications, PendingNotification};
use crate::broker::Append;
use crate::feed::base::Base;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::event_queue::{EVENT_BATCH, EventHandler, MIN_EVENT_PAUSE, PendingEvent};
use crate::feed::visibility::{CommentContext, ViewContext};
use crate::feed::work::QuarantinePolicy;
use crate::ledger::{EventConsumer, Fence, QueuedEvent};
use crate::model::{
    AppGroup, AppNotification, Channel, ClientEvent, CommentId, ContentId, DomainEvent, Entry, NewLikes,
    NotificationKind, PostId, RevertReason, UserId,
};

/// The longest pause between two batches.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The maximal number of recipients of a batch.
const BATCH_RECIPIENTS: usize = 256;

/// The pause after a batch of likes, the likes of a batch, and the events that are read first. In a burst, these events
/// contain more likes than a batch.
const LIKES_PAUSE: Duration = Duration::from_millis(500);
const LIKES_BATCH: usize = 2_000;
const LIKES_EVENTS: usize = 20;

/// Likes of one object that are recorded in one round.
const MAX_PER_OBJECT: usize = 500;

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
        self.notifications.start_retention();
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
            match event {
                DomainEvent::CommentCreated { comment, post, reply_to, .. } => {
                    comments.insert(*comment);
                    comments.extend(reply_to);
                    posts.insert(*post);
                }
                DomainEvent::PostCreated { repost, quote, .. } => posts.extend(repost.iter().chain(quote)),
                _ => {}
            }
        }
        let comments = self.base.contexts.get(comments.into_iter()).await?;
        let posts = self.base.posts.get(posts).await?;
        let mut notifications = like_notifications(&self.base, batch).await?;
        for PendingEvent { seq, event, .. } in batch {
            let first = notifications.len();
            match event {
                DomainEvent::PostCreated { post, author, mentions, .. } => {
                    let named = self.named_notification(event, &posts).await?;
                    // The author of a quoted post is notified once, of the quote.
                    let others = mentions.iter().filter(|to| named.as_ref().is_none_or(|named| named.to != **to));
                    notifications.extend(mentioned(ContentId::Post(*post), author, others));
                    notifications.extend(named);
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
                DomainEvent::FollowRequested { follower, followee } => {
                    notifications.push(PendingNotification::new(followee, NotificationKind::Request, follower));
                }
                DomainEvent::FollowAccepted { follower, followee } => {
                    notifications.push(PendingNotification::new(follower, NotificationKind::Accepted, followee));
                }
                DomainEvent::AppNotified { to, notification } => {
                    notifications.extend(self.address(to, notification).await?);
                }
                // Likes are expanded above, reverts published below. The next ones end notifications, the others
                // concern the outlet alone.
                DomainEvent::Liked { .. }
                | DomainEvent::LikeReverted { .. }
                | DomainEvent::CommentDeleted { .. }
                | DomainEvent::Unliked { .. }
                | DomainEvent::Restricted { .. }
                | DomainEvent::PostDeleted { .. }
                | DomainEvent::PostRemoved { .. }
                | DomainEvent::CommentRemoved { .. }
                | DomainEvent::UserSuspended { .. }
                | DomainEvent::ReportCreated { .. }
                | DomainEvent::Unfollowed { .. }
                | DomainEvent::FollowRequestEnded { .. }
                | DomainEvent::Notified { .. }
                | DomainEvent::UserConnected { .. }
                | DomainEvent::UserAway { .. }
                | DomainEvent::ChannelSubscribed { .. }
                | DomainEvent::ChannelVacated { .. } => {}
            }
            notifications[first..].iter_mut().for_each(|notification| notification.event = *seq);
        }
        self.notifications.notify(notifications).await?;
        self.notifications.end(batch).await?;
        for PendingEvent { seq, event, .. } in batch {
            if let DomainEvent::LikeReverted { user, object, reason } = event {
                self.publish_revert(*seq, user, *object, *reason).await?;
            }
        }
        Ok(())
    }

    /// The notification of a repost or a quote for the author of the post, who must be able to see it.
    async fn named_notification(
        &self,
        event: &DomainEvent,
        posts: &HashMap<PostId, Arc<CachedPost>>,
    ) -> Result<Option<PendingNotification>> {
        let DomainEvent::PostCreated { post, author, repost, quote, .. } = event else { return Ok(None) };
        let Some(named) = repost.or(*quote).and_then(|named| posts.get(&named)) else { return Ok(None) };
        let to = &named.post.author;
        let kind = match repost {
            Some(reposted) => NotificationKind::Repost(*reposted),
            None => NotificationKind::Quote(*post),
        };
        if to == author || !self.base.visibility.can_see_post(Some(to), *post).await? {
            return Ok(None);
        }
        Ok(Some(PendingNotification::new(to, kind, author).under(named.post.id)))
    }

    /// The pending notifications of a request. Without a user on whose behalf, each is by its recipient. Recipients who
    /// hide from that user get none; other restrictions are checked as for all notifications.
    async fn address(&self, to: &[UserId], notification: &AppNotification) -> Result<Vec<PendingNotification>> {
        let kind = NotificationKind::App(AppGroup::of(notification));
        let content = Arc::new(notification.clone());
        let mut to: Vec<&UserId> = to.iter().collect();
        if let Some(from) = &notification.from {
            let all: HashSet<UserId> = to.iter().copied().cloned().collect();
            let open = self.base.visibility.visible_users(Some(from), ViewContext::Direct, all).await?;
            to.retain(|user| open.contains(*user));
        }
        let pending = |to: &UserId| {
            let by = content.from.as_ref().unwrap_or(to);
            PendingNotification { content: Some(Arc::clone(&content)), ..PendingNotification::new(to, kind, by) }
        };
        Ok(to.into_iter().map(pending).collect())
    }

    /// Appends a reverted like to the log of its user's notifications, so that devices without a connection learn of
    /// it, too. A repeat appends it once.
    async fn publish_revert(&self, seq: i64, user: &UserId, object: ContentId, reason: RevertReason) -> Result<()> {
        let channel = Channel::Notifications(user.clone()).to_string();
        let entry = Entry::Data(ClientEvent::LikeReverted { id: object.number(), reason }.encode());
        let retention = self.base.options.timeline.notification_log();
        // A restored ledger issues numbers again.
        let key = format!("revert {} {seq}", self.base.lineage.incarnation());
        let append = Append { channel: &channel, entry: &entry, retention, idempotency_key: Some(&key), version: None };
        self.base.broker.append(append).await?;
        Ok(())
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

/// The notifications of the likes among events, for the authors of the liked objects.
async fn like_notifications(base: &Base, batch: &[PendingEvent]) -> Result<Vec<PendingNotification>> {
    let likes = bounded(batch);
    if likes.is_empty() {
        return Ok(Vec::new());
    }
    let comment_ids = likes.iter().filter_map(|like| match like.object {
        ContentId::Post(_) => None,
        ContentId::Comment(comment) => Some(comment),
    });
    let contexts = base.contexts.get(comment_ids).await?;
    let post_ids = likes.iter().filter_map(|like| match like.object {
        ContentId::Post(post) => Some(post),
        ContentId::Comment(_) => None,
    });
    let posts = base.posts.get(post_ids.collect::<Vec<PostId>>()).await?;
    let mut liked: HashMap<ContentId, (UserId, PostId)> = HashMap::new();
    liked.extend(posts.values().map(|cached| {
        let post = cached.post.id;
        (ContentId::Post(post), (cached.post.author.clone(), post))
    }));
    liked.extend(
        contexts.into_iter().map(|(comment, context)| (ContentId::Comment(comment), (context.author, context.post))),
    );
    let notification = |Like { event, by, object }: Like<'_>| {
        // Deleted objects have no author, and users are not notified of their own likes.
        let (to, post) = liked.get(&object).filter(|(author, _)| author != by)?;
        let notification = PendingNotification::new(to, NotificationKind::Like(object), by).under(*post);
        Some(PendingNotification { event, ..notification })
    };
    Ok(likes.into_iter().filter_map(notification).collect())
}

/// A like, and the number of its event.
#[derive(Clone, Copy, Debug)]
struct Like<'a> {
    event: i64,
    by: &'a UserId,
    object: ContentId,
}

/// The likes that are recorded in this round.
fn bounded(batch: &[PendingEvent]) -> Vec<Like<'_>> {
    let mut by_object: HashMap<ContentId, usize> = HashMap::new();
    let mut all = Vec::new();
    let mut dropped = 0_usize;
    for (event, NewLikes { object, by }) in batch.iter().flat_map(|pending| match &pending.event {
        DomainEvent::Liked { likes } => likes.iter().map(|likes| (pending.seq, likes)).collect(),
        _ => Vec::new(),
    }) {
        let count = by_object.entry(*object).or_default();
        let taken = by.len().min(MAX_PER_OBJECT.saturating_sub(*count));
        *count += taken;
        dropped += by.len() - taken;
        all.extend(by[..taken].iter().map(|by| Like { event, by, object: *object }));
    }
    if dropped > 0 {
        tracing::warn!(dropped, "likes come too fast for all of them to be notified of");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likes_of_a_popular_object_are_bounded() {
        let like = |n: usize, post| (UserId::parse(&format!("u{n}")).expect("an id"), ContentId::Post(PostId(post)));
        let hot = (0..1_200).map(|n| like(n, 1));
        let others = (0..300).map(|n| like(n, 2 + n as u64));
        let events = DomainEvent::liked(&hot.chain(others).collect::<Vec<_>>(), usize::MAX);
        let batch: Vec<_> = (1..).zip(events).map(|(seq, event)| PendingEvent { seq, at: 0, event }).collect();
        let kept = bounded(&batch);
        assert_eq!(kept.len(), MAX_PER_OBJECT + 300);
        assert!(kept.iter().filter(|like| like.object == ContentId::Post(PostId(1))).all(|like| like.event <= 2));
    }
}
