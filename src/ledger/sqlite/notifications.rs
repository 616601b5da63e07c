//! Notifications, in groups.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::devices::json_at;
use super::notification_people::{self as members, NewestGroup};
use super::notification_removal as removal;
use super::rows::user_id_at;
use super::{SqliteLedger, UNLIMITED, count, events, integer, json_text, natural, pushes, readable, readable_page};
use crate::ledger::notifications::{MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS};
use crate::ledger::{
    ClearPlan, EndedNotification, MarkUpTo, NotificationEvent, NotificationGroup, NotificationMark, NotificationStore,
    PushPlan, RemovedNotification, Result, UserNotifications,
};
use crate::model::{
    AppGroup, AppNotification, CommentId, DomainEvent, Millis, NotificationId, NotificationKind, NotificationPosition,
    PostId, UserId,
};

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

    async fn end_notifications(&self, ended: &[EndedNotification]) -> Result<Vec<(UserId, NotificationId)>> {
        let ended = ended.to_vec();
        self.write(move |db| members::end(db, &ended)).await
    }

    async fn remove_old_notifications(&self, before: Millis, limit: usize) -> Result<Vec<RemovedNotification>> {
        self.write(move |db| removal::remove_old(db, before, limit)).await
    }

    async fn notifications_under(&self, post: PostId, limit: usize) -> Result<Vec<(UserId, NotificationId)>> {
        self.read_heavy(move |db| {
            let mut statement = db.prepare_cached(UNDER)?;
            readable("notifications", statement.query(params![integer(post.0), count(limit)])?, |row| {
                Ok((user_id_at(row, 0)?, NotificationId(natural(row.get(1)?))))
            })
        })
        .await
    }

    async fn notifications_by(&self, user: &UserId, person: &UserId, limit: usize) -> Result<Vec<NotificationId>> {
        let user = user.clone();
        let person = person.clone();
        self.read(move |db| {
            let wanted = params![user.as_str(), person.as_str(), count(limit)];
            let id = |row: &Row<'_>| Ok(NotificationId(natural(row.get(0)?)));
            db.prepare_cached(BY)?.query_map(wanted, id)?.collect()
        })
        .await
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
            let newest: i64 = db.prepare_cached(NEWEST_ID)?.query_row([user.as_str()], |row| row.get(0))?;
            Ok(Some(NotificationId(natural(newest))).filter(|id| id.0 > 0))
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
                pushes::enqueue_clears(db, &user, pushes::Cleared::Notifications, &clear)?;
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
    let markers = Markers::of(db, to)?;
    let mut recorder = Recorder { db, to, now, window, markers, changed: BTreeMap::new(), has_grown: false };
    events.iter().try_for_each(|event| recorder.record(event))?;
    let Recorder { mut markers, changed, has_grown, .. } = recorder;
    removal::clear_remains(db)?;
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    if has_grown {
        while natural(markers.groups) > MAX_NOTIFICATION_GROUPS {
            removal::drop_oldest(db, to)?;
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

/// Records the events of a user, in order.
struct Recorder<'a> {
    db: &'a Connection,
    to: &'a UserId,
    now: Millis,
    window: Millis,
    markers: Markers,
    /// The groups that changed, by their positions: the order of their last changes.
    changed: BTreeMap<i64, NotificationId>,
    /// Whether a group was begun, has grown or was renewed, or somebody has returned.
    has_grown: bool,
}

impl Recorder<'_> {
    fn record(&mut self, event: &NotificationEvent) -> rusqlite::Result<()> {
        let Self { db, to, .. } = *self;
        let newest = NewestGroup::of(db, to, event.kind)?;
        let recent = newest.filter(|group| natural(group.created_at).saturating_add(self.window) > self.now);
        let open = match event.kind {
            // The notifications of a key stay one group.
            NotificationKind::App(_) => newest,
            _ => recent.filter(|group| group.seq > self.markers.read_upto),
        };
        let known = newest.map(|group| group.member(db, &event.by)).transpose()?.flatten();
        if let (Some(group), Some(known)) = (newest, &known)
            && event.event != 0
            && known.event >= event.event
        {
            // The event was stored before, but its recipient may not have been notified.
            self.note(group.id, group.seq);
            return Ok(());
        }
        let joined = match event.kind {
            _ if event.kind.is_new_each_time() => open,
            NotificationKind::Mention(_) => newest,
            _ => recent,
        };
        if let (Some(group), Some(known)) = (joined, known) {
            if event.kind.is_new_each_time() {
                set_content(db, to, event)?;
                let seq = self.move_up(group.seq);
                group.renew(db, event, &known, seq, self.now)?;
                self.note(group.id, seq);
            } else if group.return_to(db, event, &known, self.markers.latest + 1)? {
                self.markers.latest += 1;
                self.has_grown = true;
                self.note(group.id, group.seq);
            }
            return Ok(());
        }
        set_content(db, to, event)?;
        let seq = self.move_up(open.map_or(0, |group| group.seq));
        let id = match open {
            Some(group) => {
                group.grow(db, seq, self.now)?;
                group.id
            }
            None => {
                self.markers.groups += 1;
                begin(db, to, event, seq, self.now)?
            }
        };
        members::add(db, id, event, seq)?;
        self.note(id, seq);
        Ok(())
    }

    /// The next position, for a group that leaves this one.
    fn move_up(&mut self, from: i64) -> i64 {
        self.changed.remove(&from);
        self.has_grown = true;
        self.markers.latest += 1;
        self.markers.latest
    }

    fn note(&mut self, group: i64, seq: i64) {
        self.changed.insert(seq, NotificationId(natural(group)));
    }
}

/// Begins a group. Returns its id.
fn begin(db: &Connection, to: &UserId, event: &NotificationEvent, seq: i64, now: Millis) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO notifications (user, kind, object, seq, place, position, people, created_at, updated_at) \
               VALUES (?1, ?2, ?3, ?4, ?4, ?4, 1, ?5, ?5)";
    let kind = event.kind.name();
    let object = event.kind.object_text();
    db.prepare_cached(sql)?.insert(params![to.as_str(), kind, object, seq, integer(now)])
}

