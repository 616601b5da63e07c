//! Writes with an idempotency key, and their responses.

use async_trait::async_trait;
use bytes::Bytes;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural, one, plain};
use super::events::NewEvent;
use super::statements::Parameters;
use crate::ledger::{BeginOutcome, IdempotencyStore, IdempotentWrite, Result, WriteLease};
use crate::model::{DomainEvent, Millis, PostId, UserId};

const BEGIN: &str = "SELECT outcome, old_id, old_answer FROM feedline_begin_write($1, $2, $3, $4, $5, $6, $7, $8)";

const RECALL: &str = "\
    SELECT answer FROM idempotency
    WHERE owner = $1 AND key = $2 AND operation = $3 AND input = $4 AND begun_at >= $5 AND answer IS NOT NULL";

const FINISH: &str = "UPDATE idempotency SET answer = $3 WHERE owner = $1 AND key = $2 AND answer IS NULL";

const APPEND: &str = "\
    WITH taken AS (
        UPDATE idempotency SET reserved = NULL WHERE owner = $1 AND key = $2 AND reserved = $3 RETURNING 1
    )
    INSERT INTO events (at, event, pending) SELECT $4::bigint, $5::text, $6::int FROM taken";

const MOVE: &str = "UPDATE idempotency SET until = $4 WHERE owner = $1 AND key = $2 AND until = $3";

/// Keeps a write that was begun again concurrently: PostgreSQL checks the outer condition again after it locks the row.
const FORGET: &str = "\
    DELETE FROM idempotency USING (
        SELECT owner, key FROM idempotency WHERE begun_at < $1 ORDER BY begun_at LIMIT $2
    ) old
    WHERE idempotency.owner = old.owner AND idempotency.key = old.key AND idempotency.begun_at < $1 RETURNING 1";

#[async_trait]
impl IdempotencyStore for PostgresLedger {
    async fn begin(&self, write: &IdempotentWrite, reserved: Option<PostId>, turn: WriteLease) -> Result<BeginOutcome> {
        let user = write.user.as_str();
        let key = plain(&write.key);
        let input = &write.input[..];
        let now = integer(turn.now);
        let until = integer(turn.until);
        let since = integer(turn.since);
        let reserved = reserved.map(|id| integer(id.0));
        let parameters: Parameters<'_> = &[&user, &key, &write.operation, &input, &reserved, &now, &until, &since];
        let rows = self.pool.write(BEGIN, parameters).await?;
        let row = one(&rows)?;
        Ok(match at(row, 0)? {
            "fresh" => BeginOutcome::Fresh,
            "answered" => BeginOutcome::Answered(Bytes::from(at::<Vec<u8>>(row, 2)?)),
            "running" => BeginOutcome::Running,
            "again" => BeginOutcome::Again(at::<Option<i64>>(row, 1)?.map(|id| PostId(natural(id)))),
            _ => BeginOutcome::Reused,
        })
    }

    async fn append_reserved(
        &self,
        (user, key): (&UserId, &str),
        reserved: PostId,
        at: Millis,
        event: &DomainEvent,
    ) -> Result<()> {
        let event = NewEvent::new(Some(event), self.outlet)?;
        let key = plain(key);
        let reserved = integer(reserved.0);
        let parameters: Parameters<'_> = &[&user.as_str(), &key, &reserved, &integer(at), &event.text, &event.pending];
        self.pool.write(APPEND, parameters).await.map(drop)
    }

    async fn recall(&self, write: &IdempotentWrite, since: Millis) -> Result<Option<Bytes>> {
        let user = write.user.as_str();
        let key = plain(&write.key);
        let input = &write.input[..];
        let rows = self.pool.read(RECALL, &[&user, &key, &write.operation, &input, &integer(since)]).await?;
        rows.first().map(|row| at::<Vec<u8>>(row, 0).map(Bytes::from)).transpose()
    }

    async fn finish(&self, user: &UserId, key: &str, answer: &[u8]) -> Result<()> {
        self.pool.write(FINISH, &[&user.as_str(), &plain(key), &answer]).await.map(drop)
    }

    async fn move_write_lease(&self, user: &UserId, key: &str, from: Millis, to: Millis) -> Result<()> {
        self.pool.write(MOVE, &[&user.as_str(), &plain(key), &integer(from), &integer(to)]).await.map(drop)
    }

    async fn delete_old_keys(&self, before: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET, &[&integer(before), &count(limit)]).await?.len())
    }
}
