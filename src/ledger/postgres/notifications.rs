//! Notifications, in groups. Functions of the database add and mark them: `functions/notifications.sql`.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresLedger;
use super::columns::{at, count, integer, json_text, natural, natural_at, one, user_ids};
use super::pool::Parameters;
use super::rows::readable;
use crate::ledger::notifications::{MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS};
use crate::ledger::{
    ClearPlan, EventConsumer, LedgerError, MarkUpTo, NotificationEvent, NotificationGroup, NotificationMark,
    NotificationStore, PushPlan, Result, UserNotifications,
};
use crate::model::{ContentId, DomainEvent, Millis, NotificationId, NotificationKind, NotificationPosition, UserId};

/// The number of people that one call removes from dropped groups.
const CLEARED: i64 = 500;

/// The number of users whose notifications are written concurrently.
const MAX_CONCURRENT_USERS: usize = 4;

/// Returns the ids of the changed groups, in the order of their changes.
const NOTIFY: &str = "SELECT changed FROM feedline_notify($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// The same, and queues pushes.
const NOTIFY_AND_PUSH: &str = "\
    SELECT changed FROM feedline_notify_and_push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// [`NOTIFY`] and [`NOTIFY_AND_PUSH`] with an event for the outlet for each changed group. `$event` is the beginning of
/// its JSON, `$pending` its consumers.
macro_rules! with_notified {
    ($notify:literal, $event:literal, $pending:literal) => {
        concat!(
            "WITH answer AS MATERIALIZED (SELECT changed, place FROM ",
            $notify,
            " WITH ORDINALITY AS made (changed, place)), reported AS ( \
                INSERT INTO events (at, event, pending) \
                SELECT $7::bigint, ",
            $event,
            "::text || changed || '}}', ",
            $pending,
            "::int FROM answer ORDER BY place) \
             SELECT changed FROM answer ORDER BY place"
        )
    };
}

const NOTIFY_WITH_EVENTS: &str =
    with_notified!("feedline_notify($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", "$11", "$12");

const NOTIFY_AND_PUSH_WITH_EVENTS: &str =
    with_notified!("feedline_notify_and_push($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)", "$13", "$14");

const NEWEST: &str = "SELECT id FROM notifications WHERE owner = $1 ORDER BY id DESC LIMIT 1";

const MARK: &str = "SELECT feedline_mark_notifications($1, $2, $3, $4)";

/// The same, and queues pushes that clear it on the other devices.
const MARK_AND_CLEAR: &str = "\
    SELECT upto, CASE WHEN upto IS NOT NULL THEN feedline_queue_clears($1, $5, NULL, NULL, $6, $7)::text END
    FROM feedline_mark_notifications($1, $2, $3, $4) AS marked (upto)";

macro_rules! groups {
    ($which:literal) => {
        concat!(
            "SELECT n.id, n.kind, n.object, n.seq, n.people, n.created_at, n.updated_at, \
             n.seq <= m.read_upto, n.seq <= m.seen_upto, \
             ARRAY(SELECT person FROM notification_people p WHERE p.owner = $1 AND p.notification = n.id \
                   ORDER BY p.seq DESC LIMIT $2), n.position \
             FROM (SELECT read_upto, seen_upto FROM notified WHERE owner = $1) m \
             CROSS JOIN LATERAL (SELECT * FROM notifications WHERE owner = $1 AND ",
            $which,
            ") n ORDER BY n.seq DESC"
        )
    };
}

pub(super) const LIST: &str = groups!("seq < $3 ORDER BY seq DESC LIMIT $4");

pub(super) const UNREAD: &str = groups!("seq > m.read_upto ORDER BY seq DESC LIMIT $3");

const THESE: &str = groups!("id = ANY ($3)");

