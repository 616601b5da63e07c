//! Writes with an idempotency key, and their responses.

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteLedger, count, events, integer, natural};
use crate::ledger::{BeginOutcome, IdempotencyStore, IdempotentWrite, Result, WriteLease};
use crate::model::{DomainEvent, Millis, PostId, UserId};

#[async_trait]
impl IdempotencyStore for SqliteLedger {
    async fn begin(&self, write: &IdempotentWrite, reserved: Option<PostId>, turn: WriteLease) -> Result<BeginOutcome> {
        let write = write.clone();
        self.write(move |db| begin(db, &write, reserved, turn)).await
    }

    async fn append_reserved(
        &self,
        (user, key): (&UserId, &str),
        reserved: PostId,
        at: Millis,
        event: &DomainEvent,
    ) -> Result<()> {
        let user = user.clone();
        let key = key.to_owned();
        let event = event.clone();
        let outlet = self.outlet;
        self.write(move |db| {
            let sql = "UPDATE idempotency SET reserved = NULL WHERE user = ?1 AND key = ?2 AND reserved = ?3";
            match db.prepare_cached(sql)?.execute(params![user.as_str(), key, integer(reserved.0)])? {
                0 => Ok(()),
                _ => events::append(db, Some(&event), at, outlet),
            }
        })
        .await
    }

    async fn recall(&self, write: &IdempotentWrite, since: Millis) -> Result<Option<Bytes>> {
        let write = write.clone();
        self.read(move |db| recall(db, &write, since)).await
    }

    async fn finish(&self, user: &UserId, key: &str, answer: &[u8]) -> Result<()> {
        let user = user.clone();
        let key = key.to_owned();
        let answer = answer.to_vec();
        self.write(move |db| {
            let sql = "UPDATE idempotency SET answer = ?3 WHERE user = ?1 AND key = ?2 AND answer IS NULL";
            db.prepare_cached(sql)?.execute(params![user.as_str(), key, answer]).map(drop)
        })
        .await
    }

    async fn move_write_lease(&self, user: &UserId, key: &str, from: Millis, to: Millis) -> Result<()> {
        let user = user.clone();
        let key = key.to_owned();
        self.write(move |db| {
            let sql = "UPDATE idempotency SET until = ?4 WHERE user = ?1 AND key = ?2 AND until = ?3";
            db.prepare_cached(sql)?.execute(params![user.as_str(), key, integer(from), integer(to)]).map(drop)
        })
        .await
    }

    async fn delete_old_keys(&self, before: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| {
            let sql = "DELETE FROM idempotency WHERE (user, key) IN \
                       (SELECT user, key FROM idempotency WHERE begun_at < ?1 ORDER BY begun_at LIMIT ?2)";
            db.prepare_cached(sql)?.execute(params![integer(before), count(limit)])
        })
        .await
    }
}

fn begin(
    db: &Connection,
    write: &IdempotentWrite,
    reserved: Option<PostId>,
    turn: WriteLease,
) -> rusqlite::Result<BeginOutcome> {
    let user = write.user.as_str();
    let key = &write.key;
    let sql = "SELECT operation = ?3 AND input = ?4, reserved, until, answer FROM idempotency \
               WHERE user = ?1 AND key = ?2 AND begun_at >= ?5";
    let wanted = params![user, key, write.operation, write.input, integer(turn.since)];
    let known = db
        .prepare_cached(sql)?
        .query_row(wanted, |row| {
            let reserved = row.get::<_, Option<i64>>(1)?;
            let until = natural(row.get(2)?);
            let reserved = reserved.map(|id| PostId(natural(id)));
            Ok((row.get::<_, bool>(0)?, reserved, until, row.get::<_, Option<Vec<u8>>>(3)?))
        })
        .optional()?;
    Ok(match known {
        None => {
            let sql = "INSERT OR REPLACE INTO idempotency (user, key, operation, input, reserved, begun_at, until) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            db.prepare_cached(sql)?.execute(params![
                user,
                key,
                write.operation,
                write.input,
                reserved.map(|id| integer(id.0)),
                integer(turn.now),
                integer(turn.until)
            ])?;
            BeginOutcome::Fresh
        }
        Some((false, ..)) => BeginOutcome::Reused,
        Some((true, _, _, Some(answer))) => BeginOutcome::Answered(answer.into()),
        Some((true, _, until, None)) if until > turn.now => BeginOutcome::Running,
        Some((true, reserved, _, None)) => {
            db.prepare_cached("UPDATE idempotency SET until = ?3 WHERE user = ?1 AND key = ?2")?.execute(params![
                user,
                key,
                integer(turn.until)
            ])?;
            BeginOutcome::Again(reserved)
        }
    })
}

fn recall(db: &Connection, write: &IdempotentWrite, since: Millis) -> rusqlite::Result<Option<Bytes>> {
    let sql = "SELECT answer FROM idempotency WHERE user = ?1 AND key = ?2 AND operation = ?3 AND input = ?4 \
               AND begun_at >= ?5 AND answer IS NOT NULL";
    let wanted = params![write.user.as_str(), write.key, write.operation, write.input, integer(since)];
    let answer: Option<Vec<u8>> = db.prepare_cached(sql)?.query_row(wanted, |row| row.get(0)).optional()?;
    Ok(answer.map(Bytes::from))
}
