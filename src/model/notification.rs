//! Notifications in the form that clients receive.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};

use super::notification_kind::NOTIFICATION_KINDS;
use super::{
    AppNotification, CommentId, FilterId, Millis, NotificationId, NotificationPosition, Person, PostId, UserId,
};

/// A notification: a group of users with the same action on the same object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Notification {
    /// Its id; it stays while more people do the same.
    pub id: NotificationId,
    /// Its position: greater than all earlier ones whenever the group changes. `notifications.mark_read` takes it.
    pub position: NotificationPosition,
    /// The kind of action; `app.` and a name for what the application notifies of.
    #[schemars(transform = with_kinds)]
    pub kind: Cow<'static, str>,
    /// The object of the action; absent for `follow`. For `comment` and `repost` it is the post, for `reply` the parent
    /// comment, for `quote` the post that quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<NotificationSubject>,
    /// The newest comment or reply of the group; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<CommentId>,
    /// What the application notifies of, with the kind `app.…`: the last one of the group.
    #[serde(flatten)]
    pub content: Option<AppContent>,
    /// The users of the group: the newest, at most 8. Of the application's, those on whose behalf it was.
    pub people: Vec<Person>,
    /// The number of users in the group; 0 if the application notifies of itself.
    pub count: u64,
    /// The owner's filters that it has a word of, with the action `warn`; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filtered: Vec<FilterId>,
    /// When the first action happened, in Unix milliseconds.
    pub created_at: Millis,
    /// When the last action happened, in Unix milliseconds.
    pub updated_at: Millis,
    /// Whether it was read.
    pub read: bool,
    /// Whether it was seen.
    pub seen: bool,
}

/// Adds the kinds of notifications to the schema of a member.
pub(crate) fn with_kinds(schema: &mut Schema) {
    schema.insert("pattern".to_owned(), format!("^({}|app\\..+)$", NOTIFICATION_KINDS.join("|")).into());
    schema.insert("examples".to_owned(), serde_json::json!(["like"]));
}

/// What the application notifies of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppContent {
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// Where it leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the application wants its clients to know beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// The key of the group, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether devices get a push.
    #[serde(skip)]
    pub push: bool,
}

impl From<AppNotification> for AppContent {
    fn from(of: AppNotification) -> Self {
        let AppNotification { title, body, url, data, key, push, .. } = of;
        Self { title, body, url, data, key, push }
    }
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
