//! Notifications, in groups.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::user_id_at;
use super::{SqliteLedger, UNLIMITED, count, events, integer, json_text, natural, pushes, readable, readable_page};
use crate::ledger::notifications::{MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS};
use crate::ledger::{
    ClearPlan, MarkUpTo, NotificationEvent, NotificationGroup, NotificationMark, NotificationStore, PushPlan, Result,
    UserNotifications,
};
use crate::model::{ContentId, DomainEvent, Millis, NotificationId, NotificationKind, NotificationPosition, UserId};

/// The number of people that one call removes from dropped groups.
const CLEARED: usize = 500;

#[async_trait]
impl NotificationStore for SqliteLedger {
    async fn notify(
        &self,
        to: &UserId,
        events: &[NotificationEvent],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<NotificationGroup>> {
        let to = to.clone();
        let events = events.to_vec();
        self.write(move |db| notify(db, &to, &events, now, window)).await
    }

    async fn notify_many(
        &self,
        batch: &[UserNotifications],
        now: Millis,
        window: Millis,
        pushes: Option<PushPlan>,
    ) -> Result<Vec<(UserId, Vec<NotificationGroup>)>> {
        let batch = batch.to_vec();
        let outlet = self.outlet;
        let note = move |db: &Connection| {
            let one = |of: UserNotifications| {
                let groups = notify(db, &of.to, &of.events, now, window)?;
                if let Some(plan) = pushes {
                    pushes::enqueue(db, &of.to, &groups, now, plan)?;
                }
                if outlet {
                    queue_events(db, &of.to, &groups, now)?;
                }
                Ok((of.to, groups))
            };
            batch.into_iter().map(one).collect()
        };
        self.write(note).await
    }

    async fn notifications(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Vec<NotificationGroup>> {
        let user = user.clone();
        self.read(move |db| list(db, LIST, &user, before.unwrap_or(i64::MAX), limit)).await
    }

    async fn notifications_by_id(&self, user: &UserId, ids: &[NotificationId]) -> Result<Vec<NotificationGroup>> {
        let user = user.clone();
        let ids = ids.to_vec();
        self.read(move |db| by_id(db, &user, &ids)).await
    }

    async fn newest_notification(&self, user: &UserId) -> Result<Option<NotificationId>> {
        let user = user.clone();
        self.read(move |db| {
            let sql = "SELECT max(id) FROM notifications WHERE user = ?1";
            let newest: Option<i64> = db.prepare_cached(sql)?.query_row(params![user.as_str()], |row| row.get(0))?;
            Ok(newest.map(|id| NotificationId(natural(id))))
        })
        .await
    }

    async fn unread_notifications(&self, user: &UserId, limit: usize) -> Result<Vec<NotificationGroup>> {
        let user = user.clone();
        self.read(move |db| {
            let read_upto = Markers::of(db, &user)?.read_upto;
            list(db, AFTER, &user, read_upto, limit)
        })
        .await
    }

    async fn mark_notifications(
        &self,
        user: &UserId,
        upto: MarkUpTo,
        mark: NotificationMark,
        clear: Option<&ClearPlan>,
    ) -> Result<Option<NotificationPosition>> {
        let user = user.clone();
        let clear = clear.cloned();
        self.write(move |db| {
            let marked = self::mark(db, &user, upto, mark)?;
            if let Some(clear) = clear.filter(|_| marked.is_some()) {
                pushes::enqueue_clears(db, &user, None, &clear)?;
            }
            Ok(marked)
        })
        .await
    }
}

/// Puts the changed groups into the queue for the outlet.
fn queue_events(db: &Connection, to: &UserId, groups: &[NotificationGroup], now: Millis) -> rusqlite::Result<()> {
    groups.iter().try_for_each(|group| {
        let event = DomainEvent::Notified { to: to.clone(), notification: group.id };
        events::append(db, Some(&event), now, true)
    })
}

/// Positions in the order of a user's groups.
#[derive(Clone, Copy, Default)]
struct Markers {
    latest: i64,
    groups: i64,
    read_upto: i64,
    seen_upto: i64,
}

impl Markers {
    fn of(db: &Connection, user: &UserId) -> rusqlite::Result<Self> {
        let sql = "SELECT latest, groups, read_upto, seen_upto FROM notified WHERE user = ?1";
        let read = |row: &Row<'_>| {
            Ok(Self { latest: row.get(0)?, groups: row.get(1)?, read_upto: row.get(2)?, seen_upto: row.get(3)? })
        };
        Ok(db.prepare_cached(sql)?.query_row([user.as_str()], read).optional()?.unwrap_or_default())
    }
}

fn notify(
    db: &Connection,
    to: &UserId,
    events: &[NotificationEvent],
    now: Millis,
    window: Millis,
) -> rusqlite::Result<Vec<NotificationGroup>> {
    let mut markers = Markers::of(db, to)?;
    // Ordered by the time of the last change.
    let mut changed: BTreeMap<i64, NotificationId> = BTreeMap::new();
    let mut grown = false;
    for event in events {
        let newest = NewestGroup::of(db, to, event.kind)?;
        let recent = newest.filter(|group| natural(group.created_at).saturating_add(window) > now);
        let open = recent.filter(|group| group.seq > markers.read_upto);
        let noted = newest.map(|group| group.event_of(db, &event.by)).transpose()?.flatten();
        if let (Some(group), Some(noted)) = (newest, noted)
            && event.event != 0
            && noted >= event.event
        {
            // The event was stored before, but its recipient may not have been notified.
            changed.insert(group.seq, NotificationId(natural(group.id)));
            continue;
        }
        let looked_into = if event.kind.is_new_each_time() { open } else { recent };
        if let (Some(group), Some(_)) = (looked_into, noted) {
            group.raise_event(db, event)?;
            continue;
        }
        markers.latest += 1;
        grown = true;
        let id = match open {
            Some(group) => {
                group.grow(db, markers.latest, now)?;
                changed.remove(&group.seq);
                group.id
            }
            None => {
                markers.groups += 1;
                begin(db, to, event, markers.latest, now)?
            }
        };
        let sql = "INSERT INTO notification_people (notification, person, seq, event) VALUES (?1, ?2, ?3, ?4)";
        db.prepare_cached(sql)?.execute(params![id, event.by.as_str(), markers.latest, event.event])?;
        changed.insert(markers.latest, NotificationId(natural(id)));
    }
    clear_remains(db)?;
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    if grown {
        while natural(markers.groups) > MAX_NOTIFICATION_GROUPS {
            drop_oldest(db, to)?;
            markers.groups -= 1;
        }
        let sql = "INSERT INTO notified (user, latest, groups) VALUES (?1, ?2, ?3) \
                   ON CONFLICT DO UPDATE SET latest = excluded.latest, groups = excluded.groups";
        db.prepare_cached(sql)?.execute(params![to.as_str(), markers.latest, markers.groups])?;
    }
    let changed: Vec<NotificationId> = changed.into_values().collect();
    let mut groups = by_id(db, to, &changed)?;
    groups.sort_unstable_by_key(|group| group.seq);
    Ok(groups)
}

/// The newest group of a user for a kind of event and its object.
#[derive(Clone, Copy)]
struct NewestGroup {
    id: i64,
    seq: i64,
    created_at: i64,
}

pub(super) const NEWEST: &str = "SELECT id, seq, created_at FROM notifications INDEXED BY notifications_group \
    WHERE user = ?1 AND kind = ?2 AND object = ?3 ORDER BY seq DESC LIMIT 1";

impl NewestGroup {
    fn of(db: &Connection, user: &UserId, kind: NotificationKind) -> rusqlite::Result<Option<Self>> {
        let read = |row: &Row<'_>| Ok(Self { id: row.get(0)?, seq: row.get(1)?, created_at: row.get(2)? });
        db.prepare_cached(NEWEST)?.query_row(params![user.as_str(), kind.name(), object(kind)], read).optional()
    }

