//! Favourites of users: objects of any type.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, ObjectId, ObjectType, User, UserId};

/// An object among a user's favourites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Favourite {
    /// Its position in lists: later favourites have larger values.
    pub seq: i64,
    /// The id of the object, unique among the objects of its type.
    pub id: ObjectId,
    /// When it was added, in Unix milliseconds.
    pub at: Millis,
    /// Whether the favourite is private: other users do not see it.
    pub private: bool,
}

/// A user with an object among their favourites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FavouriteHolder {
    /// The position in lists: later favourites have larger values.
    pub seq: i64,
    /// The user that has the object.
    pub user: User,
    /// When the object was added, in Unix milliseconds.
    pub at: Millis,
}

/// The result of adding a favourite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FavouriteOutcome {
    /// The object is a favourite since this time, in Unix milliseconds: now, or earlier if it was one already.
    Since(Millis),
    /// The user has the maximal number of favourites of this type. Nothing was written.
    Full,
    /// The object is a post, and the post does not exist or is deleted. Nothing was written.
    Absent,
}

/// Favourites: user × type × object. One transaction changes a user's list, an object's list, the counts of both and,
/// for posts, [`PostCounts::favourites`](crate::model::PostCounts), so they always agree.
#[async_trait]
pub trait FavouriteStore: Send + Sync {
    /// Adds an object. If the user has it already, its first time stays, even if the user has `most` objects of the
    /// type or more; `private` replaces its former state. The holders of an object and their number, the common
    /// favourites and [`PostCounts::favourites`](crate::model::PostCounts) are without private favourites. The caller
    /// has checked that the user exists.
    async fn add_favourite(
        &self,
        user: &UserId,
        kind: &ObjectType,
        id: &ObjectId,
        now: Millis,
        most: u64,
        private: bool,
    ) -> Result<FavouriteOutcome>;

    /// Removes one object. Returns whether it was a favourite.
    async fn remove_favourite(&self, user: &UserId, kind: &ObjectType, id: &ObjectId) -> Result<bool>;

    /// A user's favourites of a type, latest first, below `before` (a [`Favourite::seq`]).
    async fn favourites(
        &self,
        user: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>>;

    /// The number of a user's favourites of a type.
    async fn favourites_count(&self, user: &UserId, kind: &ObjectType) -> Result<u64>;

    /// The favourites of a user among `ids`, each once, in any order. Accepts any number of ids in one round trip.
    async fn favourites_among(&self, user: &UserId, kind: &ObjectType, ids: &[ObjectId]) -> Result<Vec<Favourite>>;

    /// The users that have an object, latest first, below `before` (a [`FavouriteHolder::seq`]).
    async fn holders(
        &self,
        kind: &ObjectType,
        id: &ObjectId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<FavouriteHolder>>;

    /// The number of users that have an object.
    async fn holders_count(&self, kind: &ObjectType, id: &ObjectId) -> Result<u64>;

    /// The favourites of a type that both users have, in the order of the list of `user`: latest first, below `before`.
    /// The cost is one look-up for each favourite of `user` that is scanned, at most the maximal number of favourites
    /// of a user.
    async fn common_favourites(
        &self,
        user: &UserId,
        other: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>>;

    /// The number of favourites of a type that both users have. The cost is one look-up for each favourite of the user
    /// with fewer.
    async fn common_favourites_count(&self, user: &UserId, other: &UserId, kind: &ObjectType) -> Result<u64>;

    /// Removes an object that no longer exists from the favourites of up to `limit` users. Returns the number of users;
    /// fewer than `limit` means that no user has it any more.
    async fn forget_object(&self, kind: &ObjectType, id: &ObjectId, limit: usize) -> Result<usize>;
}