#[async_trait]
impl NotificationStore for PostgresLedger {
    async fn notify(
        &self,
        to: &UserId,
        events: &[NotificationEvent],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<NotificationGroup>> {
        self.notify_user(to, events, now, window, None).await
    }

    /// One transaction for each user, a few of them concurrently: no transaction holds locks while it waits for those
    /// of another user.
    async fn notify_many(
        &self,
        batch: &[UserNotifications],
        now: Millis,
        window: Millis,
        pushes: Option<PushPlan>,
    ) -> Result<Vec<(UserId, Vec<NotificationGroup>)>> {
        let note = |of: UserNotifications| async move {
            let groups = self.notify_user(&of.to, &of.events, now, window, pushes).await?;
            Ok((of.to, groups))
        };
        stream::iter(batch.to_vec()).map(note).buffer_unordered(MAX_CONCURRENT_USERS).try_collect().await
    }

    async fn notifications(&self, user: &UserId, before: Option<i64>, limit: usize) -> Result<Vec<NotificationGroup>> {
        let before = before.unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = &[&user.as_str(), &count(MAX_GROUP_PEOPLE), &before];
        self.readable_page("notifications", LIST, parameters, limit, group).await
    }

    async fn notifications_by_id(&self, user: &UserId, ids: &[NotificationId]) -> Result<Vec<NotificationGroup>> {
        let ids: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
        self.groups(THESE, &[&user.as_str(), &count(MAX_GROUP_PEOPLE), &ids]).await
    }

    async fn newest_notification(&self, user: &UserId) -> Result<Option<NotificationId>> {
        let rows = self.pool.read(NEWEST, &[&user.as_str()]).await?;
        rows.first().map(|row| natural_at(row, 0).map(NotificationId)).transpose()
    }

    async fn unread_notifications(&self, user: &UserId, limit: usize) -> Result<Vec<NotificationGroup>> {
        self.groups(UNREAD, &[&user.as_str(), &count(MAX_GROUP_PEOPLE), &count(limit)]).await
    }

    async fn mark_notifications(
        &self,
        user: &UserId,
        upto: MarkUpTo,
        mark: NotificationMark,
        clear: Option<&ClearPlan>,
    ) -> Result<Option<NotificationPosition>> {
        let group = if let MarkUpTo::Group(id) = upto { integer(id.0) } else { 0 };
        let position = if let MarkUpTo::Position(position) = upto { integer(position.0) } else { i64::MAX };
        let is_read = mark == NotificationMark::Read;
        let rows = match clear {
            None => self.pool.write(MARK, &[&user.as_str(), &group, &position, &is_read]).await?,
            Some(ClearPlan { session, now, due_at }) => {
                let parameters: Parameters<'_> =
                    &[&user.as_str(), &group, &position, &is_read, session, &integer(*now), &integer(*due_at)];
                self.pool.write(MARK_AND_CLEAR, parameters).await?
            }
        };
        let marked: Option<i64> = at(one(&rows)?, 0)?;
        Ok(marked.map(|upto| NotificationPosition(natural(upto))))
    }
}

impl PostgresLedger {
    /// Writing the events and reading the changed groups are two round trips. A group that changes again in between is
    /// returned in its latest state.
    async fn notify_user(
        &self,
        to: &UserId,
        events: &[NotificationEvent],
        now: Millis,
        window: Millis,
        pushes: Option<PushPlan>,
    ) -> Result<Vec<NotificationGroup>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
        let object = |event: &NotificationEvent| event.kind.object().map(ContentId::to_text).unwrap_or_default();
        let objects: Vec<String> = events.iter().map(object).collect();
        let people: Vec<&str> = events.iter().map(|event| event.by.as_str()).collect();
        let again: Vec<bool> = events.iter().map(|event| event.kind.is_new_each_time()).collect();
        let events: Vec<i64> = events.iter().map(|event| event.event).collect();
        let at_time = integer(now);
        let recent = integer(window);
        let kept = integer(MAX_NOTIFICATION_GROUPS);
        let user = to.as_str();
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&user, &kinds, &objects, &people, &again, &events, &at_time, &recent, &kept, &CLEARED];
        let (due, digest);
        if let Some(plan) = pushes {
            (due, digest) = (integer(now.saturating_add(plan.grace)), integer(plan.digest));
            parameters.extend([&due as &(dyn ToSql + Sync), &digest]);
        }
        let event = notified_prefix(to)?;
        let bit = EventConsumer::Outlet.bit();
        if self.outlet {
            parameters.extend([&event as &(dyn ToSql + Sync), &bit]);
        }
        let statement = match (pushes, self.outlet) {
            (None, false) => NOTIFY,
            (Some(_), false) => NOTIFY_AND_PUSH,
            (None, true) => NOTIFY_WITH_EVENTS,
            (Some(_), true) => NOTIFY_AND_PUSH_WITH_EVENTS,
        };
        let rows = self.pool.write(statement, &parameters).await?;
        let changed = rows.iter().map(|row| at::<i64>(row, 0)).collect::<Result<Vec<_>>>()?;
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let mut groups = self.groups(THESE, &[&to.as_str(), &count(MAX_GROUP_PEOPLE), &changed]).await?;
        groups.reverse();
        Ok(groups)
    }

    async fn groups(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<NotificationGroup>> {
        Ok(readable("notifications", &self.pool.read(sql, parameters).await?, group))
    }
}

/// The JSON of [`DomainEvent::Notified`] up to the id of the group.
fn notified_prefix(to: &UserId) -> Result<String> {
    let event = json_text(&DomainEvent::Notified { to: to.clone(), notification: NotificationId(0) })?;
    let prefix = event.strip_suffix("0}}").map(str::to_owned);
    prefix.ok_or_else(|| LedgerError::Failed("an event has another form".to_owned()))
}

fn group(row: &Row) -> Result<NotificationGroup> {
    let kind: &str = at(row, 1)?;
    let object: &str = at(row, 2)?;
    let kind = NotificationKind::from_parts(kind, ContentId::parse(object))
        .ok_or_else(|| LedgerError::Failed(format!("{kind:?} of {object:?} is nothing to be notified of")))?;
    Ok(NotificationGroup {
        id: NotificationId(natural_at(row, 0)?),
        kind,
        seq: at(row, 3)?,
        position: NotificationPosition(natural_at(row, 10)?),
        people: user_ids(at(row, 9)?)?,
        count: natural_at(row, 4)?,
        created_at: natural_at(row, 5)?,
        updated_at: natural_at(row, 6)?,
        read: at(row, 7)?,
        seen: at(row, 8)?,
    })
}