    /// The number of the last event of a person in the group; `None` if the person is not in it.
    fn event_of(self, db: &Connection, person: &UserId) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT event FROM notification_people WHERE notification = ?1 AND person = ?2";
        db.prepare_cached(sql)?.query_row(params![self.id, person.as_str()], |row| row.get(0)).optional()
    }

    /// Records a later event of a person that is already in the group.
    fn raise_event(self, db: &Connection, event: &NotificationEvent) -> rusqlite::Result<()> {
        if event.event == 0 {
            return Ok(());
        }
        let sql = "UPDATE notification_people SET event = ?3 WHERE notification = ?1 AND person = ?2";
        let row = params![self.id, event.by.as_str(), event.event];
        db.prepare_cached(sql)?.execute(row).map(drop)
    }

    fn grow(self, db: &Connection, seq: i64, now: Millis) -> rusqlite::Result<()> {
        let sql =
            "UPDATE notifications SET people = people + 1, seq = ?2, position = ?2, updated_at = ?3 WHERE id = ?1";
        db.prepare_cached(sql)?.execute(params![self.id, seq, integer(now)]).map(drop)
    }
}

fn object(kind: NotificationKind) -> String {
    kind.object().map(ContentId::to_text).unwrap_or_default()
}

/// Begins a group. Returns its id.
fn begin(db: &Connection, to: &UserId, event: &NotificationEvent, seq: i64, now: Millis) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO notifications (user, kind, object, seq, position, people, created_at, updated_at) \
               VALUES (?1, ?2, ?3, ?4, ?4, 1, ?5, ?5)";
    let kind = event.kind.name();
    let object = object(event.kind);
    db.prepare_cached(sql)?.insert(params![to.as_str(), kind, object, seq, integer(now)])
}

