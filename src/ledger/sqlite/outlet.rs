//! The log of the outlet and its consumers.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, events, integer, json_text, natural, quarantine, readable, work};
use crate::ledger::outlet::{FAILED_ENTRIES_KEPT, MAX_HELD_ENTRIES};
use crate::ledger::quarantine::webhook_prefix;
use crate::ledger::{
    EventConsumer, Fault, Fence, HeldEntry, NewOutletEntry, OutletBacklog, OutletBatch, OutletEnd, OutletEntry,
    OutletSettlement, OutletStore, Quarantined, Result, WEBHOOK,
};
use crate::model::{DomainEvent, EventOwner, Millis};

#[async_trait]
impl OutletStore for SqliteLedger {
    async fn append_events(&self, events: &[(Millis, DomainEvent)]) -> Result<()> {
        let events = events.to_vec();
        let outlet = self.outlet;
        self.write(move |db| events.iter().try_for_each(|(at, event)| events::append(db, Some(event), *at, outlet)))
            .await
    }

    async fn publish_outlet(
        &self,
        fence: &Fence,
        entries: &[NewOutletEntry],
        done: &[i64],
        now: Millis,
    ) -> Result<Option<OutletEnd>> {
        let (fence, entries, done) = (fence.clone(), entries.to_vec(), done.to_vec());
        self.write(move |db| work::is_owned(db, &fence)?.then(|| publish(db, &entries, &done, now)).transpose()).await
    }

    async fn outlet_end(&self) -> Result<OutletEnd> {
        self.read(end).await
    }

    async fn outlet_entries(&self, after: u64, limit: usize) -> Result<Vec<OutletEntry>> {
        self.read(move |db| entries(db, after, limit)).await
    }

    async fn trim_outlet(&self, before: Millis, now: Millis, limit: usize) -> Result<usize> {
        self.write_patiently(move |db| trim(db, before, now, limit)).await
    }

    async fn register_outlet_consumers(&self, names: &[String]) -> Result<()> {
        let names = names.to_vec();
        self.write(move |db| {
            let sql = "INSERT INTO outlet_consumers (name, cursor) SELECT value, last FROM json_each(?1), outlet_end \
                       WHERE true ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute([json_text(&names)?]).map(drop)
        })
        .await
    }

    async fn outlet_cursor(&self, consumer: &str) -> Result<Option<u64>> {
        let consumer = consumer.to_owned();
        self.read(move |db| cursor(db, &consumer)).await
    }

    async fn advance_outlet_cursor(&self, consumer: &str, to: u64) -> Result<Option<u64>> {
        let consumer = consumer.to_owned();
        self.write(move |db| {
            let sql = "UPDATE outlet_consumers SET cursor = max(cursor, ?2) WHERE name = ?1 RETURNING cursor";
            let row = params![consumer, integer(to)];
            db.prepare_cached(sql)?.query_row(row, |row| row.get(0).map(natural)).optional()
        })
        .await
    }

    async fn outlet_backlogs(&self) -> Result<Vec<OutletBacklog>> {
        self.read(|db| {
            let sql = "SELECT c.name, c.cursor, \
                    (SELECT at FROM outlet WHERE position > c.cursor ORDER BY position LIMIT 1), \
                    (SELECT min(at) FROM outlet_held h WHERE h.consumer = c.name), \
                    (SELECT count(*) FROM outlet_held h WHERE h.consumer = c.name), \
                    0 FROM outlet_consumers c";
            let mut backlogs: Vec<OutletBacklog> =
                db.prepare_cached(sql)?.query_map([], backlog)?.collect::<rusqlite::Result<_>>()?;
            let sql = "SELECT count(*) FROM quarantine WHERE kind = ?1 AND substr(name, 1, length(?2)) = ?2";
            for backlog in &mut backlogs {
                let of_consumer = params![WEBHOOK, webhook_prefix(&backlog.consumer)];
                backlog.failed = db.prepare_cached(sql)?.query_row(of_consumer, |row| row.get(0).map(natural))?;
            }
            Ok(backlogs)
        })
        .await
    }

    async fn outlet_batch(&self, consumer: &str, now: Millis, limit: usize) -> Result<Option<OutletBatch>> {
        let consumer = consumer.to_owned();
        self.read(move |db| batch(db, &consumer, now, limit)).await
    }

    async fn settle_outlet(
        &self,
        fence: &Fence,
        consumer: &str,
        settlement: &OutletSettlement,
        now: Millis,
    ) -> Result<bool> {
        let (fence, consumer, settlement) = (fence.clone(), consumer.to_owned(), settlement.clone());
        self.write(move |db| settle(db, &fence, &consumer, &settlement, now)).await
    }
}

