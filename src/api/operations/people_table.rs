//! The first part of the table of operations: users, and what they decide about what they read. `table.rs` describes
//! the columns.

use std::sync::Arc;

use schemars::SchemaGenerator;

use super::codec::{decode, encode};
use super::expansion::operations;
use super::operation::Effect::{Create, Read, SecretWrite, SignIn, SignUp, Write};
use super::operation::{Access, Operation, Verb};
use crate::api::ErrorKind;
use crate::feed::RateClass::{Follows, Reports, Writes};
use crate::feed::input::{
    AuthorList, AuthorPosts, Done, NoInput, OneComment, OnePost, OneUser, OwnList, PostPage, Search, UserList, UserPage,
};
use crate::feed::{erasure, export, filters, identity, lists, moderation, people, posts, timelines};
use crate::model::{Filter, List, Profile, Report, UserDetails};

/// Accounts, users, moderation, lists and filters.
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

        // Lists.

        /// Creates a list of users and topics.
        "lists.create"    Post   "/lists"               201 User   Create(Writes)
            => lists.create(lists::ListDraft) -> List, LIMIT_EXCEEDED;

        /// Lists the caller's lists, oldest first.
        "lists.list"      Get    "/lists"               200 User   Read(2)
            => lists.list(NoInput) -> lists::ListIndex;

        /// Returns a list of the caller.
        "lists.get"       Get    "/lists/{id}"          200 User   Read(1)
            => lists.get(lists::OneList) -> List, NOT_FOUND;

        /// Changes a list.
        "lists.update"    Patch  "/lists/{id}"          200 User   Write(Follows)
            => lists.update(lists::ListUpdate) -> List, NOT_FOUND, LIMIT_EXCEEDED;

        /// Deletes a list.
        "lists.delete"    Delete "/lists/{id}"          200 User   Write(Follows)
            => lists.delete(lists::OneList) -> Done, NOT_FOUND;

        /// Adds a user or a topic to a list. Users need not be followed, and are not informed.
        "lists.add"       Put    "/lists/{id}/users/{user}" | "/lists/{id}/topics/{topic}" 200 User Write(Follows)
            => lists.add(lists::ListMemberInput) -> Done, NOT_FOUND, LIMIT_EXCEEDED;

        /// Removes a user or a topic from a list.
        "lists.remove"    Delete "/lists/{id}/users/{user}" | "/lists/{id}/topics/{topic}" 200 User Write(Follows)
            => lists.remove(lists::ListMemberInput) -> Done, NOT_FOUND;

        /// Lists the members of a list: its users, latest first, and its topics.
        "lists.members"   Get    "/lists/{id}/members"  200 User   Read(2)
            => lists.members(lists::ListMembers) -> lists::ListMemberPage, NOT_FOUND;

        /// Lists the caller's lists that have a user.
        "users.lists"     Get    "/users/{id}/lists"    200 User   Read(2)
            => lists.with_user(OneUser) -> lists::ListIndex;

        /// Reads the posts of a list, newest first.
        "lists.read"      Get    "/lists/{id}/posts"    200 User   Read(10)
            => lists.read(lists::ListPosts) -> timelines::TimelinePage, NOT_FOUND;

        /// Lists the updates of a list since a position in its log.
        "lists.updates"   Get    "/lists/{id}/updates"  200 User   Read(5)
            => lists.updates(lists::ListPosition) -> timelines::UpdatesPage, NOT_FOUND;

        // Muted words.

        /// Creates a filter: content with one of its words is left out or marked.
        "filters.create"  Post   "/filters"             201 User   Create(Writes)
            => filters.create(filters::FilterDraft) -> Filter, LIMIT_EXCEEDED;

        /// Lists the caller's filters, oldest first.
        "filters.list"    Get    "/filters"             200 User   Read(2)
            => filters.list(NoInput) -> filters::FilterPage;

        /// Changes a filter.
        "filters.update"  Patch  "/filters/{id}"        200 User   Write(Writes)
            => filters.update(filters::FilterUpdate) -> Filter, NOT_FOUND, LIMIT_EXCEEDED;

        /// Deletes a filter.
        "filters.delete"  Delete "/filters/{id}"        200 User   Write(Writes)
            => filters.delete(filters::OneFilter) -> Done, NOT_FOUND;
    }
}
