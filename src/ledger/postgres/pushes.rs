//! The queue of pushes. Functions of the database fill it: `functions/pushes.sql`.

use std::collections::HashMap;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, json_text, natural, natural_at, one};
use super::devices::{device, device_id_at, json_at};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::pushes::{ACCEPTED_KEPT, MAX_COUNTED_PUSHES, settle_push};
use crate::ledger::{
    AlertReader, ClearPlan, DeviceSession, PUSH, PostAlertPage, PushBacklog, PushKey, PushLease, PushPlan, PushResult,
    PushStore, QueuedPush, Result, SettledPush,
};
use crate::model::{Millis, PostId, UserId};

/// Selects the pushes of the table `leased`. Accepted pushes count that were sent after `$1`.
macro_rules! select_leased {
    () => {
        "SELECT q.owner, q.device, q.item, q.kind, q.seq, q.attempts, q.queued_at, q.first_tried_at,
            (SELECT coalesce(sum(s.sends), 0)::bigint FROM push_queue s
             WHERE s.owner = q.owner AND s.device = q.device AND s.item > 0 AND s.sent_at > $1),
            coalesce(p.preferences, 'null'),
            d.id, d.target, d.locale, d.time_zone, d.app_version, d.registered_at, d.seen_at,
            d.session, d.generation, d.issued_at
        FROM leased q
        LEFT JOIN devices d ON d.owner = q.owner AND d.id = q.device AND d.registered_at <= q.queued_at
        LEFT JOIN push_preferences p ON p.owner = q.owner "
    };
}

/// Other processes skip the rows that this statement locks.
const LEASE: &str = concat!(
    "WITH due AS MATERIALIZED (
        SELECT owner, device, item, due_at FROM push_queue WHERE state = 0 AND due_at <= $4
        ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE push_queue q SET holder = $2, due_at = $3, attempts = q.attempts + 1 FROM due
        WHERE q.owner = due.owner AND q.device = due.device AND q.item = due.item
        RETURNING q.*, due.due_at AS was_due_at
    ) ",
    select_leased!(),
    "ORDER BY q.was_due_at"
);

const RELOAD: &str = concat!(
    "WITH leased AS (
        SELECT q.* FROM json_to_recordset($4::text::json) AS k (\"user\" text, device text, item bigint)
        JOIN push_queue q ON q.owner = k.user AND q.device = k.device AND q.item = k.item
        WHERE q.state = 0 AND q.holder = $2 AND q.due_at = $3
    ) ",
    select_leased!()
);

/// Locks rows in the order of their keys.
const SETTLE: &str = concat!(
    "WITH s AS MATERIALIZED (
        SELECT s.*, q.kind, q.attempts, $4::bigint AS now, $5::bigint AS kept_until, $6::bigint AS digest,
            s.result IN ('unwanted', 'failed') AND q.seq <= s.seq AND q.sent_at = 0 AS is_removed
        FROM json_to_recordset($1::text::json)
            AS s (\"user\" text, device text, item bigint, seq bigint, result text, detail text)
        JOIN push_queue q ON q.owner = s.user AND q.device = s.device AND q.item = s.item
        WHERE q.state = 0 AND q.holder = $2 AND q.due_at = $3
        ORDER BY q.owner, q.device, q.item FOR UPDATE OF q
    ), failed AS (
        INSERT INTO quarantine (kind, name, content, reason, attempts, at)
        SELECT 'push', s.user || '/' || s.device || '/' || s.item, json_build_object('user', s.user,
            'device', s.device, 'item', s.item, 'kind', s.kind, 'seq', s.seq)::text, s.detail, s.attempts, s.now
        FROM s WHERE s.result = 'failed'
        ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
            attempts = excluded.attempts, at = excluded.at, is_retried = false
    ), removed AS (
        DELETE FROM push_queue q USING s
        WHERE q.owner = s.user AND q.device = s.device AND q.item = s.item AND s.is_removed
    ), kept AS (
        UPDATE push_queue q SET ",
    settle_push!("feedline_clear_pause(q.owner, q.device, q.sends + 1)"),
    "   FROM s WHERE q.owner = s.user AND q.device = s.device AND q.item = s.item AND NOT s.is_removed
    ) SELECT count(*) FROM s"
);

