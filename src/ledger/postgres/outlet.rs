//! The log of the outlet and its consumers. Functions of the database: `functions/outlet.sql`.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, plain};
use super::events::NewEvent;
use super::pool::Parameters;
use super::rows::readable;
use crate::ledger::outlet::{FAILED_ENTRIES_KEPT, MAX_HELD_ENTRIES};
use crate::ledger::quarantine::webhook_prefix;
use crate::ledger::{
    EventConsumer, Fence, HeldEntry, LedgerError, NewOutletEntry, OutletBacklog, OutletBatch, OutletEnd, OutletEntry,
    OutletSettlement, OutletStore, Result, WEBHOOK,
};
use crate::model::{DomainEvent, EventOwner, Millis};

const APPEND_EVENTS: &str = "\
    INSERT INTO events (at, event, pending)
    SELECT at, event, pending FROM unnest($1::bigint[], $2::text[], $3::int[]) WITH ORDINALITY
        AS t (at, event, pending, place) ORDER BY place";

const PUBLISH: &str = "\
    SELECT end_last, end_trimmed FROM feedline_publish_outlet($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    WHERE end_last IS NOT NULL";

const END: &str = "SELECT last, trimmed FROM outlet_end";

const ENTRIES: &str = "\
    SELECT position, at, kind, owner, body FROM outlet WHERE position > $1 ORDER BY position LIMIT $2";

const TRIM: &str = "SELECT feedline_trim_outlet($1, $2, $3)";

const REGISTER: &str = "\
    INSERT INTO outlet_consumers (name, position) SELECT name, last FROM unnest($1::text[]) AS t (name), outlet_end
    ON CONFLICT DO NOTHING";

const CURSOR: &str = "SELECT position FROM outlet_consumers WHERE name = $1";

const ADVANCE: &str = "\
    UPDATE outlet_consumers SET position = greatest(position, $2) WHERE name = $1 RETURNING position";

const BACKLOGS: &str = "\
    SELECT c.name, c.position,
        least(
            (SELECT o.at FROM outlet o WHERE o.position > c.position ORDER BY o.position LIMIT 1),
            (SELECT min(h.at) FROM outlet_held h WHERE h.consumer = c.name)),
        (SELECT count(*) FROM outlet_held h WHERE h.consumer = c.name),
        (SELECT count(*) FROM quarantine q WHERE q.kind = 'webhook'
            AND starts_with(q.name, regexp_replace(c.name, '^webhook:', '') || '/'))
    FROM outlet_consumers c ORDER BY c.name";

const BATCH: &str = "\
    SELECT row_kind, row_position, row_at, row_type, row_owner, row_body, row_held_at, row_attempts
    FROM feedline_outlet_batch($1, $2, $3, $4)";

const SETTLE: &str = "\
    SELECT feedline_settle_outlet($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

