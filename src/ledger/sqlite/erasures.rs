//! The erasure of users.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::notification_people::next_position;
use super::rows::user_id_at;
use super::work::is_owned;
use super::{SqliteLedger, count, favourites, integer, likes, natural, notification_removal, readable, revocations};
use crate::ledger::{Erasure, ErasureBacklog, ErasureStore, Fence, Result, Revocation, RevocationKind};
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

    async fn erasure_backlog(&self) -> Result<ErasureBacklog> {
        self.read(|db| {
            db.prepare_cached("SELECT count(*), min(at) FROM erasures")?.query_row([], |row| {
                let oldest = row.get::<_, Option<i64>>(1)?.map(natural);
                Ok(ErasureBacklog { erasures: natural(row.get(0)?), oldest })
            })
        })
        .await
    }

    async fn end_erasure_pass(&self, fence: &Fence, erasure: &Erasure, due_at: Option<Millis>) -> Result<bool> {
        let (fence, Erasure { user, quiet_since, .. }) = (fence.clone(), erasure.clone());
        let ended = self.write(move |db| {
            if !is_owned(db, &fence)? {
                return Ok(false);
            }
            let user = user.as_str();
            let quiet_since = quiet_since.map(integer);
            Ok(1 == match due_at.map(integer) {
                Some(due_at) => db.prepare_cached(ADVANCE)?.execute(params![user, due_at, quiet_since])?,
                None => db.prepare_cached("DELETE FROM erasures WHERE user = ?1")?.execute([user])?,
            })
        });
        let ended = ended.await?;
        if ended && due_at.is_none() {
            // Deleted rows are overwritten in the file, and would stay in the log until it is.
            self.writer.purge.store(true, Ordering::Relaxed);
        }
        Ok(ended)
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
        self.write(move |db| {
            let mut left = limit;
            erase(db, REST, &user.as_str(), &mut left)?;
            Ok(limit - left)
        })
        .await
    }
}

const ADVANCE: &str = "UPDATE erasures SET due_at = ?2, quiet_since = ?3 WHERE user = ?1";

fn begin(db: &Connection, user: &UserId, now: Millis) -> rusqlite::Result<bool> {
    let id = user.as_str();
    let at = integer(now);
    let sql = "INSERT INTO users (id, name, created_at) VALUES (?1, '', ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![id, at])?;
    let sql = "UPDATE users SET handle = NULL, name = '', avatar = NULL, created_at = ?2, erased_at = ?2 \
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

/// Rows to delete: their table, its primary key, and the rows of the parameter `?1` in that table.
type Rows = (&'static str, &'static str, &'static str);

/// Deletes up to `left` rows and subtracts their number from `left`. Each entry of `rows` has a table, its primary key,
/// and a table with the condition of the rows to delete, whose `?1` is `of`.
fn erase(db: &Connection, rows: &[Rows], of: &dyn ToSql, left: &mut usize) -> rusqlite::Result<()> {
    for (table, key, chosen) in rows {
        let sql = format!("DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {chosen} LIMIT ?2)");
        *left -= db.prepare_cached(&sql)?.execute(params![of, count(*left)])?;
    }
    Ok(())
}

/// Rows of a post. The likes of comments are those of the comments that are deleted next.
const OF_POST: &[Rows] = &[
    ("likes", "seq", "likes INDEXED BY likes_of WHERE post = ?1"),
    ("muted_conversations", "user, post", "muted_conversations INDEXED BY muted_conversations_post WHERE post = ?1"),
    (
        "comment_likes",
        "comment, user",
        "(SELECT id FROM comments INDEXED BY comments_thread WHERE post = ?1 LIMIT ?2) \
         CROSS JOIN comment_likes ON comment = id",
    ),
    ("removed_comments", "comment", "removed_comments INDEXED BY removed_comments_post WHERE post = ?1"),
    ("reposts", "post, author", "reposts WHERE post = ?1"),
    ("quotes", "quote", "quotes INDEXED BY quotes_newest WHERE post = ?1"),
    ("comments", "id", "comments INDEXED BY comments_thread WHERE post = ?1"),
];

fn deleted_posts(db: &Connection, user: &UserId, before: Millis, limit: usize) -> rusqlite::Result<usize> {
    let mut left = limit;
    let next = "SELECT id FROM posts INDEXED BY posts_deleted \
                WHERE author = ?1 AND deleted_at IS NOT NULL AND deleted_at <= ?2 ORDER BY id LIMIT 1";
    while left > 0 {
        let wanted = params![user.as_str(), integer(before)];
        let post: Option<i64> = db.prepare_cached(next)?.query_row(wanted, |row| row.get(0)).optional()?;
        let Some(post) = post else { break };
        if let Some(kind) = ObjectType::parse(ObjectType::POST) {
            left -= favourites::forget(db, &kind, &ObjectId::from(PostId(natural(post))), left)?;
        }
        erase(db, OF_POST, &post, &mut left)?;
        if left > 0 {
            db.prepare_cached("DELETE FROM post_counts WHERE post = ?1")?.execute([post])?;
            db.prepare_cached("DELETE FROM posts WHERE id = ?1")?.execute([post])?;
            left -= 1;
        }
    }
    Ok(limit - left)
}

/// The objects that a user likes.
const LIKED: &str = "SELECT 1, post FROM likes INDEXED BY likes_one WHERE user = ?1 \
    UNION ALL SELECT 0, comment FROM comment_likes INDEXED BY comment_likes_user WHERE user = ?1 LIMIT ?2";

fn erase_likes(db: &Connection, user: &UserId, limit: usize) -> rusqlite::Result<Vec<(ContentId, Tally)>> {
    let object = |row: &Row<'_>| {
        let number = natural(row.get(1)?);
        Ok(if row.get(0)? { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) })
    };
    let mut statement = db.prepare_cached(LIKED)?;
    let liked = statement.query_map(params![user.as_str(), count(limit)], object)?;
    let liked = liked.collect::<rusqlite::Result<Vec<_>>>()?;
    let take_back = |object| {
        likes::remove(db, user, object)?;
        likes::count_up(db, object, -1)?;
        Ok((object, likes::tally(db, object)?))
    };
    liked.into_iter().map(take_back).collect()
}