pub(super) const LIST: &str = "SELECT id, kind, object, seq, people, created_at, updated_at, position, place \
    FROM notifications INDEXED BY notifications_order WHERE user = ?1 AND place < ?2 AND people > 0 \
    ORDER BY place DESC LIMIT ?3";

/// At most one group has its place at or below the mark, and its last event above.
pub(super) const AFTER: &str = "SELECT id, kind, object, seq, people, created_at, updated_at, position, place \
    FROM notifications INDEXED BY notifications_order WHERE user = ?1 AND place >= coalesce( \
        (SELECT max(place) FROM notifications INDEXED BY notifications_order WHERE user = ?1 AND place <= ?2), 0) \
    AND seq > ?2 AND people > 0 ORDER BY place DESC LIMIT ?3";

pub(super) const PEOPLE: &str = "SELECT person, comments FROM notification_people \
    INDEXED BY notification_people_newest WHERE notification = ?1 AND ended = 0 ORDER BY seq DESC LIMIT ?2";

/// The groups about the comments on a post: those of their authors, and of the users that they mention.
pub(super) const UNDER: &str = "\
    WITH written AS MATERIALIZED (SELECT id, author, mentions FROM comments INDEXED BY comments_thread \
        WHERE post = ?1 AND author IS NOT NULL LIMIT ?2), \
    concerned AS (SELECT author AS user, value AS kind, 'c' || written.id AS object FROM written \
            CROSS JOIN json_each('[\"like\",\"reply\"]') \
        UNION ALL SELECT lower(value), 'mention', 'c' || written.id FROM written \
            CROSS JOIN json_each(iif(json_valid(mentions), mentions, '[]'))) \
    SELECT n.user, n.id FROM concerned CROSS JOIN notifications n INDEXED BY notifications_group \
        ON n.user = concerned.user AND n.kind = concerned.kind AND n.object = concerned.object \
    WHERE n.people > 0 LIMIT ?2";