/// Removes a user's oldest group, and up to [`CLEARED`] of its people.
fn drop_oldest(db: &Connection, user: &UserId) -> rusqlite::Result<()> {
    let sql = "SELECT id FROM notifications INDEXED BY notifications_order WHERE user = ?1 ORDER BY seq LIMIT 1";
    let oldest: Option<i64> = db.prepare_cached(sql)?.query_row([user.as_str()], |row| row.get(0)).optional()?;
    if let Some(id) = oldest {
        db.prepare_cached("DELETE FROM notifications WHERE id = ?1")?.execute([id])?;
        if !clear_people(db, id)? {
            db.prepare_cached("INSERT INTO notification_remains (notification) VALUES (?1)")?.execute([id])?;
        }
    }
    Ok(())
}

/// Removes people of a dropped group. Returns whether none are left.
fn clear_people(db: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM notification_people WHERE notification = ?1 AND person IN \
               (SELECT person FROM notification_people WHERE notification = ?1 LIMIT ?2)";
    Ok(db.prepare_cached(sql)?.execute(params![id, count(CLEARED)])? < CLEARED)
}

/// Removes some people of one dropped group, if any are left.
fn clear_remains(db: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT notification FROM notification_remains LIMIT 1";
    let one: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    if let Some(id) = one
        && clear_people(db, id)?
    {
        db.prepare_cached("DELETE FROM notification_remains WHERE notification = ?1")?.execute([id])?;
    }
    Ok(())
}

pub(super) const LIST: &str = "SELECT id, kind, object, seq, people, created_at, updated_at, position \
    FROM notifications INDEXED BY notifications_order WHERE user = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

pub(super) const AFTER: &str = "SELECT id, kind, object, seq, people, created_at, updated_at, position \
    FROM notifications INDEXED BY notifications_order WHERE user = ?1 AND seq > ?2 ORDER BY seq DESC LIMIT ?3";

