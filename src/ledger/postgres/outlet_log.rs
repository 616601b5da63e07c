//! The log of the outlet and its consumers. Functions of the database: `functions/outlet.sql`.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::PostgresLedger;
use super::columns::{at, count, integer, json_at, json_text, natural_at, one, plain};
use super::events::NewEvent;
use super::statements::Parameters;
use crate::ledger::outlet_log::MAX_HELD_ENTRIES;
use crate::ledger::{
    EventConsumer, Fence, HeldEntry, NewOutletEntry, OutletBacklog, OutletBatch, OutletEnd, OutletEntry,
    OutletSettlement, OutletStore, Quarantined, Result, WEBHOOK,
};
use crate::model::{DomainEvent, Millis};

const APPEND_EVENTS: &str = "\
    INSERT INTO events (at, event, pending)
    SELECT at, event, pending FROM unnest($1::bigint[], $2::text[], $3::int[]) WITH ORDINALITY
        AS t (at, event, pending, place) ORDER BY place";

const PUBLISH: &str = "SELECT feedline_append_to_outlet($1, $2, $3::text::json, $4, $5, $6)";

const END: &str = "SELECT last, trimmed FROM outlet_end";

const ENTRIES: &str = "\
    SELECT coalesce(json_agg(entry ORDER BY entry.position), '[]')::text
    FROM (SELECT position, at, kind, owner, body FROM outlet WHERE position > $1 ORDER BY position LIMIT $2) entry";

const TRIM: &str = "\
    WITH removed AS (
        DELETE FROM outlet WHERE published_at < $1
            AND position IN (SELECT o.position FROM outlet o ORDER BY o.position LIMIT $3)
        RETURNING position
    ), trimmed AS (
        UPDATE outlet_end SET trimmed = greatest(trimmed, (SELECT max(position) FROM removed))
        WHERE EXISTS (SELECT FROM removed)
    ), released AS (
        DELETE FROM outlet_held WHERE held_at < $2
    ), forgotten AS (
        DELETE FROM quarantine WHERE kind = 'webhook' AND at < $2
    )
    SELECT count(*) FROM removed";

const REGISTER: &str = "\
    INSERT INTO outlet_consumers (name, position) SELECT name, last FROM unnest($1::text[]) AS t (name), outlet_end
    ON CONFLICT DO NOTHING";

const CURSOR: &str = "SELECT position FROM outlet_consumers WHERE name = $1";

const ADVANCE: &str = "\
    WITH moved AS (UPDATE outlet_consumers SET position = $2 WHERE name = $1 AND position < $2 RETURNING position)
    SELECT coalesce((SELECT position FROM moved), position) FROM outlet_consumers WHERE name = $1";

const BACKLOGS: &str = "\
    SELECT coalesce(json_agg(backlog ORDER BY backlog.consumer), '[]')::text FROM (
        SELECT c.name AS consumer, c.position AS cursor,
            least(
                (SELECT o.at FROM outlet o WHERE o.position > c.position ORDER BY o.position LIMIT 1),
                (SELECT min(h.at) FROM outlet_held h WHERE h.consumer = c.name)) AS oldest,
            (SELECT count(*) FROM outlet_held h WHERE h.consumer = c.name) AS held,
            (SELECT count(*) FROM quarantine q WHERE q.kind = 'webhook'
                AND starts_with(q.name, regexp_replace(c.name, '^webhook:', '') || '/')) AS failed
        FROM outlet_consumers c) backlog";

const BATCH: &str = "\
    WITH reader AS MATERIALIZED (
        SELECT position, (SELECT count(*) FROM (SELECT FROM outlet_held WHERE consumer = $1 LIMIT $4) t) AS held
        FROM outlet_consumers WHERE name = $1
    ), new AS MATERIALIZED (
        SELECT position, at, kind, owner, body FROM outlet
        WHERE position > (SELECT r.position FROM reader r) AND (SELECT held FROM reader) < $4
        ORDER BY position LIMIT $3
    ), due AS (
        SELECT position, at, kind, owner, body, held_at, attempts, due_at, reason FROM outlet_held
        WHERE consumer = $1 AND due_at <= $2 ORDER BY due_at LIMIT $3
    )
    SELECT json_build_object('cursor', r.position, 'trimmed', e.trimmed, 'held', r.held,
        'due', (SELECT coalesce(json_agg(due ORDER BY due.due_at), '[]') FROM due),
        'entries', (SELECT coalesce(json_agg(new ORDER BY new.position), '[]') FROM new),
        'owners_held', ARRAY(SELECT DISTINCT owner FROM new
            WHERE EXISTS (SELECT FROM outlet_held h WHERE h.consumer = $1 AND h.owner = new.owner)))::text
    FROM reader r, outlet_end e";

