//! The erasure of users.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::user_id_at;
use super::work::is_owned;
use super::{SqliteLedger, count, favourites, integer, likes, natural, readable, revocations};
use crate::ledger::{Erasure, ErasureStore, Fence, Result, Revocation, RevocationKind};
use crate::model::{CommentId, ContentId, Millis, NotificationId, ObjectId, ObjectType, PostId, Tally, UserId};

#[async_trait]
impl ErasureStore for SqliteLedger {
    async fn begin_erasure(&self, user: &UserId, now: Millis) -> Result<bool> {
        let user = user.clone();
        self.write(move |db| begin(db, &user, now)).await
    }

    async fn due_erasures(&self, now: Millis, limit: usize) -> Result<Vec<Erasure>> {
        self.read(move |db| {
            let sql = "SELECT user, at, quiet_since FROM erasures INDEXED BY erasures_due \
                       WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2";
            let erasure = |row: &Row<'_>| {
                let quiet_since = row.get::<_, Option<i64>>(2)?.map(natural);
                Ok(Erasure { user: user_id_at(row, 0)?, at: natural(row.get(1)?), quiet_since })
            };
            let mut statement = db.prepare_cached(sql)?;
            readable("erasures", statement.query(params![integer(now), count(limit)])?, erasure)
        })
        .await
    }

    async fn advance_erasure(&self, fence: &Fence, erasure: &Erasure, due_at: Millis) -> Result<bool> {
        let (fence, erasure) = (fence.clone(), erasure.clone());
        self.write(move |db| {
            let sql = "UPDATE erasures SET due_at = ?2, quiet_since = ?3 WHERE user = ?1";
            let row = params![erasure.user.as_str(), integer(due_at), erasure.quiet_since.map(integer)];
            Ok(is_owned(db, &fence)? && db.prepare_cached(sql)?.execute(row)? == 1)
        })
        .await
    }

    async fn finish_erasure(&self, fence: &Fence, user: &UserId) -> Result<bool> {
        let (fence, user) = (fence.clone(), user.clone());
        self.write(move |db| {
            let sql = "DELETE FROM erasures WHERE user = ?1";
            Ok(is_owned(db, &fence)? && db.prepare_cached(sql)?.execute([user.as_str()])? == 1)
        })
        .await
    }

    async fn erase_deleted_posts(&self, user: &UserId, before: Millis, limit: usize) -> Result<usize> {
        let user = user.clone();
        self.write(move |db| deleted_posts(db, &user, before, limit)).await
    }

    async fn erase_likes(&self, user: &UserId, limit: usize) -> Result<Vec<(ContentId, Tally)>> {
        let user = user.clone();
        self.write(move |db| erase_likes(db, &user, limit)).await
    }

    async fn erase_notices(&self, user: &UserId, limit: usize) -> Result<Vec<(UserId, NotificationId)>> {
        let user = user.clone();
        self.write(move |db| notices(db, &user, limit)).await
    }

    async fn erase_rest(&self, user: &UserId, limit: usize) -> Result<usize> {
        let user = user.clone();
        self.write(move |db| rest(db, &user, limit)).await
    }
}

fn begin(db: &Connection, user: &UserId, now: Millis) -> rusqlite::Result<bool> {
    let (id, at) = (user.as_str(), integer(now));
    let sql = "INSERT INTO users (id, name, created_at) VALUES (?1, '', ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![id, at])?;
    let sql = "UPDATE users SET name = '', avatar = NULL, created_at = ?2, erased_at = ?2 \
               WHERE id = ?1 AND erased_at IS NULL";
    if db.prepare_cached(sql)?.execute(params![id, at])? == 0 {
        return Ok(false);
    }
    db.prepare_cached("DELETE FROM user_terms WHERE user = ?1")?.execute([id])?;
    db.prepare_cached("DELETE FROM accounts WHERE user = ?1")?.execute([id])?;
    db.prepare_cached("DELETE FROM profiles WHERE user = ?1")?.execute([id])?;
    let sql = "INSERT INTO erasures (user, at, due_at) VALUES (?1, ?2, 0)";
    db.prepare_cached(sql)?.execute(params![id, at])?;
    let entry = Revocation {
        kind: RevocationKind::Erased,
        subject: user.to_string(),
        owner: None,
        value: now,
        spared: None,
        at: now,
        expires_at: None,
    };
    revocations::revoke(db, &entry).map(|_| true)
}

