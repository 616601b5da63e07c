//! Likes. They arrive in batches from the like queue, which has acknowledged them already.

use async_trait::async_trait;

use super::{ListPage, Quarantined, Result};
pub use crate::model::RevertReason;
use crate::model::{CommentId, ContentId, DomainEvent, LikeChange, Millis, PostId, Tally, User, UserId};

/// A section of a partition of the queue, merged: at most one change for each user and object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// A like that always fails, noted as reverted ([`Failed`](RevertReason::Failed)).
    pub failed: Option<LikeChange>,
    /// Entries of the queue that are set aside, as a [`LIKE`](super::LIKE) each.
    pub quarantined: Vec<Quarantined>,
    /// The number of new likes of each object that get an event; 0: none.
    pub noted: usize,
    /// The time now, in Unix milliseconds.
    pub now: Millis,
}

/// A like that was acknowledged and could not be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
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
    /// The likes that could not be settled.
    pub reverted: Vec<Reverted>,
}

impl Reverted {
    /// The revert of a like.
    pub(super) fn of(like: &LikeChange, reason: RevertReason) -> Self {
        Self { user: like.user.clone(), object: like.object, reason }
    }

    /// The event that informs the user.
    pub(super) fn event(&self) -> DomainEvent {
        DomainEvent::LikeReverted { user: self.user.clone(), object: self.object, reason: self.reason }
    }
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
    /// deleted post, a like changes no row and is noted as reverted ([`Gone`](RevertReason::Gone)) by an
    /// [event](DomainEvent::LikeReverted), and an unlike changes nothing. Likes in `unseen` of existing objects are
    /// noted as [`Hidden`](RevertReason::Hidden). Users that the ledger does not know are created, as by `ensure_user`.
    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>>;

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
}
