//! The queue of events.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::{SqliteLedger, count, integer, json_text, natural};
use crate::ledger::{EventBacklog, EventConsumer, EventStore, QueuedEvent, Result};
use crate::model::{DomainEvent, Millis};

#[async_trait]
impl EventStore for SqliteLedger {
    async fn pending_events(&self, consumer: EventConsumer, limit: usize) -> Result<Vec<QueuedEvent>> {
        self.read(move |db| {
            db.prepare_cached(PENDING)?.query_map([consumer.bit().into(), count(limit)], queued)?.collect()
        })
        .await
    }

    async fn finish_events(&self, consumer: EventConsumer, done: &[i64]) -> Result<()> {
        let done = done.to_vec();
        self.write(move |db| finish(db, consumer, &done)).await
    }

    async fn event_backlog(&self, consumer: EventConsumer) -> Result<EventBacklog> {
        self.read(move |db| {
            let sql = "SELECT count(*), min(at) FROM events INDEXED BY events_pending \
                       WHERE pending <> 0 AND pending & ?1 <> 0";
            db.prepare_cached(sql)?.query_row([consumer.bit()], |row| {
                Ok(EventBacklog { events: natural(row.get(0)?), oldest: row.get::<_, Option<i64>>(1)?.map(natural) })
            })
        })
        .await
    }
}

pub(super) const PENDING: &str = "SELECT seq, at, event FROM events INDEXED BY events_pending \
    WHERE pending <> 0 AND pending & ?1 <> 0 ORDER BY seq LIMIT ?2";

fn queued(row: &Row<'_>) -> rusqlite::Result<QueuedEvent> {
    // A row that cannot be decoded must not stop the queue.
    let event = match row.get_ref(2)?.as_str() {
        Ok(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    Ok(QueuedEvent { seq: row.get(0)?, at: natural(row.get(1)?), event })
}

/// Writes an event, in the transaction of its cause, unless no consumer wants it. `outlet`: whether there is an outlet.
pub(super) fn append(db: &Connection, event: Option<&DomainEvent>, at: Millis, outlet: bool) -> rusqlite::Result<()> {
    let Some(event) = event else { return Ok(()) };
    let pending = EventConsumer::all_of(event, outlet);
    if pending == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO events (at, event, pending) VALUES (?1, ?2, ?3)";
    let row = params![integer(at), json_text(event)?, pending];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

pub(super) fn finish(db: &Connection, consumer: EventConsumer, done: &[i64]) -> rusqlite::Result<()> {
    let done = json_text(done)?;
    let bit = consumer.bit();
    let gone = "DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?1)) AND pending & ~?2 = 0";
    db.prepare_cached(gone)?.execute(params![done, bit])?;
    let left = "UPDATE events SET pending = pending & ~?2 WHERE seq IN (SELECT value FROM json_each(?1))";
    db.prepare_cached(left)?.execute(params![done, bit]).map(drop)
}
