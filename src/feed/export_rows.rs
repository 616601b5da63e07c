//! The rows of an export, for the contract: the rows themselves are put together as text.

#![expect(dead_code, reason = "it describes JSON that is put together as text")]

use schemars::JsonSchema;

use super::devices::DeviceView;
use crate::model::{
    Comment, CommentId, Filter, ListId, Millis, Notification, ObjectId, ObjectType, Post, PostId, PushPreferences,
    ReportId, ReportReason, UserId,
};

/// The rows of a user, by kind. The first page has all members; the other pages have those with rows.
#[derive(JsonSchema)]
pub(super) struct ExportedRows {
    /// The user's posts, as they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    posts: Option<Vec<ExportedPost>>,
    /// The user's comments.
    #[serde(skip_serializing_if = "Option::is_none")]
    comments: Option<Vec<Comment>>,
    /// The posts that the user likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    likes: Option<Vec<ExportedPostRow>>,
    /// The comments that the user likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment_likes: Option<Vec<ExportedCommentRow>>,
    /// The user's favourites of all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    favourites: Option<Vec<ExportedFavourite>>,
    /// The users that the user follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    following: Option<Vec<ExportedUserRow>>,
    /// The users that follow the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    followers: Option<Vec<ExportedFollower>>,
    /// The users that the user has requested to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_requests: Option<Vec<ExportedUserRow>>,
    /// The users with a request to follow the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_to_follow: Option<Vec<ExportedUserRow>>,
    /// The users that the user hides from, mutes or blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    restrictions: Option<Vec<ExportedRestriction>>,
    /// The authors whose posts the user has alerts of.
    #[serde(skip_serializing_if = "Option::is_none")]
    post_alerts: Option<Vec<ExportedUserRow>>,
    /// The reports that the user made.
    #[serde(skip_serializing_if = "Option::is_none")]
    reports: Option<Vec<ExportedReport>>,
    /// The idempotency keys of the user's writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_keys: Option<Vec<ExportedKey>>,
    /// The user's notifications, as the user may see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    notifications: Option<Vec<Notification>>,
    /// The posts of which the user wants no notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    muted_conversations: Option<Vec<ExportedPostRow>>,
    /// The user's devices, without their addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<DeviceView>>,
    /// The pushes that the user wants, if they are not the defaults; one row.
    #[serde(skip_serializing_if = "Option::is_none")]
    push_preferences: Option<Vec<PushPreferences>>,
    /// The user's filters, also those that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<Vec<Filter>>,
    /// The user's lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    lists: Option<Vec<ExportedList>>,
    /// The topics that the user follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_topics: Option<Vec<ExportedTopicRow>>,
}

/// A post as its author wrote it.
#[derive(JsonSchema)]
struct ExportedPost {
    #[serde(flatten)]
    post: Post,
    /// The id of the post that it reposts; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    repost: Option<PostId>,
    /// The id of the post that it quotes; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    quote: Option<PostId>,
}

/// A post, and since when the row exists.
#[derive(JsonSchema)]
struct ExportedPostRow {
    /// The id of the post.
    post: PostId,
    /// When the row was added, in Unix milliseconds.
    at: Millis,
}

/// A topic, and since when the row exists.
#[derive(JsonSchema)]
struct ExportedTopicRow {
    /// The name of the topic, without the `#`.
    topic: String,
    /// When the row was added, in Unix milliseconds.
    at: Millis,
}

/// A comment, and since when the row exists.
#[derive(JsonSchema)]
struct ExportedCommentRow {
    /// The id of the comment.
    comment: CommentId,
    /// When the row was added, in Unix milliseconds.
    at: Millis,
}

/// A favourite.
#[derive(JsonSchema)]
struct ExportedFavourite {
    /// The type of the object.
    #[serde(rename = "type")]
    kind: ObjectType,
    /// The id of the object.
    id: ObjectId,
    /// When it was added, in Unix milliseconds.
    at: Millis,
    /// `true` for a private favourite.
    #[serde(skip_serializing_if = "Option::is_none")]
    private: Option<bool>,
}

/// Another user, and since when the row exists.
#[derive(JsonSchema)]
struct ExportedUserRow {
    /// The id of the other user.
    user: UserId,
    /// When the row was added, in Unix milliseconds.
    at: Millis,
}

/// A follower.
#[derive(JsonSchema)]
struct ExportedFollower {
    /// The id of the follower.
    user: UserId,
}

/// A restriction.
#[derive(JsonSchema)]
struct ExportedRestriction {
    /// What it does.
    kind: ExportedRestrictionKind,
    /// The id of the other user.
    user: UserId,
    /// When it was made, in Unix milliseconds.
    at: Millis,
    /// When a mute ends by itself, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Millis>,
}

/// The kind of a restriction.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ExportedRestrictionKind {
    /// The user's posts are hidden from the other user.
    Hide,
    /// The other user's posts are hidden from the user.
    Mute,
    /// Both.
    Block,
    /// The other user's reposts are hidden from the user's timeline.
    Reposts,
}

/// A list of the user.
#[derive(JsonSchema)]
struct ExportedList {
    /// Its number.
    id: ListId,
    /// Its name.
    name: String,
    /// Whether the posts and reposts of its users are left out of the timeline.
    exclusive: bool,
    /// The ids of its users, the one that was added last first.
    users: Vec<UserId>,
    /// The names of its topics.
    topics: Vec<String>,
    /// When it was made, in Unix milliseconds.
    created_at: Millis,
}

/// A report that the user made.
#[derive(JsonSchema)]
struct ExportedReport {
    /// The number of the report.
    id: ReportId,
    /// Whether a user, a post or a comment is reported.
    kind: ExportedReportKind,
    /// The id of the reported object.
    object: String,
    /// Why it was reported.
    reason: ReportReason,
    /// What the user said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// When it was reported, in Unix milliseconds.
    at: Millis,
}

/// The kind of a reported object.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ExportedReportKind {
    /// A user.
    User,
    /// A post.
    Post,
    /// A comment.
    Comment,
}

/// An idempotency key.
#[derive(JsonSchema)]
struct ExportedKey {
    /// The key.
    key: String,
    /// The name of the operation.
    operation: String,
    /// When it was used, in Unix milliseconds.
    at: Millis,
}
