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
use super::operation::Effect::{Create, QueuedWrite, Read, SecretWrite, SignIn, SignUp, Write};
use super::operation::{Access, Operation, Verb};
use crate::api::ErrorKind;
use crate::feed::RateClass::{Comments, Follows, Likes, Posts, Reports, Writes};
use crate::feed::input::{
    AuthorList, AuthorPosts, CommentLikerList, CommentList, CommentsByIds, Done, NoInput, OneComment, OnePost, OneUser,
    OwnList, PostFeed, PostList, PostPage, PostsByIds, ReadPost, Search, TopicIndex, TopicList, UserList, UserPage,
};
use crate::feed::{
    devices, erasure, expand, export, favourites, identity, likes, moderation, notifications, people, posts, reposts,
    timelines, topics, web_push_key,
};
use crate::model::{Comment, Profile, PushPreferences, Report, ShownPost, UserDetails};

/// All operations, in the order of the documentation.
pub(super) fn rows() -> Vec<Operation> {
    operations! {
        // Accounts and sessions.

        /// Creates an account and signs in.
        "accounts.create"   Post   "/accounts"          201 Open SignUp
            => accounts.sign_up(identity::SignUp) -> identity::SignedIn, CONFLICT;

        /// Signs in.
        "sessions.create"   Post   "/sessions"          201 Open SignIn
            => accounts.sign_in(identity::SignIn) -> identity::SignedIn;

        /// Ends this session, or with `all` all sessions and tokens of the user.
        "sessions.delete"   Delete "/sessions"          200 User Write(Writes)
            => accounts.sign_out(identity::SignOut) -> Done;

        /// Changes the password and ends all other sessions.
        "accounts.password" Put    "/accounts/password" 200 User SecretWrite(Writes)
            => accounts.change_password(identity::PasswordChange) -> Done, CONFLICT;

        /// Exports all data of the caller as JSON, in pages.
        "accounts.export"   Get    "/accounts/export"   200 User Read(25)
            => exports.own(export::ExportRequest) -> export::Export, NOT_FOUND;

        /// Erases the caller and all their data. The id is never reused.
        "accounts.delete"   Delete "/accounts"          200 User Write(Writes)
            => erasures.erase_own(erasure::ErasureRequest) -> Done;

        // Users, follows and restrictions.

        /// Returns a profile with counts and the relations to the caller.
        "users.get"       Get    "/users/{id}"           200 Reader Read(2)
            => profiles.get(OneUser) -> Profile, NOT_FOUND;

        /// Changes the caller's profile. Omitted members stay, null clears avatar, bio and data.
        "users.update"    Patch  "/users/me"             200 User   Write(Writes)
            => profiles.update(people::ProfileUpdate) -> UserDetails, NOT_FOUND, LIMIT_EXCEEDED;

        /// Finds users by the beginning of their id or of a word of their name, ignoring case and accents.
        "users.search"    Get    "/users"                200 Reader Read(5)
            => user_search.search(Search) -> UserPage;

        /// Suggests users that the caller's followees follow, most mutual first.
        "users.suggest"   Get    "/users/suggested"      200 User   Read(25)
            => user_search.suggest(OwnList) -> people::SuggestionPage;

        /// Enables alerts about a user's posts.
        "users.notify"    Put    "/users/{id}/notify"    200 User   Write(Follows)
            => profiles.enable_post_alerts(OneUser) -> Done, NOT_FOUND, CONFLICT, LIMIT_EXCEEDED;

        /// Disables alerts about a user's posts.
        "users.unnotify"  Delete "/users/{id}/notify"    200 User   Write(Follows)
            => profiles.disable_post_alerts(OneUser) -> Done, NOT_FOUND;

        /// Lists the posts of an author, newest first.
        "users.posts"     Get    "/users/{id}/posts"     200 Reader Read(2)
            => posts.by_author(AuthorPosts) -> PostPage, NOT_FOUND, LOCKED;

        /// Lists the posts that a user likes, newest post first.
        "users.likes"     Get    "/users/{id}/likes"     200 Reader Read(2)
            => posts.liked_by(AuthorList) -> PostPage, NOT_FOUND, LOCKED;

        /// Lists the comments that a user wrote, newest first.
        "users.comments"  Get    "/users/{id}/comments"  200 Reader Read(2)
            => comment_reader.by_author(UserList) -> posts::CommentPage, NOT_FOUND, LOCKED;

        /// Follows a user. Their posts appear in the timeline at once. For a locked account, creates a request.
        "users.follow"    Put    "/users/{id}/follow"    200 User   Write(Follows)
            => follows.follow(OneUser) -> people::FollowReply, NOT_FOUND, CONFLICT, LIMIT_EXCEEDED;

        /// Unfollows a user, or withdraws the request to follow. Their posts disappear from the timeline at once.
        "users.unfollow"  Delete "/users/{id}/follow"    200 User   Write(Follows)
            => follows.unfollow(OneUser) -> Done, NOT_FOUND;

        /// Lists the users with a request to follow the caller, latest first.
        "users.requests"  Get    "/users/me/requests"    200 User   Read(2)
            => requests.incoming(OwnList) -> UserPage;

        /// Lists the users that the caller has requested to follow, latest first.
        "users.requested" Get    "/users/me/requested"   200 User   Read(2)
            => requests.outgoing(OwnList) -> UserPage;

        /// Accepts a request to follow. The user follows the caller from then on.
        "users.accept"    Put    "/users/me/requests/{id}" 200 User Write(Follows)
            => requests.accept(OneUser) -> Done, NOT_FOUND;

        /// Rejects a request to follow, without a notification. A new request of that user is listed 24 hours later.
        "users.reject"    Delete "/users/me/requests/{id}" 200 User Write(Follows)
            => requests.reject(OneUser) -> Done;

        /// Removes a follower, or the request of a user, without a notification.
        "users.remove_follower" Delete "/users/me/followers/{id}" 200 User Write(Follows)
            => requests.remove_follower(OneUser) -> Done;

        /// Lists the followers of a user, latest first.
        "users.followers" Get    "/users/{id}/followers" 200 Reader Read(2)
            => follows.followers(UserList) -> UserPage, NOT_FOUND, LOCKED;

        /// Lists the users that a user follows, latest first.
        "users.following" Get    "/users/{id}/following" 200 Reader Read(2)
            => follows.following(UserList) -> UserPage, NOT_FOUND, LOCKED;

        /// Lists the users that the caller follows and that follow a user, latest first.
        "users.shared"    Get    "/users/{id}/shared"    200 User   Read(5)
            => follows.shared(UserList) -> UserPage, NOT_FOUND, LOCKED;

        /// Lists the caller's friends: users who follow each other, latest first.
        "users.friends"   Get    "/users/me/friends"     200 User   Read(5)
            => follows.friends(OwnList) -> UserPage;

        /// Hides the caller's posts from a user.
        "users.hide"      Put    "/users/{id}/hide"      200 User   Write(Follows)
            => restrictions.hide(OneUser) -> Done, NOT_FOUND;

        /// Shows them to the user again.
        "users.unhide"    Delete "/users/{id}/hide"      200 User   Write(Follows)
            => restrictions.unhide(OneUser) -> Done, NOT_FOUND;

        /// Removes a user's posts from the caller's timeline, topics and notifications, until a time or for good.
        "users.mute"      Put    "/users/{id}/mute"      200 User   Write(Follows)
            => restrictions.mute(people::Mute) -> Done, NOT_FOUND;

        /// Ends muting. Posts of a followed user return.
        "users.unmute"    Delete "/users/{id}/mute"      200 User   Write(Follows)
            => restrictions.unmute(OneUser) -> Done, NOT_FOUND;

        /// Hides both users from each other and ends follows in both directions.
        "users.block"     Put    "/users/{id}/block"     200 User   Write(Follows)
            => restrictions.block(OneUser) -> Done, NOT_FOUND;

        /// Ends blocking. Follows are not restored.
        "users.unblock"   Delete "/users/{id}/block"     200 User   Write(Follows)
            => restrictions.unblock(OneUser) -> Done, NOT_FOUND;

        /// Removes a user's reposts from the caller's timeline.
        "users.reposts_off" Put  "/users/{id}/reposts/mute" 200 User Write(Follows)
            => restrictions.reposts_off(OneUser) -> Done, NOT_FOUND;

        /// Shows them again.
        "users.reposts_on" Delete "/users/{id}/reposts/mute" 200 User Write(Follows)
            => restrictions.reposts_on(OneUser) -> Done, NOT_FOUND;

        /// Lists the users that the caller hides posts from, latest first.
        "users.hidden"    Get    "/users/me/hidden"      200 User   Read(2)
            => restrictions.hidden(OwnList) -> UserPage;

        /// Lists the users that the caller mutes, latest first.
        "users.muted"     Get    "/users/me/muted"       200 User   Read(2)
            => restrictions.muted(OwnList) -> UserPage;

        /// Lists the users that the caller blocks, latest first.
        "users.blocked"   Get    "/users/me/blocked"     200 User   Read(2)
            => restrictions.blocked(OwnList) -> UserPage;

        // Moderation.

        /// Limits or suspends a user. The last level applies. A limited user's posts are seen by followers and by id,
        /// in no topic, search or suggestion. Of a suspended user, nobody sees anything.
        "users.suspend"    Put    "/users/{id}/suspend"    200 Backend Write(Writes)
            => suspensions.suspend(moderation::Suspension) -> Done, NOT_FOUND, LIMIT_EXCEEDED;

        /// Ends the suspension of a user. Posts return to all pages.
        "users.unsuspend"  Delete "/users/{id}/suspend"    200 Backend Write(Writes)
            => suspensions.unsuspend(OneUser) -> Done, NOT_FOUND;

        /// Removes a post. Only its author still sees it, with the reason.
        "posts.remove"     Put    "/posts/{id}/removal"    200 Backend Write(Writes)
            => removals.remove_post(moderation::PostRemoval) -> Done, NOT_FOUND, LIMIT_EXCEEDED, BUSY;

        /// Restores a removed post at its old place.
        "posts.restore"    Delete "/posts/{id}/removal"    200 Backend Write(Writes)
            => removals.restore_post(OnePost) -> Done, NOT_FOUND, BUSY;

        /// Removes a comment. It is shown as a deleted one, with its replies. Its author still sees it, with the
        /// reason.
        "comments.remove"  Put    "/comments/{id}/removal" 200 Backend Write(Writes)
            => removals.remove_comment(moderation::CommentRemoval) -> Done, NOT_FOUND, LIMIT_EXCEEDED;

        /// Restores a removed comment.
        "comments.restore" Delete "/comments/{id}/removal" 200 Backend Write(Writes)
            => removals.restore_comment(OneComment) -> Done, NOT_FOUND;

        /// Reports a user, a post or a comment. Reporting the same again returns the open report.
        "reports.create"   Post   "/reports"               201 User    Write(Reports)
            => reports.create(moderation::ReportDraft) -> Report, NOT_FOUND, LIMIT_EXCEEDED;

        /// Lists the open reports, or with `open=false` the closed ones, latest first.
        "reports.list"     Get    "/reports"               200 Backend Read(2)
            => reports.list(moderation::ReportList) -> moderation::ReportPage;

        /// Closes a report with what was done about it.
        "reports.close"    Put    "/reports/{id}"          200 Backend Write(Writes)
            => reports.close(moderation::ReportClosing) -> Report, NOT_FOUND;

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
    }
}