#[async_trait]
impl OutletStore for PostgresLedger {
    async fn append_events(&self, events: &[(Millis, DomainEvent)]) -> Result<()> {
        let (mut times, mut texts, mut pending) = (Vec::new(), Vec::new(), Vec::new());
        for (at, event) in events {
            let event = NewEvent::new(Some(event), self.outlet)?;
            if let Some(text) = event.text {
                times.push(integer(*at));
                texts.push(text);
                pending.push(event.pending);
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        self.pool.write(APPEND_EVENTS, &[&times, &texts, &pending]).await.map(drop)
    }

    async fn publish_outlet(
        &self,
        fence: &Fence,
        entries: &[NewOutletEntry],
        done: &[i64],
        now: Millis,
    ) -> Result<Option<OutletEnd>> {
        let events: Vec<i64> = entries.iter().map(|entry| entry.event).collect();
        let times: Vec<i64> = entries.iter().map(|entry| integer(entry.at)).collect();
        let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
        let owners: Vec<&str> = entries.iter().map(|entry| entry.owner.as_str()).collect();
        let bodies: Vec<&str> = entries.iter().map(|entry| entry.body.as_str()).collect();
        let (bit, now) = (EventConsumer::Outlet.bit(), integer(now));
        let (partition, generation) = (&*fence.partition, integer(fence.generation));
        let parameters: Parameters<'_> =
            &[&partition, &generation, &events, &times, &kinds, &owners, &bodies, &done, &bit, &now];
        self.pool.write(PUBLISH, parameters).await?.first().map(end).transpose()
    }

    async fn outlet_end(&self) -> Result<OutletEnd> {
        end(one(&self.pool.read(END, &[]).await?)?)
    }

    async fn outlet_entries(&self, after: u64, limit: usize) -> Result<Vec<OutletEntry>> {
        let rows = self.pool.read(ENTRIES, &[&integer(after), &count(limit)]).await?;
        Ok(readable("outlet", &rows, |row| entry(row, 0)))
    }

    async fn trim_outlet(&self, before: Millis, now: Millis, limit: usize) -> Result<usize> {
        let kept = u64::try_from(FAILED_ENTRIES_KEPT.as_millis()).unwrap_or(u64::MAX);
        let parameters: Parameters<'_> = &[&integer(before), &integer(now.saturating_sub(kept)), &count(limit)];
        let rows = self.pool.write(TRIM, parameters).await?;
        natural_at(one(&rows)?, 0).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }

    async fn register_outlet_consumers(&self, names: &[String]) -> Result<()> {
        self.pool.write(REGISTER, &[&names]).await.map(drop)
    }

    async fn outlet_cursor(&self, consumer: &str) -> Result<Option<u64>> {
        let rows = self.pool.read(CURSOR, &[&consumer]).await?;
        rows.first().map(|row| natural_at(row, 0)).transpose()
    }

    async fn advance_outlet_cursor(&self, consumer: &str, to: u64) -> Result<Option<u64>> {
        let rows = self.pool.write(ADVANCE, &[&consumer, &integer(to)]).await?;
        rows.first().map(|row| natural_at(row, 0)).transpose()
    }

    async fn outlet_backlogs(&self) -> Result<Vec<OutletBacklog>> {
        self.pool.read(BACKLOGS, &[]).await?.iter().map(backlog).collect()
    }

    async fn outlet_batch(&self, consumer: &str, now: Millis, limit: usize) -> Result<Option<OutletBatch>> {
        let parameters: Parameters<'_> = &[&consumer, &integer(now), &count(limit), &integer(MAX_HELD_ENTRIES)];
        batch(&self.pool.read(BATCH, parameters).await?)
    }

    async fn settle_outlet(
        &self,
        fence: &Fence,
        consumer: &str,
        settlement: &OutletSettlement,
        now: Millis,
    ) -> Result<bool> {
        // Rows are locked in this order.
        let mut held: Vec<&HeldEntry> = settlement.held.iter().collect();
        held.sort_unstable_by_key(|held| held.entry.position);
        let positions: Vec<i64> = held.iter().map(|held| integer(held.entry.position)).collect();
        let times: Vec<i64> = held.iter().map(|held| integer(held.entry.at)).collect();
        let kinds: Vec<&str> = held.iter().map(|held| held.entry.kind.as_str()).collect();
        let owners: Vec<&str> = held.iter().map(|held| held.entry.owner.as_str()).collect();
        let bodies: Vec<&str> = held.iter().map(|held| held.entry.body.as_str()).collect();
        let held_at: Vec<i64> = held.iter().map(|held| integer(held.held_at)).collect();
        let attempts: Vec<i64> = held.iter().map(|held| i64::from(held.attempts)).collect();
        let due: Vec<Option<i64>> = held.iter().map(|held| held.due_at.map(integer)).collect();
        let reasons: Vec<String> = held.iter().map(|held| plain(&held.reason)).collect();
        let failed: Vec<Option<i64>> = held.iter().map(|held| held.failed_at.map(integer)).collect();
        let delivered: Vec<i64> = settlement.delivered.iter().map(|position| integer(*position)).collect();
        let parameters: Parameters<'_> = &[
            &&*fence.partition,
            &integer(fence.generation),
            &consumer,
            &integer(settlement.cursor),
            &positions,
            &times,
            &kinds,
            &owners,
            &bodies,
            &held_at,
            &attempts,
            &due,
            &reasons,
            &failed,
            &delivered,
            &integer(now),
            &webhook_prefix(consumer),
        ];
        let is_settled = at(one(&self.pool.write(SETTLE, parameters).await?)?, 0)?;
        if settlement.held.iter().any(|held| held.failed_at.is_some()) {
            self.trim_quarantine(WEBHOOK).await;
        }
        Ok(is_settled)
    }
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn end(row: &Row) -> Result<OutletEnd> {
    Ok(OutletEnd { last: natural_at(row, 0)?, trimmed: natural_at(row, 1)? })
}

/// Reads `position, at, kind, owner, body`, starting at a column.
fn entry(row: &Row, first: usize) -> Result<OutletEntry> {
    Ok(OutletEntry {
        position: natural_at(row, first)?,
        at: natural_at(row, first + 1)?,
        kind: at(row, first + 2)?,
        owner: EventOwner::from_stored(at(row, first + 3)?),
        body: at(row, first + 4)?,
    })
}

fn backlog(row: &Row) -> Result<OutletBacklog> {
    Ok(OutletBacklog {
        consumer: at(row, 0)?,
        cursor: natural_at(row, 1)?,
        oldest: at::<Option<i64>>(row, 2)?.map(natural),
        held: natural_at(row, 3)?,
        failed: natural_at(row, 4)?,
    })
}

/// The rows of `feedline_outlet_batch`.
fn batch(rows: &[Row]) -> Result<Option<OutletBatch>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let mut batch = OutletBatch::default();
    for row in rows {
        match at(row, 0)? {
            "cursor" => {
                batch.cursor = natural_at(row, 1)?;
                batch.end = OutletEnd { last: natural_at(row, 2)?, trimmed: natural_at(row, 6)? };
                batch.held = natural_at(row, 7)?;
            }
            "new" => batch.entries.push(entry(row, 1)?),
            "due" => batch.due.push(HeldEntry {
                entry: entry(row, 1)?,
                held_at: natural_at(row, 6)?,
                attempts: small(natural_at(row, 7)?),
                due_at: None,
                reason: String::new(),
                failed_at: None,
            }),
            "user" => {
                batch.owners_held.insert(EventOwner::from_stored(at(row, 4)?));
            }
            other => return Err(LedgerError::Failed(format!("a row of the kind {other:?} in a batch"))),
        }
    }
    Ok(Some(batch))
}
