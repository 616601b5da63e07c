//! The people in groups of notifications: who joins, renews, leaves and returns.

use std::collections::BTreeSet;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{integer, json_text, natural};
use crate::ledger::notifications::MAX_GROUP_COMMENTS;
use crate::ledger::{EndedNotification, NotificationEvent};
use crate::model::{CommentId, Millis, NotificationId, NotificationKind, UserId};

/// The newest group of a user for a kind of event and its object.
#[derive(Clone, Copy)]
pub(super) struct NewestGroup {
    pub(super) id: i64,
    pub(super) seq: i64,
    pub(super) created_at: i64,
}

/// A person who is or was in a group.
pub(super) struct GroupMember {
    /// The number of the person's last event.
    pub(super) event: i64,
    has_left: bool,
    comments: Option<Vec<CommentId>>,
}

pub(super) const NEWEST: &str = "SELECT id, seq, created_at FROM notifications INDEXED BY notifications_group \
    WHERE user = ?1 AND kind = ?2 AND object = ?3 ORDER BY id DESC LIMIT 1";

const OF_KIND: &str = "SELECT id FROM notifications INDEXED BY notifications_group \
    WHERE user = ?1 AND kind = ?2 AND object = ?3";

impl NewestGroup {
    pub(super) fn of(db: &Connection, user: &UserId, kind: NotificationKind) -> rusqlite::Result<Option<Self>> {
        let read = |row: &Row<'_>| Ok(Self { id: row.get(0)?, seq: row.get(1)?, created_at: row.get(2)? });
        db.prepare_cached(NEWEST)?.query_row(params![user.as_str(), kind.name(), kind.object_text()], read).optional()
    }

    /// A person who is or was in the group.
    pub(super) fn member(self, db: &Connection, person: &UserId) -> rusqlite::Result<Option<GroupMember>> {
        member(db, self.id, person)
    }

    /// The group takes one more.
    pub(super) fn grow(self, db: &Connection, seq: i64, now: Millis) -> rusqlite::Result<()> {
        move_up(db, self.id, seq, now, true)
    }

    /// A person does the same again: the group moves to the front.
    pub(super) fn renew(
        self,
        db: &Connection,
        event: &NotificationEvent,
        known: &GroupMember,
        seq: i64,
        now: Millis,
    ) -> rusqlite::Result<()> {
        let mut comments: Vec<CommentId> = event.comment.into_iter().collect();
        comments.extend(known.comments.iter().flatten().copied());
        comments.truncate(MAX_GROUP_COMMENTS);
        let comments = (!comments.is_empty()).then(|| json_text(&comments)).transpose()?;
        let sql = "UPDATE notification_people SET seq = ?3, event = max(event, ?4), comments = ?5, ended = 0 \
                   WHERE notification = ?1 AND person = ?2";
        db.prepare_cached(sql)?.execute(params![self.id, event.by.as_str(), seq, event.event, comments])?;
        move_up(db, self.id, seq, now, known.has_left)
    }

    /// A later event of a person that changes nothing, unless the person had left the group: then they return, which
    /// gives the group this position, but does not move it. Returns whether they do.
    pub(super) fn return_to(
        self,
        db: &Connection,
        event: &NotificationEvent,
        known: &GroupMember,
        position: i64,
    ) -> rusqlite::Result<bool> {
        let sql = "UPDATE notification_people SET event = max(event, ?3), ended = 0 \
                   WHERE notification = ?1 AND person = ?2";
        db.prepare_cached(sql)?.execute(params![self.id, event.by.as_str(), event.event])?;
        if known.has_left {
            let sql = "UPDATE notifications SET people = people + 1, position = ?2 WHERE id = ?1";
            db.prepare_cached(sql)?.execute([self.id, position])?;
        }
        Ok(known.has_left)
    }
}

/// Moves a group to the front, where its place stays what it is.
fn move_up(db: &Connection, id: i64, seq: i64, now: Millis, has_one_more: bool) -> rusqlite::Result<()> {
    let sql = "UPDATE notifications AS n SET people = people + ?4, seq = ?2, position = ?2, updated_at = ?3, \
               place = iif(EXISTS (SELECT 1 FROM notifications INDEXED BY notifications_order \
                   WHERE user = n.user AND place > n.place), ?2, place) WHERE id = ?1";
    db.prepare_cached(sql)?.execute(params![id, seq, integer(now), has_one_more]).map(drop)
}

fn member(db: &Connection, group: i64, person: &UserId) -> rusqlite::Result<Option<GroupMember>> {
    let sql = "SELECT event, ended, comments FROM notification_people WHERE notification = ?1 AND person = ?2";
    let read =
        |row: &Row<'_>| Ok(GroupMember { event: row.get(0)?, has_left: row.get(1)?, comments: comments_at(row, 2)? });
    db.prepare_cached(sql)?.query_row(params![group, person.as_str()], read).optional()
}

/// Adds a person to a group.
pub(super) fn add(db: &Connection, group: i64, event: &NotificationEvent, seq: i64) -> rusqlite::Result<()> {
    let comments = event.comment.map(|comment| json_text(&[comment])).transpose()?;
    let sql =
        "INSERT INTO notification_people (notification, person, seq, event, comments) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute(params![group, event.by.as_str(), seq, event.event, comments]).map(drop)
}

/// The comments of a person, from a column with JSON.
pub(super) fn comments_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Vec<CommentId>>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    let comments = serde_json::from_str(text);
    comments.map(Some).map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// Takes people out of groups. Returns the groups that they are or were in.
pub(super) fn end(db: &Connection, ended: &[EndedNotification]) -> rusqlite::Result<Vec<(UserId, NotificationId)>> {
    let mut found = BTreeSet::new();
    for cause in ended {
        let wanted = params![cause.to.as_str(), cause.kind.name(), cause.kind.object_text()];
        let groups: Vec<i64> =
            db.prepare_cached(OF_KIND)?.query_map(wanted, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for group in groups {
            if let Some(by) = &cause.by {
                let Some(known) = member(db, group, by)? else { continue };
                if !known.has_left {
                    let has_left = leave(db, group, by, known.comments, cause.comment)?;
                    let position = next_position(db, &cause.to)?;
                    let sql = "UPDATE notifications SET people = people - ?2, position = ?3 WHERE id = ?1";
                    db.prepare_cached(sql)?.execute(params![group, has_left, position])?;
                }
            }
            found.insert((cause.to.clone(), NotificationId(natural(group))));
        }
    }
    Ok(found.into_iter().collect())
}

/// The next position of a user's notifications.
pub(super) fn next_position(db: &Connection, user: &UserId) -> rusqlite::Result<i64> {
    let sql = "UPDATE notified SET latest = latest + 1 WHERE user = ?1 RETURNING latest";
    db.prepare_cached(sql)?.query_row([user.as_str()], |row| row.get(0))
}

/// A person leaves a group, unless they have other comments in it. Returns whether they have left.
fn leave(
    db: &Connection,
    group: i64,
    person: &UserId,
    comments: Option<Vec<CommentId>>,
    gone: Option<CommentId>,
) -> rusqlite::Result<bool> {
    let mut left = comments.filter(|_| gone.is_some()).unwrap_or_default();
    left.retain(|comment| Some(*comment) != gone);
    let has_left = left.is_empty();
    let sql = "UPDATE notification_people SET comments = ?3, ended = ?4 WHERE notification = ?1 AND person = ?2";
    let comments = (!has_left).then(|| json_text(&left)).transpose()?;
    db.prepare_cached(sql)?.execute(params![group, person.as_str(), comments, has_left])?;
    Ok(has_left)
}
