//! The queue of pushes. A function of the database settles them: `functions/pushes.sql`.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one, plain};
use super::devices::{device, json_at};
use super::pool::Parameters;
use super::rows::readable;
use crate::ledger::pushes::{ACCEPTED_KEPT, MAX_COUNTED_PUSHES};
use crate::ledger::{
    DeviceSession, LedgerError, PUSH, PushBacklog, PushKey, PushLease, PushResult, PushStore, QueuedPush, Result,
    SettledPush,
};
use crate::model::{DeviceId, Millis};

/// Selects pushes from a table of leased ones. The parameter is the time since when accepted pushes count.
macro_rules! select_leased {
    ($with:literal, $from:literal, $since:literal, $order:literal) => {
        concat!(
            $with,
            " SELECT q.owner, q.device, q.item, q.kind, q.seq, q.attempts, q.queued_at,
                d.id, d.target, d.locale, d.time_zone, d.app_version, d.registered_at, d.seen_at,
                d.session, d.generation, d.issued_at, p.preferences, q.first_tried_at,
                (SELECT coalesce(sum(s.sends), 0)::bigint FROM push_queue s
                 WHERE s.owner = q.owner AND s.device = q.device AND s.item > 0 AND s.sent_at > ",
            $since,
            ") FROM ",
            $from,
            " LEFT JOIN devices d ON d.owner = q.owner AND d.id = q.device AND d.registered_at <= q.queued_at
            LEFT JOIN push_preferences p ON p.owner = q.owner ",
            $order
        )
    };
}

/// Other processes skip the rows that this statement locks.
const LEASE: &str = select_leased!(
    "WITH due AS MATERIALIZED (
        SELECT owner, device, item, due_at FROM push_queue WHERE state = 0 AND due_at <= $1
        ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE push_queue q SET holder = $3, due_at = $4, attempts = q.attempts + 1 FROM due
        WHERE q.owner = due.owner AND q.device = due.device AND q.item = due.item
        RETURNING q.owner, q.device, q.item, q.kind, q.seq, q.attempts, q.queued_at, q.first_tried_at, due.due_at
    )",
    "leased q",
    "$5",
    "ORDER BY q.due_at"
);

const RELOAD: &str = select_leased!(
    "WITH leased AS (
        SELECT held.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (owner, device, item)
        JOIN push_queue held ON held.owner = k.owner AND held.device = k.device AND held.item = k.item
        WHERE held.state = 0 AND held.holder = $4 AND held.due_at = $5
    )",
    "leased q",
    "$6",
    ""
);

const SETTLE: &str = "SELECT feedline_settle_pushes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const FORGET: &str = "\
    DELETE FROM push_queue q USING (
        SELECT owner, device, item FROM push_queue WHERE state = 1 AND due_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
    ) old
    WHERE q.owner = old.owner AND q.device = old.device AND q.item = old.item RETURNING 1";

const FORGET_JOBS: &str = "\
    DELETE FROM post_alert_jobs WHERE post IN (
        SELECT post FROM post_alert_jobs WHERE state = 1 AND at <= $1 LIMIT $2)";

const BACKLOG: &str = "\
    SELECT count(*), min(due_at) FROM (
        SELECT due_at FROM push_queue WHERE state = 0 AND due_at <= $1 ORDER BY due_at LIMIT $2) due";

const NEXT: &str = "SELECT due_at FROM push_queue WHERE state = 0 ORDER BY due_at LIMIT 1";

