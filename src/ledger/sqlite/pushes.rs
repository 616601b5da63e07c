//! The queue of pushes.

use std::collections::HashMap;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::devices::{device, device_id_at, json_at};
use super::rows::{id_pairs_json, ids_json, post_id_at, user_id_at};
use super::{SqliteLedger, count, integer, json_text, natural, quarantine, readable};
use crate::ledger::pushes::{ACCEPTED_KEPT, MAX_COUNTED_PUSHES, settle_push};
use crate::ledger::{
    AlertReader, ClearPlan, DeviceSession, Fault, NotificationGroup, PUSH, PostAlertPage, PushBacklog, PushKey,
    PushLease, PushPlan, PushStore, Quarantined, QueuedPush, Result, SettledPush,
};
use crate::model::{Millis, PostId, UserId};

/// The pause after this number of silent messages to a device in a day. FCM gives a device a new one every three
/// minutes, after some at once; APNs delivers two or three in an hour.
macro_rules! clear_pause {
    ($sends:literal) => {
        concat!(
            "CASE WHEN EXISTS (SELECT 1 FROM devices a WHERE a.user = q.user AND a.id = q.device \
                AND a.target ->> 'platform' = 'apns') \
            THEN min(300000 * ",
            $sends,
            ", 1200000) ELSE min(10000 * ",
            $sends,
            ", 180000) END"
        )
    };
}

const LEASED: &str = "\
    SELECT q.user, q.device, q.item, q.kind, q.seq, q.attempts, q.queued_at, q.first_tried_at, \
        (SELECT coalesce(sum(s.sends), 0) FROM push_queue s \
         WHERE s.user = q.user AND s.device = q.device AND s.item > 0 AND s.sent_at > ?4), \
        coalesce(p.preferences, 'null'), \
        d.id, d.target, d.locale, d.time_zone, d.app_version, d.registered_at, d.seen_at, \
        d.session, d.generation, d.issued_at \
    FROM json_each(?1) k CROSS JOIN push_queue q \
        ON q.user = k.value ->> 'user' AND q.device = k.value ->> 'device' AND q.item = k.value ->> 'item' \
    LEFT JOIN devices d ON d.user = q.user AND d.id = q.device AND d.registered_at <= q.queued_at \
    LEFT JOIN push_preferences p ON p.user = q.user \
    WHERE q.state = 0 AND q.holder = ?2 AND q.due_at = ?3";

/// A statement about settled pushes `s` that are held.
macro_rules! settled {
    ($($statement:expr),*) => {
        concat!(
            "WITH s AS MATERIALIZED ( \
                SELECT q.user, q.device, q.item, q.kind, q.attempts, value ->> 'seq' AS seq, \
                    value ->> 'result' AS result, value ->> 'detail' AS detail, \
                    ?4 AS now, ?5 AS kept_until, ?6 AS digest, \
                    value ->> 'result' IN ('unwanted', 'failed') AND q.seq <= value ->> 'seq' AND q.sent_at = 0 \
                        AS is_removed \
                FROM json_each(?1) CROSS JOIN push_queue q ON q.user = value ->> 'user' \
                    AND q.device = value ->> 'device' AND q.item = value ->> 'item' \
                WHERE q.state = 0 AND q.holder = ?2 AND q.due_at = ?3) ",
            $($statement),*
        )
    };
}

const FAILED: &str = settled!(
    "SELECT user || '/' || device || '/' || item, \
        json_object('user', user, 'device', device, 'item', item, 'kind', kind, 'seq', seq), detail, attempts \
     FROM s WHERE result = 'failed'"
);

const REMOVE: &str = settled!(
    "DELETE FROM push_queue WHERE (user, device, item) IN (SELECT user, device, item FROM s WHERE is_removed)"
);

/// Runs after [`REMOVE`]: the pushes to be removed are gone, so these are the others.
const SETTLE: &str = settled!(
    "UPDATE push_queue AS q SET ",
    settle_push!(clear_pause!("(q.sends + 1)")),
    " FROM s WHERE q.user = s.user AND q.device = s.device AND q.item = s.item"
);