const QUEUE_ALERTS: &str = "\
    WITH page AS MATERIALIZED (
        SELECT owner FROM post_alerts_of WHERE author = $1 AND owner > $2 ORDER BY owner LIMIT $3
    ), queued AS (
        INSERT INTO push_queue (owner, device, item, kind, seq, state, due_at, queued_at)
        SELECT d.owner, d.id, $4::bigint, 'post', 1, 0, $5::bigint, $6::bigint
        FROM page JOIN devices d ON d.owner = page.owner ORDER BY d.owner, d.id ON CONFLICT DO NOTHING
    )
    SELECT owner FROM page ORDER BY owner DESC LIMIT 1";

const ALERTED: &str = "\
    SELECT DISTINCT owner FROM push_queue WHERE kind = 'post' AND item = $1 AND owner > $2 ORDER BY owner LIMIT $3";

const SENT_ALERTS: &str = "\
    SELECT DISTINCT item FROM push_queue WHERE owner = $1 AND kind = 'post' AND item > $2
        AND (sent_at > 0 OR holder IS NOT NULL)
    ORDER BY item DESC LIMIT $3";

const END_DEFERRALS: &str = "\
    UPDATE push_queue SET due_at = LEAST(due_at, GREATEST($2::bigint,
        sent_at + CASE WHEN kind IN ('like', 'follow') THEN $3::bigint ELSE 0 END))
    WHERE owner = $1 AND state = 0 AND holder IS NULL AND attempts = 0 AND kind <> 'clear'";

const CLEAR: &str = "SELECT feedline_clear_pushes($1, $2, $3, $4, $5)";

const ALERT_READERS: &str = "\
    SELECT p.owner, p.author, coalesce(m.post, 0), a.at
    FROM unnest($1::text[], $2::text[]) AS p (owner, author)
    JOIN post_alerts a ON a.owner = p.owner AND a.author = p.author
    LEFT JOIN read_markers m ON m.owner = p.owner";

const FORGET: &str = "\
    DELETE FROM push_queue q USING (
        SELECT owner, device, item FROM push_queue WHERE state = 1 AND due_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
    ) old
    WHERE q.owner = old.owner AND q.device = old.device AND q.item = old.item RETURNING 1";

const BACKLOG: &str = "\
    SELECT (SELECT count(*) FROM (SELECT FROM push_queue WHERE state = 0 AND due_at <= $1 LIMIT $2) due),
        (SELECT min(due_at) FROM push_queue WHERE state = 0)";

