//! Rows that belong to one user, by kind and in pages. Exports and erasures read them.

use async_trait::async_trait;

use super::Result;
use crate::model::UserId;

/// A kind of rows that belong to one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonalData {
    /// Posts of the user, as they are stored.
    Posts,
    /// Comments of the user.
    Comments,
    /// Comments of the user that were removed.
    RemovedComments,
    /// Likes of posts: `post`, `at`.
    PostLikes,
    /// Likes of comments: `comment`, `at`.
    CommentLikes,
    /// Favourites of all types: `type`, `id`, `at`.
    Favourites,
    /// Users that the user follows: `user`, `at`.
    Following,
    /// Users that follow the user: `user`.
    Followers,
    /// Users that the user has requested to follow: `user`, `at`.
    FollowRequests,
    /// Users with a request to follow the user: `user`, `at`.
    RequestsToFollow,
    /// Users that the user hides from, mutes or blocks: `kind`, `user`, `at`.
    Restrictions,
    /// Authors whose posts the user gets alerts of: `user`, `at`.
    PostAlerts,
    /// Posts of which the user wants no notifications: `post`, `at`.
    MutedConversations,
    /// Devices that receive pushes, without their addresses: `id`, `platform` and so on.
    Devices,
    /// The pushes that the user wants; no row: the defaults.
    PushPreferences,
    /// Reports that the user made: `id`, `kind`, `object`, `reason`, `text`, `at`.
    Reports,
    /// Idempotency keys of the user's writes: `key`, `operation`, `at`.
    IdempotencyKeys,
    /// Filters of the user, with the members of [`Filter`](crate::model::Filter).
    Filters,
    /// Lists of the user: `id`, `name`, `exclusive`, the ids of their `users`, the names of their `topics`, and
    /// `created_at`.
    Lists,
    /// Topics that the user follows: `topic`, `at`.
    FollowedTopics,
}

impl PersonalData {
    /// All kinds.
    pub const ALL: [Self; 20] = [
        Self::Posts,
        Self::Comments,
        Self::RemovedComments,
        Self::PostLikes,
        Self::CommentLikes,
        Self::Favourites,
        Self::Following,
        Self::Followers,
        Self::FollowRequests,
        Self::RequestsToFollow,
        Self::Restrictions,
        Self::PostAlerts,
        Self::MutedConversations,
        Self::Devices,
        Self::PushPreferences,
        Self::Reports,
        Self::IdempotencyKeys,
        Self::Filters,
        Self::Lists,
        Self::FollowedTopics,
    ];
}

/// A row that belongs to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalRow {
    /// Its position among the user's rows of this kind: the start of the next page. Of posts and comments it is their
    /// id, of favourites `type id`; of other kinds it is opaque.
    pub key: String,
    /// The row as a JSON object. Times are Unix milliseconds.
    pub json: String,
    /// The other user, in a row about two users.
    pub other: Option<UserId>,
}

/// All rows of one user, by kind.
#[async_trait]
pub trait PersonalDataStore: Send + Sync {
    /// The first `limit` rows of a kind after `after` (the key of the last row of the previous page; empty for the
    /// first page). Only an empty page is the end; a short page is not. The cost depends on the page, not on the number
    /// of rows.
    async fn personal_rows(
        &self,
        user: &UserId,
        data: PersonalData,
        after: &str,
        limit: usize,
    ) -> Result<Vec<PersonalRow>>;
}
