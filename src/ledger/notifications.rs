//! Notifications, in groups.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::{ClearPlan, PushPlan, Result};
use crate::model::{
    AppNotification, CommentId, Millis, NotificationId, NotificationKind, NotificationPosition, PostId, UserId,
};

/// The number of groups of a user that are kept, the newest.
pub const MAX_NOTIFICATION_GROUPS: u64 = 1_000;

/// The number of people of a group that are read, the newest: twice as many as are shown, because some may be hidden.
pub const MAX_GROUP_PEOPLE: usize = 16;

/// The number of comments of each person in a group that are kept, the newest.
pub const MAX_GROUP_COMMENTS: usize = 8;

/// An event that causes a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationEvent {
    /// The kind of event and its object.
    pub kind: NotificationKind,
    /// The user that caused the event.
    pub by: UserId,
    /// The number of the [event](super::QueuedEvent) that caused it, or of the application's request; 0: none.
    pub event: i64,
    /// The comment that caused it; `None` for other kinds than comments and replies.
    pub comment: Option<CommentId>,
    /// What the application notifies of: the group has the last one. `None` for other kinds.
    pub content: Option<Arc<AppNotification>>,
}

impl NotificationEvent {
    /// An event without a number and without a comment.
    pub fn new(kind: NotificationKind, by: &UserId) -> Self {
        Self { kind, by: by.clone(), event: 0, comment: None, content: None }
    }
}

/// The end of what caused notifications, or only their kind, to find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedNotification {
    /// The user that was notified.
    pub to: UserId,
    /// The kind of event and its object.
    pub kind: NotificationKind,
    /// The user that caused it, who leaves the groups; `None`: nobody leaves them.
    pub by: Option<UserId>,
    /// The comment that is gone. The user leaves a group with their last comment in it. `None`: with all of them.
    pub comment: Option<CommentId>,
}

/// The notifications of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNotifications {
    /// The user that receives the notifications.
    pub to: UserId,
    /// The events, in order.
    pub events: Vec<NotificationEvent>,
}

/// A group of notifications: the same kind of event about the same object, by one person or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationGroup {
    /// The id of the group. It stays the same while the group grows.
    pub id: NotificationId,
    /// The kind of event and its object.
    pub kind: NotificationKind,
    /// The position of its last event, unique among the groups of the user. Marks are compared with it.
    pub seq: i64,
    /// Its place in the list, unique among the groups of the user. The order is that of [`seq`](Self::seq), but the
    /// place stays the same while the group grows at the front.
    pub place: i64,
    /// The position of its last change, of any kind: `seq` or greater.
    pub position: NotificationPosition,
    /// The users that caused it: the newest [`MAX_GROUP_PEOPLE`], newest first.
    pub people: Vec<UserId>,
    /// The comments of these people, newest first: of groups of comments and replies, as far as they were recorded.
    pub comments: HashMap<UserId, Vec<CommentId>>,
    /// The total number of users that caused it, including those not in `people`.
    pub count: u64,
    /// When the first event happened, in Unix milliseconds.
    pub created_at: Millis,
    /// When the last event happened, in Unix milliseconds.
    pub updated_at: Millis,
    /// Whether the owner has read the group in its current state.
    pub read: bool,
    /// Whether the owner has seen the group in the list in its current state.
    pub seen: bool,
    /// What the application notified of last; `None` for other kinds.
    pub content: Option<AppNotification>,
}

/// A mark that a user sets on notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationMark {
    /// The user has seen the notifications in the list.
    Seen,
    /// The user has read the notifications. They count as seen as well.
    Read,
}

/// Up to where notifications are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkUpTo {
    /// All of them.
    Everything,
    /// Those at or before this position. Greater positions than the last one count as the last one.
    Position(NotificationPosition),
    /// Those at or before the present position of this group. Without such a group, nothing is marked.
    Group(NotificationId),
}

/// A group of notifications that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedNotification {
    /// Its owner.
    pub owner: UserId,
    /// Its id.
    pub id: NotificationId,
    /// Whether it was in the list: somebody was left in it.
    pub was_listed: bool,
}