/// Runs a `DELETE` with two parameters, an id and the maximal number of rows, and subtracts the removed rows from
/// `limit`.
fn remove(db: &Connection, sql: &str, id: &dyn rusqlite::ToSql, limit: &mut usize) -> rusqlite::Result<()> {
    let removed = db.prepare_cached(sql)?.execute(params![id, count(*limit)])?;
    *limit = limit.saturating_sub(removed);
    Ok(())
}

fn deleted_posts(db: &Connection, user: &UserId, before: Millis, limit: usize) -> rusqlite::Result<usize> {
    let mut left = limit;
    let next = "SELECT id FROM posts INDEXED BY posts_deleted \
                WHERE author = ?1 AND deleted_at IS NOT NULL AND deleted_at <= ?2 ORDER BY id LIMIT 1";
    while left > 0 {
        let wanted = params![user.as_str(), integer(before)];
        let Some(post) = db.prepare_cached(next)?.query_row(wanted, |row| row.get(0)).optional()? else { break };
        under(db, post, &mut left)?;
        if left > 0 {
            db.prepare_cached("DELETE FROM post_counts WHERE post = ?1")?.execute([post])?;
            db.prepare_cached("DELETE FROM posts WHERE id = ?1")?.execute([post])?;
            left -= 1;
        }
    }
    Ok(limit - left)
}

/// Removes favourites, likes, mutes and comments of a post, up to `left` rows.
fn under(db: &Connection, post: i64, left: &mut usize) -> rusqlite::Result<()> {
    if let Some(kind) = ObjectType::parse(ObjectType::POST) {
        let id = ObjectId::from(PostId(natural(post)));
        *left = left.saturating_sub(favourites::forget(db, &kind, &id, *left)?);
    }
    let sql = "DELETE FROM likes WHERE seq IN (SELECT seq FROM likes INDEXED BY likes_of WHERE post = ?1 LIMIT ?2)";
    remove(db, sql, &post, left)?;
    let sql = "DELETE FROM muted_conversations WHERE post = ?1 AND user IN \
               (SELECT user FROM muted_conversations INDEXED BY muted_conversations_post WHERE post = ?1 LIMIT ?2)";
    remove(db, sql, &post, left)?;
    let next = "SELECT id FROM comments INDEXED BY comments_thread WHERE post = ?1 LIMIT 1";
    while *left > 0 {
        let comment: Option<i64> = db.prepare_cached(next)?.query_row([post], |row| row.get(0)).optional()?;
        let Some(comment) = comment else { return Ok(()) };
        let sql = "DELETE FROM comment_likes WHERE comment = ?1 \
                   AND user IN (SELECT user FROM comment_likes WHERE comment = ?1 LIMIT ?2)";
        remove(db, sql, &comment, left)?;
        if *left > 0 {
            db.prepare_cached("DELETE FROM comments WHERE id = ?1")?.execute([comment])?;
            *left -= 1;
        }
    }
    Ok(())
}

fn erase_likes(db: &Connection, user: &UserId, limit: usize) -> rusqlite::Result<Vec<(ContentId, Tally)>> {
    let number = |row: &Row<'_>| row.get(0).map(natural);
    let sql = "SELECT post FROM likes INDEXED BY likes_one WHERE user = ?1 LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    let posts = statement.query_map(params![user.as_str(), count(limit)], number)?;
    let mut liked: Vec<ContentId> =
        posts.map(|id| id.map(PostId).map(ContentId::Post)).collect::<rusqlite::Result<_>>()?;
    let sql = "SELECT comment FROM comment_likes INDEXED BY comment_likes_user WHERE user = ?1 LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    let comments = statement.query_map(params![user.as_str(), count(limit - liked.len())], number)?;
    for comment in comments {
        liked.push(ContentId::Comment(CommentId(comment?)));
    }
    let take_back = |object: ContentId| {
        let sql = match object {
            ContentId::Post(_) => "DELETE FROM likes WHERE user = ?1 AND post = ?2",
            ContentId::Comment(_) => "DELETE FROM comment_likes WHERE user = ?1 AND comment = ?2",
        };
        db.prepare_cached(sql)?.execute(params![user.as_str(), integer(object.number())])?;
        likes::count_up(db, object, -1)?;
        Ok((object, likes::tally(db, object)?))
    };
    liked.into_iter().map(take_back).collect()
}

