//! The quarantine.

use std::collections::BTreeSet;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, devices, events, integer, jobs, natural, work};
use crate::ledger::quarantine::{MAX_QUARANTINED, NEVER, released_work, report_dropped};
use crate::ledger::{
    ERASURE, EVENT, EventConsumer, FailedWork, Fault, JOB, JobId, LIKE, PUSH, QuarantineStore, Quarantined, Result,
    RetryOutcome, WEBHOOK,
};
use crate::model::{Millis, UserId};

/// A query of items.
macro_rules! listing {
    ($condition:literal) => {
        concat!(
            "SELECT json_object('id', id, 'kind', kind, 'name', name, 'content', content, 'reason', reason, \
                 'attempts', attempts, 'at', at, 'is_retried', json(iif(is_retried, 'true', 'false'))) \
             FROM quarantine WHERE ",
            $condition
        )
    };
}
#[async_trait]
impl QuarantineStore for SqliteLedger {
    async fn set_aside(&self, work: FailedWork<'_>, fault: &Fault) -> Result<bool> {
        let fault = fault.clone();
        match work {
            FailedWork::Job(id, fence) => {
                let fence = fence.clone();
                self.write(move |db| Ok(work::is_owned(db, &fence)? && job(db, id, &fault)?)).await
            }
            FailedWork::Event(consumer, seq) => self.write(move |db| event(db, consumer, seq, &fault)).await,
            FailedWork::Erasure(user, fence) => {
                let user = user.clone();
                let fence = fence.clone();
                self.write(move |db| Ok(work::is_owned(db, &fence)? && erasure(db, &user, fault)?)).await
            }
        }
    }

    async fn quarantine(&self, items: &[Quarantined]) -> Result<()> {
        let items = items.to_vec();
        self.write(move |db| {
            let kinds: BTreeSet<&str> = items.iter().map(|item| item.kind.as_str()).collect();
            items.iter().try_for_each(|item| insert(db, PUT, item).map(drop))?;
            kinds.into_iter().try_for_each(|kind| trim(db, kind))
        })
        .await
    }