pub(super) const PEOPLE: &str = "SELECT person FROM notification_people INDEXED BY notification_people_newest \
    WHERE notification = ?1 ORDER BY seq DESC LIMIT ?2";

/// A page of [`LIST`] or [`AFTER`].
fn list(
    db: &Connection,
    sql: &str,
    user: &UserId,
    bound: i64,
    limit: usize,
) -> rusqlite::Result<Vec<NotificationGroup>> {
    let markers = Markers::of(db, user)?;
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query(params![user.as_str(), bound, UNLIMITED])?;
    with_people(db, readable_page("notifications", rows, limit, |row| group(row, markers))?)
}

fn by_id(db: &Connection, user: &UserId, ids: &[NotificationId]) -> rusqlite::Result<Vec<NotificationGroup>> {
    let markers = Markers::of(db, user)?;
    let sql = "SELECT id, kind, object, seq, people, created_at, updated_at, position FROM notifications \
               WHERE id IN (SELECT value FROM json_each(?1)) AND user = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query(params![json_text(ids)?, user.as_str()])?;
    with_people(db, readable("notifications", rows, |row| group(row, markers))?)
}

fn with_people(db: &Connection, mut groups: Vec<NotificationGroup>) -> rusqlite::Result<Vec<NotificationGroup>> {
    for group in &mut groups {
        group.people = newest_people(db, group.id)?;
    }
    Ok(groups)
}

fn newest_people(db: &Connection, id: NotificationId) -> rusqlite::Result<Vec<UserId>> {
    let mut statement = db.prepare_cached(PEOPLE)?;
    readable("notification_people", statement.query(params![integer(id.0), count(MAX_GROUP_PEOPLE)])?, |row| {
        user_id_at(row, 0)
    })
}

/// Reads a group without its people.
fn group(row: &Row<'_>, markers: Markers) -> rusqlite::Result<NotificationGroup> {
    let kind = row.get_ref(1)?.as_str()?;
    let object = row.get_ref(2)?.as_str()?;
    let kind = NotificationKind::from_parts(kind, ContentId::parse(object)).ok_or_else(|| {
        let why = format!("{kind:?} of {object:?} is nothing to be notified of");
        rusqlite::Error::FromSqlConversionFailure(1, Type::Text, why.into())
    })?;
    let seq = row.get(3)?;
    Ok(NotificationGroup {
        id: NotificationId(natural(row.get(0)?)),
        kind,
        seq,
        position: NotificationPosition(natural(row.get(7)?)),
        people: Vec::new(),
        count: natural(row.get(4)?),
        created_at: natural(row.get(5)?),
        updated_at: natural(row.get(6)?),
        read: seq <= markers.read_upto,
        seen: seq <= markers.seen_upto,
    })
}

fn mark(
    db: &Connection,
    user: &UserId,
    upto: MarkUpTo,
    mark: NotificationMark,
) -> rusqlite::Result<Option<NotificationPosition>> {
    let markers = Markers::of(db, user)?;
    let upto = match upto {
        MarkUpTo::Everything => markers.latest,
        MarkUpTo::Position(position) => integer(position.0).min(markers.latest),
        MarkUpTo::Group(id) => {
            let sql = "SELECT position FROM notifications WHERE id = ?1 AND user = ?2";
            let found = db.prepare_cached(sql)?.query_row(params![integer(id.0), user.as_str()], |row| row.get(0));
            found.optional()?.unwrap_or(0)
        }
    };
    let seen = markers.seen_upto.max(upto);
    let read = if mark == NotificationMark::Read { markers.read_upto.max(upto) } else { markers.read_upto };
    if (read, seen) == (markers.read_upto, markers.seen_upto) {
        return Ok(None);
    }
    let sql = "UPDATE notified SET read_upto = ?2, seen_upto = ?3 WHERE user = ?1";
    db.prepare_cached(sql)?.execute(params![user.as_str(), read, seen])?;
    Ok(Some(NotificationPosition(natural(upto))))
}