/// Notifications. The groups of a user are ordered by their last event, newest first: see [`NotificationGroup::place`].
/// The read and seen marks are two positions in that order, so a group that grows after it was seen is unseen again.
/// Positions come from one sequence for each user, and are taken in the transaction of the change.
#[async_trait]
pub trait NotificationStore: Send + Sync {
    /// Stores the events in `events` for `to`, in the order given, in one transaction. Transactions for the same
    /// user run one after the other. Both users of each event exist.
    ///
    /// An event joins the newest group of the same user and [`NotificationKind`] if the group is unread and its first
    /// event was less than `window` milliseconds before `now`; otherwise it begins a group. If the person is in the
    /// group that the event would join, a comment or reply [renews](NotificationKind::is_new_each_time) it: it moves to
    /// the front, and is unseen. Other events change nothing then, nor if the person is in the newest such group and
    /// that group began within the window, even if it was read; a mention is never repeated. A person who left the
    /// group returns to it in these cases, without moving it.
    ///
    /// If the newest such group already records this event number or a later one for the person, the event was stored
    /// before: nothing changes, but the group counts as changed, so that its owner is notified in any case.
    ///
    /// A group of the application is joined whether it was read or not, and at any time. The content of the last event
    /// is stored in the same transaction, unless the event was stored before.
    ///
    /// Then only the newest [`MAX_NOTIFICATION_GROUPS`] groups of the user are kept. The people of removed groups may
    /// be removed later, so that the work of one call is bounded.
    ///
    /// A new group takes the next id, which is greater than those of all earlier groups of the user.
    ///
    /// Returns the groups that changed, each once, in their new state, least recent first.
    async fn notify(
        &self,
        to: &UserId,
        events: &[NotificationEvent],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<NotificationGroup>>;

    /// Stores the events of several users, as [`notify`](Self::notify) does for each, with as few commits as the store
    /// needs. With `pushes`, the changed groups are queued for the devices of their owner in the same transaction,
    /// without further round trips. After an error some of the events may be stored.
    async fn notify_many(
        &self,
        batch: &[UserNotifications],
        now: Millis,
        window: Millis,
        pushes: Option<PushPlan>,
    ) -> Result<Vec<(UserId, Vec<NotificationGroup>)>>;

    /// Ends causes of notifications: each person leaves the groups of that kind, and a group that nobody is left in is
    /// not returned any more. Returns the groups that the person is or was in, or all of that kind if nobody leaves
    /// them, each once: a repeat of the call returns the same.
    async fn end_notifications(&self, ended: &[EndedNotification]) -> Result<Vec<(UserId, NotificationId)>>;

    /// Removes groups of any user whose last event is older than `before`, at most `limit`, those that began first
    /// first. Returns them; if these are fewer than `limit`, no more are left for now. Their people may be removed
    /// later, so that the work of one call is bounded.
    async fn remove_old_notifications(&self, before: Millis, limit: usize) -> Result<Vec<RemovedNotification>>;

    /// Up to `limit` groups of any user about the existing comments on a post.
    async fn notifications_under(&self, post: PostId, limit: usize) -> Result<Vec<(UserId, NotificationId)>>;

    /// The newest groups of a user that a person is in.
    async fn notifications_by(&self, user: &UserId, person: &UserId, limit: usize) -> Result<Vec<NotificationId>>;

    /// The groups of a user below the place `before` (`None`: from the first), the last event first.
    async fn notifications(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Vec<NotificationGroup>>;

    /// The groups of the user among `ids`, each once, in any order. Accepts any number of ids in one round trip.
    async fn notifications_by_id(&self, user: &UserId, ids: &[NotificationId]) -> Result<Vec<NotificationGroup>>;

    /// The greatest id of a group of the user, also of one that is gone and was queued for a device; `None`: there is
    /// none. It may not be that of the first group of the list.
    async fn newest_notification(&self, user: &UserId) -> Result<Option<NotificationId>>;

    /// The first `limit` unread groups.
    async fn unread_notifications(&self, user: &UserId, limit: usize) -> Result<Vec<NotificationGroup>>;

    /// Marks groups of a user. Returns the position of the mark if it moved; marks never move back. If it moves,
    /// `clear` queues it for the devices of the user that were sent pushes.
    async fn mark_notifications(
        &self,
        user: &UserId,
        upto: MarkUpTo,
        mark: NotificationMark,
        clear: Option<&ClearPlan>,
    ) -> Result<Option<NotificationPosition>>;
}
