//! What users keep among their favourites: objects of any type.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, ObjectId, ObjectType, User, UserId};

/// An object among a user's favourites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Favourite {
    /// Its place in lists: what was added later has a larger one.
    pub seq: i64,
    /// Which.
    pub id: ObjectId,
    /// Since when, in Unix milliseconds.
    pub at: Millis,
}

/// Somebody who has an object among their favourites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FavouriteHolder {
    /// Its place in lists: who added it later has a larger one.
    pub seq: i64,
    /// Who.
    pub user: User,
    /// Since when, in Unix milliseconds.
    pub at: Millis,
}

/// The result of adding a favourite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FavouriteOutcome {
    /// It is there, since then: now, or an earlier time if it was there already.
    Since(Millis),
    /// The user has as many of the type as may be. Nothing was written.
    Full,
    /// It is of the type of posts, and there is no such post, or it is deleted. Nothing was written.
    Absent,
}

/// Favourites: user × type × object. A user's list, an object's list and the counts of both say the same at any time:
/// they change in one transaction, and with them, for posts, [`PostCounts::favourites`](crate::model::PostCounts).
#[async_trait]
pub trait FavouriteStore: Send + Sync {
    /// Adds an object, unless it is there: then the first time stays, even if the user has `most` of the type or more.
    /// The caller has made sure that the user exists.
    async fn add_favourite(
        &self,
        user: &UserId,
        kind: &ObjectType,
        id: &ObjectId,
        now: Millis,
        most: u64,
    ) -> Result<FavouriteOutcome>;

    /// Takes one object out, and no other. Whether it was there.
    async fn remove_favourite(&self, user: &UserId, kind: &ObjectType, id: &ObjectId) -> Result<bool>;

    /// A user's favourites of a type, latest first, below `before` (a [`Favourite::seq`]).
    async fn favourites(
        &self,
        user: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>>;

    /// How many of a type a user has.
    async fn favourites_count(&self, user: &UserId, kind: &ObjectType) -> Result<u64>;

    /// Those of `ids` that are among a user's favourites, each once, in any order. Any number of ids, one round trip.
    async fn favourites_among(&self, user: &UserId, kind: &ObjectType, ids: &[ObjectId]) -> Result<Vec<Favourite>>;

    /// Who has an object, latest first, below `before` (a [`FavouriteHolder::seq`]).
    async fn holders(
        &self,
        kind: &ObjectType,
        id: &ObjectId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<FavouriteHolder>>;

    /// How many have an object.
    async fn holders_count(&self, kind: &ObjectType, id: &ObjectId) -> Result<u64>;

    /// What of a type both have, as it stands in the list of `user`: latest first, below `before`. The cost is a
    /// look-up for each favourite of `user` that is passed, at most as many as a user may have.
    async fn common_favourites(
        &self,
        user: &UserId,
        other: &UserId,
        kind: &ObjectType,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>>;

    /// How many of a type both have. The cost is a look-up for each favourite of the one who has fewer.
    async fn common_favourites_count(&self, user: &UserId, other: &UserId, kind: &ObjectType) -> Result<u64>;

    /// Takes an object that is no more out of the favourites of up to `limit` users. Answers of how many: fewer than
    /// `limit` means that no user has it any more.
    async fn forget_object(&self, kind: &ObjectType, id: &ObjectId, limit: usize) -> Result<usize>;
}
