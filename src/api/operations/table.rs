//! The table of operations.
//!
//! A row has these columns:
//!
//! ```text
//! /// summary, for clients
//! "rpc method" HttpMethod "path below /api/v1" status access effect
//!     => service.method(Input) -> Output, ERRORS;
//! ```
//!
//! `access` is an [`Access`]; `effect` is an [`Effect`](super::Effect), with the cost of a read or the rate limit of a
//! write. `service` is a field of [`Feed`](crate::feed::Feed). `ERRORS` are the [`ErrorKind`]s of its own.

use std::sync::Arc;

use schemars::SchemaGenerator;

use super::codec::{decode, encode};
use super::expansion::operations;
use super::operation::Effect::{Create, QueuedWrite, Read, Write};
use super::operation::{Access, Operation, Verb};
use super::people_table;
use crate::api::ErrorKind;
use crate::feed::RateClass::{Comments, Follows, Likes, Posts, Writes};
use crate::feed::input::{
    CommentLikerList, CommentList, CommentsByIds, Done, NoInput, OneComment, OnePost, OwnList, PostFeed, PostList,
    PostPage, PostsByIds, ReadPost, Search, TopicIndex, TopicList, UserPage,
};
use crate::feed::{
    devices, expand, favourites, likes, notifications, posts, reposts, timelines, topic_follows, topics, web_push_key,
};
use crate::model::{Comment, PushPreferences, ShownPost};

/// All operations, in the order of the documentation.
pub(super) fn rows() -> Vec<Operation> {
    let mut rows = people_table::rows();
    rows.extend(content_rows());
    rows
}