fn notices(db: &Connection, user: &UserId, limit: usize) -> rusqlite::Result<Vec<(UserId, NotificationId)>> {
    let sql = "SELECT notification FROM notification_people INDEXED BY notification_people_person \
               WHERE person = ?1 LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    let groups = statement.query_map(params![user.as_str(), count(limit)], |row| row.get::<_, i64>(0))?;
    let groups = groups.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut changed = Vec::with_capacity(groups.len());
    for group in groups {
        let sql = "DELETE FROM notification_people WHERE notification = ?1 AND person = ?2";
        db.prepare_cached(sql)?.execute(params![group, user.as_str()])?;
        let sql = "UPDATE notifications SET people = people - 1 WHERE id = ?1 RETURNING user, people";
        let read = |row: &Row<'_>| Ok((user_id_at(row, 0)?, row.get::<_, i64>(1)?));
        let left = db.prepare_cached(sql)?.query_row([group], read).optional()?;
        // The group was dropped and some of its people are left. It has no owner to report, so the erased user takes
        // that place: the caller continues, and no other user is notified.
        let Some((owner, people)) = left else {
            changed.push((user.clone(), NotificationId(natural(group))));
            continue;
        };
        if people <= 0 {
            db.prepare_cached("DELETE FROM notifications WHERE id = ?1")?.execute([group])?;
            db.prepare_cached("UPDATE notified SET groups = groups - 1 WHERE user = ?1")?.execute([owner.as_str()])?;
        }
        changed.push((owner, NotificationId(natural(group))));
    }
    Ok(changed)
}

/// Deletes rows that need no other change. Parameters: the user, the maximal number of rows.
const REST: [&str; 11] = [
    "DELETE FROM restrictions WHERE maker = ?1 \
     AND (kind, whom) IN (SELECT kind, whom FROM restrictions WHERE maker = ?1 LIMIT ?2)",
    "DELETE FROM restrictions WHERE (maker, kind, whom) IN \
     (SELECT maker, kind, whom FROM restrictions INDEXED BY restrictions_whom WHERE whom = ?1 LIMIT ?2)",
    "DELETE FROM post_alerts WHERE user = ?1 \
     AND author IN (SELECT author FROM post_alerts WHERE user = ?1 LIMIT ?2)",
    "DELETE FROM post_alerts WHERE author = ?1 \
     AND user IN (SELECT user FROM post_alerts INDEXED BY post_alerts_author WHERE author = ?1 LIMIT ?2)",
    "DELETE FROM idempotency WHERE user = ?1 AND key IN (SELECT key FROM idempotency WHERE user = ?1 LIMIT ?2)",
    "DELETE FROM muted_conversations WHERE user = ?1 \
     AND post IN (SELECT post FROM muted_conversations WHERE user = ?1 LIMIT ?2)",
    "DELETE FROM devices WHERE user = ?1 AND id IN (SELECT id FROM devices WHERE user = ?1 LIMIT ?2)",
    "DELETE FROM push_preferences WHERE user = ?1 AND ?2 > 0",
    "DELETE FROM push_queue WHERE user = ?1 AND (device, item) IN \
     (SELECT device, item FROM push_queue WHERE user = ?1 LIMIT ?2)",
    // The names of pushes begin with the user and `/`; `0` follows `/`.
    "DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine INDEXED BY quarantine_name \
     WHERE kind = 'push' AND name >= ?1 || '/' AND name < ?1 || '0' LIMIT ?2)",
    "DELETE FROM read_markers WHERE user = ?1 AND ?2 > 0",
];

fn rest(db: &Connection, user: &UserId, limit: usize) -> rusqlite::Result<usize> {
    let (id, mut left) = (user.as_str(), limit);
    for sql in REST {
        remove(db, sql, &id, &mut left)?;
    }
    let next = "SELECT id FROM notifications INDEXED BY notifications_order WHERE user = ?1 LIMIT 1";
    while left > 0 {
        let group: Option<i64> = db.prepare_cached(next)?.query_row([id], |row| row.get(0)).optional()?;
        let Some(group) = group else {
            remove(db, "DELETE FROM notified WHERE user = ?1 AND ?2 > 0", &id, &mut left)?;
            break;
        };
        let sql = "DELETE FROM notification_people WHERE notification = ?1 \
                   AND person IN (SELECT person FROM notification_people WHERE notification = ?1 LIMIT ?2)";
        remove(db, sql, &group, &mut left)?;
        if left > 0 {
            db.prepare_cached("DELETE FROM notifications WHERE id = ?1")?.execute([group])?;
            left -= 1;
        }
    }
    Ok(limit - left)
}
