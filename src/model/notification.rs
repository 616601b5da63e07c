//! Notifications as clients read them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CommentId, Millis, NotificationId, Person, PostId};

/// A notification: a group of users who did the same with the same object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Notification {
    /// Its id; it stays while more people do the same.
    pub id: NotificationId,
    /// What they did: `like`, `comment`, `reply`, `follow` or `mention`.
    pub kind: &'static str,
    /// What they did it with; absent of `follow`. Of `comment` the post, of `reply` the comment that was replied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<NotificationSubject>,
    /// Who did it: the newest, at most 8.
    pub people: Vec<Person>,
    /// How many did it.
    pub count: u64,
    /// When the first did it, in Unix milliseconds.
    pub created_at: Millis,
    /// When the last did it, in Unix milliseconds.
    pub updated_at: Millis,
    /// Whether it was read.
    pub read: bool,
    /// Whether it was seen.
    pub seen: bool,
}

/// The object of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "About")]
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
        /// The post that it is under.
        post: PostId,
    },
}

impl NotificationSubject {
    /// The post, or the post that the comment is under.
    pub fn post(self) -> PostId {
        match self {
            Self::Post { id } => id,
            Self::Comment { post, .. } => post,
        }
    }
}
