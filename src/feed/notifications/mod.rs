//! Notifications: recipients, grouping, and read state.
//!
//! Notices come from the event queue (`event_worker.rs`), so that writes do not wait for them. A batch for one user is
//! recorded in one transaction and pushed once, for any number of likes of the same post.
//!
//! Visibility is checked when a notification is recorded, and again when the notification is read or pushed. For this
//! reason the log of `notifications:<user>` holds only ids.

mod application;
mod conversations;
mod endings;
mod event_worker;
mod retention;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use application::{AppNotificationDraft, AppNotified};
pub(crate) use conversations::Conversations;
pub(crate) use event_worker::EventWorker;

use super::call::{Call, Caller};
use super::error::Result;
use super::input::OwnList;
use super::paging::{PageBuilder, PageCursor as _};
use super::pushes::clear_plan;
use super::runtime::now;
use super::visibility::ViewContext;
use crate::broker::Append;
use crate::feed::base::Base;
use crate::ledger::{MarkUpTo, NotificationEvent, NotificationMark, PushPlan, UserNotifications};
use crate::model::{
    AppNotification, Channel, ClientEvent, CommentId, Entry, Notification, NotificationId, NotificationKind,
    NotificationPosition, PostId, UserId,
};

/// How long a group collects notifications, counted from its first one: "alice and 12 others" covers a day.
const GROUP_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The maximal number of unread notifications that are counted. It limits the cost of a list.
const MAX_COUNTED: usize = 100;

/// The number of users whose notifications are checked concurrently. It is low because notifications use the same
/// stores as posts and likes, and have the lowest priority.
const MAX_CONCURRENT_USERS: usize = 4;

/// The maximal number of users of one ledger call: SQLite has a single writer.
const MAX_USERS_PER_CALL: usize = 32;

/// The maximal number of reads for one page if the reader may not see enough of the groups. After that the page is
/// short, and its cursor continues.
const MAX_READS: usize = 5;

/// A notification for one user.
pub(crate) struct PendingNotification {
    /// The user that receives the notification.
    pub(crate) to: UserId,
    /// The kind of action, and its object.
    pub(crate) kind: NotificationKind,
    /// The user that acted.
    pub(crate) by: UserId,
    /// The post under which it happened. Users who muted it are not notified. `None` for follows, and for mentions in a
    /// post itself.
    pub(crate) under: Option<PostId>,
    /// The number of the event that caused it; 0: none.
    pub(crate) event: i64,
    /// The comment that caused it, for comments and replies.
    pub(crate) comment: Option<CommentId>,
    /// What the application notifies of.
    pub(crate) content: Option<Arc<AppNotification>>,
}

impl PendingNotification {
    /// A notification without an event.
    pub(crate) fn new(to: &UserId, kind: NotificationKind, by: &UserId) -> Self {
        Self { to: to.clone(), kind, by: by.clone(), under: None, event: 0, comment: None, content: None }
    }

    /// The same for something that happened under a post.
    pub(crate) fn under(self, post: PostId) -> Self {
        Self { under: Some(post), ..self }
    }

    /// The same for a comment or a reply.
    pub(crate) fn caused_by(self, comment: CommentId) -> Self {
        Self { comment: Some(comment), ..self }
    }
}

/// Notifications, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NotificationPage {
    /// The latest updated first.
    items: Vec<Notification>,
    #[serde(flatten)]
    left: UnreadCounts,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The numbers of unread and unseen notifications.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct UnreadCounts {
    /// The number of unread notifications; 100 means 100 or more.
    unread: usize,
    /// The number of unread notifications that are also unseen.
    unseen: usize,
}

/// Marks notifications as read or seen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MarkNotificationsRead")]
pub(crate) struct MarkRead {
    /// Marks those at or before this position, as it was listed or pushed: a group that changed since then stays as it
    /// is. A position after the last one counts as the last one.
    #[serde(default)]
    position: Option<NotificationPosition>,
    /// Without `position`: marks those at or before the present position of this group; nothing if it is gone. Without
    /// both: all notifications.
    #[serde(default)]
    id: Option<NotificationId>,
    /// `true`: mark them only as seen; `false`: mark them as read and seen.
    #[serde(default)]
    seen: bool,
}

