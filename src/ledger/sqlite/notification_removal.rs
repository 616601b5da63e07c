//! Groups of notifications that are dropped: the oldest of a user who has too many, and old ones of any user.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::user_id_at;
use super::{count, integer, natural};
use crate::ledger::RemovedNotification;
use crate::model::{Millis, NotificationId, UserId};

/// The number of people that one call removes from dropped groups, and from each old one.
const CLEARED: usize = 500;
const CLEARED_OF_OLD: usize = 50;

/// Removes a user's oldest group, and up to [`CLEARED`] of its people.
pub(super) fn drop_oldest(db: &Connection, user: &UserId) -> rusqlite::Result<()> {
    let sql = "SELECT id FROM notifications INDEXED BY notifications_order WHERE user = ?1 ORDER BY place LIMIT 1";
    let oldest: Option<i64> = db.prepare_cached(sql)?.query_row([user.as_str()], |row| row.get(0)).optional()?;
    oldest.map_or(Ok(()), |id| drop_group(db, id, CLEARED))
}

/// Removes a group, and up to `cleared` of its people.
fn drop_group(db: &Connection, id: i64, cleared: usize) -> rusqlite::Result<()> {
    remove_group(db, id)?;
    if !clear_people(db, id, cleared)? {
        db.prepare_cached("INSERT INTO notification_remains (notification) VALUES (?1)")?.execute([id])?;
    }
    Ok(())
}

/// Removes a group without its people, and what it said, unless another group of its owner has the same object.
pub(super) fn remove_group(db: &Connection, id: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM notifications WHERE id = ?1 RETURNING user, kind, object";
    let gone = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let gone: Option<(String, String, String)> = db.prepare_cached(sql)?.query_row([id], gone).optional()?;
    if let Some((user, kind, object)) = gone.filter(|(_, kind, _)| kind == "app") {
        let sql = "DELETE FROM app_notifications WHERE user = ?1 AND object = ?3 AND NOT EXISTS ( \
                   SELECT 1 FROM notifications WHERE user = ?1 AND kind = ?2 AND object = ?3)";
        db.prepare_cached(sql)?.execute([user, kind, object])?;
    }
    Ok(())
}

pub(super) const OLD: &str = "SELECT user, id, people FROM notifications INDEXED BY notifications_created \
    WHERE created_at < ?1 AND updated_at < ?1 ORDER BY created_at LIMIT ?2";

pub(super) fn remove_old(db: &Connection, before: Millis, limit: usize) -> rusqlite::Result<Vec<RemovedNotification>> {
    let mut statement = db.prepare_cached(OLD)?;
    let old = statement.query_map(params![integer(before), count(limit)], |row| {
        let id = NotificationId(natural(row.get(1)?));
        Ok(RemovedNotification { owner: user_id_at(row, 0)?, id, was_listed: row.get::<_, i64>(2)? > 0 })
    })?;
    let old: Vec<RemovedNotification> = old.collect::<rusqlite::Result<_>>()?;
    for RemovedNotification { owner, id, .. } in &old {
        drop_group(db, integer(id.0), CLEARED_OF_OLD)?;
        db.prepare_cached("UPDATE notified SET groups = groups - 1 WHERE user = ?1")?.execute([owner.as_str()])?;
    }
    Ok(old)
}

/// Removes people of a dropped group, `cleared` at most. Returns whether none are left.
fn clear_people(db: &Connection, id: i64, cleared: usize) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM notification_people WHERE notification = ?1 AND person IN \
               (SELECT person FROM notification_people WHERE notification = ?1 LIMIT ?2)";
    Ok(db.prepare_cached(sql)?.execute(params![id, count(cleared)])? < cleared)
}

/// Removes some people of one dropped group, if any are left.
pub(super) fn clear_remains(db: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT notification FROM notification_remains LIMIT 1";
    let one: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    if let Some(id) = one
        && clear_people(db, id, CLEARED)?
    {
        db.prepare_cached("DELETE FROM notification_remains WHERE notification = ?1")?.execute([id])?;
    }
    Ok(())
}