#[async_trait]
impl PushStore for SqliteLedger {
    async fn lease_pushes(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<QueuedPush>> {
        let lease = lease.clone();
        self.write(move |db| {
            let sql = "SELECT json_group_array(json_object('user', user, 'device', device, 'item', item)) FROM ( \
                           SELECT user, device, item FROM push_queue INDEXED BY push_queue_due \
                           WHERE state = 0 AND due_at <= ?1 ORDER BY due_at LIMIT ?2)";
            let due: String =
                db.prepare_cached(sql)?.query_row(params![integer(now), count(limit)], |row| row.get(0))?;
            let sql = "UPDATE push_queue AS q SET holder = ?2, due_at = ?3, attempts = attempts + 1 FROM json_each(?1) \
                       WHERE q.user = value ->> 'user' AND q.device = value ->> 'device' AND q.item = value ->> 'item'";
            db.prepare_cached(sql)?.execute(params![due, &*lease.holder, integer(lease.until)])?;
            leased(db, &due, &lease, now)
        })
        .await
    }

    async fn reload_pushes(&self, keys: &[PushKey], lease: &PushLease, now: Millis) -> Result<Vec<QueuedPush>> {
        let keys = keys.to_vec();
        let lease = lease.clone();
        self.read(move |db| leased(db, &json_text(&keys)?, &lease, now)).await
    }

    async fn settle_pushes(
        &self,
        settled: &[SettledPush],
        lease: &PushLease,
        now: Millis,
        digest: Millis,
    ) -> Result<usize> {
        let settled = settled.to_vec();
        let lease = lease.clone();
        self.write(move |db| {
            let rows = json_text(&settled)?;
            let until = integer(lease.until);
            let kept_until = integer(now.saturating_add(ACCEPTED_KEPT));
            let row = params![rows, &*lease.holder, until, integer(now), kept_until, integer(digest)];
            let failed = |row: &Row<'_>| {
                let fault = Fault { reason: row.get(2)?, attempts: row.get(3)?, at: now };
                Ok(Quarantined::new(PUSH, row.get(0)?, row.get(1)?, fault))
            };
            let failed: Vec<Quarantined> =
                db.prepare_cached(FAILED)?.query_map(row, failed)?.collect::<rusqlite::Result<_>>()?;
            failed.iter().try_for_each(|item| quarantine::replace(db, item))?;
            let removed = db.prepare_cached(REMOVE)?.execute(row)?;
            Ok(removed + db.prepare_cached(SETTLE)?.execute(row)?)
        })
        .await
    }

    async fn end_deferrals(&self, user: &UserId, now: Millis, plan: PushPlan) -> Result<()> {
        let user = user.clone();
        let due_at = integer(now.saturating_add(plan.grace));
        self.write(move |db| {
            let sql = "UPDATE push_queue SET \
                           due_at = min(due_at, max(?2, sent_at + iif(kind IN ('like', 'follow'), ?3, 0))) \
                       WHERE user = ?1 AND state = 0 AND holder IS NULL AND attempts = 0 AND kind <> 'clear'";
            db.prepare_cached(sql)?.execute(params![user.as_str(), due_at, integer(plan.digest)]).map(drop)
        })
        .await
    }

    async fn clear_pushes(&self, items: &[(UserId, u64)], plan: &ClearPlan) -> Result<()> {
        let items = items.to_vec();
        let plan = plan.clone();
        self.write(move |db| {
            items.iter().try_for_each(|(user, item)| enqueue_clears(db, user, Cleared::Item(*item), &plan))
        })
        .await
    }

    async fn sent_alerts(&self, user: &UserId, after: PostId, limit: usize) -> Result<Vec<PostId>> {
        let user = user.clone();
        self.read(move |db| {
            let sql = "SELECT DISTINCT item FROM push_queue WHERE user = ?1 AND kind = 'post' AND item > ?2 \
                       AND (sent_at > 0 OR holder IS NOT NULL) ORDER BY item DESC LIMIT ?3";
            let wanted = params![user.as_str(), integer(after.0), count(limit)];
            db.prepare_cached(sql)?.query_map(wanted, |row| post_id_at(row, 0))?.collect()
        })
        .await
    }

