//! Alerts about posts.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{post_id_at, user_id_at};
use super::{SqliteLedger, count, integer, natural};
use crate::ledger::pushes::ACCEPTED_KEPT;
use crate::ledger::{
    PostAlertJob, PostAlertPage, PostAlertProgress, PostAlertReader, PostAlertStore, PushLease, Result,
};
use crate::model::{Millis, PostId, UserId};

#[async_trait]
impl PostAlertStore for SqliteLedger {
    async fn start_post_alerts(&self, post: PostId, now: Millis) -> Result<()> {
        self.write(move |db| {
            let sql = "INSERT INTO post_alert_jobs (post, due_at, created_at) VALUES (?1, ?2, ?2) \
                       ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute(params![integer(post.0), integer(now)]).map(drop)
        })
        .await
    }

    async fn lease_post_alerts(&self, now: Millis, lease: &PushLease, limit: usize) -> Result<Vec<PostAlertJob>> {
        // Usually there is no job, and the writer need not be asked.
        let is_due = self.read(move |db| {
            let sql = "SELECT EXISTS (SELECT 1 FROM post_alert_jobs WHERE state = 0 AND due_at <= ?1)";
            db.prepare_cached(sql)?.query_row([integer(now)], |row| row.get::<_, bool>(0))
        });
        if !is_due.await? {
            return Ok(Vec::new());
        }
        let lease = lease.clone();
        self.write(move |db| self::lease(db, now, &lease, limit)).await
    }

    async fn queue_post_alerts(&self, page: &PostAlertPage, now: Millis) -> Result<PostAlertProgress> {
        let page = page.clone();
        self.write(move |db| queue(db, &page, now)).await
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

fn lease(db: &Connection, now: Millis, lease: &PushLease, limit: usize) -> rusqlite::Result<Vec<PostAlertJob>> {
    let sql = "SELECT post, created_at FROM post_alert_jobs WHERE state = 0 AND due_at <= ?1 ORDER BY due_at LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    let jobs = statement.query_map(params![integer(now), count(limit)], |row| {
        Ok(PostAlertJob { post: post_id_at(row, 0)?, created_at: row.get(1).map(natural)? })
    })?;
    let jobs: Vec<PostAlertJob> = jobs.collect::<rusqlite::Result<_>>()?;
    let take = "UPDATE post_alert_jobs SET holder = ?2, due_at = ?3 WHERE post = ?1";
    for job in &jobs {
        db.prepare_cached(take)?.execute(params![integer(job.post.0), &*lease.holder, integer(lease.until)])?;
    }
    Ok(jobs)
}

fn queue(db: &Connection, page: &PostAlertPage, now: Millis) -> rusqlite::Result<PostAlertProgress> {
    let post = integer(page.post.0);
    let sql = "SELECT cursor FROM post_alert_jobs WHERE post = ?1 AND holder = ?2 AND due_at = ?3 AND state = 0";
    let held = params![post, &*page.lease.holder, integer(page.lease.until)];
    let Some(cursor) = db.prepare_cached(sql)?.query_row(held, |row| row.get::<_, String>(0)).optional()? else {
        return Ok(PostAlertProgress::Lost);
    };
    let sql = "SELECT author FROM posts WHERE id = ?1 AND deleted_at IS NULL";
    let author = db.prepare_cached(sql)?.query_row([post], |row| user_id_at(row, 0)).optional()?;
    let last = match &author {
        Some(author) => last_of_page(db, author, &cursor, page.users)?,
        None => None,
    };
    let Some((last, author)) = last.zip(author) else {
        let sql = "UPDATE post_alert_jobs SET state = 1, cursor = '', holder = NULL, due_at = ?2 WHERE post = ?1";
        db.prepare_cached(sql)?.execute(params![post, integer(now.saturating_add(ACCEPTED_KEPT))])?;
        return Ok(PostAlertProgress::Done);
    };
    let sql = "INSERT INTO push_queue (user, device, item, kind, seq, state, due_at, queued_at) \
               SELECT d.user, d.id, ?4, 'post', 1, 0, ?5, ?6 \
               FROM post_alerts a INDEXED BY post_alerts_author CROSS JOIN devices d ON d.user = a.user \
               WHERE a.author = ?1 AND a.user > ?2 AND a.user <= ?3 ON CONFLICT DO NOTHING";
    let row = params![author.as_str(), cursor, last, post, integer(page.due_at), integer(now)];
    db.prepare_cached(sql)?.execute(row)?;
    let sql = "UPDATE post_alert_jobs SET cursor = ?2, due_at = ?3 WHERE post = ?1";
    db.prepare_cached(sql)?.execute(params![post, last, integer(page.renewed_until)])?;
    Ok(PostAlertProgress::More)
}

/// The last user of the page behind a user; `None`: there is nobody left.
fn last_of_page(db: &Connection, author: &UserId, after: &str, users: usize) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT max(user) FROM (SELECT user FROM post_alerts INDEXED BY post_alerts_author \
               WHERE author = ?1 AND user > ?2 ORDER BY user LIMIT ?3)";
    db.prepare_cached(sql)?.query_row(params![author.as_str(), after, count(users)], |row| row.get(0))
}
