//! The public form of events, and its schema.

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::{Millis, NotificationId, PostId, UserId};

/// An event of the outlet. Events of one `user` are delivered in order, and those of channels by `channel`. `at` is the
/// time in Unix milliseconds.
///
/// The log keeps events in this form; the `id` is their position in the log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(rename = "OutletEvent", transform = add_id)]
pub(crate) enum OutletEvent<'a> {
    /// A group of notifications was begun, or has grown.
    #[serde(rename = "notification")]
    Notification {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The recipient.
        user: &'a UserId,
        /// The group in its state at that time, or a later one.
        notification: OutletNotification<'a>,
    },
    /// A post was written.
    #[serde(rename = "post.created")]
    PostCreated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
        /// The other users that it mentions. They may not exist.
        mentions: &'a [UserId],
    },
    /// A post was edited.
    #[serde(rename = "post.edited")]
    PostEdited {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
        /// The other users whose mentions the edit added. They may not exist.
        mentions: &'a [UserId],
    },
    /// A post was deleted, also by the erasure of its author.
    #[serde(rename = "post.deleted")]
    PostDeleted {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The author.
        user: &'a UserId,
        /// The post.
        post: PostId,
    },
    /// A user followed another user.
    #[serde(rename = "follow.created")]
    FollowCreated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The follower.
        user: &'a UserId,
        /// The followed user.
        followee: &'a UserId,
    },
    /// A follow ended, also because one of the two blocked the other.
    #[serde(rename = "follow.deleted")]
    FollowDeleted {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The former follower.
        user: &'a UserId,
        /// The formerly followed user.
        followee: &'a UserId,
    },
    /// A user has a connection to a node, and had none. Best effort.
    #[serde(rename = "user.connected")]
    UserConnected {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user.
        user: &'a UserId,
    },
    /// A user has had no connection to a node for a while. Best effort.
    #[serde(rename = "user.away")]
    UserAway {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The user.
        user: &'a UserId,
    },
    /// A client has subscribed to a channel of the application, of a namespace with `events = true`. Best effort.
    #[serde(rename = "channel.subscribed")]
    ChannelSubscribed {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The channel.
        channel: &'a str,
        /// The client's user; absent of an anonymous client.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<&'a UserId>,
    },
    /// Such a channel has had no subscriber on a node for a while. Best effort.
    #[serde(rename = "channel.vacated")]
    ChannelVacated {
        /// When it happened, in Unix milliseconds.
        at: Millis,
        /// The channel.
        channel: &'a str,
    },
}

/// A group of notifications in its present state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OutletNotification")]
pub(crate) struct OutletNotification<'a> {
    /// Its id; it stays while more people do the same.
    pub(super) id: NotificationId,
    /// The kind of action.
    #[schemars(extend("enum" = ["like", "comment", "reply", "follow", "mention"]))]
    pub(super) kind: &'static str,
    /// The object of the action; absent for `follow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<OutletObject>,
    /// The users that caused it, the newest first, at most 16.
    pub(super) by: &'a [UserId],
    /// The number of all users that caused it.
    pub(super) count: u64,
    /// When the last action happened, in Unix milliseconds.
    pub(super) updated_at: Millis,
}

/// The object of a notification.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutletObject {
    /// Whether it is a post or a comment.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["post", "comment"]))]
    pub(super) kind: &'static str,
    /// Its id.
    pub(super) id: u64,
}

/// Adds the member that events get from the log to each type of event.
fn add_id(schema: &mut Schema) {
    let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    for variant in variants {
        variant["properties"]["id"] = json!({
            "type": "string",
            "pattern": "^[0-9]+$",
            "description": "Its position in the log: digits of a number that grows, not always by one.",
        });
        if let Some(required) = variant["required"].as_array_mut() {
            required.push("id".into());
        }
    }
}
