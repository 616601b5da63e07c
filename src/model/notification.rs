//! Notifications in the form that clients receive.

use schemars::JsonSchema;
use serde::Serialize;

use super::notification_kind::NOTIFICATION_KINDS;
use super::{CommentId, Millis, NotificationId, NotificationPosition, Person, PostId, UserId};

/// A notification: a group of users with the same action on the same object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Notification {
    /// Its id; it stays while more people do the same.
    pub id: NotificationId,
    /// Its position: greater than all earlier ones whenever the group changes. `notifications.mark_read` takes it.
    pub position: NotificationPosition,
    /// The kind of action.
    #[schemars(extend("enum" = NOTIFICATION_KINDS))]
    pub kind: &'static str,
    /// The object of the action; absent for `follow`. For `comment` and `repost` it is the post, for `reply` the parent
    /// comment, for `quote` the post that quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<NotificationSubject>,
    /// The newest comment or reply of the group; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<CommentId>,
    /// The users of the group: the newest, at most 8.
    pub people: Vec<Person>,
    /// The number of users in the group.
    pub count: u64,
    /// When the first action happened, in Unix milliseconds.
    pub created_at: Millis,
    /// When the last action happened, in Unix milliseconds.
    pub updated_at: Millis,
    /// Whether it was read.
    pub read: bool,
    /// Whether it was seen.
    pub seen: bool,
}

/// A notification that was delivered to a socket of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredNotification {
    /// The owner.
    pub user: UserId,
    /// The notification.
    pub id: NotificationId,
    /// Its state: when it last grew, in Unix milliseconds.
    pub updated_at: Millis,
}

/// The object of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum NotificationSubject {
    /// A post.
    Post {
        /// Its id.
        id: PostId,
    },
    /// A comment.
    Comment {
        /// Its id.
        id: CommentId,
        /// The post of the comment.
        post: PostId,
    },
}

impl NotificationSubject {
    /// The post itself, or the post of the comment.
    pub fn post(self) -> PostId {
        match self {
            Self::Post { id } => id,
            Self::Comment { post, .. } => post,
        }
    }
}
