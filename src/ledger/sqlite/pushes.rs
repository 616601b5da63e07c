//! The queue of pushes.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::devices::{device, json_at};
use super::rows::user_id_at;
use super::{SqliteLedger, count, integer, json_text, natural, quarantine, readable};
use crate::ledger::pushes::{ACCEPTED_KEPT, ClearPace, MAX_COUNTED_PUSHES};
use crate::ledger::{
    CLEAR_KIND, ClearPlan, DeviceSession, Fault, NotificationGroup, PUSH, PushBacklog, PushKey, PushLease, PushPlan,
    PushResult, PushStore, Quarantined, QueuedPush, Result, SettledPush,
};
use crate::model::{DeviceId, Millis, PostId, UserId};

/// A push that a process holds.
const LEASED: &str = "\
    SELECT q.user, q.device, q.item, q.kind, q.seq, q.attempts, q.queued_at, \
        d.id, d.target, d.locale, d.time_zone, d.app_version, d.registered_at, d.seen_at, \
        d.session, d.generation, d.issued_at, p.preferences, q.first_tried_at, \
        (SELECT coalesce(sum(s.sends), 0) FROM push_queue s \
         WHERE s.user = q.user AND s.device = q.device AND s.item > 0 AND s.sent_at > ?4) \
    FROM push_queue q \
    LEFT JOIN devices d ON d.user = q.user AND d.id = q.device AND d.registered_at <= q.queued_at \
    LEFT JOIN push_preferences p ON p.user = q.user \
    WHERE q.user = ?1 AND q.device = ?2 AND q.item = ?3 AND q.state = 0 AND q.holder = ?5 AND q.due_at = ?6";

#[async_trait]
impl PushStore for SqliteLedger {
    async fn lease_pushes(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<QueuedPush>> {
        let lease = lease.clone();
        self.write(move |db| self::lease(db, now, &lease, limit)).await
    }

    async fn reload_pushes(&self, keys: &[PushKey], lease: &PushLease, now: Millis) -> Result<Vec<QueuedPush>> {
        let (keys, lease) = (keys.to_vec(), lease.clone());
        self.read(move |db| reload(db, &keys, &lease, now)).await
    }

    async fn settle_pushes(
        &self,
        settled: &[SettledPush],
        lease: &PushLease,
        now: Millis,
        digest: Millis,
    ) -> Result<usize> {
        let (settled, lease) = (settled.to_vec(), lease.clone());
        self.write(move |db| {
            let mut number = 0;
            for push in &settled {
                number += usize::from(settle(db, push, &lease, now, digest)?);
            }
            Ok(number)
        })
        .await
    }

    async fn forget_pushes(&self, now: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| {
            let sql = "DELETE FROM push_queue WHERE (user, device, item) IN (SELECT user, device, item \
                       FROM push_queue INDEXED BY push_queue_due WHERE state = 1 AND due_at <= ?1 LIMIT ?2)";
            let jobs = "DELETE FROM post_alert_jobs WHERE post IN \
                        (SELECT post FROM post_alert_jobs WHERE state = 1 AND at <= ?1 LIMIT ?2)";
            db.prepare_cached(jobs)?.execute(params![integer(now), count(limit)])?;
            db.prepare_cached(sql)?.execute(params![integer(now), count(limit)])
        })
        .await
    }

    async fn push_backlog(&self, now: Millis) -> Result<PushBacklog> {
        self.read(move |db| {
            let sql = "SELECT count(*), min(due_at) FROM (SELECT due_at FROM push_queue INDEXED BY push_queue_due \
                       WHERE state = 0 AND due_at <= ?1 ORDER BY due_at LIMIT ?2)";
            let backlog = |row: &Row<'_>| {
                let oldest = row.get::<_, Option<i64>>(1)?.map(natural);
                Ok(PushBacklog { pushes: row.get(0).map(natural)?, oldest })
            };
            db.prepare_cached(sql)?.query_row(params![integer(now), integer(MAX_COUNTED_PUSHES)], backlog)
        })
        .await
    }

    async fn next_push(&self) -> Result<Option<Millis>> {
        self.read(|db| {
            let sql = "SELECT due_at FROM push_queue INDEXED BY push_queue_due WHERE state = 0 ORDER BY due_at LIMIT 1";
            db.prepare_cached(sql)?.query_row([], |row| row.get(0).map(natural)).optional()
        })
        .await
    }
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
               ON CONFLICT DO UPDATE SET seq = excluded.seq, \
                   due_at = CASE WHEN state = 0 THEN due_at ELSE max(excluded.due_at, sent_at + ?7) END, \
                   queued_at = CASE WHEN state = 0 THEN queued_at ELSE excluded.queued_at END, \
                   attempts = CASE WHEN state = 0 THEN attempts ELSE 0 END, \
                   state = 0 \
               WHERE excluded.seq > seq";
    for group in groups {
        let (kind, due_at) = (group.kind.name(), now.saturating_add(plan.grace));
        let pause = integer(plan.pause(kind));
        let row = params![user.as_str(), integer(group.id.0), kind, group.seq, integer(due_at), integer(now), pause];
        db.prepare_cached(sql)?.execute(row)?;
    }
    Ok(())
}

