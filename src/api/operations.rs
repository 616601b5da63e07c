//! Every operation, defined once: rpc over the socket, HTTP and the OpenAPI document all read this table.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::feed::input::{self, OneUser, OwnList, PostPage, TimelineList, UserPage};
use crate::feed::{Call, Feed, FeedError, Result};
use crate::feed::{
    erasure, expand, export, favourites, identity, likes, notifications, people, posts, timelines, topics,
};
use crate::model::{Comment, Profile, ShownPost, User};

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read.
    Get,
    /// Make.
    Post,
    /// Set.
    Put,
    /// Change in part.
    Patch,
    /// Take away.
    Delete,
}

impl Verb {
    /// As HTTP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether its requests have a body.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Who may call an operation, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone, over HTTP only: this is how one becomes a user.
    Open,
    /// Whoever is connected or has a token; anonymous connections too.
    Reader,
    /// A user.
    User,
}

/// An operation's input: a JSON object.
pub type Input = Value;

/// The fields that a client can request with posts.
const MAX_FIELDS: usize = 3;

type Run = dyn Fn(Arc<Feed>, Call, Input) -> BoxFuture<'static, Result<Bytes>> + Send + Sync;

/// An operation.
pub struct Operation {
    /// Its rpc method, and its name in the OpenAPI document.
    pub name: &'static str,
    /// Its HTTP method.
    pub verb: Verb,
    /// Its HTTP path below `/api/v1`; `{id}` is a member of the input.
    pub path: &'static str,
    /// The HTTP status of success.
    pub status: u16,
    /// Who may call it.
    pub access: Access,
    /// What a page of 20 costs of the budget for reads (`rates.reads`); a look-up by id costs 1. See [`cost`](Self::cost).
    pub page_cost: u32,
    /// Its input holds secrets. Such a write takes no idempotency key: a digest of the input would be kept in the ledger.
    pub has_secrets: bool,
    /// It is acknowledged from the write-behind queue. Such a write does not wait for the ledger: the settler records a new
    /// user together with what the user did.
    pub is_queued: bool,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The JSON schema of its input.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// The JSON schema of its output.
    pub output: fn(&mut SchemaGenerator) -> Schema,
    run: Arc<Run>,
}

impl Operation {
    /// Whether it can be called by rpc.
    pub fn is_rpc(&self) -> bool {
        self.access != Access::Open
    }

    /// Whether it changes something in a user's name: what idempotency keys and rates are for. A check reads, though its
    /// many ids are in a body.
    pub fn writes(&self) -> bool {
        self.access == Access::User && self.verb != Verb::Get && !self.name.ends_with(".check")
    }

    /// Whether a caller may name it with an idempotency key.
    pub fn takes_key(&self) -> bool {
        self.writes() && !self.has_secrets
    }

    /// What a read costs of the budget for reads: the operation's cost and one more for each thing that posts bring along,
    /// for each 20 items begun. A write costs nothing of it.
    pub fn cost(&self, input: &Input) -> u32 {
        if self.writes() {
            return 0;
        }
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        // What is over the limit is refused, and costs as much as the limit.
        let limit = input.get("limit").and_then(number).unwrap_or(input::DEFAULT_LIMIT).clamp(1, input::MAX_LIMIT);
        let pages = u32::try_from(limit.div_ceil(input::DEFAULT_LIMIT)).unwrap_or(1);
        let parts = match input.get("with") {
            Some(Value::String(text)) if !text.is_empty() => text.split(',').count(),
            Some(Value::Array(parts)) => parts.len(),
            _ => 0,
        };
        let parts = u32::try_from(parts.min(MAX_FIELDS)).unwrap_or(0);
        (self.page_cost + parts) * pages
    }

    /// Its implementation.
    pub(super) fn body(&self) -> Arc<Run> {
        Arc::clone(&self.run)
    }
}

/// The table.
pub struct Operations {
    list: Vec<Operation>,
}

impl Default for Operations {
    fn default() -> Self {
        Self::new()
    }
}

/// What is special about an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Plain,
    Secrets,
    Queued,
}

/// Marks an operation whose input [holds secrets](Operation::has_secrets).
const SECRETS: Mark = Mark::Secrets;

/// Marks an operation that is acknowledged [from the queue](Operation::is_queued).
const QUEUED: Mark = Mark::Queued;

macro_rules! operations {
    ($($name:literal $verb:ident $path:literal $status:literal $access:ident $($cost:literal)? $([$mark:ident])?, $service:ident $(. $method:ident)?: $input:ty => $output:ty, $summary:literal;)*) => {
        vec![$(Operation {
            name: $name,
            verb: Verb::$verb,
            path: $path,
            status: $status,
            access: Access::$access,
            page_cost: [$($cost,)? 1][0],
            has_secrets: [$($mark,)? Mark::Plain][0] == Mark::Secrets,
            is_queued: [$($mark,)? Mark::Plain][0] == Mark::Queued,
            summary: $summary,
            input: SchemaGenerator::subschema_for::<$input>,
            output: SchemaGenerator::subschema_for::<$output>,
            run: Arc::new(|feed, call, input| Box::pin(async move {
                encode(&feed.$service$(.$method)?(call.into(), decode::<$input>(input)?).await?)
            })),
        }),*]
    };
}