#[async_trait]
impl PushStore for PostgresLedger {
    async fn lease_pushes(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<QueuedPush>> {
        let since = integer(now.saturating_sub(ACCEPTED_KEPT));
        let holder = &*lease.holder;
        let until = integer(lease.until);
        let parameters: Parameters<'_> = &[&since, &holder, &until, &integer(now), &count(limit)];
        Ok(readable("push_queue", &self.pool.write(LEASE, parameters).await?, queued))
    }

    async fn reload_pushes(&self, keys: &[PushKey], lease: &PushLease, now: Millis) -> Result<Vec<QueuedPush>> {
        let since = integer(now.saturating_sub(ACCEPTED_KEPT));
        let parameters: Parameters<'_> = &[&since, &&*lease.holder, &integer(lease.until), &json_text(keys)?];
        Ok(readable("push_queue", &self.pool.read(RELOAD, parameters).await?, queued))
    }

    async fn settle_pushes(
        &self,
        settled: &[SettledPush],
        lease: &PushLease,
        now: Millis,
        digest: Millis,
    ) -> Result<usize> {
        // PostgreSQL takes no NUL.
        let rows = json_text(settled)?.replace("\\u0000", "\\ufffd");
        let holder = &*lease.holder;
        let until = integer(lease.until);
        let kept = integer(now.saturating_add(ACCEPTED_KEPT));
        let parameters: Parameters<'_> = &[&rows, &holder, &until, &integer(now), &kept, &integer(digest)];
        let number = natural_at(one(&self.pool.write(SETTLE, parameters).await?)?, 0)?;
        if settled.iter().any(|push| matches!(push.result, PushResult::Failed(_))) {
            self.trim_quarantine(PUSH).await;
        }
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    async fn end_deferrals(&self, user: &UserId, now: Millis, plan: PushPlan) -> Result<()> {
        let due_at = integer(now.saturating_add(plan.grace));
        self.pool.write(END_DEFERRALS, &[&user.as_str(), &due_at, &integer(plan.digest)]).await.map(drop)
    }

    async fn clear_pushes(&self, items: &[(UserId, u64)], plan: &ClearPlan) -> Result<()> {
        let users: Vec<&str> = items.iter().map(|(user, _)| user.as_str()).collect();
        let numbers: Vec<i64> = items.iter().map(|(_, item)| integer(*item)).collect();
        let parameters: Parameters<'_> = &[&users, &numbers, &plan.session, &integer(plan.now), &integer(plan.due_at)];
        self.pool.write(CLEAR, parameters).await.map(drop)
    }

    async fn sent_alerts(&self, user: &UserId, after: PostId, limit: usize) -> Result<Vec<PostId>> {
        let rows = self.pool.read(SENT_ALERTS, &[&user.as_str(), &integer(after.0), &count(limit)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(PostId)).collect()
    }

    async fn alerted_users(&self, post: PostId, after: &str, limit: usize) -> Result<Vec<UserId>> {
        let rows = self.pool.read(ALERTED, &[&integer(post.0), &after, &count(limit)]).await?;
        rows.iter().map(|row| id_at(row, 0)).collect()
    }

    async fn queue_post_alerts(&self, page: &PostAlertPage, now: Millis) -> Result<Option<UserId>> {
        let PostAlertPage { post, author, after, users, due_at } = page;
        let post = integer(post.0);
        let due_at = integer(*due_at);
        let now = integer(now);
        let parameters: Parameters<'_> = &[&author.as_str(), after, &count(*users), &post, &due_at, &now];
        self.pool.write(QUEUE_ALERTS, parameters).await?.first().map(|row| id_at(row, 0)).transpose()
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), AlertReader>> {
        let (users, authors): (Vec<&str>, Vec<&str>) =
            pairs.iter().map(|(user, author)| (user.as_str(), author.as_str())).unzip();
        let rows = self.pool.read(ALERT_READERS, &[&users, &authors]).await?;
        let reader = |row: &Row| {
            let reader = AlertReader { seen: PostId(natural_at(row, 2)?), since: natural_at(row, 3)? };
            Ok(((id_at(row, 0)?, id_at(row, 1)?), reader))
        };
        rows.iter().map(reader).collect()
    }

    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET, &[&integer(now), &count(limit)]).await?.len())
    }

    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog> {
        let rows = self.pool.read(BACKLOG, &[&integer(now), &integer(MAX_COUNTED_PUSHES)]).await?;
        let row = one(&rows)?;
        Ok(PushBacklog { due: natural_at(row, 0)?, next: at::<Option<i64>>(row, 1)?.map(natural) })
    }
}

fn queued(row: &Row) -> Result<QueuedPush> {
    let has_device = at::<Option<&str>>(row, 10)?.is_some();
    let session = |row: &Row| {
        let generation = at::<Option<i64>>(row, 18)?.map(natural);
        Result::Ok(DeviceSession { token: at(row, 17)?, generation, issued_at: natural_at(row, 19)? })
    };
    Ok(QueuedPush {
        key: PushKey { user: id_at(row, 0)?, device: device_id_at(row, 1)?, item: natural_at(row, 2)? },
        kind: at(row, 3)?,
        seq: at(row, 4)?,
        attempts: u32::try_from(natural_at(row, 5)?).unwrap_or(u32::MAX),
        queued_at: natural_at(row, 6)?,
        first_tried_at: Some(natural_at(row, 7)?).filter(|at| *at > 0),
        device: if has_device { Some((device(row, 10)?, session(row)?)) } else { None },
        preferences: json_at::<Option<_>>(row, 9)?.unwrap_or_default(),
        accepted: natural_at(row, 8)?,
    })
}
