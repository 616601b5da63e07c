//! Alerts about posts.

use std::collections::HashMap;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::{post_id_at, user_id_at};
use super::work::is_owned;
use super::{SqliteLedger, count, integer, json_text, natural};
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{Fence, PostAlertJob, PostAlertPage, PostAlertStore, Result};
use crate::model::{Millis, PostId, UserId};

#[async_trait]
impl PostAlertStore for SqliteLedger {
    async fn start_post_alerts(&self, post: PostId, now: Millis) -> Result<()> {
        self.write(move |db| {
            let sql = "INSERT INTO post_alert_jobs (post, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute(params![integer(post.0), integer(now)]).map(drop)
        })
        .await
    }

    async fn post_alert_jobs(&self, limit: usize) -> Result<Vec<PostAlertJob>> {
        self.read(move |db| {
            let sql = "SELECT post, at FROM post_alert_jobs WHERE state = 0 ORDER BY at LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let job = |row: &Row<'_>| Ok(PostAlertJob { post: post_id_at(row, 0)?, created_at: natural(row.get(1)?) });
            statement.query_map([count(limit)], job)?.collect()
        })
        .await
    }

    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<bool> {
        let (fence, page) = (fence.clone(), page.clone());
        self.write(move |db| Ok(is_owned(db, &fence)? && queue(db, &page, now)?)).await
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<HashMap<(UserId, UserId), PostId>> {
        let pairs = pairs.to_vec();
        self.read(move |db| {
            let sql = "SELECT a.user, a.author, coalesce(m.post, 0) FROM json_each(?1) \
                       CROSS JOIN post_alerts a ON a.user = value ->> 0 AND a.author = value ->> 1 \
                       LEFT JOIN read_markers m ON m.user = a.user";
            let mut statement = db.prepare_cached(sql)?;
            let reader = |row: &Row<'_>| Ok(((user_id_at(row, 0)?, user_id_at(row, 1)?), post_id_at(row, 2)?));
            statement.query_map([json_text(&pairs)?], reader)?.collect()
        })
        .await
    }
}

/// Queues a page of alerts. Returns `false` if the job is done already, or was set aside.
fn queue(db: &Connection, page: &PostAlertPage, now: Millis) -> rusqlite::Result<bool> {
    // The last user of the page.
    let sql = "SELECT (SELECT max(user) FROM ( \
                   SELECT a.user FROM posts p CROSS JOIN post_alerts a INDEXED BY post_alerts_author \
                       ON a.author = p.author AND a.user > j.cursor \
                   WHERE p.id = j.post AND p.deleted_at IS NULL ORDER BY a.user LIMIT ?2)) \
               FROM post_alert_jobs j WHERE j.post = ?1 AND j.state = 0";
    let (post, last) = (integer(page.post.0), |row: &Row<'_>| row.get::<_, Option<String>>(0));
    let Some(last) = db.prepare_cached(sql)?.query_row(params![post, count(page.users)], last).optional()? else {
        return Ok(false);
    };
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT d.user, d.id, p.id, 'post', 1, 0, ?3, ?4 FROM post_alert_jobs j \
               CROSS JOIN posts p ON p.id = j.post \
               CROSS JOIN post_alerts a INDEXED BY post_alerts_author \
                   ON a.author = p.author AND a.user > j.cursor AND a.user <= ?2 \
               CROSS JOIN devices d ON d.user = a.user \
               WHERE j.post = ?1 ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![post, last, integer(page.due_at), integer(now)])?;
    let sql = "UPDATE post_alert_jobs SET cursor = coalesce(?2, ''), state = ?2 IS NULL, at = iif(?2 IS NULL, ?3, at) \
               WHERE post = ?1";
    db.prepare_cached(sql)?.execute(params![post, last, integer(now.saturating_add(ACCEPTED_KEPT))])?;
    Ok(true)
}
