//! Likes. They come in batches, from a queue that acknowledged them before.

use async_trait::async_trait;

use super::{ListPage, Result};
pub use crate::model::RevertReason;
use crate::model::{LikeChange, Millis, Object, PostId, Tally, User, UserId};

/// A part of a partition of the queue, merged: at most one change for each user and object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeBatch {
    /// The partition.
    pub partition: u16,
    /// Where the ledger must stand for it to be applied: what [`LikeStore::like_position`] answered.
    pub from: String,
    /// Where it stands afterwards.
    pub to: String,
    /// What changes, in the order of the queue.
    pub changes: Vec<LikeChange>,
    /// Likes of what their users may not see: to be noted as reverted. None of them is in `changes`.
    pub unseen: Vec<LikeChange>,
    /// Of how many new likes of each object an event is written; of none: 0.
    pub noted: usize,
    /// Now.
    pub now: Millis,
}

/// A like that was acknowledged and could not be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The id of the revert.
    pub id: i64,
    /// The user.
    pub user: UserId,
    /// The object.
    pub object: Object,
    /// The reason.
    pub reason: RevertReason,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledLikes {
    /// The tally of each object of the batch, of those unseen too, each once, in any order.
    pub tallies: Vec<(Object, Tally)>,
    /// Who likes what and did not before, in the order of the batch for each object.
    pub added: Vec<(UserId, Object)>,
    /// What could not be settled, as noted for [`LikeStore::pending_reverts`].
    pub reverted: Vec<Reverted>,
}

/// Likes.
#[async_trait]
pub trait LikeStore: Send + Sync {
    /// How far a partition of the queue is settled: `to` of its last batch, empty before the first.
    async fn like_position(&self, partition: u16) -> Result<String>;

    /// Applies a batch in one transaction: the rows of likes, the count of each object (its version grows by one if the
    /// count of likes changed, and stays if not), the [events](crate::model::DomainEvent::liked) of what is new, and
    /// the partition's position. `None`, and nothing is changed, if the position is not `from` any more: another
    /// settled in between, or this batch was applied before.
    ///
    /// A like that is there already stays where it was in the list. A like of what does not exist, is deleted, or is a
    /// comment on a post that is deleted changes no row and is noted as reverted ([`Gone`](RevertReason::Gone)) in the
    /// same transaction; taking back a like of such a thing changes nothing. Of those that are `unseen`, likes of what
    /// is there are noted as [`Hidden`](RevertReason::Hidden). Users that the ledger does not know are made, as by
    /// `ensure_user`.
    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>>;

    /// Reverted likes of a partition of which nobody noted yet that their users were told, oldest first. Fewer than
    /// `limit` only if there are no more. Notes that cannot be decoded move to the quarantine.
    async fn pending_reverts(&self, partition: u16, limit: usize) -> Result<Vec<Reverted>>;

    /// Removes reverts whose users have been informed.
    async fn delete_reverts(&self, ids: &[i64]) -> Result<()>;

    /// The tally of each of `objects`, each once, in any order; zeros, version 0, where nothing came of it yet.
    async fn like_tallies(&self, objects: &[Object]) -> Result<Vec<(Object, Tally)>>;

    /// Who likes a post, latest first; `before` is a [`ListPage::next`].
    async fn likers(&self, post: PostId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;
}