/// Posts, and what happens to them.
fn content_rows() -> Vec<Operation> {
    operations! {
        // Posts.

        /// Publishes a post.
        "posts.create" Post   "/posts"      201 User   Create(Posts)
            => posts.create(posts::Draft) -> ShownPost, NOT_FOUND, LIMIT_EXCEEDED;

        /// Returns a post.
        "posts.get"    Get    "/posts/{id}" 200 Reader Read(1)
            => posts.get(ReadPost) -> expand::SinglePost, NOT_FOUND;

        /// Returns posts by id, in this order, without those that the caller cannot see.
        "posts.many"   Get    "/posts"      200 Reader Read(1)
            => posts.many(PostsByIds) -> PostPage, LIMIT_EXCEEDED;

        /// Lists the public posts of all users, newest first.
        "posts.explore" Get   "/posts/explore" 200 Reader Read(2)
            => posts.explore(PostFeed) -> PostPage;

        /// Edits the caller's own post. Omitted members stay, null clears media, location and data.
        "posts.edit"   Patch  "/posts/{id}" 200 User   Write(Posts)
            => post_editor.edit(posts::Edit) -> ShownPost, NOT_FOUND, LIMIT_EXCEEDED, BUSY;

        /// Deletes the caller's own post.
        "posts.delete" Delete "/posts/{id}" 200 User   Write(Writes)
            => posts.delete(OnePost) -> Done, NOT_FOUND;

        /// Reposts a post to the caller's followers. Repeated: returns the first repost.
        "posts.repost"    Put    "/posts/{id}/repost"  200 User   Create(Posts)
            => reposts.repost(reposts::RepostDraft) -> ShownPost, NOT_FOUND;

        /// Ends the caller's repost of a post.
        "posts.unrepost"  Delete "/posts/{id}/repost"  200 User   Write(Posts)
            => reposts.unrepost(OnePost) -> Done;

        /// Lists the users who reposted a post, latest first.
        "posts.reposters" Get    "/posts/{id}/reposts" 200 Reader Read(2)
            => reposts.reposters(PostList) -> UserPage, NOT_FOUND;

        /// Lists the posts that quote a post, newest first.
        "posts.quotes"    Get    "/posts/{id}/quotes"  200 Reader Read(2)
            => quotes.list(reposts::QuoteList) -> PostPage, NOT_FOUND;

        /// Detaches a quote from the caller's post for good: the quote stays, without the post.
        "quotes.detach"     Delete "/posts/{id}/quote" 200 User Write(Writes)
            => quotes.detach(OnePost) -> Done, NOT_FOUND;

        /// Detaches all quotes of the caller's posts by a user.
        "quotes.detach_all" Delete "/quotes"           200 User Write(Writes)
            => quotes.detach_all(reposts::QuotesOfUser) -> Done;

        /// Stops notifications about comments and likes under a post. Existing ones stay.
        "conversations.mute"   Put    "/posts/{id}/mute" 200 User Write(Writes)
            => conversations.mute(OnePost) -> Done, NOT_FOUND;

        /// Resumes notifications about a post.
        "conversations.unmute" Delete "/posts/{id}/mute" 200 User Write(Writes)
            => conversations.unmute(OnePost) -> Done, NOT_FOUND;

        // Comments.

        /// Creates a comment on a post, or a reply to a comment.
        "comments.create" Post   "/posts/{id}/comments" 201 User   Create(Comments)
            => comments.create(posts::CommentDraft) -> Comment, NOT_FOUND, LIMIT_EXCEEDED;

        /// Lists the comments on a post, or the replies to a comment, newest first or oldest first.
        "comments.list"   Get    "/posts/{id}/comments" 200 Reader Read(2)
            => comment_reader.list(CommentList) -> posts::CommentPage, NOT_FOUND;

        /// Returns a comment.
        "comments.get"    Get    "/comments/{id}"       200 Reader Read(1)
            => comment_reader.get(OneComment) -> Comment, NOT_FOUND;

        /// Returns comments by id, in this order, without those that the caller cannot see.
        "comments.many"   Get    "/comments"            200 Reader Read(1)
            => comment_reader.many(CommentsByIds) -> posts::CommentPage, LIMIT_EXCEEDED;

        /// Edits the caller's own comment.
        "comments.edit"   Patch  "/comments/{id}"       200 User   Write(Comments)
            => comments.edit(posts::CommentEdit) -> Comment, NOT_FOUND, LIMIT_EXCEEDED, BUSY;

        /// Lists the users who like a comment, latest first.
        "comments.likers" Get    "/comments/{id}/likes" 200 Reader Read(2)
            => comment_reader.likers(CommentLikerList) -> UserPage, NOT_FOUND;

        /// Deletes the caller's own comment, or a comment on the caller's post.
        "comments.delete" Delete "/comments/{id}"       200 User   Write(Writes)
            => comments.delete(OneComment) -> Done, NOT_FOUND;

        // Notifications.

        /// Lists the caller's notifications in groups, latest first.
        "notifications.list"      Get "/notifications"      200 User Read(3)
            => notifications.list(OwnList) -> notifications::NotificationPage;

        /// Marks notifications as read or seen, up to a position or all.
        "notifications.mark_read" Put "/notifications/read" 200 User Write(Writes)
            => notifications.mark_read(notifications::MarkRead) -> notifications::UnreadCounts;

        /// Sends a notification of the application to users.
        "notifications.send"      Post "/notifications"     202 Backend Create(Writes)
            => notifications.send(notifications::AppNotificationDraft) -> notifications::AppNotified, NOT_FOUND,
               LIMIT_EXCEEDED;

        // Pushes to devices.

        /// Registers a device for pushes, or updates it. Its address is taken from any other device that has it.
        "devices.register"     Put    "/devices/{id}"     200 User Write(Writes)
            => devices.register(devices::RegisterDevice) -> devices::DeviceView;

        /// Lists the caller's devices, ordered by id.
        "devices.list"         Get    "/devices"          200 User Read(1)
            => devices.list(NoInput) -> devices::DeviceList;

        /// Removes a device of the caller.
        "devices.remove"       Delete "/devices/{id}"     200 User Write(Writes)
            => devices.remove(devices::OneDevice) -> Done;

        /// Returns the key with which browsers subscribe to pushes of this server.
        "push.key"             Get    "/push/key"         200 User Read(1)
            => web_push_keys.get(NoInput) -> web_push_key::WebPushKey;

        /// Returns the pushes that the caller wants.
        "push.preferences"     Get    "/push/preferences" 200 User Read(1)
            => devices.preferences(NoInput) -> PushPreferences;

        /// Replaces the pushes that the caller wants. Omitted members get their defaults.
        "push.set_preferences" Put    "/push/preferences" 200 User Write(Writes)
            => devices.set_preferences(PushPreferences) -> PushPreferences, LIMIT_EXCEEDED;

        // Likes.

        /// Likes a post or a comment. Acknowledged at once, settled shortly afterwards.
        "likes.add"       Put    "/posts/{post}/like" | "/comments/{comment}/like" 200 User QueuedWrite(Likes)
            => likes.add(likes::LikeTarget) -> likes::AcceptedLike, NOT_FOUND, BUSY;

        /// Removes a like of a post or a comment.
        "likes.remove"    Delete "/posts/{post}/like" | "/comments/{comment}/like" 200 User QueuedWrite(Likes)
            => likes.remove(likes::LikeTarget) -> likes::AcceptedLike, NOT_FOUND, BUSY;

        /// Lists the users who like a post, latest first.
        "likes.list"      Get    "/posts/{id}/likes"   200 Reader Read(2)
            => likes.likers(PostList) -> UserPage, NOT_FOUND;

        // Timelines.

        /// Returns a page of the caller's timeline and the log position at which it was read.
        "timeline.read"      Get "/timeline"         200 User Read(2)
            => timelines.read(PostFeed) -> timelines::TimelinePage;

        /// Returns the changes of the caller's timeline since a position.
        "timeline.updates"   Get "/timeline/updates" 200 User Read(5)
            => timelines.updates(timelines::PositionInput) -> timelines::UpdatesPage;

        /// Sets the read marker of the caller's timeline and pushes it to the user's other sockets.
        "timeline.mark_read" Put "/timeline/read"    200 User Write(Writes)
            => read_markers.mark(timelines::MarkReadUpTo) -> timelines::ReadMarker, NOT_FOUND;

        // Favourites.

        /// Adds an object of any type to the caller's favourites. Adding again keeps the first time.
        "favourites.add"     Put    "/favourites/{type}/{id}"          200 User   Write(Writes)
            => favourites.add(favourites::NewFavourite) -> favourites::FavouriteItem, NOT_FOUND, LIMIT_EXCEEDED;

        /// Removes an object from the caller's favourites.
        "favourites.remove"  Delete "/favourites/{type}/{id}"          200 User   Write(Writes)
            => favourites.remove(favourites::OneObject) -> Done;

        /// Lists the caller's favourites of a type, latest first.
        "favourites.list"    Get    "/favourites/{type}"               200 User   Read(2)
            => favourites.list(favourites::FavouriteList) -> favourites::FavouritePage;

        /// Counts the caller's favourites of a type.
        "favourites.count"   Get    "/favourites/{type}/count"         200 User   Read(10)
            => favourites.count(favourites::OneType) -> favourites::FavouriteCount;

        /// Returns which of these objects are favourites of the caller.
        "favourites.check"   Post   "/favourites/{type}/check"         200 User   Read(2)
            => favourites.check(favourites::Objects) -> favourites::CheckedObjects, LIMIT_EXCEEDED;

        /// Counts and lists the users with an object among their favourites, latest first.
        "favourites.holders" Get    "/objects/{type}/{id}/favourites"  200 Reader Read(3)
            => favourites.holders(favourites::HolderList) -> favourites::HolderPage, NOT_FOUND;

        /// Counts and lists the favourites that the caller and another user share.
        "favourites.common"  Get    "/favourites/{type}/common/{user}" 200 User   Read(10)
            => favourites.common(favourites::CommonList) -> favourites::CommonPage, NOT_FOUND;

        // Topics.

        /// Lists topics of public posts, latest activity first.
        "topics.list" Get "/topics"              200 Reader Read(2)
            => topics.list(TopicIndex) -> topics::TopicPage;

        /// Finds topics by the beginning of their name, ignoring case and accents. `GET /topics?q=` does the same.
        "topics.search" Get "/topics/search"     200 Reader Read(2)
            => topics.search(Search) -> topics::TopicPage;

        /// Lists the newest 1,000 posts of a topic.
        "topics.read" Get "/topics/{name}/posts" 200 Reader Read(2)
            => topics.posts(TopicList) -> PostPage;

        /// Follows a topic: its public posts come into the caller's timeline.
        "topics.follow" Put "/topics/{name}/follow" 200 User Write(Follows)
            => topic_follows.follow(topic_follows::OneTopic) -> Done, LIMIT_EXCEEDED;

        /// Ends a follow of a topic. Posts that the timeline also has from their authors stay.
        "topics.unfollow" Delete "/topics/{name}/follow" 200 User Write(Follows)
            => topic_follows.unfollow(topic_follows::OneTopic) -> Done;

        /// Lists the topics that the caller follows, by name.
        "topics.followed" Get "/topics/followed" 200 User Read(2)
            => topic_follows.list(NoInput) -> topic_follows::FollowedTopicPage;
    }
}