/// The groups of notifications that contain a person, with their owners, and whether nobody else is in them. A group
/// that was dropped, with some of its people left, has no owner to report: the erased user takes that place, so no
/// other user is notified.
const NOTICES: &str = "SELECT p.notification, coalesce(n.user, p.person), \
    p.ended = 0 AND n.id IS NOT NULL, coalesce(n.people <= 1, 0), \
    CASE WHEN n.kind = 'app' THEN n.object END \
    FROM notification_people p INDEXED BY notification_people_person \
    LEFT JOIN notifications n ON n.id = p.notification WHERE p.person = ?1 LIMIT ?2";

/// A group of notifications that an erased user leaves.
struct LeftGroup {
    group: i64,
    owner: UserId,
    /// Whether the user did not leave it before, and the group is there.
    is_member: bool,
    /// Whether nobody else is in it.
    is_alone: bool,
    /// Of a group of the application: its object.
    app: Option<String>,
}

fn notices(db: &Connection, user: &UserId, limit: usize) -> rusqlite::Result<Vec<(UserId, NotificationId)>> {
    let read = |row: &Row<'_>| {
        let owner = user_id_at(row, 1)?;
        Ok(LeftGroup { group: row.get(0)?, owner, is_member: row.get(2)?, is_alone: row.get(3)?, app: row.get(4)? })
    };
    let mut statement = db.prepare_cached(NOTICES)?;
    let groups = statement.query_map(params![user.as_str(), count(limit)], read)?;
    let groups = groups.collect::<rusqlite::Result<Vec<LeftGroup>>>()?;
    let leave = |LeftGroup { group, owner, is_member, is_alone, app }: LeftGroup| {
        let sql = "DELETE FROM notification_people WHERE notification = ?1 AND person = ?2";
        db.prepare_cached(sql)?.execute(params![group, user.as_str()])?;
        if !is_member {
            return Ok((owner, NotificationId(natural(group))));
        }
        // Nothing else is known of what a group of the application says.
        let is_theirs = app.map_or(Ok(false), |object| remove_content(db, &owner, &object, user))?;
        if is_alone || is_theirs {
            notification_removal::remove_group(db, group)?;
            // Rows of people who left it.
            let sql = "INSERT INTO notification_remains (notification) VALUES (?1) ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute([group])?;
            db.prepare_cached("UPDATE notified SET groups = groups - 1 WHERE user = ?1")?.execute([owner.as_str()])?;
        } else {
            let latest = next_position(db, &owner)?;
            let sql = "UPDATE notifications SET people = people - 1, position = ?2 WHERE id = ?1";
            db.prepare_cached(sql)?.execute([group, latest])?;
        }
        Ok((owner, NotificationId(natural(group))))
    };
    groups.into_iter().map(leave).collect()
}

