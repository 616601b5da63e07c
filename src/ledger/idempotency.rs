//! Idempotency keys: the outcomes of writes with a key, so that a repeat changes nothing and returns the first answer.

use async_trait::async_trait;
use bytes::Bytes;

use super::Result;
use crate::model::{DomainEvent, Millis, PostId, UserId};

/// A write with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentWrite {
    /// The user that sends the request.
    pub user: UserId,
    /// The idempotency key, unique among the keys of the user.
    pub key: String,
    /// The name of the operation in the table of operations.
    pub operation: &'static str,
    /// The SHA-256 digest of the input.
    pub input: [u8; 32],
}

/// The right of one process to run a write, until it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLease {
    /// The current time, in Unix milliseconds.
    pub now: Millis,
    /// The end of the lease, in Unix milliseconds. After it, a repeat may run the write. A failed attempt or a crashed
    /// process therefore blocks repeats until this time at most.
    pub until: Millis,
    /// Rows begun before this time, in Unix milliseconds, count as absent.
    pub since: Millis,
}

/// The state of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// The key is new: the caller runs the write.
    Fresh,
    /// The write was attempted, with an unknown outcome: the caller runs it, with the id that the first attempt
    /// reserved, if any.
    Again(Option<PostId>),
    /// The write is done. Contains its stored response.
    Answered(Bytes),
    /// Another process is running the write.
    Running,
    /// The key was used for another operation, or another input.
    Reused,
}

/// Idempotency keys and the stored responses. Each row is one key of one user.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims a write, in one transaction. Of several concurrent calls one gets the claim. [`BeginOutcome::Fresh`]
    /// stores `reserved` as the id of the post or comment that the write creates (`None`: it creates none); no other
    /// outcome does. A row begun before
    /// `turn.since` counts as absent and is replaced. Another operation or input is [`BeginOutcome::Reused`], with or
    /// without an answer. For the same operation and input, a stored answer comes first, then a lease that has not
    /// ended at `turn.now` ([`BeginOutcome::Running`]), then [`BeginOutcome::Again`], which takes the lease until
    /// `turn.until`.
    async fn begin(&self, write: &IdempotentWrite, reserved: Option<PostId>, turn: WriteLease) -> Result<BeginOutcome>;

    /// Appends an event, and with it takes the id that a key has reserved. Nothing is appended if the id was taken: an
    /// earlier attempt appended the event.
    async fn append_reserved(
        &self,
        key: (&UserId, &str),
        reserved: PostId,
        at: Millis,
        event: &DomainEvent,
    ) -> Result<()>;

    /// The stored response to exactly this write, if the write began at `since` or later. Changes nothing.
    async fn recall(&self, write: &IdempotentWrite, since: Millis) -> Result<Option<Bytes>>;

    /// Stores the response. An earlier response stays. Does nothing if the row does not exist.
    async fn finish(&self, user: &UserId, key: &str, answer: &[u8]) -> Result<()>;

    /// Moves the end of a lease from one time to another: to a later time to renew it, to 0 to release it, so that a
    /// repeat need not wait. Does nothing if the lease of the row does not end at `from` any more.
    async fn move_write_lease(&self, user: &UserId, key: &str, from: Millis, to: Millis) -> Result<()>;

    /// Removes up to `limit` rows begun before a time, oldest first. Returns the number of rows.
    async fn delete_old_keys(&self, before: Millis, limit: usize) -> Result<usize>;
}