    async fn quarantined(&self, kind: Option<&str>, after: i64, limit: usize) -> Result<Vec<Quarantined>> {
        let kind = kind.map(str::to_owned);
        self.read(move |db| match kind {
            None => {
                let sql = listing!("id > ?1 ORDER BY id LIMIT ?2");
                db.prepare_cached(sql)?.query_map(params![after, count(limit)], quarantined)?.collect()
            }
            Some(kind) => {
                let sql = listing!("kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
                db.prepare_cached(sql)?.query_map(params![kind, after, count(limit)], quarantined)?.collect()
            }
        })
        .await
    }

    async fn quarantined_item(&self, kind: &str, name: &str) -> Result<Option<Quarantined>> {
        let key = [kind.to_owned(), name.to_owned()];
        self.read(move |db| {
            db.prepare_cached(listing!("kind = ?1 AND name = ?2"))?.query_row(key, quarantined).optional()
        })
        .await
    }

    async fn retry_quarantined(&self, kind: &str, name: &str, now: Millis) -> Result<RetryOutcome> {
        let kind = kind.to_owned();
        let name = name.to_owned();
        self.write(move |db| retry(db, &kind, &name, now)).await
    }

    async fn requested_retries(&self, limit: usize) -> Result<Vec<Quarantined>> {
        self.read(move |db| {
            let sql = listing!("is_retried ORDER BY id LIMIT ?1");
            db.prepare_cached(sql)?.query_map([count(limit)], quarantined)?.collect()
        })
        .await
    }

    async fn refuse_retry(&self, kind: &str, name: &str, reason: &str) -> Result<()> {
        let row = [kind.to_owned(), name.to_owned(), reason.to_owned()];
        self.write(move |db| {
            let sql = "UPDATE quarantine SET is_retried = 0, reason = ?3 WHERE kind = ?1 AND name = ?2";
            db.prepare_cached(sql)?.execute(row).map(drop)
        })
        .await
    }

    async fn drop_quarantined(&self, kind: &str, name: &str) -> Result<bool> {
        let kind = kind.to_owned();
        let name = name.to_owned();
        self.write(move |db| {
            if kind == ERASURE {
                let sql = "DELETE FROM erasures WHERE user = ?1 AND due_at = ?2";
                db.prepare_cached(sql)?.execute(params![name, integer(NEVER)])?;
            }
            let sql = "DELETE FROM quarantine WHERE kind = ?1 AND name = ?2";
            Ok(db.prepare_cached(sql)?.execute([&kind, &name])? > 0)
        })
        .await
    }

    async fn quarantine_size(&self) -> Result<u64> {
        self.read(|db| {
            db.prepare_cached("SELECT count(*) FROM quarantine")?.query_row([], |row| row.get(0).map(natural))
        })
        .await
    }
}

/// Moves a job to the quarantine. Returns whether it existed.
fn job(db: &Connection, id: JobId, fault: &Fault) -> rusqlite::Result<bool> {
    // `CAST`: the columns of a job that cannot be decoded may have any type.
    let sql = "SELECT json_object('work', CAST(work AS TEXT), 'author', CAST(author AS TEXT), 'partition', partition, \
                   'created_at', created_at) FROM jobs WHERE id = ?1";
    let content = db.prepare_cached(sql)?.query_row([integer(id.0)], |row| row.get(0)).optional()?;
    if let Some(content) = content {
        replace(db, &Quarantined::new(JOB, id.to_string(), content, fault.clone()))?;
    }
    jobs::remove(db, id)
}

/// Moves an event to the quarantine for a consumer. Returns whether the consumer waited for it.
fn event(db: &Connection, consumer: EventConsumer, seq: i64, fault: &Fault) -> rusqlite::Result<bool> {
    // `CAST`: the columns of an event that cannot be decoded may have any type.
    let sql = "SELECT json_object('seq', seq, 'pending', ?2, 'at', at, 'event', CAST(event AS TEXT)) \
               FROM events WHERE seq = ?1 AND pending & ?2 <> 0";
    let content = db.prepare_cached(sql)?.query_row(params![seq, consumer.bit()], |row| row.get(0)).optional()?;
    let Some(content) = content else { return Ok(false) };
    let name = format!("{}/{seq}", consumer.name());
    replace(db, &Quarantined::new(EVENT, name, content, fault.clone()))?;
    events::finish(db, consumer, &[seq]).map(|()| true)
}

/// Sets an erasure aside. Returns whether it was not yet.
fn erasure(db: &Connection, user: &UserId, fault: Fault) -> rusqlite::Result<bool> {
    let sql = "UPDATE erasures SET due_at = ?2 WHERE user = ?1 AND due_at <> ?2 RETURNING json_object('at', at)";
    let row = params![user.as_str(), integer(NEVER)];
    let content = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
    let Some(content) = content else { return Ok(false) };
    replace(db, &Quarantined::new(ERASURE, user.to_string(), content, fault)).map(|()| true)
}

/// Adds an item, unless there is one of that name.
pub(super) fn put(db: &Connection, item: &Quarantined) -> rusqlite::Result<()> {
    if insert(db, PUT, item)? { trim(db, &item.kind) } else { Ok(()) }
}

const PUT: &str = "INSERT INTO quarantine (kind, name, content, reason, attempts, at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";

/// Adds an item in place of one of that name.
pub(super) fn replace(db: &Connection, item: &Quarantined) -> rusqlite::Result<()> {
    let sql = "INSERT INTO quarantine (kind, name, content, reason, attempts, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
               ON CONFLICT DO UPDATE SET content = excluded.content, reason = excluded.reason, \
                   attempts = excluded.attempts, at = excluded.at, is_retried = 0";
    insert(db, sql, item)?;
    trim(db, &item.kind)
}

/// Returns whether the item was written.
fn insert(db: &Connection, sql: &str, item: &Quarantined) -> rusqlite::Result<bool> {
    let Quarantined { kind, name, content, reason, attempts, at, .. } = item;
    Ok(db.prepare_cached(sql)?.execute(params![kind, name, content, reason, attempts, integer(*at)])? > 0)
}

/// Deletes the oldest items of a kind, beyond the maximum.
fn trim(db: &Connection, kind: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM quarantine WHERE kind = ?1 AND id <= \
               (SELECT id FROM quarantine WHERE kind = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    let dropped = db.prepare_cached(sql)?.execute(params![kind, integer(MAX_QUARANTINED)])?;
    report_dropped(kind, dropped as u64);
    Ok(())
}

fn retry(db: &Connection, kind: &str, name: &str, now: Millis) -> rusqlite::Result<RetryOutcome> {
    if kind == LIKE {
        let sql = "UPDATE quarantine SET is_retried = 1 WHERE kind = ?1 AND name = ?2";
        return Ok(RetryOutcome::of(kind, db.prepare_cached(sql)?.execute([kind, name])? > 0));
    }
    let sql = "DELETE FROM quarantine WHERE kind = ?1 AND name = ?2 RETURNING content";
    let content = db.prepare_cached(sql)?.query_row([kind, name], |row| row.get::<_, String>(0)).optional()?;
    let Some(content) = content else { return Ok(RetryOutcome::Absent) };
    let now = integer(now);
    match kind {
        JOB => db.prepare_cached(RETRY_JOB)?.execute(params![name, content, released_work(&content)])?,
        EVENT => db.prepare_cached(RETRY_EVENT)?.execute([content])?,
        WEBHOOK => db.prepare_cached(RETRY_WEBHOOK)?.execute(params![content, now])?,
        PUSH => db.prepare_cached(RETRY_PUSH)?.execute(params![content, now])?,
        ERASURE => db.prepare_cached("UPDATE erasures SET due_at = 0 WHERE user = ?1")?.execute([name])?,
        _ => return Ok(RetryOutcome::Absent),
    };
    Ok(RetryOutcome::of(kind, true))
}

/// The owner of its partition runs it.
const RETRY_JOB: &str = "\
    INSERT INTO jobs (id, partition, author, work, created_at) \
    VALUES (CAST(?1 AS INTEGER), ?2 ->> 'partition', ?2 ->> 'author', coalesce(?3, ?2 ->> 'work'), \
        ?2 ->> 'created_at')";

/// Another consumer may not have processed the event yet.
const RETRY_EVENT: &str = "\
    INSERT INTO events (seq, at, event, pending) \
    VALUES (?1 ->> 'seq', ?1 ->> 'at', ?1 ->> 'event', ?1 ->> 'pending') \
    ON CONFLICT (seq) DO UPDATE SET pending = pending | excluded.pending";

/// Later entries of the owner wait behind it again.
const RETRY_WEBHOOK: &str = "\
    INSERT INTO outlet_held (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason) \
    VALUES (?1 ->> 'consumer', ?1 ->> 'position', ?1 ->> 'at', ?1 ->> 'kind', ?1 ->> 'owner', ?1 ->> 'body', \
        ?2, 0, ?2, 'sent again by an operator') ON CONFLICT DO NOTHING";

/// A group that has grown since may be queued already.
const RETRY_PUSH: &str = "\
    INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
    VALUES (?1 ->> 'user', ?1 ->> 'device', ?1 ->> 'item', ?1 ->> 'kind', ?1 ->> 'seq', 0, ?2, ?2) \
    ON CONFLICT DO UPDATE SET state = 0, seq = max(seq, excluded.seq), due_at = excluded.due_at, \
        queued_at = excluded.queued_at, attempts = 0, first_tried_at = 0 WHERE state = 1";

fn quarantined(row: &Row<'_>) -> rusqlite::Result<Quarantined> {
    devices::json_at(row, 0)
}