/// Removes what a group of the application says, if it was said on behalf of a user. Returns whether it was.
fn remove_content(db: &Connection, owner: &UserId, object: &str, by: &UserId) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM app_notifications WHERE user = ?1 AND object = ?2 \
               AND lower(json_extract(content, '$.from')) = ?3";
    Ok(db.prepare_cached(sql)?.execute(params![owner.as_str(), object, by.as_str()])? > 0)
}

/// Rows that need no other change.
const REST: &[Rows] = &[
    ("restrictions", "maker, kind, target", "restrictions WHERE maker = ?1"),
    ("restrictions", "maker, kind, target", "restrictions INDEXED BY restrictions_target WHERE target = ?1"),
    ("follow_requests", "seq", "follow_requests INDEXED BY follow_requests_by WHERE follower = ?1"),
    ("follow_requests", "seq", "follow_requests INDEXED BY follow_requests_to WHERE followee = ?1"),
    ("follow_rejections", "followee, follower", "follow_rejections WHERE followee = ?1"),
    (
        "follow_rejections",
        "followee, follower",
        "follow_rejections INDEXED BY follow_rejections_by WHERE follower = ?1",
    ),
    ("post_alerts", "user, author", "post_alerts WHERE user = ?1"),
    ("post_alerts", "user, author", "post_alerts INDEXED BY post_alerts_author WHERE author = ?1"),
    ("filters", "id", "filters INDEXED BY filters_owner WHERE owner = ?1"),
    ("topic_follows", "follower, topic", "topic_follows WHERE follower = ?1"),
    ("list_users", "list, member", "list_users INDEXED BY list_users_member WHERE member = ?1"),
    ("list_users", "list, member", "lists INDEXED BY lists_owner CROSS JOIN list_users ON list = id WHERE owner = ?1"),
    ("list_topics", "list, topic", "lists INDEXED BY lists_owner CROSS JOIN list_topics ON list = id WHERE owner = ?1"),
    // After their members: no more rows are removed once there are `?2`.
    ("lists", "id", "lists INDEXED BY lists_owner WHERE owner = ?1"),
    ("notification_people", "notification, person", PEOPLE),
    ("notifications", "id", "notifications INDEXED BY notifications_order WHERE user = ?1"),
    ("app_notifications", "user, object", "app_notifications WHERE user = ?1"),
    ("notified", "user", "notified WHERE user = ?1"),
    ("idempotency", "user, key", "idempotency WHERE user = ?1"),
    ("muted_conversations", "user, post", "muted_conversations WHERE user = ?1"),
    ("devices", "user, id", "devices WHERE user = ?1"),
    ("push_queue", "user, device, item", "push_queue WHERE user = ?1"),
    ("quarantine", "id", PUSHES),
    ("push_preferences", "user", "push_preferences WHERE user = ?1"),
    ("read_markers", "user", "read_markers WHERE user = ?1"),
    ("favourites_of_users", "user, type", "favourites_of_users WHERE user = ?1"),
    ("standings", "seq", "standings INDEXED BY standings_user WHERE user = ?1"),
    ("removed_comments", "comment", "removed_comments INDEXED BY removed_comments_author WHERE author = ?1"),
    ("reports", "id", "reports INDEXED BY reports_reporter WHERE reporter = ?1"),
    ("reports", "id", "reports INDEXED BY reports_about WHERE about = ?1"),
];

const PEOPLE: &str = "notifications INDEXED BY notifications_order \
    CROSS JOIN notification_people ON notification = id WHERE user = ?1";

/// The names of pushes begin with the user and `/`; `0` follows `/`.
const PUSHES: &str = "quarantine INDEXED BY quarantine_name \
    WHERE kind = 'push' AND name >= ?1 || '/' AND name < ?1 || '0'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, SqliteOptions};

    #[tokio::test]
    async fn counters_of_favourites_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let user = UserId::parse("ann").expect("an id");
        let add = "INSERT INTO favourites_of_users (user, type, count) VALUES ('ann', 'post', 0), ('bo', 'post', 0)";
        ledger.write(move |db| db.execute(add, [])).await.expect("counters");
        assert_eq!(ledger.erase_rest(&user, 9).await.expect("an answer"), 1);
        let left = "SELECT user FROM favourites_of_users";
        let left = ledger.read(move |db| db.query_row(left, [], |row| row.get::<_, String>(0)));
        assert_eq!(left.await.expect("a user"), "bo");
        ledger.close().await;
    }
}
