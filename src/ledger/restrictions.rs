//! Restrictions between users: hide, mute and block; and their relations.

use async_trait::async_trait;

use super::{Job, Lease, Result};
use crate::model::{Millis, Relation, Restriction, UserId};

/// Restrictions between users.
#[async_trait]
pub trait RestrictionStore: Send + Sync {
    /// `maker` puts it between themselves and `whom`. In the same transaction:
    ///
    /// - of a block, the follows end both ways, with their tallies;
    /// - the jobs are made, held by `lease`, that take out of inboxes what is not to be seen there any more
    ///   ([`Work::Detach`](super::Work::Detach)): a mute takes the posts of `whom` out of the inbox of `maker`, hiding
    ///   takes those of `maker` out of the inbox of `whom`, a block does both, in that order.
    ///
    /// `None` if it was so already: then nothing changes. The caller has checked that both exist.
    async fn restrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>>;

    /// Takes it away. In the same transaction jobs are made, held by `lease`, that bring the posts back
    /// ([`Work::Follow`](super::Work::Follow)), for the same inboxes as in [`restrict`](Self::restrict), where the
    /// reader follows the author: after a block there are none. `None` if there was nothing to take away.
    async fn unrestrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>>;

    /// What is between each reader and author, in the order of `pairs` (reader, author), which may repeat. Those who do
    /// not exist have nothing between them. Any number of pairs, one round trip.
    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>>;

    /// Those of `authors`, each once, in any order, whose posts are not for everyone alike: they hide from somebody,
    /// block somebody, or somebody blocks or mutes them. Any number of authors, one round trip.
    async fn users_with_restrictions(&self, authors: &[UserId]) -> Result<Vec<UserId>>;
}
