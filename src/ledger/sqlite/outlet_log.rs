//! The log of the outlet and its consumers.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, devices, events, integer, json_text, natural, quarantine, readable, work};
use crate::ledger::outlet_log::MAX_HELD_ENTRIES;
use crate::ledger::{
    EventConsumer, Fence, NewOutletEntry, OutletBacklog, OutletBatch, OutletEnd, OutletEntry, OutletSettlement,
    OutletStore, Result, WEBHOOK,
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
    ) -> Result<bool> {
        let fence = fence.clone();
        let entries = entries.to_vec();
        let done = done.to_vec();
        self.write(move |db| publish(db, &fence, &entries, &done, now)).await
    }

    async fn outlet_end(&self) -> Result<OutletEnd> {
        self.read(end).await
    }

    async fn outlet_entries(&self, after: u64, limit: usize) -> Result<Vec<OutletEntry>> {
        self.read(move |db| entries(db, after, limit)).await
    }

    async fn trim_outlet(&self, before: Millis, held_before: Millis, limit: usize) -> Result<usize> {
        self.write_patiently(move |db| trim(db, before, held_before, limit)).await
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

    async fn advance_outlet_cursor(&self, consumer: &str, to: u64) -> Result<Option<u64>> {
        let consumer = consumer.to_owned();
        if to == 0 {
            let sql = "SELECT cursor FROM outlet_consumers WHERE name = ?1";
            let cursor = move |db: &Connection| {
                db.prepare_cached(sql)?.query_row([consumer], |row| row.get(0).map(natural)).optional()
            };
            return self.read(cursor).await;
        }
        self.write(move |db| {
            let sql = "UPDATE outlet_consumers SET cursor = max(cursor, ?2) WHERE name = ?1 RETURNING cursor";
            let row = params![consumer, integer(to)];
            db.prepare_cached(sql)?.query_row(row, |row| row.get(0).map(natural)).optional()
        })
        .await
    }

    async fn outlet_backlogs(&self) -> Result<Vec<OutletBacklog>> {
        self.read(|db| {
            let sql = "SELECT json_object('consumer', name, 'cursor', cursor, \
                    'oldest', (SELECT min(at) FROM ( \
                        SELECT at FROM (SELECT at FROM outlet WHERE position > cursor ORDER BY position LIMIT 1) \
                        UNION ALL SELECT min(at) FROM outlet_held WHERE consumer = name)), \
                    'held', (SELECT count(*) FROM outlet_held WHERE consumer = name), \
                    'failed', (SELECT count(*) FROM quarantine q WHERE kind = ?1 \
                        AND substr(q.name, 1, length(prefix)) = prefix)) \
                FROM (SELECT name, cursor, replace(name, 'webhook:', '') || '/' AS prefix FROM outlet_consumers)";
            db.prepare_cached(sql)?.query_map([WEBHOOK], |row| devices::json_at(row, 0))?.collect()
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
        let fence = fence.clone();
        let consumer = consumer.to_owned();
        let settlement = settlement.clone();
        self.write(move |db| settle(db, &fence, &consumer, &settlement, now)).await
    }
}

fn end(db: &Connection) -> rusqlite::Result<OutletEnd> {
    let read = |row: &Row<'_>| Ok(OutletEnd { last: natural(row.get(0)?), trimmed: natural(row.get(1)?) });
    db.prepare_cached("SELECT last, trimmed FROM outlet_end")?.query_row([], read)
}

fn publish(
    db: &Connection,
    fence: &Fence,
    new: &[NewOutletEntry],
    done: &[i64],
    now: Millis,
) -> rusqlite::Result<bool> {
    if !work::is_owned(db, fence)? {
        return Ok(false);
    }
    let sql = "INSERT INTO outlet (position, at, published_at, kind, owner, body) \
               SELECT last + row_number() OVER (ORDER BY new.key), new.value ->> 'at', ?2, new.value ->> 'kind', \
                   new.value ->> 'owner', new.value ->> 'body' \
               FROM outlet_end, json_each(?1) AS new \
               WHERE EXISTS (SELECT 1 FROM events WHERE seq = new.value ->> 'event' AND pending & ?3 <> 0)";
    let row = params![json_text(new)?, integer(now), EventConsumer::Outlet.bit()];
    let appended = db.prepare_cached(sql)?.execute(row)?;
    db.prepare_cached("UPDATE outlet_end SET last = last + ?1")?.execute([count(appended)])?;
    events::finish(db, EventConsumer::Outlet, done)?;
    Ok(true)
}

fn entries(db: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<OutletEntry>> {
    let sql = "SELECT json_object('position', position, 'at', at, 'kind', kind, 'owner', owner, 'body', body) \
               FROM outlet WHERE position > ?1 ORDER BY position LIMIT ?2";
    let wanted = params![integer(after), count(limit)];
    readable("outlet", db.prepare_cached(sql)?.query(wanted)?, |row| devices::json_at(row, 0))
}

fn trim(db: &Connection, before: Millis, held_before: Millis, limit: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM outlet WHERE published_at < ?1 AND position IN \
               (SELECT position FROM outlet ORDER BY position LIMIT ?2) RETURNING position";
    let removed: Vec<i64> = db
        .prepare_cached(sql)?
        .query_map(params![integer(before), count(limit)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if let Some(last) = removed.iter().max() {
        db.prepare_cached("UPDATE outlet_end SET trimmed = max(trimmed, ?1)")?.execute([last])?;
    }
    let held_before = integer(held_before);
    db.prepare_cached("DELETE FROM outlet_held WHERE held_at < ?1")?.execute([held_before])?;
    let sql = "DELETE FROM quarantine WHERE kind = ?1 AND at < ?2";
    db.prepare_cached(sql)?.execute(params![WEBHOOK, held_before])?;
    Ok(removed.len())
}

fn batch(db: &Connection, consumer: &str, now: Millis, limit: usize) -> rusqlite::Result<Option<OutletBatch>> {
    let snapshot = db.unchecked_transaction()?;
    let sql = "SELECT cursor, trimmed, (SELECT count(*) FROM (SELECT 1 FROM outlet_held INDEXED BY outlet_held_owner \
                   WHERE consumer = ?1 LIMIT ?2)) \
               FROM outlet_consumers, outlet_end WHERE name = ?1";
    let state = |row: &Row<'_>| {
        let cursor = natural(row.get(0)?);
        let trimmed = natural(row.get(1)?);
        let held = natural(row.get(2)?);
        Ok(OutletBatch { cursor, trimmed, held, ..OutletBatch::default() })
    };
    let state = snapshot.prepare_cached(sql)?.query_row(params![consumer, integer(MAX_HELD_ENTRIES)], state);
    let Some(mut batch) = state.optional()? else { return Ok(None) };
    if batch.held < MAX_HELD_ENTRIES {
        batch.entries = entries(&snapshot, batch.cursor, limit)?;
    }
    if batch.held == 0 {
        return Ok(Some(batch));
    }
    let sql = "SELECT json_object('position', position, 'at', at, 'kind', kind, 'owner', owner, 'body', body, \
                   'held_at', held_at, 'attempts', attempts, 'due_at', due_at, 'reason', reason) \
               FROM outlet_held INDEXED BY outlet_held_due \
               WHERE consumer = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3";
    let wanted = params![consumer, integer(now), count(limit)];
    batch.due = readable("outlet_held", snapshot.prepare_cached(sql)?.query(wanted)?, |row| devices::json_at(row, 0))?;
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
    let OutletSettlement { cursor, held, given_up, released } = settlement;
    let sql = "INSERT INTO outlet_held \
                   (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason) \
               SELECT ?1, value ->> 'position', value ->> 'at', value ->> 'kind', value ->> 'owner', value ->> 'body', \
                   value ->> 'held_at', value ->> 'attempts', value ->> 'due_at', value ->> 'reason' \
               FROM json_each(?2) WHERE true \
               ON CONFLICT DO UPDATE SET attempts = excluded.attempts, due_at = excluded.due_at, \
                   reason = excluded.reason";
    db.prepare_cached(sql)?.execute(params![consumer, json_text(held)?])?;
    given_up.iter().try_for_each(|item| quarantine::replace(db, item))?;
    let sql = "DELETE FROM outlet_held WHERE consumer = ?1 \
               AND position IN (SELECT value FROM json_each(?2)) RETURNING owner";
    let released = params![consumer, json_text(released)?];
    let mut owners: BTreeSet<String> =
        db.prepare_cached(sql)?.query_map(released, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    owners.extend(held.iter().map(|held| held.entry.owner.to_string()));
    let sql = "UPDATE outlet_held SET due_at = ?3 WHERE consumer = ?1 AND due_at IS NULL AND position IN \
               (SELECT (SELECT min(position) FROM outlet_held INDEXED BY outlet_held_owner \
                   WHERE consumer = ?1 AND owner = value) FROM json_each(?2))";
    db.prepare_cached(sql)?.execute(params![consumer, json_text(&owners)?, integer(now)])?;
    let sql = "UPDATE outlet_consumers SET cursor = ?2 WHERE name = ?1 AND cursor < ?2";
    db.prepare_cached(sql)?.execute(params![consumer, integer(*cursor)])?;
    Ok(true)
}