fn end(db: &Connection) -> rusqlite::Result<OutletEnd> {
    let read = |row: &Row<'_>| Ok(OutletEnd { last: natural(row.get(0)?), trimmed: natural(row.get(1)?) });
    db.prepare_cached("SELECT last, trimmed FROM outlet_end")?.query_row([], read)
}

fn cursor(db: &Connection, consumer: &str) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT cursor FROM outlet_consumers WHERE name = ?1";
    db.prepare_cached(sql)?.query_row([consumer], |row| row.get(0).map(natural)).optional()
}

/// Reads `position, at, kind, owner, body` from the first columns.
fn entry(row: &Row<'_>) -> rusqlite::Result<OutletEntry> {
    Ok(OutletEntry {
        position: natural(row.get(0)?),
        at: natural(row.get(1)?),
        kind: row.get(2)?,
        owner: EventOwner::from_stored(row.get_ref(3)?.as_str()?),
        body: row.get(4)?,
    })
}

fn held(row: &Row<'_>) -> rusqlite::Result<HeldEntry> {
    Ok(HeldEntry {
        entry: entry(row)?,
        held_at: natural(row.get(5)?),
        attempts: row.get(6)?,
        due_at: row.get::<_, Option<i64>>(7)?.map(natural),
        reason: row.get(8)?,
        failed_at: None,
    })
}

fn backlog(row: &Row<'_>) -> rusqlite::Result<OutletBacklog> {
    let (unread, held): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
    Ok(OutletBacklog {
        consumer: row.get(0)?,
        cursor: natural(row.get(1)?),
        oldest: unread.into_iter().chain(held).min().map(natural),
        held: natural(row.get(4)?),
        failed: natural(row.get(5)?),
    })
}

fn publish(db: &Connection, new: &[NewOutletEntry], done: &[i64], now: Millis) -> rusqlite::Result<OutletEnd> {
    let mut end = end(db)?;
    let waits = "SELECT 1 FROM events WHERE seq = ?1 AND pending & ?2 <> 0";
    let sql = "INSERT INTO outlet (position, at, published_at, kind, owner, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for entry in new {
        if !db.prepare_cached(waits)?.exists(params![entry.event, EventConsumer::Outlet.bit()])? {
            continue;
        }
        end.last += 1;
        let (at, now, owner) = (integer(entry.at), integer(now), entry.owner.as_str());
        let row = params![integer(end.last), at, now, entry.kind, owner, entry.body];
        db.prepare_cached(sql)?.execute(row)?;
    }
    db.prepare_cached("UPDATE outlet_end SET last = ?1")?.execute([integer(end.last)])?;
    events::finish(db, EventConsumer::Outlet, done)?;
    Ok(end)
}

