//! Notifications, in groups. Functions of the database add and mark them: `functions/notifications.sql`.

use std::collections::HashMap;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, json_text, natural, natural_at, one, user_ids};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::notifications::{MAX_GROUP_COMMENTS, MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS};
use crate::ledger::{
    ClearPlan, EndedNotification, EventConsumer, LedgerError, MarkUpTo, NotificationEvent, NotificationGroup,
    NotificationMark, NotificationStore, PushPlan, RemovedNotification, Result, UserNotifications,
};
use crate::model::{
    AppNotification, CommentId, DomainEvent, Millis, NotificationId, NotificationKind, NotificationPosition, PostId,
    UserId,
};

/// The number of people that one call removes from dropped groups.
const CLEARED: i64 = 500;

/// The number of people of each old group that one call removes.
const CLEARED_OF_OLD: i64 = 50;

/// The number of users whose notifications are written concurrently.
const MAX_CONCURRENT_USERS: usize = 4;

/// Stores events, queues pushes at `$13` (NULL: none), and writes an event for the outlet for each changed group: `$15`
/// is the beginning of its JSON, `$16` its consumers (0: none). `$17` has the contents of the application's events, and
/// NULL for others. Returns the changed groups, in the order of their changes.
const NOTIFY: &str = "\
    WITH answer AS MATERIALIZED (
        SELECT changed, place FROM feedline_notify_with_contents(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $17
        ) WITH ORDINALITY AS made (changed, place)
    ), reported AS (
        INSERT INTO events (at, event, pending)
        SELECT $8::bigint, $15::text || changed || '}}', $16::int FROM answer WHERE $16::int <> 0 ORDER BY place
    )
    SELECT changed FROM answer ORDER BY place";

/// Also looks at groups that are gone and were queued for devices.
const NEWEST: &str = "\
    SELECT greatest((SELECT id FROM notifications WHERE owner = $1 ORDER BY id DESC LIMIT 1),
        (SELECT max(item) FROM push_queue WHERE owner = $1 AND kind NOT IN ('post', 'clear')), 0)";

/// Marks, and queues pushes that clear it on the other devices at `$7` (NULL: none).
const MARK: &str = "\
    SELECT upto, CASE WHEN upto IS NOT NULL AND $7::bigint IS NOT NULL
        THEN feedline_queue_clears($1, $5, NULL, NULL, $6, $7)::text END
    FROM feedline_mark_notifications($1, $2, $3, $4) AS marked (upto)";

macro_rules! groups {
    ($which:literal) => {
        concat!(
            "SELECT n.id, n.kind, n.object, n.seq, n.people, n.created_at, n.updated_at, \
             n.seq <= m.read_upto, n.seq <= m.seen_upto, \
             ARRAY(SELECT concat_ws(' ', person, array_to_string(comments, ' ')) FROM notification_people p \
                   WHERE p.owner = $1 AND p.notification = n.id AND NOT p.ended ORDER BY p.seq DESC LIMIT $2), \
             n.position, n.place, \
             CASE WHEN n.kind = 'app' THEN \
                 (SELECT content FROM app_notifications a WHERE a.owner = $1 AND a.object = n.object) END \
             FROM (SELECT read_upto, seen_upto FROM notified WHERE owner = $1) m \
             CROSS JOIN LATERAL (SELECT * FROM notifications WHERE owner = $1 AND ",
            $which,
            ") n ORDER BY n.place DESC"
        )
    };
}

pub(super) const LIST: &str = groups!("place < $3 AND people > 0 ORDER BY place DESC LIMIT $4");

/// At most one group has its place at or below the mark, and its last event above.
pub(super) const UNREAD: &str = groups!(
    "place >= coalesce(
        (SELECT max(place) FROM notifications WHERE owner = $1 AND place <= m.read_upto), 0)
     AND seq > m.read_upto AND people > 0 ORDER BY place DESC LIMIT $3"
);

const THESE: &str = groups!("id = ANY ($3) AND people > 0");

const END: &str = "SELECT DISTINCT notified_user, changed FROM feedline_end_notifications($1, $2, $3, $4, $5)";

const REMOVE_OLD: &str = "SELECT notified_user, removed, people FROM feedline_remove_old_notifications($1, $2, $3)";

/// The groups about the comments on a post: those of their authors, and of the users that they mention.
const UNDER: &str = "\
    WITH written AS MATERIALIZED (
        SELECT id, author, mentions FROM comments WHERE post = $1 AND author IS NOT NULL LIMIT $2
    ), concerned AS (
        SELECT author AS owner, kind, 'c' || id AS object FROM written
        CROSS JOIN (VALUES ('like'), ('reply')) AS kinds (kind)
        UNION ALL SELECT lower(mentioned), 'mention', 'c' || id
        FROM written CROSS JOIN unnest(mentions) AS t (mentioned)
    )
    SELECT concerned.owner, n.id FROM concerned
    CROSS JOIN LATERAL (
        SELECT id FROM notifications WHERE owner = concerned.owner AND kind = concerned.kind
            AND object = concerned.object AND people > 0 OFFSET 0
    ) n LIMIT $2";