#[async_trait]
impl PushStore for PostgresLedger {
    async fn lease_pushes(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<QueuedPush>> {
        let since = integer(now.saturating_sub(ACCEPTED_KEPT));
        let parameters: Parameters<'_> =
            &[&integer(now), &count(limit), &&*lease.holder, &integer(lease.until), &since];
        Ok(readable("push_queue", &self.pool.write(LEASE, parameters).await?, queued))
    }

    async fn reload_pushes(&self, keys: &[PushKey], lease: &PushLease, now: Millis) -> Result<Vec<QueuedPush>> {
        let owners: Vec<&str> = keys.iter().map(|key| key.user.as_str()).collect();
        let devices: Vec<&str> = keys.iter().map(|key| key.device.as_str()).collect();
        let items: Vec<i64> = keys.iter().map(|key| integer(key.item)).collect();
        let since = integer(now.saturating_sub(ACCEPTED_KEPT));
        let parameters: Parameters<'_> = &[&owners, &devices, &items, &&*lease.holder, &integer(lease.until), &since];
        Ok(readable("push_queue", &self.pool.read(RELOAD, parameters).await?, queued))
    }

    async fn settle_pushes(
        &self,
        settled: &[SettledPush],
        lease: &PushLease,
        now: Millis,
        digest: Millis,
    ) -> Result<usize> {
        // Rows are locked in this order.
        let mut sorted: Vec<&SettledPush> = settled.iter().collect();
        sorted.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let owners: Vec<&str> = sorted.iter().map(|push| push.key.user.as_str()).collect();
        let devices: Vec<&str> = sorted.iter().map(|push| push.key.device.as_str()).collect();
        let items: Vec<i64> = sorted.iter().map(|push| integer(push.key.item)).collect();
        let seqs: Vec<i64> = sorted.iter().map(|push| push.seq).collect();
        let results: Vec<(&str, i64, String)> = sorted.iter().map(|push| result(&push.result)).collect();
        let names: Vec<&str> = results.iter().map(|(name, ..)| *name).collect();
        let dues: Vec<i64> = results.iter().map(|(_, due, _)| *due).collect();
        let reasons: Vec<&str> = results.iter().map(|(.., reason)| reason.as_str()).collect();
        let parameters: Parameters<'_> = &[
            &&*lease.holder,
            &integer(lease.until),
            &owners,
            &devices,
            &items,
            &seqs,
            &names,
            &dues,
            &reasons,
            &integer(now),
            &integer(ACCEPTED_KEPT),
            &integer(digest),
        ];
        let rows = self.pool.write(SETTLE, parameters).await?;
        if names.contains(&"failed") {
            self.trim_quarantine(PUSH).await;
        }
        natural_at(one(&rows)?, 0).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }

    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize> {
        self.pool.write(FORGET_JOBS, &[&integer(now), &count(limit)]).await?;
        Ok(self.pool.write(FORGET, &[&integer(now), &count(limit)]).await?.len())
    }

    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog> {
        let rows = self.pool.read(BACKLOG, &[&integer(now), &integer(MAX_COUNTED_PUSHES)]).await?;
        let row = one(&rows)?;
        let oldest: Option<i64> = at(row, 1)?;
        let oldest = oldest.map(|at| u64::try_from(at).unwrap_or_default());
        Ok(PushBacklog { pushes: natural_at(row, 0)?, oldest })
    }

    async fn next_push(&self) -> Result<Option<Millis>> {
        let rows = self.pool.read(NEXT, &[]).await?;
        rows.first().map(|row| natural_at(row, 0)).transpose()
    }
}

/// The name of a result, the time of the next attempt, and the reason.
fn result(result: &PushResult) -> (&'static str, i64, String) {
    match result {
        PushResult::Accepted => ("accepted", 0, String::new()),
        PushResult::AcceptedInDigest => ("accepted_in_digest", 0, String::new()),
        PushResult::Unwanted => ("unwanted", 0, String::new()),
        PushResult::Deferred(due) => ("deferred", integer(*due), String::new()),
        PushResult::Retry(due) => ("retry", integer(*due), String::new()),
        PushResult::Postponed(due) => ("postponed", integer(*due), String::new()),
        PushResult::Failed(reason) => ("failed", 0, plain(reason)),
    }
}

/// Reads `owner, device, item` from the first columns.
fn key(row: &Row) -> Result<PushKey> {
    let text: &str = at(row, 1)?;
    let device =
        DeviceId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is not the id of a device")))?;
    Ok(PushKey { user: id_at(row, 0)?, device, item: natural_at(row, 2)? })
}

fn queued(row: &Row) -> Result<QueuedPush> {
    let session = |row: &Row| {
        let generation: Option<i64> = at(row, 15)?;
        let generation = generation.map(|number| u64::try_from(number).unwrap_or_default());
        Result::Ok(DeviceSession { token: at(row, 14)?, generation, issued_at: natural_at(row, 16)? })
    };
    let has_device = at::<Option<&str>>(row, 7)?.is_some();
    let has_preferences = at::<Option<&str>>(row, 17)?.is_some();
    Ok(QueuedPush {
        key: key(row)?,
        kind: at(row, 3)?,
        seq: at(row, 4)?,
        attempts: u32::try_from(natural_at(row, 5)?).unwrap_or(u32::MAX),
        queued_at: natural_at(row, 6)?,
        device: if has_device { Some((device(row, 7)?, session(row)?)) } else { None },
        preferences: if has_preferences { json_at(row, 17)? } else { Default::default() },
        first_tried_at: Some(natural_at(row, 18)?).filter(|at| *at > 0),
        accepted: natural_at(row, 19)?,
    })
}