fn entries(db: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<OutletEntry>> {
    let sql = "SELECT position, at, kind, owner, body FROM outlet WHERE position > ?1 ORDER BY position LIMIT ?2";
    readable("outlet", db.prepare_cached(sql)?.query(params![integer(after), count(limit)])?, entry)
}

fn trim(db: &Connection, before: Millis, now: Millis, limit: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM outlet WHERE published_at < ?1 AND position IN \
               (SELECT position FROM outlet ORDER BY position LIMIT ?2) RETURNING position";
    let removed: Vec<i64> = db
        .prepare_cached(sql)?
        .query_map(params![integer(before), count(limit)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if let Some(last) = removed.iter().max() {
        db.prepare_cached("UPDATE outlet_end SET trimmed = max(trimmed, ?1)")?.execute([last])?;
    }
    let kept = u64::try_from(FAILED_ENTRIES_KEPT.as_millis()).unwrap_or(u64::MAX);
    let before = integer(now.saturating_sub(kept));
    db.prepare_cached("DELETE FROM outlet_held WHERE held_at < ?1")?.execute([before])?;
    let sql = "DELETE FROM quarantine WHERE kind = ?1 AND at < ?2";
    db.prepare_cached(sql)?.execute(params![WEBHOOK, before])?;
    Ok(removed.len())
}

fn batch(db: &Connection, consumer: &str, now: Millis, limit: usize) -> rusqlite::Result<Option<OutletBatch>> {
    let snapshot = db.unchecked_transaction()?;
    let Some(cursor) = cursor(&snapshot, consumer)? else { return Ok(None) };
    let sql = "SELECT count(*) FROM (SELECT 1 FROM outlet_held INDEXED BY outlet_held_owner \
               WHERE consumer = ?1 LIMIT ?2)";
    let most = integer(MAX_HELD_ENTRIES);
    let number: i64 = snapshot.prepare_cached(sql)?.query_row(params![consumer, most], |row| row.get(0))?;
    let mut batch = OutletBatch { cursor, end: end(&snapshot)?, held: natural(number), ..OutletBatch::default() };
    if batch.held < MAX_HELD_ENTRIES {
        batch.entries = entries(&snapshot, cursor, limit)?;
    }
    if batch.held == 0 {
        return Ok(Some(batch));
    }
    let sql = "SELECT position, at, kind, owner, body, held_at, attempts, due_at, reason \
               FROM outlet_held INDEXED BY outlet_held_due \
               WHERE consumer = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3";
    let wanted = params![consumer, integer(now), count(limit)];
    batch.due = readable("outlet_held", snapshot.prepare_cached(sql)?.query(wanted)?, held)?;
    let owners: HashSet<&str> = batch.entries.iter().map(|entry| entry.owner.as_str()).collect();
    let sql = "SELECT value FROM json_each(?2) WHERE EXISTS (SELECT 1 FROM outlet_held INDEXED BY outlet_held_owner \
               WHERE consumer = ?1 AND owner = value)";
    let wanted = params![consumer, json_text(&owners)?];
    let owner = |row: &Row<'_>| Ok(EventOwner::from_stored(row.get_ref(0)?.as_str()?));
    batch.owners_held = snapshot.prepare_cached(sql)?.query_map(wanted, owner)?.collect::<rusqlite::Result<_>>()?;
    Ok(Some(batch))
}

fn settle(
    db: &Connection,
    fence: &Fence,
    consumer: &str,
    settlement: &OutletSettlement,
    now: Millis,
) -> rusqlite::Result<bool> {
    if !work::is_owned(db, fence)? {
        return Ok(false);
    }
    let mut owners: BTreeSet<String> = BTreeSet::new();
    for entry in &settlement.held {
        hold(db, consumer, entry)?;
        owners.insert(entry.entry.owner.to_string());
    }
    let sql = "DELETE FROM outlet_held WHERE consumer = ?1 AND position = ?2 RETURNING owner";
    for position in &settlement.delivered {
        let row = params![consumer, integer(*position)];
        owners.extend(db.prepare_cached(sql)?.query_row(row, |row| row.get::<_, String>(0)).optional()?);
    }
    let next = "UPDATE outlet_held SET due_at = ?3 WHERE consumer = ?1 AND due_at IS NULL \
                AND position = (SELECT min(position) FROM outlet_held INDEXED BY outlet_held_owner \
                                WHERE consumer = ?1 AND owner = ?2)";
    for owner in owners {
        db.prepare_cached(next)?.execute(params![consumer, owner, integer(now)])?;
    }
    let sql = "UPDATE outlet_consumers SET cursor = ?2 WHERE name = ?1 AND cursor < ?2";
    db.prepare_cached(sql)?.execute(params![consumer, integer(settlement.cursor)])?;
    Ok(true)
}

/// Holds an entry, or moves it to the quarantine if it was given up.
fn hold(db: &Connection, consumer: &str, held: &HeldEntry) -> rusqlite::Result<()> {
    let HeldEntry { entry, held_at, attempts, due_at, reason, failed_at } = held;
    if let Some(at) = failed_at {
        let sql = "DELETE FROM outlet_held WHERE consumer = ?1 AND position = ?2";
        db.prepare_cached(sql)?.execute(params![consumer, integer(entry.position)])?;
        let name = format!("{}{}", webhook_prefix(consumer), entry.position);
        let fault = Fault { reason: reason.clone(), attempts: *attempts, at: *at };
        return quarantine::replace(db, &Quarantined::new(WEBHOOK, name, content(consumer, entry)?, fault));
    }
    let sql = "INSERT INTO outlet_held \
               (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
               ON CONFLICT DO UPDATE SET attempts = excluded.attempts, due_at = excluded.due_at, \
                   reason = excluded.reason";
    let row = params![
        consumer,
        integer(entry.position),
        integer(entry.at),
        entry.kind,
        entry.owner.as_str(),
        entry.body,
        integer(*held_at),
        attempts,
        due_at.map(integer),
        reason,
    ];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

/// An entry in quarantine.
fn content(consumer: &str, entry: &OutletEntry) -> rusqlite::Result<String> {
    let OutletEntry { position, at, kind, owner, body } = entry;
    json_text(&serde_json::json!({
        "consumer": consumer, "position": position, "at": at, "kind": kind, "owner": owner.as_str(), "body": body,
    }))
}
