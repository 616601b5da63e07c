//! Notifications, in groups.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, NotificationId, UserId, What};

/// The number of groups of a user that are kept, the newest.
pub const MAX_NOTIFICATION_GROUPS: u64 = 1_000;

/// The number of people of a group that are read, the newest: twice as many as are shown, because some may be hidden.
pub const MAX_GROUP_PEOPLE: usize = 16;

/// An event that causes a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationEvent {
    /// The id of the group, should it begin one.
    pub id: NotificationId,
    /// What.
    pub what: What,
    /// Who did it.
    pub by: UserId,
    /// The number of the [event](super::QueuedEvent) that it comes from; 0: of none.
    pub event: i64,
}

/// The notifications of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNotifications {
    /// To whom.
    pub to: UserId,
    /// What, in order.
    pub happenings: Vec<NotificationEvent>,
}

/// A group of notifications: the same kind of event about the same object, by one person or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationGroup {
    /// Its id; it stays while the group grows.
    pub id: NotificationId,
    /// What they did.
    pub what: What,
    /// Its place in the list: grows whenever the group does, and is never the same as another's of that user.
    pub seq: i64,
    /// Who did it: the newest [`MAX_GROUP_PEOPLE`], newest first.
    pub people: Vec<UserId>,
    /// How many did it.
    pub count: u64,
    /// When the first did it, in Unix milliseconds.
    pub created_at: Millis,
    /// When the last did it, in Unix milliseconds.
    pub updated_at: Millis,
    /// Whether its owner has read it.
    pub read: bool,
    /// Whether its owner has seen that it is there.
    pub seen: bool,
}

/// What a user says of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationMark {
    /// Seen in passing.
    Seen,
    /// Read, and so seen.
    Read,
}

/// The result of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkOutcome {
    /// It says something new.
    Anew,
    /// It was so already.
    Before,
    /// The user has no such notification.
    Nothing,
}

/// Notifications. A user's groups have an order: what happened last is first (see [`NotificationGroup::seq`]). How far
/// they are read and seen are two places in that order, so a group that grows after it was seen is unseen again.
#[async_trait]
pub trait NotificationStore: Send + Sync {
    /// Notes what happened to `to`, in the order given, in one transaction; transactions for the same user come one
    /// after the other. Both users of each happening exist.
    ///
    /// A happening joins the newest group of the same user and [`What`] if that is unread and its first happening was
    /// less than `window` milliseconds before `now`; else it begins a group. If the person is in the group that it
    /// would join, nothing changes; and unless [`What::is_new_each_time`], nothing changes either if the person is in
    /// the newest such group, begun within the window, though it was read.
    ///
    /// A happening whose event the person's place in the newest such group knows already, or a later one, was noted
    /// before: nothing changes, and the group counts as changed, so that its owner is informed in any case.
    ///
    /// Then the user's groups but the newest [`MAX_NOTIFICATION_GROUPS`] go. What they leave behind (their people) may
    /// go later, so that no call has to clear up without bound.
    ///
    /// Answers with the groups that changed, each once, as they are now, least recent first.
    async fn notify(
        &self,
        to: &UserId,
        happenings: &[NotificationEvent],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<NotificationGroup>>;

    /// Notes what happened to several users, as [`notify`](Self::notify) does for each, with as few commits as the
    /// store needs. With an error some of it may be noted.
    async fn notify_many(
        &self,
        batch: &[UserNotifications],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<(UserId, Vec<NotificationGroup>)>>;

    /// A user's groups whose place is below `before` (`None`: from the first), what happened last first.
    async fn notifications(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Vec<NotificationGroup>>;

    /// Those of `ids` that are the user's, each once, in any order. Any number of ids, one round trip.
    async fn notifications_by_id(&self, user: &UserId, ids: &[NotificationId]) -> Result<Vec<NotificationGroup>>;

    /// The first `limit` of those that are not read.
    async fn unread_notifications(&self, user: &UserId, limit: usize) -> Result<Vec<NotificationGroup>>;

    /// Marks a user's groups up to this one, as far as it has grown by now (`None`: all). Marks only ever grow.
    async fn mark_notifications(
        &self,
        user: &UserId,
        upto: Option<NotificationId>,
        mark: NotificationMark,
    ) -> Result<MarkOutcome>;
}