/// Also looks at groups that are gone and were queued for devices.
const NEWEST_ID: &str = "SELECT max(coalesce((SELECT max(id) FROM notifications WHERE user = ?1), 0), \
    coalesce((SELECT max(item) FROM push_queue WHERE user = ?1 AND kind NOT IN ('post', 'clear')), 0))";

pub(super) const BY: &str = "SELECT id FROM notifications INDEXED BY notifications_order \
    WHERE user = ?1 AND people > 0 AND EXISTS (SELECT 1 FROM notification_people \
        WHERE notification = notifications.id AND person = ?2 AND ended = 0) ORDER BY place DESC LIMIT ?3";

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
    with_people(db, user, readable_page("notifications", rows, limit, |row| group(row, markers))?)
}

fn by_id(db: &Connection, user: &UserId, ids: &[NotificationId]) -> rusqlite::Result<Vec<NotificationGroup>> {
    let markers = Markers::of(db, user)?;
    let sql = "SELECT id, kind, object, seq, people, created_at, updated_at, position, place FROM notifications \
               WHERE id IN (SELECT value FROM json_each(?1)) AND user = ?2 AND people > 0";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query(params![json_text(ids)?, user.as_str()])?;
    with_people(db, user, readable("notifications", rows, |row| group(row, markers))?)
}

fn with_people(
    db: &Connection,
    user: &UserId,
    mut groups: Vec<NotificationGroup>,
) -> rusqlite::Result<Vec<NotificationGroup>> {
    for group in &mut groups {
        if let NotificationKind::App(app) = group.kind {
            group.content = content(db, user, app)?;
        }
        for (person, comments) in newest_people(db, group.id)? {
            if let Some(comments) = comments {
                group.comments.insert(person.clone(), comments);
            }
            group.people.push(person);
        }
    }
    Ok(groups)
}

fn content(db: &Connection, user: &UserId, app: AppGroup) -> rusqlite::Result<Option<AppNotification>> {
    let sql = "SELECT content FROM app_notifications WHERE user = ?1 AND object = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let found =
        readable("app_notifications", statement.query(params![user.as_str(), app.to_text()])?, |row| json_at(row, 0))?;
    Ok(found.into_iter().next())
}

/// Stores what a group of the application says.
fn set_content(db: &Connection, to: &UserId, event: &NotificationEvent) -> rusqlite::Result<()> {
    let Some(content) = &event.content else { return Ok(()) };
    let sql = "INSERT INTO app_notifications (user, object, content) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET content = excluded.content";
    let row = params![to.as_str(), event.kind.object_text(), json_text(&**content)?];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

fn newest_people(db: &Connection, id: NotificationId) -> rusqlite::Result<Vec<(UserId, Option<Vec<CommentId>>)>> {
    let mut statement = db.prepare_cached(PEOPLE)?;
    readable("notification_people", statement.query(params![integer(id.0), count(MAX_GROUP_PEOPLE)])?, |row| {
        Ok((user_id_at(row, 0)?, members::comments_at(row, 1)?))
    })
}

/// Reads a group without its people.
fn group(row: &Row<'_>, markers: Markers) -> rusqlite::Result<NotificationGroup> {
    let kind = row.get_ref(1)?.as_str()?;
    let object = row.get_ref(2)?.as_str()?;
    let kind = NotificationKind::parse(kind, object).ok_or_else(|| {
        let why = format!("{kind:?} of {object:?} is nothing to be notified of");
        rusqlite::Error::FromSqlConversionFailure(1, Type::Text, why.into())
    })?;
    let seq = row.get(3)?;
    Ok(NotificationGroup {
        id: NotificationId(natural(row.get(0)?)),
        kind,
        seq,
        position: NotificationPosition(natural(row.get(7)?)),
        place: row.get(8)?,
        people: Vec::new(),
        comments: HashMap::new(),
        count: natural(row.get(4)?),
        created_at: natural(row.get(5)?),
        updated_at: natural(row.get(6)?),
        read: seq <= markers.read_upto,
        seen: seq <= markers.seen_upto,
        content: None,
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