impl Operations {
    /// All of them.
    pub fn new() -> Self {
        let list = operations! {
            "accounts.create" Post "/accounts" 201 Open [SECRETS], accounts.sign_up: identity::SignUp => identity::SignedIn, "Creates an account and signs in.";
            "sessions.create" Post "/sessions" 201 Open [SECRETS], accounts.sign_in: identity::SignIn => identity::SignedIn, "Signs in.";
            "sessions.delete" Delete "/sessions" 200 User, accounts.sign_out: identity::SignOut => input::Done, "Ends this session, or with `all` all sessions and tokens of the user.";
            "accounts.password" Put "/accounts/password" 200 User [SECRETS], accounts.change_password: identity::PasswordChange => input::Done, "Changes the password and ends all other sessions.";
            "accounts.export" Get "/accounts/export" 200 User 25, exports.own: export::ExportRequest => export::Export, "Exports all data of the caller as JSON, in pages.";
            "accounts.delete" Delete "/accounts" 200 User, erasures.erase_own: erasure::ErasureRequest => input::Done, "Erases the caller and all their data. The id is never reused.";
            "users.get" Get "/users/{id}" 200 Reader 2, profiles.get: OneUser => Profile, "Returns a profile with counts and the relations to the caller.";
            "users.update" Patch "/users/me" 200 User, profiles.update: people::ProfileUpdate => User, "Changes the caller's name or picture.";
            "users.search" Get "/users" 200 Reader 5, user_search.search: input::Search => UserPage, "Finds users by the beginning of their id or name, ignoring case.";
            "users.suggest" Get "/users/suggested" 200 User 25, user_search.suggest: OwnList => people::SuggestionPage, "Suggests users that the caller's followees follow, most mutual first.";
            "users.notify" Put "/users/{id}/notify" 200 User, profiles.enable_post_alerts: OneUser => input::Done, "Enables alerts about a user's posts.";
            "users.unnotify" Delete "/users/{id}/notify" 200 User, profiles.disable_post_alerts: OneUser => input::Done, "Disables alerts about a user's posts.";
            "users.posts" Get "/users/{id}/posts" 200 Reader 2, posts.by_author: input::AuthorList => PostPage, "Lists all posts of an author, newest first.";
            "users.follow" Put "/users/{id}/follow" 200 User, follows.follow: OneUser => input::Done, "Follows a user. Their posts appear in the timeline at once.";
            "users.unfollow" Delete "/users/{id}/follow" 200 User, follows.unfollow: OneUser => input::Done, "Unfollows a user. Their posts disappear from the timeline at once.";
            "users.followers" Get "/users/{id}/followers" 200 Reader 2, follows.followers: input::UserList => UserPage, "Lists the followers of a user, latest first.";
            "users.following" Get "/users/{id}/following" 200 Reader 2, follows.following: input::UserList => UserPage, "Lists the users that a user follows, latest first.";
            "users.hide" Put "/users/{id}/hide" 200 User, restrictions.hide: OneUser => input::Done, "Hides the caller's posts from a user.";
            "users.unhide" Delete "/users/{id}/hide" 200 User, restrictions.unhide: OneUser => input::Done, "Shows them to the user again.";
            "users.mute" Put "/users/{id}/mute" 200 User, restrictions.mute: OneUser => input::Done, "Removes a user's posts from the caller's timeline, topics and notifications.";
            "users.unmute" Delete "/users/{id}/mute" 200 User, restrictions.unmute: OneUser => input::Done, "Ends muting. Posts of a followed user return.";
            "users.block" Put "/users/{id}/block" 200 User, restrictions.block: OneUser => input::Done, "Hides both users from each other and ends follows in both directions.";
            "users.unblock" Delete "/users/{id}/block" 200 User, restrictions.unblock: OneUser => input::Done, "Ends blocking. Follows are not restored.";
            "posts.create" Post "/posts" 201 User, posts.create: posts::Draft => ShownPost, "Publishes a post.";
            "posts.get" Get "/posts/{id}" 200 Reader, posts.get: input::ReadPost => expand::SinglePost, "Returns a post.";
            "posts.edit" Patch "/posts/{id}" 200 User, post_editor.edit: posts::Edit => ShownPost, "Edits the caller's own post. Omitted members stay, null clears.";
            "posts.delete" Delete "/posts/{id}" 200 User, posts.delete: input::OnePost => input::Done, "Deletes the caller's own post.";
            "comments.create" Post "/posts/{id}/comments" 201 User, comments.create: posts::CommentDraft => Comment, "Creates a comment on a post, or a reply to a comment.";
            "comments.list" Get "/posts/{id}/comments" 200 Reader 2, comments.list: input::CommentList => posts::CommentPage, "Lists the comments on a post, or the replies to a comment, newest first.";
            "comments.delete" Delete "/comments/{id}" 200 User, comments.delete: input::OneComment => input::Done, "Deletes the caller's own comment, or a comment on the caller's post.";
            "notifications.list" Get "/notifications" 200 User 3, notifications.list: OwnList => notifications::NotificationPage, "Lists the caller's notifications in groups, latest first.";
            "notifications.mark_read" Put "/notifications/read" 200 User, notifications.mark_read: notifications::MarkRead => notifications::UnreadCounts, "Marks notifications as read or seen, up to one or all.";
            "likes.add" Put "/posts/{id}/like" 200 User [QUEUED], likes.add: likes::LikeTarget => likes::AcceptedLike, "Likes a post. Acknowledged at once, settled shortly afterwards.";
            "likes.remove" Delete "/posts/{id}/like" 200 User [QUEUED], likes.remove: likes::LikeTarget => likes::AcceptedLike, "Removes a like of a post.";
            "comments.like" Put "/comments/{id}/like" 200 User [QUEUED], likes.add_to_comment: input::OneComment => likes::AcceptedLike, "Likes a comment. Equivalent to likes.add with the object comment.";
            "comments.unlike" Delete "/comments/{id}/like" 200 User [QUEUED], likes.remove_from_comment: input::OneComment => likes::AcceptedLike, "Removes a like of a comment.";
            "likes.list" Get "/posts/{id}/likes" 200 Reader 2, likes.likers: input::PostList => UserPage, "Lists the users who like a post, latest first.";
            "timeline.read" Get "/timeline" 200 User 2, timelines.read: TimelineList => timelines::TimelinePage, "Returns a page of the caller's timeline and the log position at which it was read.";
            "timeline.updates" Get "/timeline/updates" 200 User 5, timelines.updates: timelines::PositionInput => timelines::UpdatesPage, "Returns the changes of the caller's timeline since a position.";
            "favourites.add" Put "/favourites/{type}/{id}" 200 User, favourites.add: favourites::OneObject => favourites::FavouriteItem, "Adds an object of any type to the caller's favourites. Adding again keeps the first time.";
            "favourites.remove" Delete "/favourites/{type}/{id}" 200 User, favourites.remove: favourites::OneObject => input::Done, "Removes an object from the caller's favourites.";
            "favourites.list" Get "/favourites/{type}" 200 User 2, favourites.list: favourites::FavouriteList => favourites::FavouritePage, "Lists the caller's favourites of a type, latest first.";
            "favourites.count" Get "/favourites/{type}/count" 200 User 10, favourites.count: favourites::OneType => favourites::Count, "Counts the caller's favourites of a type.";
            "favourites.check" Post "/favourites/{type}/check" 200 User 2, favourites.check: favourites::Objects => favourites::CheckedObjects, "Returns which of these objects are favourites of the caller.";
            "favourites.holders" Get "/objects/{type}/{id}/favourites" 200 Reader 3, favourites.holders: favourites::HolderList => favourites::HolderPage, "Counts and lists the users with an object among their favourites, latest first.";
            "favourites.common" Get "/favourites/{type}/common/{user}" 200 User 10, favourites.common: favourites::CommonList => favourites::CommonPage, "Counts and lists the favourites that the caller and another user share.";
            "timeline.mark_read" Put "/timeline/read" 200 User, read_markers.mark: timelines::MarkReadUpTo => timelines::ReadMarker, "Sets the read marker of the caller's timeline and pushes it to the user's other sockets.";
            "topics.list" Get "/topics" 200 Reader 2, topics.list: OwnList => topics::TopicPage, "Lists topics of public posts, latest activity first.";
            "topics.read" Get "/topics/{name}/posts" 200 Reader 2, topics.posts: input::TopicList => PostPage, "Lists the newest 1,000 posts of a topic.";
        };
        Self { list }
    }

    /// All of them, in the order of the documentation.
    pub fn all(&self) -> &[Operation] {
        &self.list
    }

    /// The one that an rpc method names.
    pub fn by_rpc(&self, method: &str) -> Option<&Operation> {
        self.list.iter().find(|operation| operation.name == method && operation.is_rpc())
    }
}

fn decode<T: DeserializeOwned>(input: Input) -> Result<T> {
    serde_json::from_value(input).map_err(|error| {
        let message = error.to_string();
        // serde names the member of a missing, unknown or doubled one between backticks.
        let named = message.contains(" field `").then(|| message.split('`').nth(1)).flatten();
        FeedError::Invalid { field: named.map(|field| field.to_owned().into()), message: message.into() }
    })
}

fn encode<T: Serialize>(output: &T) -> Result<Bytes> {
    serde_json::to_vec(output).map(Bytes::from).map_err(|error| {
        tracing::error!(%error, "an answer could not be encoded");
        FeedError::Internal
    })
}
