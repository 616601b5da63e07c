//! Restrictions between users, and the relations that result.

use async_trait::async_trait;

use super::{NewJob, Result};
use crate::model::{Millis, Relation, Restriction, User, UserId};

/// A user with a restriction against them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestrictedUser {
    /// The profile of the user.
    pub user: User,
    /// The time of the restriction, in Unix milliseconds.
    pub at: Millis,
}

/// An author whose public posts are not visible to all readers alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestrictedAuthor {
    /// The author.
    pub author: UserId,
    /// Whether there are restrictions: the author hides from a user or blocks a user, or a user blocks or mutes the
    /// author or their reposts, or has the author in an exclusive list.
    pub restricted: bool,
    /// Whether the account of the author is locked.
    pub locked: bool,
}

/// Restrictions between users.
#[async_trait]
pub trait RestrictionStore: Send + Sync {
    /// Adds a restriction by `maker` against `target`. In the same transaction:
    ///
    /// - a block ends the follows and the requests in both directions, and updates the tallies of follows;
    /// - jobs ([`EdgeWork::Detach`](super::EdgeWork::Detach)) are created that remove hidden posts from
    ///   inboxes: a mute and `Listed` remove the posts of `target` from the inbox of `maker`, a hide removes the posts
    ///   of `maker` from the inbox of `target`, a block does both, in that order; for
    ///   `Reposts` only the reposts of `target` leave the inbox of `maker`
    ///   ([`EdgeWork::DetachReposts`](super::EdgeWork::DetachReposts));
    /// - an event ([`DomainEvent::Restricted`](crate::model::DomainEvent::Restricted)) is written, except for `Listed`.
    ///
    /// Returns `None` and changes nothing if the restriction exists already. The caller has checked that both users
    /// exist.
    async fn restrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>>;

    /// Removes a restriction. In the same transaction jobs ([`EdgeWork::Follow`](super::EdgeWork::Follow))
    /// are created that restore the posts, for the same inboxes as in [`restrict`](Self::restrict), if the reader
    /// follows the author or any topic, or has a list, which the end of `Listed` does not concern. Returns `None` if
    /// there is no such restriction.
    async fn unrestrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>>;

    /// As [`restrict`](Self::restrict), for a mute that ends by itself at `until` (`None`: never). If the mute exists,
    /// its end is replaced.
    async fn mute(
        &self,
        maker: &UserId,
        target: &UserId,
        now: Millis,
        until: Option<Millis>,
    ) -> Result<Option<Vec<NewJob>>>;

    /// Mutes that end by themselves and are over at `now`: each maker with the muted user, `limit` at most, the one
    /// that ended first at the beginning.
    async fn due_mutes(&self, now: Millis, limit: usize) -> Result<Vec<(UserId, UserId)>>;

    /// As [`unrestrict`](Self::unrestrict), for a mute that ends by itself and is over at `now`.
    async fn end_due_mute(&self, maker: &UserId, target: &UserId, now: Millis) -> Result<Option<Vec<NewJob>>>;

    /// The users that `maker` restricts in this way, latest first, equal times in descending order of id. Begins after
    /// the time and id `after`. The cost depends on `limit`, not on the length of the list.
    async fn restricted(
        &self,
        restriction: Restriction,
        maker: &UserId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<RestrictedUser>>;

    /// The relation of each reader and author, in the order of `pairs` (reader, author), which may repeat. Users that
    /// do not exist have no relation. Accepts any number of pairs in one round trip.
    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>>;

    /// The users among `authors` whose public posts are not visible to all readers alike. Each once, in any order.
    /// Accepts any number of authors in one round trip.
    async fn restricted_authors(&self, authors: &[UserId]) -> Result<Vec<RestrictedAuthor>>;
}
