//! Likes. They arrive in batches from the like queue, which has acknowledged them already.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Fault, ListPage, Result};
pub use crate::model::RevertReason;
use crate::model::{CommentId, ContentId, LikeChange, Millis, PostId, Tally, User, UserId};

/// A section of a partition of the queue, merged: at most one change for each user and object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeBatch {
    /// The partition.
    pub partition: u16,
    /// The position that the ledger must have for the batch to apply, as returned by [`LikeStore::like_position`].
    pub from: String,
    /// The position after the batch.
    pub to: String,
    /// The changes, in the order of the queue.
    pub changes: Vec<LikeChange>,
    /// Likes of objects that their users cannot see. They are noted as reverted; none of them is in `changes`.
    pub unseen: Vec<LikeChange>,
    /// The number of new likes of each object that get an event; 0: none.
    pub noted: usize,
    /// The time now, in Unix milliseconds.
    pub now: Millis,
}

/// A like that was acknowledged and could not be settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    /// The id of the revert.
    pub id: i64,
    /// The user.
    pub user: UserId,
    /// The object.
    pub object: ContentId,
    /// The reason.
    pub reason: RevertReason,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledLikes {
    /// The tally of each object of the batch, including the objects of `unseen`; each once, in any order.
    pub tallies: Vec<(ContentId, Tally)>,
    /// The new likes, in the order of the batch for each object.
    pub added: Vec<(UserId, ContentId)>,
    /// The likes that could not be settled, as noted for [`LikeStore::pending_reverts`].
    pub reverted: Vec<Reverted>,
}
/// An entry of the queue of likes that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLike {
    /// The partition of the queue of likes.
    pub partition: u16,
    /// The position at which the ledger must stand, as in [`LikeBatch`].
    pub from: String,
    /// The position after the entry.
    pub to: String,
    /// The content of the entry in the queue.
    pub content: String,
    /// Why it is set aside.
    pub fault: Fault,
    /// The like, to be noted as reverted. `None` if the entry is not a like, or takes one back.
    pub like: Option<LikeChange>,
}

/// Likes.
#[async_trait]
pub trait LikeStore: Send + Sync {
    /// The position up to which a partition of the queue is settled: `to` of its last batch, empty before the first.
    async fn like_position(&self, partition: u16) -> Result<String>;

    /// Applies a batch in one transaction: the rows of likes, the count of each object (its version grows by one if the
    /// count of likes changed, and stays otherwise), the [events](crate::model::DomainEvent::liked) of new likes and of
    /// all unlikes, also of those that change nothing, and the partition's position. Returns `None` and changes nothing
    /// if the position is not `from`: another batch was settled in between, or this batch was applied before.
    ///
    /// A repeated like keeps its position in the list. If the object does not exist, is deleted, or is a comment on a
    /// deleted post, a like changes no row and is noted as reverted ([`Gone`](RevertReason::Gone)) in the same
    /// transaction, and an unlike changes nothing. Likes in `unseen` of existing objects are noted as
    /// [`Hidden`](RevertReason::Hidden). Users that the ledger does not know are created, as by `ensure_user`.
    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>>;

    /// The oldest reverted likes of a partition whose users have not been informed, oldest first. Fewer than `limit`
    /// only if there are no more. Notes that cannot be decoded move to the quarantine.
    async fn pending_reverts(&self, partition: u16, limit: usize) -> Result<Vec<Reverted>>;

    /// Removes reverts whose users have been informed.
    async fn delete_reverts(&self, ids: &[i64]) -> Result<()>;

    /// The tally of each of `objects`, each once, in any order. Objects without counts have zeros and version 0.
    async fn like_tallies(&self, objects: &[ContentId]) -> Result<Vec<(ContentId, Tally)>>;

    /// The likers of a post, latest first; `before` is a [`ListPage::next`].
    async fn likers(&self, post: PostId, before: Option<i64>, limit: usize) -> Result<ListPage<User>>;

    /// The posts below `before` that a user likes, newest post first. Posts may be deleted. The cost depends on
    /// `limit`, not on the number of likes. The order is not that of the likes, because it would need one more index of
    /// `likes`, which every settled like pays for.
    async fn likes_by(&self, user: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The likers of a comment, latest first, each with the time of the like; those of one moment in descending order
    /// of their ids. Begins after the liker of `after`.
    async fn comment_likers(
        &self,
        comment: CommentId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>>;

    /// The comments among `ids` that a user likes, each once, in any order. Accepts any number of ids in one round
    /// trip.
    async fn liked_comments(&self, user: &UserId, ids: &[CommentId]) -> Result<Vec<CommentId>>;

    /// The likes among these that exist, in any order. Accepts any number of likes in one round trip.
    async fn likes_among(&self, likes: &[(ContentId, UserId)]) -> Result<Vec<(ContentId, UserId)>>;

    /// Sets an entry of the queue of likes aside and moves its partition on, in one transaction. The like is noted as
    /// [reverted](RevertReason::Failed). Returns the note; `None`, and nothing changes, if the partition does
    /// not stand at `from`.
    async fn skip_like(&self, skipped: &SkippedLike) -> Result<Option<Vec<Reverted>>>;
}