const BY: &str = "\
    SELECT n.id FROM notifications n WHERE n.owner = $1 AND n.people > 0 AND EXISTS (
        SELECT FROM notification_people p WHERE p.owner = $1 AND p.notification = n.id AND p.person = $2
            AND NOT p.ended OFFSET 0
    ) ORDER BY n.place DESC LIMIT $3";

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

    async fn end_notifications(&self, ended: &[EndedNotification]) -> Result<Vec<(UserId, NotificationId)>> {
        let owners: Vec<&str> = ended.iter().map(|cause| cause.to.as_str()).collect();
        let kinds: Vec<&str> = ended.iter().map(|cause| cause.kind.name()).collect();
        let objects: Vec<String> = ended.iter().map(|cause| cause.kind.object_text()).collect();
        let people: Vec<Option<&str>> = ended.iter().map(|cause| cause.by.as_ref().map(UserId::as_str)).collect();
        let comments: Vec<i64> = ended.iter().map(|cause| cause.comment.map_or(0, |id| integer(id.0))).collect();
        let rows = self.pool.write(END, &[&owners, &kinds, &objects, &people, &comments]).await?;
        rows.iter().map(|row| Ok((id_at(row, 0)?, NotificationId(natural_at(row, 1)?)))).collect()
    }

    async fn remove_old_notifications(&self, before: Millis, limit: usize) -> Result<Vec<RemovedNotification>> {
        let rows = self.pool.write(REMOVE_OLD, &[&integer(before), &count(limit), &CLEARED_OF_OLD]).await?;
        let removed = |row: &Row| {
            let id = NotificationId(natural_at(row, 1)?);
            Ok(RemovedNotification { owner: id_at(row, 0)?, id, was_listed: natural_at(row, 2)? > 0 })
        };
        rows.iter().map(removed).collect()
    }

    async fn notifications_under(&self, post: PostId, limit: usize) -> Result<Vec<(UserId, NotificationId)>> {
        let rows = self.pool.read(UNDER, &[&integer(post.0), &count(limit)]).await?;
        Ok(readable("notifications", &rows, |row| Ok((id_at(row, 0)?, NotificationId(natural_at(row, 1)?)))))
    }

    async fn notifications_by(&self, user: &UserId, person: &UserId, limit: usize) -> Result<Vec<NotificationId>> {
        let rows = self.pool.read(BY, &[&user.as_str(), &person.as_str(), &count(limit)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(NotificationId)).collect()
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
        Ok(Some(natural_at(one(&rows)?, 0).map(NotificationId)?).filter(|id| id.0 > 0))
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
        // Of a group, the position is looked up: without one, such as that of id 0, nothing is marked.
        let position = match upto {
            MarkUpTo::Everything => i64::MAX,
            MarkUpTo::Position(position) => integer(position.0),
            MarkUpTo::Group(_) => 0,
        };
        let is_read = mark == NotificationMark::Read;
        let session = clear.and_then(|clear| clear.session.as_ref());
        let now = clear.map_or(0, |clear| integer(clear.now));
        let due_at = clear.map(|clear| integer(clear.due_at));
        let parameters: Parameters<'_> = &[&user.as_str(), &group, &position, &is_read, &session, &now, &due_at];
        let rows = self.pool.write(MARK, parameters).await?;
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
        let objects: Vec<String> = events.iter().map(|event| event.kind.object_text()).collect();
        let people: Vec<&str> = events.iter().map(|event| event.by.as_str()).collect();
        let again: Vec<bool> = events.iter().map(|event| event.kind.is_new_each_time()).collect();
        let comments: Vec<i64> = events.iter().map(|event| event.comment.map_or(0, |id| integer(id.0))).collect();
        let content =
            |event: &NotificationEvent| event.content.as_ref().map(|content| json_text(&**content)).transpose();
        let contents = events.iter().map(content).collect::<Result<Vec<_>>>()?;
        let events: Vec<i64> = events.iter().map(|event| event.event).collect();
        let at_time = integer(now);
        let recent = integer(window);
        let kept = integer(MAX_NOTIFICATION_GROUPS);
        let kept_comments = i32::try_from(MAX_GROUP_COMMENTS).unwrap_or(i32::MAX);
        let user = to.as_str();
        let due = pushes.map(|plan| integer(now.saturating_add(plan.grace)));
        let digest = pushes.map_or(0, |plan| integer(plan.digest));
        let event = notified_prefix(to)?;
        let pending = if self.outlet { EventConsumer::Outlet.bit() } else { 0 };
        let parameters: Parameters<'_> = &[
            &user,
            &kinds,
            &objects,
            &people,
            &again,
            &events,
            &comments,
            &at_time,
            &recent,
            &kept,
            &CLEARED,
            &kept_comments,
            &due,
            &digest,
            &event,
            &pending,
            &contents,
        ];
        let rows = self.pool.write(NOTIFY, parameters).await?;
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
    let kind = NotificationKind::parse(kind, object)
        .ok_or_else(|| LedgerError::Failed(format!("{kind:?} of {object:?} is nothing to be notified of")))?;
    // Each is a person, and the numbers of their comments.
    let members: Vec<Vec<&str>> = at::<Vec<&str>>(row, 9)?.into_iter().map(|text| text.split(' ').collect()).collect();
    let people = user_ids(members.iter().filter_map(|member| member.first().copied()).collect())?;
    let mut comments = HashMap::new();
    for (person, member) in people.iter().zip(&members).filter(|(_, member)| member.len() > 1) {
        comments.insert(person.clone(), member.iter().skip(1).copied().filter_map(CommentId::parse).collect());
    }
    Ok(NotificationGroup {
        id: NotificationId(natural_at(row, 0)?),
        kind,
        seq: at(row, 3)?,
        position: NotificationPosition(natural_at(row, 10)?),
        place: at(row, 11)?,
        people,
        comments,
        count: natural_at(row, 4)?,
        created_at: natural_at(row, 5)?,
        updated_at: natural_at(row, 6)?,
        read: at(row, 7)?,
        seen: at(row, 8)?,
        content: at::<Option<&str>>(row, 12)?.map(app_notification).transpose()?,
    })
}

fn app_notification(json: &str) -> Result<AppNotification> {
    serde_json::from_str(json)
        .map_err(|error| LedgerError::Failed(format!("a notification of the application: {error}")))
}