/// Queues a silent message for the devices of a user that were sent pushes: of posts behind `seen.0` up to `seen.1`, or
/// of notifications.
pub(super) fn enqueue_clears(
    db: &Connection,
    user: &UserId,
    seen: Option<(PostId, PostId)>,
    plan: &ClearPlan,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT d.user, d.id, 0, 'clear', ?3, 0, ?4, ?3 FROM devices d \
               WHERE d.user = ?1 AND (?2 IS NULL OR d.session IS NOT ?2) AND EXISTS ( \
                   SELECT 1 FROM push_queue s WHERE s.user = d.user AND s.device = d.id AND s.item > 0 \
                   AND (s.sent_at > 0 OR s.holder IS NOT NULL) \
                   AND CASE WHEN ?5 IS NULL THEN s.kind <> 'post' \
                       ELSE s.kind = 'post' AND s.item > ?5 AND s.item <= ?6 END) \
               ON CONFLICT DO UPDATE SET seq = max(seq + 1, excluded.seq), queued_at = excluded.queued_at, \
                   due_at = CASE WHEN state = 0 THEN due_at \
                       WHEN EXISTS (SELECT 1 FROM devices a WHERE a.user = push_queue.user \
                           AND a.id = push_queue.device AND json_extract(a.target, '$.platform') = 'apns') \
                       THEN max(excluded.due_at, sent_at + min(?9 * sends, ?10)) \
                       ELSE max(excluded.due_at, sent_at + min(?7 * sends, ?8)) END, \
                   attempts = CASE WHEN state = 0 THEN attempts ELSE 0 END, state = 0";
    let (after, upto) = seen.map(|(after, upto)| (integer(after.0), integer(upto.0))).unzip();
    let (now, due_at) = (integer(plan.now), integer(plan.due_at));
    let [usual, apns] = [ClearPace::USUAL, ClearPace::APNS].map(|pace| (integer(pace.step), integer(pace.max)));
    let row = params![user.as_str(), plan.session, now, due_at, after, upto, usual.0, usual.1, apns.0, apns.1];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

fn lease(db: &Connection, now: Millis, lease: &PushLease, limit: usize) -> rusqlite::Result<Vec<QueuedPush>> {
    let sql = "SELECT user, device, item FROM push_queue INDEXED BY push_queue_due \
               WHERE state = 0 AND due_at <= ?1 ORDER BY due_at LIMIT ?2";
    let due = readable("push_queue", db.prepare_cached(sql)?.query(params![integer(now), count(limit)])?, key)?;
    let take = "UPDATE push_queue SET holder = ?4, due_at = ?5, attempts = attempts + 1 \
                WHERE user = ?1 AND device = ?2 AND item = ?3";
    let since = integer(now.saturating_sub(ACCEPTED_KEPT));
    let mut leased = Vec::with_capacity(due.len());
    for key in due {
        let (user, device, item) = (key.user.as_str(), key.device.as_str(), integer(key.item));
        let (holder, until) = (&*lease.holder, integer(lease.until));
        db.prepare_cached(take)?.execute(params![user, device, item, holder, until])?;
        let mut statement = db.prepare_cached(LEASED)?;
        let row = params![user, device, item, since, holder, until];
        leased.extend(readable("push_queue", statement.query(row)?, queued)?);
    }
    Ok(leased)
}

fn reload(db: &Connection, keys: &[PushKey], lease: &PushLease, now: Millis) -> rusqlite::Result<Vec<QueuedPush>> {
    let since = integer(now.saturating_sub(ACCEPTED_KEPT));
    let mut pushes = Vec::with_capacity(keys.len());
    let mut statement = db.prepare_cached(LEASED)?;
    for key in keys {
        let (user, device, item) = (key.user.as_str(), key.device.as_str(), integer(key.item));
        let row = params![user, device, item, since, &*lease.holder, integer(lease.until)];
        pushes.extend(readable("push_queue", statement.query(row)?, queued)?);
    }
    Ok(pushes)
}

fn settle(
    db: &Connection,
    push: &SettledPush,
    lease: &PushLease,
    now: Millis,
    digest: Millis,
) -> rusqlite::Result<bool> {
    let sql = "SELECT kind, seq, sends, sent_at > 0, attempts FROM push_queue \
               WHERE user = ?1 AND device = ?2 AND item = ?3 AND holder = ?4 AND due_at = ?5 AND state = 0";
    let (user, device, item) = (push.key.user.as_str(), push.key.device.as_str(), integer(push.key.item));
    let held = params![user, device, item, &*lease.holder, integer(lease.until)];
    let read = |row: &Row<'_>| {
        let (kind, seq, sends): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((kind, seq, sends, row.get::<_, bool>(3)?, row.get::<_, i64>(4)?))
    };
    let Some((kind, seq, sends, was_sent, attempts)) = db.prepare_cached(sql)?.query_row(held, read).optional()? else {
        return Ok(false);
    };
    if let PushResult::Failed(reason) = &push.result {
        fail(db, push, (&kind, attempts), (reason, now))?;
    }
    let has_grown = seq > push.seq;
    if matches!(push.result, PushResult::Unwanted | PushResult::Failed(_)) && !has_grown && !was_sent {
        let sql = "DELETE FROM push_queue WHERE user = ?1 AND device = ?2 AND item = ?3";
        return Ok(db.prepare_cached(sql)?.execute(params![user, device, item])? == 1);
    }
    let pause = match kind.as_str() {
        CLEAR_KIND => clear_pace(db, user, device)?.pause(natural(sends).saturating_add(1)),
        kind => PushPlan { grace: 0, digest }.pause(kind),
    };
    let accepted = matches!(push.result, PushResult::Accepted | PushResult::AcceptedInDigest);
    let counted = push.result == PushResult::Accepted;
    let (state, due_at) = match push.result {
        PushResult::Deferred(at) | PushResult::Retry(at) | PushResult::Postponed(at) => (0, at),
        PushResult::Accepted | PushResult::AcceptedInDigest if has_grown => (0, now.saturating_add(pause)),
        _ if has_grown => (0, now),
        _ => (1, now.saturating_add(ACCEPTED_KEPT)),
    };
    let has_failed = matches!(push.result, PushResult::Retry(_));
    let counts = has_failed || matches!(push.result, PushResult::Postponed(_));
    let is_same_item = counts || matches!(push.result, PushResult::Deferred(_));
    let sql = "UPDATE push_queue SET holder = NULL, state = ?4, due_at = ?5, \
                   attempts = CASE WHEN ?6 THEN attempts ELSE 0 END, \
                   sent_at = CASE WHEN ?7 THEN ?8 ELSE sent_at END, sends = sends + ?11, \
                   queued_at = CASE WHEN ?9 THEN queued_at ELSE ?8 END, \
                   first_tried_at = CASE WHEN NOT ?6 THEN 0 WHEN ?10 AND first_tried_at = 0 THEN ?8 \
                       ELSE first_tried_at END \
               WHERE user = ?1 AND device = ?2 AND item = ?3";
    let (now, due_at) = (integer(now), integer(due_at));
    let row = params![user, device, item, state, due_at, counts, accepted, now, is_same_item, has_failed, counted];
    db.prepare_cached(sql)?.execute(row).map(|_| true)
}