impl MarkRead {
    fn upto(&self) -> MarkUpTo {
        match (self.position, self.id) {
            (Some(position), _) => MarkUpTo::Position(position),
            (None, Some(id)) => MarkUpTo::Group(id),
            (None, None) => MarkUpTo::Everything,
        }
    }
}

/// Notifications: the list of each user, and new ones.
pub(crate) struct Notifications {
    base: Arc<Base>,
}

impl Notifications {
    /// Notifications stored in this ledger, pushed by this broker in logs with this retention, and queued for devices.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// How they are queued for devices; `None`: they are not.
    fn pushes(&self) -> Option<PushPlan> {
        self.base.options.pushes.plan
    }

    /// Records and pushes a batch: the notifications of one user in order, several users concurrently. Users are not
    /// notified of their own actions, of objects that they may not see, or of users that they have muted. The
    /// application's own notifications are by their recipient.
    ///
    /// # Errors
    /// The last error of a part that could not be recorded. The other parts are recorded.
    pub(crate) async fn notify(&self, batch: Vec<PendingNotification>) -> Result<()> {
        let mut by_user: HashMap<UserId, Vec<PendingNotification>> = HashMap::new();
        let is_for_them =
            |notification: &PendingNotification| notification.content.is_some() || notification.to != notification.by;
        let others = batch.into_iter().filter(is_for_them).collect();
        for notification in self.without_muted_conversations(others).await? {
            by_user.entry(notification.to.clone()).or_default().push(notification);
        }
        if by_user.is_empty() {
            return Ok(());
        }
        let users: Vec<UserId> = by_user.keys().cloned().collect();
        // Mentioned users may not exist.
        let known = self.base.ledger.users(&users).await?;
        let notifications =
            known.into_iter().filter_map(|user| by_user.remove(&user.id).map(|notifications| (user.id, notifications)));
        let wanted = stream::iter(notifications)
            .map(|(user, notifications)| async move {
                let events = self.wanted(&user, notifications).await?;
                Ok(UserNotifications { to: user, events })
            })
            .buffer_unordered(MAX_CONCURRENT_USERS);
        let mut failed = None;
        let mut wanted = std::pin::pin!(wanted);
        let mut ready = Vec::new();
        loop {
            let next = wanted.next().await;
            let ended = next.is_none();
            match next {
                Some(Ok(notified)) if notified.events.is_empty() => {}
                Some(Ok(notified)) => ready.push(notified),
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            if ready.len() >= MAX_USERS_PER_CALL || (ended && !ready.is_empty()) {
                failed = self.note(&std::mem::take(&mut ready)).await.err().or(failed);
            }
            if ended {
                return failed.map_or(Ok(()), Err);
            }
        }
    }

    /// Omits notifications of what happened under posts that their recipient muted. One call for the batch.
    async fn without_muted_conversations(
        &self,
        mut batch: Vec<PendingNotification>,
    ) -> Result<Vec<PendingNotification>> {
        let pair = |notification: &PendingNotification| Some((notification.to.clone(), notification.under?));
        let pairs: HashSet<(UserId, PostId)> = batch.iter().filter_map(pair).collect();
        if !pairs.is_empty() {
            let pairs: Vec<_> = pairs.into_iter().collect();
            let muted: HashSet<_> = self.base.ledger.muted_conversations(&pairs).await?.into_iter().collect();
            if !muted.is_empty() {
                batch.retain(|notification| pair(notification).is_none_or(|pair| !muted.contains(&pair)));
            }
        }
        Ok(batch)
    }

    /// The notifications of a user that the user may see and has not muted, and whose causes have not ended.
    async fn wanted(&self, user: &UserId, notifications: Vec<PendingNotification>) -> Result<Vec<NotificationEvent>> {
        let subjects = self
            .base
            .notification_renderer
            .subjects(user, notifications.iter().filter_map(|notification| notification.kind.object()), None)
            .await?;
        let people: HashSet<UserId> = notifications.iter().map(|notification| notification.by.clone()).collect();
        let people = self.base.visibility.visible_users(Some(user), ViewContext::Unrequested, people).await?;
        let acts = notifications.iter().map(|notification| (notification.kind, notification.by.clone())).collect();
        let ended = self.base.notification_renderer.taken_back(user, acts).await?;
        let wanted = |notification: &PendingNotification| {
            people.contains(&notification.by)
                && subjects.has(notification.kind)
                && !ended.contains(&(notification.kind, notification.by.clone()))
        };
        let event = |notification: PendingNotification| {
            let PendingNotification { kind, by, event, comment, content, .. } = notification;
            NotificationEvent { kind, by, event, comment, content }
        };
        Ok(notifications.into_iter().filter(wanted).map(event).collect())
    }

    async fn note(&self, batch: &[UserNotifications]) -> Result<()> {
        let window = u64::try_from(GROUP_WINDOW.as_millis()).unwrap_or(u64::MAX);
        let mut failed_push = None;
        for (user, groups) in self.base.ledger.notify_many(batch, now(), window, self.pushes()).await? {
            for group in groups {
                failed_push = self.push(&user, &Entry::NotificationChanged(group.id)).await.err().or(failed_push);
            }
        }
        // The notifications are in the list. While the broker is down, further notifications are still recorded.
        if let Some(error) = failed_push {
            tracing::warn!(%error, "notifications are noted, some of them are not pushed");
        }
        Ok(())
    }

    async fn push(&self, user: &UserId, entry: &Entry) -> Result<()> {
        let channel = Channel::Notifications(user.clone()).to_string();
        let retention = self.base.options.timeline.notification_log();
        let append = Append { channel: &channel, entry, retention, idempotency_key: None, version: None };
        self.base.broker.append(append).await?;
        Ok(())
    }

    pub(crate) async fn list(&self, caller: Caller, list: OwnList) -> Result<NotificationPage> {
        let user = caller.user()?;
        let (limit, cursor) = list.page.decode::<i64>()?;
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants() {
            let groups = self.base.ledger.notifications(user, before, count).await?;
            let keys: Vec<i64> = groups.iter().map(|group| group.place).collect();
            page.take_visible(keys, self.base.notification_renderer.visible(user, groups).await?, |visible, place| {
                visible.group.place == *place
            });
        }
        let (visible, next) = page.finish();
        let left = self.unread_counts(user).await?;
        Ok(NotificationPage {
            items: self.base.notification_renderer.with_people(visible).await?,
            left,
            next: next.map(|place| place.encode()),
        })
    }

    pub(crate) async fn mark_read(&self, call: Call, marking: MarkRead) -> Result<UnreadCounts> {
        let user = call.caller.user()?;
        let mark = if marking.seen { NotificationMark::Seen } else { NotificationMark::Read };
        let clear = self.pushes().map(|_| clear_plan(&call.credential));
        let marked = self.base.ledger.mark_notifications(user, marking.upto(), mark, clear.as_ref()).await?;
        let left = self.unread_counts(user).await?;
        if let Some(position) = marked {
            let UnreadCounts { unread, unseen } = left;
            let MarkRead { id, seen, .. } = marking;
            let event = ClientEvent::NotificationsRead { position, id, seen, unread, unseen };
            if let Err(error) = self.push(user, &Entry::Data(event.encode())).await {
                tracing::warn!(%error, %user, "notifications are marked, the user's other sockets do not know");
            }
        }
        Ok(left)
    }

    async fn unread_counts(&self, user: &UserId) -> Result<UnreadCounts> {
        let unread = self.base.ledger.unread_notifications(user, MAX_COUNTED).await?;
        let unread = self.base.notification_renderer.visible(user, unread).await?;
        let unseen = unread.iter().filter(|visible| !visible.group.seen).count();
        Ok(UnreadCounts { unread: unread.len(), unseen })
    }
}
