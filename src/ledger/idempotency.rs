//! What became of writes that their callers named, so that a repeat does nothing and answers as the first did.

use async_trait::async_trait;
use bytes::Bytes;

use super::Result;
use crate::model::{Millis, PostId, UserId};

/// A write under its caller's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentWrite {
    /// Who asks.
    pub user: UserId,
    /// The caller's name for the write, unique among the user's.
    pub key: String,
    /// What is to be done.
    pub operation: &'static str,
    /// A digest of what it is to be done with.
    pub input: [u8; 32],
}

/// The right of one process to run a write, until it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLease {
    /// Now.
    pub now: Millis,
    /// After that, others may try; one that ended badly or with its process does not block its repeats for longer.
    pub until: Millis,
    /// What was begun before that is forgotten.
    pub since: Millis,
}

/// What is known of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// It was never asked for: it is the caller's to do now.
    Fresh,
    /// It was tried, and nobody knows whether it was done: it is the caller's to do now, with the id that was reserved
    /// then.
    Again(PostId),
    /// It was done, and answered so.
    Answered(Bytes),
    /// Somebody else is at it.
    Running,
    /// The key was used for another operation, or another input.
    Reused,
}

/// Named writes and their answers. A row is one user's key.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Asks to do a write, in one transaction: of several that ask at once, one gets it. With [`BeginOutcome::Fresh`],
    /// and then only, `reserved` is kept as the id of what the write creates. A row begun before `turn.since` counts as
    /// none, and is replaced. Another operation or input is [`BeginOutcome::Reused`] whether or not there is an answer;
    /// of the same, an answer comes first, then a turn that has not ended at `turn.now` ([`BeginOutcome::Running`]),
    /// then [`BeginOutcome::Again`], which takes the turn until `turn.until`.
    async fn begin(&self, write: &IdempotentWrite, reserved: PostId, turn: WriteLease) -> Result<BeginOutcome>;

    /// The answer to exactly this write, if there is one and it was begun at `since` or later. Changes nothing.
    async fn recall(&self, write: &IdempotentWrite, since: Millis) -> Result<Option<Bytes>>;

    /// Keeps the answer. Of several the first stays. Nothing happens if there is no such row.
    async fn finish(&self, user: &UserId, key: &str, answer: &[u8]) -> Result<()>;

    /// Moves the end of a turn from one time to another: later to go on, to 0 to give it back, so that a repeat need
    /// not wait. Nothing happens if the turn that ends at `from` is not the row's any more.
    async fn move_write_lease(&self, user: &UserId, key: &str, from: Millis, to: Millis) -> Result<()>;

    /// Removes up to `limit` rows begun before a time, oldest first. How many there were.
    async fn delete_old_keys(&self, before: Millis, limit: usize) -> Result<usize>;
}