    async fn alerted_users(&self, post: PostId, after: &str, limit: usize) -> Result<Vec<UserId>> {
        let after = after.to_owned();
        self.read(move |db| {
            let sql = "SELECT DISTINCT user FROM push_queue INDEXED BY push_queue_posts \
                       WHERE kind = 'post' AND item = ?1 AND user > ?2 ORDER BY user LIMIT ?3";
            let wanted = params![integer(post.0), after, count(limit)];
            db.prepare_cached(sql)?.query_map(wanted, |row| user_id_at(row, 0))?.collect()
        })
        .await
    }

    async fn queue_post_alerts(&self, page: &PostAlertPage, now: Millis) -> Result<Option<UserId>> {
        let page = page.clone();
        self.write(move |db| queue_post_alerts(db, &page, now)).await
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), AlertReader>> {
        let pairs = pairs.to_vec();
        self.read(move |db| {
            let sql = "SELECT a.user, a.author, coalesce(m.post, 0), a.at FROM json_each(?1) \
                       CROSS JOIN post_alerts a ON a.user = value ->> 0 AND a.author = value ->> 1 \
                       LEFT JOIN read_markers m ON m.user = a.user";
            let mut statement = db.prepare_cached(sql)?;
            let reader = |row: &Row<'_>| {
                let reader = AlertReader { seen: post_id_at(row, 2)?, since: natural(row.get(3)?) };
                Ok(((user_id_at(row, 0)?, user_id_at(row, 1)?), reader))
            };
            statement.query_map([id_pairs_json(&pairs)?], reader)?.collect()
        })
        .await
    }

    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| {
            let sql = "DELETE FROM push_queue WHERE (user, device, item) IN (SELECT user, device, item \
                       FROM push_queue INDEXED BY push_queue_due WHERE state = 1 AND due_at <= ?1 LIMIT ?2)";
            db.prepare_cached(sql)?.execute(params![integer(now), count(limit)])
        })
        .await
    }

    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog> {
        self.read(move |db| {
            let sql = "SELECT (SELECT count(*) FROM (SELECT 1 FROM push_queue INDEXED BY push_queue_due \
                           WHERE state = 0 AND due_at <= ?1 LIMIT ?2)), \
                       (SELECT min(due_at) FROM push_queue INDEXED BY push_queue_due WHERE state = 0)";
            let backlog = |row: &Row<'_>| {
                let next = row.get::<_, Option<i64>>(1)?.map(natural);
                Ok(PushBacklog { due: row.get(0).map(natural)?, next })
            };
            db.prepare_cached(sql)?.query_row(params![integer(now), integer(MAX_COUNTED_PUSHES)], backlog)
        })
        .await
    }
}

fn queue_post_alerts(db: &Connection, page: &PostAlertPage, now: Millis) -> rusqlite::Result<Option<UserId>> {
    let sql = "SELECT user FROM post_alerts INDEXED BY post_alerts_author \
               WHERE author = ?1 AND user > ?2 ORDER BY user LIMIT ?3";
    let wanted = params![page.author.as_str(), page.after, count(page.users)];
    let mut users: Vec<UserId> =
        db.prepare_cached(sql)?.query_map(wanted, |row| user_id_at(row, 0))?.collect::<rusqlite::Result<_>>()?;
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT d.user, d.id, ?2, 'post', 1, 0, ?3, ?4 FROM json_each(?1) \
               CROSS JOIN devices d ON d.user = value WHERE true ON CONFLICT DO NOTHING";
    let row = params![ids_json(&users)?, integer(page.post.0), integer(page.due_at), integer(now)];
    db.prepare_cached(sql)?.execute(row)?;
    Ok(users.pop())
}

/// Queues groups for the devices of their owner.
pub(super) fn enqueue(
    db: &Connection,
    user: &UserId,
    groups: &[NotificationGroup],
    now: Millis,
    plan: PushPlan,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT ?1, id, ?2, ?3, ?4, 0, ?5, ?6 FROM devices WHERE user = ?1 \
               ON CONFLICT DO UPDATE SET seq = excluded.seq, state = 0, \
                   due_at = CASE WHEN state = 0 THEN due_at \
                       ELSE max(excluded.due_at, sent_at + iif(kind IN ('like', 'follow'), ?7, 0)) END, \
                   queued_at = CASE WHEN state = 0 THEN queued_at ELSE excluded.queued_at END \
               WHERE excluded.seq > seq";
    let due_at = integer(now.saturating_add(plan.grace));
    let now = integer(now);
    let digest = integer(plan.digest);
    groups.iter().try_for_each(|group| {
        let row = params![user.as_str(), integer(group.id.0), group.kind.name(), group.seq, due_at, now, digest];
        db.prepare_cached(sql)?.execute(row).map(drop)
    })
}

