//! Alerts about posts.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::{post_id_at, user_id_at};
use super::work::is_owned;
use super::{SqliteLedger, count, integer, natural};
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{Fence, PostAlertJob, PostAlertPage, PostAlertProgress, PostAlertReader, PostAlertStore, Result};
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

    async fn queue_post_alerts(&self, fence: &Fence, page: &PostAlertPage, now: Millis) -> Result<PostAlertProgress> {
        let (fence, page) = (fence.clone(), page.clone());
        self.write(move |db| queue(db, &fence, &page, now)).await
    }

    async fn post_alert_readers(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<PostAlertReader>> {
        let pairs = pairs.to_vec();
        self.read(move |db| {
            let sql = "SELECT coalesce((SELECT post FROM read_markers WHERE user = ?1), 0) FROM post_alerts \
                       WHERE user = ?1 AND author = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let mut found = Vec::new();
            for (user, author) in pairs {
                let seen =
                    statement.query_row([user.as_str(), author.as_str()], |row| post_id_at(row, 0)).optional()?;
                found.extend(seen.map(|seen| PostAlertReader { user, author, seen }));
            }
            Ok(found)
        })
        .await
    }
}

fn queue(db: &Connection, fence: &Fence, page: &PostAlertPage, now: Millis) -> rusqlite::Result<PostAlertProgress> {
    let (post, is_owned) = (integer(page.post.0), is_owned(db, fence)?);
    let sql = "SELECT cursor FROM post_alert_jobs WHERE post = ?1 AND state = 0";
    let cursor = db.prepare_cached(sql)?.query_row([post], |row| row.get::<_, String>(0)).optional()?;
    let Some(cursor) = cursor.filter(|_| is_owned) else { return Ok(PostAlertProgress::Lost) };
    let sql = "SELECT author FROM posts WHERE id = ?1 AND deleted_at IS NULL";
    let author = db.prepare_cached(sql)?.query_row([post], |row| user_id_at(row, 0)).optional()?;
    let last = match &author {
        Some(author) => last_of_page(db, author, &cursor, page.users)?,
        None => None,
    };
    let Some((last, author)) = last.zip(author) else {
        let sql = "UPDATE post_alert_jobs SET state = 1, cursor = '', at = ?2 WHERE post = ?1";
        db.prepare_cached(sql)?.execute(params![post, integer(now.saturating_add(ACCEPTED_KEPT))])?;
        return Ok(PostAlertProgress::Done);
    };
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT d.user, d.id, ?4, 'post', 1, 0, ?5, ?6 \
               FROM post_alerts a INDEXED BY post_alerts_author CROSS JOIN devices d ON d.user = a.user \
               WHERE a.author = ?1 AND a.user > ?2 AND a.user <= ?3 ON CONFLICT DO NOTHING";
    let row = params![author.as_str(), cursor, last, post, integer(page.due_at), integer(now)];
    db.prepare_cached(sql)?.execute(row)?;
    let sql = "UPDATE post_alert_jobs SET cursor = ?2 WHERE post = ?1";
    db.prepare_cached(sql)?.execute(params![post, last])?;
    Ok(PostAlertProgress::More)
}

/// The last user of the page behind a user; `None`: there is nobody left.
fn last_of_page(db: &Connection, author: &UserId, after: &str, users: usize) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT max(user) FROM (SELECT user FROM post_alerts INDEXED BY post_alerts_author \
               WHERE author = ?1 AND user > ?2 ORDER BY user LIMIT ?3)";
    db.prepare_cached(sql)?.query_row(params![author.as_str(), after, count(users)], |row| row.get(0))
}