const SETTLE: &str = "SELECT feedline_settle_outlet_batch($1, $2, $3, $4, $5::text::json, $6::text::json, $7, $8)";

#[async_trait]
impl OutletStore for PostgresLedger {
    async fn append_events(&self, events: &[(Millis, DomainEvent)]) -> Result<()> {
        let mut times = Vec::new();
        let mut texts = Vec::new();
        let mut pending = Vec::new();
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
    ) -> Result<bool> {
        let partition = &*fence.partition;
        let generation = integer(fence.generation);
        let entries = json_text(entries)?;
        let bit = EventConsumer::Outlet.bit();
        let now = integer(now);
        let parameters: Parameters<'_> = &[&partition, &generation, &entries, &done, &bit, &now];
        at(one(&self.pool.write(PUBLISH, parameters).await?)?, 0)
    }

    async fn outlet_end(&self) -> Result<OutletEnd> {
        let rows = self.pool.read(END, &[]).await?;
        let row = one(&rows)?;
        Ok(OutletEnd { last: natural_at(row, 0)?, trimmed: natural_at(row, 1)? })
    }

    async fn outlet_entries(&self, after: u64, limit: usize) -> Result<Vec<OutletEntry>> {
        let rows = self.pool.read(ENTRIES, &[&integer(after), &count(limit)]).await?;
        json_at(one(&rows)?, 0)
    }

    async fn trim_outlet(&self, before: Millis, held_before: Millis, limit: usize) -> Result<usize> {
        let rows = self.pool.write(TRIM, &[&integer(before), &integer(held_before), &count(limit)]).await?;
        natural_at(one(&rows)?, 0).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }

    async fn register_outlet_consumers(&self, names: &[String]) -> Result<()> {
        self.pool.write(REGISTER, &[&names]).await.map(drop)
    }

    async fn advance_outlet_cursor(&self, consumer: &str, to: u64) -> Result<Option<u64>> {
        let rows = match to {
            0 => self.pool.read(CURSOR, &[&consumer]).await?,
            to => self.pool.write(ADVANCE, &[&consumer, &integer(to)]).await?,
        };
        rows.first().map(|row| natural_at(row, 0)).transpose()
    }

    async fn outlet_backlogs(&self) -> Result<Vec<OutletBacklog>> {
        json_at(one(&self.pool.read(BACKLOGS, &[]).await?)?, 0)
    }

    async fn outlet_batch(&self, consumer: &str, now: Millis, limit: usize) -> Result<Option<OutletBatch>> {
        let parameters: Parameters<'_> = &[&consumer, &integer(now), &count(limit), &integer(MAX_HELD_ENTRIES)];
        self.pool.read(BATCH, parameters).await?.first().map(|row| json_at(row, 0)).transpose()
    }

    async fn settle_outlet(
        &self,
        fence: &Fence,
        consumer: &str,
        settlement: &OutletSettlement,
        now: Millis,
    ) -> Result<bool> {
        let OutletSettlement { cursor, held, given_up, released } = settlement;
        let partition = &*fence.partition;
        let generation = integer(fence.generation);
        let cursor = integer(*cursor);
        let plain = |held: &HeldEntry| HeldEntry { reason: plain(&held.reason), ..held.clone() };
        let held = json_text(&held.iter().map(plain).collect::<Vec<_>>())?;
        let items = json_text(&given_up.iter().map(item).collect::<Vec<_>>())?;
        let released: Vec<i64> = released.iter().map(|position| integer(*position)).collect();
        let parameters: Parameters<'_> =
            &[&partition, &generation, &consumer, &cursor, &held, &items, &released, &integer(now)];
        let is_settled = at(one(&self.pool.write(SETTLE, parameters).await?)?, 0)?;
        if !given_up.is_empty() {
            self.trim_quarantine(WEBHOOK).await;
        }
        Ok(is_settled)
    }
}

/// A row of the quarantine.
fn item(item: &Quarantined) -> Value {
    let Quarantined { kind, name, content, reason, attempts, at, .. } = item;
    let reason = plain(reason);
    json!({ "kind": kind, "name": name, "content": content, "reason": reason, "attempts": attempts, "at": at })
}