/// The pace of silent messages to a device.
fn clear_pace(db: &Connection, user: &str, device: &str) -> rusqlite::Result<ClearPace> {
    let sql = "SELECT json_extract(target, '$.platform') = 'apns' FROM devices WHERE user = ?1 AND id = ?2";
    let is_apns = db.prepare_cached(sql)?.query_row(params![user, device], |row| row.get(0)).optional()?;
    Ok(if is_apns == Some(true) { ClearPace::APNS } else { ClearPace::USUAL })
}

/// Moves a push that was given up to the quarantine.
fn fail(
    db: &Connection,
    push: &SettledPush,
    (kind, attempts): (&str, i64),
    fault: (&str, Millis),
) -> rusqlite::Result<()> {
    let PushKey { user, device, item } = &push.key;
    let (user, device) = (user.as_str(), device.as_str());
    let content = json_text(&serde_json::json!({
        "user": user, "device": device, "item": item, "kind": kind, "seq": push.seq,
    }))?;
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    let fault = Fault { reason: fault.0.to_owned(), attempts, at: fault.1 };
    quarantine::replace(db, &Quarantined::new(PUSH, format!("{user}/{device}/{item}"), content, fault))
}

/// Reads `user, device, item` from the first columns.
fn key(row: &Row<'_>) -> rusqlite::Result<PushKey> {
    let text: String = row.get(1)?;
    let device = DeviceId::parse(&text).ok_or_else(|| {
        let why = format!("{text:?} is not the id of a device");
        rusqlite::Error::FromSqlConversionFailure(1, Type::Text, why.into())
    })?;
    Ok(PushKey { user: user_id_at(row, 0)?, device, item: row.get(2).map(natural)? })
}

fn queued(row: &Row<'_>) -> rusqlite::Result<QueuedPush> {
    let has_device = row.get_ref(7)? != rusqlite::types::ValueRef::Null;
    let session = |row: &Row<'_>| -> rusqlite::Result<DeviceSession> {
        let generation = row.get::<_, Option<i64>>(15)?.map(natural);
        Ok(DeviceSession { token: row.get(14)?, generation, issued_at: row.get(16).map(natural)? })
    };
    let has_preferences = row.get_ref(17)? != rusqlite::types::ValueRef::Null;
    Ok(QueuedPush {
        key: key(row)?,
        kind: row.get(3)?,
        seq: row.get(4)?,
        attempts: u32::try_from(row.get::<_, i64>(5)?).unwrap_or(u32::MAX),
        queued_at: row.get(6).map(natural)?,
        device: if has_device { Some((device(row, 7)?, session(row)?)) } else { None },
        preferences: if has_preferences { json_at(row, 17)? } else { Default::default() },
        first_tried_at: Some(row.get(18).map(natural)?).filter(|at| *at > 0),
        accepted: row.get(19).map(natural)?,
    })
}
