//! The quarantine.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, integer, jobs, likes, natural, work};
use crate::ledger::quarantine::{MAX_QUARANTINED, released_work};
use crate::ledger::{
    Fence, JOB, JobId, LIKE, QuarantineStore, Quarantined, Result, RevertReason, Reverted, SkippedLike,
};
use crate::model::Millis;

#[async_trait]
impl QuarantineStore for SqliteLedger {
    async fn quarantine_job(&self, id: JobId, fence: &Fence, reason: &str, now: Millis) -> Result<bool> {
        let (fence, reason) = (fence.clone(), reason.to_owned());
        self.write(move |db| Ok(work::is_owned(db, &fence)? && job(db, id, &reason, now)?)).await
    }

    async fn skip_like(&self, skipped: &SkippedLike) -> Result<Option<Vec<Reverted>>> {
        let skipped = skipped.clone();
        self.write(move |db| skip_like(db, &skipped)).await
    }

    async fn quarantine(&self, entries: &[Quarantined]) -> Result<()> {
        let entries = entries.to_vec();
        self.write(move |db| entries.iter().try_for_each(|entry| put(db, entry))).await
    }

    async fn quarantined(&self, limit: usize) -> Result<Vec<Quarantined>> {
        self.read(move |db| {
            let sql = "SELECT kind, name, content, reason, at FROM quarantine ORDER BY id LIMIT ?1";
            db.prepare_cached(sql)?.query_map([count(limit)], quarantined)?.collect()
        })
        .await
    }

    async fn release_job(&self, id: JobId) -> Result<bool> {
        self.write(move |db| release(db, id)).await
    }

    async fn quarantine_size(&self) -> Result<u64> {
        self.read(|db| {
            db.prepare_cached("SELECT count(*) FROM quarantine")?.query_row([], |row| row.get(0).map(natural))
        })
        .await
    }
}

/// Moves a job to the quarantine. Returns whether it existed.
fn job(db: &Connection, id: JobId, reason: &str, now: Millis) -> rusqlite::Result<bool> {
    // `CAST`: the columns of a job that cannot be decoded may have any type.
    let sql = "INSERT INTO quarantine (kind, name, content, reason, at) \
               SELECT ?1, CAST(id AS TEXT), json_object('work', CAST(work AS TEXT), 'author', CAST(author AS TEXT), \
                   'partition', partition, 'cursor', CAST(cursor AS TEXT), 'created_at', created_at), ?3, ?4 \
               FROM jobs WHERE id = ?2 \
               ON CONFLICT DO UPDATE SET content = excluded.content, reason = excluded.reason, at = excluded.at";
    if db.prepare_cached(sql)?.execute(params![JOB, integer(id.0), reason, integer(now)])? > 0 {
        trim(db, JOB)?;
    }
    jobs::remove(db, id)
}

fn skip_like(db: &Connection, skipped: &SkippedLike) -> rusqlite::Result<Option<Vec<Reverted>>> {
    let SkippedLike { partition, from, to, content, reason, like, now } = skipped;
    if likes::position(db, *partition)? != *from {
        return Ok(None);
    }
    let (name, content, reason) = (format!("{partition} {to}"), content.clone(), reason.clone());
    put(db, &Quarantined { kind: LIKE.to_owned(), name, content, reason, at: *now })?;
    let reverted = like.iter().map(|like| likes::revert(db, *partition, like, RevertReason::Failed));
    let reverted = reverted.collect::<rusqlite::Result<_>>()?;
    likes::set_position(db, *partition, to)?;
    Ok(Some(reverted))
}

pub(super) fn put(db: &Connection, entry: &Quarantined) -> rusqlite::Result<()> {
    let sql = "INSERT INTO quarantine (kind, name, content, reason, at) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT DO NOTHING";
    let row = params![entry.kind, entry.name, entry.content, entry.reason, integer(entry.at)];
    if db.prepare_cached(sql)?.execute(row)? > 0 {
        trim(db, &entry.kind)?;
    }
    Ok(())
}

/// Deletes the oldest entries of a kind, beyond the maximum.
fn trim(db: &Connection, kind: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM quarantine WHERE kind = ?1 AND id <= \
               (SELECT id FROM quarantine WHERE kind = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    db.prepare_cached(sql)?.execute(params![kind, integer(MAX_QUARANTINED)]).map(drop)
}

fn release(db: &Connection, id: JobId) -> rusqlite::Result<bool> {
    let (name, read) = (id.to_string(), "SELECT content FROM quarantine WHERE kind = ?1 AND name = ?2");
    let content = db.prepare_cached(read)?.query_row([JOB, &name], |row| row.get::<_, String>(0)).optional()?;
    let Some(content) = content else { return Ok(false) };
    let sql = "INSERT INTO jobs (id, partition, author, work, cursor, created_at) \
               VALUES (?1, ?2 ->> 'partition', ?2 ->> 'author', coalesce(?3, ?2 ->> 'work'), ?2 ->> 'cursor', \
                   ?2 ->> 'created_at')";
    db.prepare_cached(sql)?.execute(params![integer(id.0), content, released_work(&content)])?;
    db.prepare_cached("DELETE FROM quarantine WHERE kind = ?1 AND name = ?2")?.execute([JOB, &name])?;
    Ok(true)
}

fn quarantined(row: &Row<'_>) -> rusqlite::Result<Quarantined> {
    Ok(Quarantined {
        kind: row.get(0)?,
        name: row.get(1)?,
        content: row.get(2)?,
        reason: row.get(3)?,
        at: natural(row.get(4)?),
    })
}