/// The pushes that a silent message clears.
#[derive(Clone, Copy)]
pub(super) enum Cleared {
    /// Those of notifications.
    Notifications,
    /// Those about posts behind the first one up to the second one.
    Posts(PostId, PostId),
    /// Those of this item.
    Item(u64),
}

/// Queues a silent message for the devices of a user that were sent such pushes.
pub(super) fn enqueue_clears(
    db: &Connection,
    user: &UserId,
    cleared: Cleared,
    plan: &ClearPlan,
) -> rusqlite::Result<()> {
    let sql = concat!(
        "INSERT INTO push_queue AS q (user, device, item, kind, seq, state, due_at, queued_at) \
         SELECT d.user, d.id, 0, 'clear', ?3, 0, ?4, ?3 FROM devices d \
         WHERE d.user = ?1 AND (?2 IS NULL OR d.session IS NOT ?2) AND EXISTS ( \
             SELECT 1 FROM push_queue s WHERE s.user = d.user AND s.device = d.id AND s.item > 0 \
             AND (s.sent_at > 0 OR s.holder IS NOT NULL) \
             AND CASE WHEN ?7 IS NOT NULL THEN s.item = ?7 \
                 WHEN ?5 IS NULL THEN s.kind <> 'post' \
                 ELSE s.kind = 'post' AND s.item > ?5 AND s.item <= ?6 END) \
         ON CONFLICT DO UPDATE SET seq = max(seq + 1, excluded.seq), queued_at = excluded.queued_at, state = 0, \
             due_at = CASE WHEN state = 0 THEN due_at ELSE max(excluded.due_at, sent_at + ",
        clear_pause!("q.sends"),
        ") END"
    );
    let [after, upto, item] = match cleared {
        Cleared::Notifications => [None; 3],
        Cleared::Posts(after, upto) => [Some(integer(after.0)), Some(integer(upto.0)), None],
        Cleared::Item(item) => [None, None, Some(integer(item))],
    };
    let row = params![user.as_str(), plan.session, integer(plan.now), integer(plan.due_at), after, upto, item];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

/// Pushes that are held under a lease, in the order of their keys, which are JSON.
fn leased(db: &Connection, keys: &str, lease: &PushLease, now: Millis) -> rusqlite::Result<Vec<QueuedPush>> {
    let since = integer(now.saturating_sub(ACCEPTED_KEPT));
    let row = params![keys, &*lease.holder, integer(lease.until), since];
    readable("push_queue", db.prepare_cached(LEASED)?.query(row)?, queued)
}

fn queued(row: &Row<'_>) -> rusqlite::Result<QueuedPush> {
    let has_device = row.get::<_, Option<String>>(10)?.is_some();
    let session = |row: &Row<'_>| -> rusqlite::Result<DeviceSession> {
        let generation = row.get::<_, Option<i64>>(18)?.map(natural);
        Ok(DeviceSession { token: row.get(17)?, generation, issued_at: row.get(19).map(natural)? })
    };
    Ok(QueuedPush {
        key: PushKey { user: user_id_at(row, 0)?, device: device_id_at(row, 1)?, item: row.get(2).map(natural)? },
        kind: row.get(3)?,
        seq: row.get(4)?,
        attempts: u32::try_from(row.get::<_, i64>(5)?).unwrap_or(u32::MAX),
        queued_at: row.get(6).map(natural)?,
        first_tried_at: Some(row.get(7).map(natural)?).filter(|at| *at > 0),
        device: if has_device { Some((device(row, 10)?, session(row)?)) } else { None },
        preferences: json_at::<Option<_>>(row, 9)?.unwrap_or_default(),
        accepted: row.get(8).map(natural)?,
    })
}
