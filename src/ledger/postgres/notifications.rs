//! Notifications, in groups. Functions of the database add and mark them: `functions/notifications.sql`.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, one, user_ids};
use super::pool::Parameters;
use super::rows::readable;
use crate::ledger::notifications::{MAX_GROUP_PEOPLE, MAX_NOTIFICATION_GROUPS};
use crate::ledger::{
    LedgerError, MarkOutcome, NotificationEvent, NotificationGroup, NotificationMark, NotificationStore, Result,
    UserNotifications,
};
use crate::model::{ContentId, Millis, NotificationId, NotificationKind, UserId};

/// The number of people that one call removes from dropped groups.
const CLEARED: i64 = 500;

/// The number of users whose notifications are written concurrently.
const MAX_CONCURRENT_USERS: usize = 4;

/// Returns the ids of the changed groups, in the order of their changes.
const NOTIFY: &str = "SELECT changed FROM feedline_notify($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

const MARK: &str = "SELECT feedline_mark_notifications($1, $2, $3)";

macro_rules! groups {
    ($which:literal) => {
        concat!(
            "SELECT n.id, n.kind, n.object, n.seq, n.people, n.created_at, n.updated_at, \
             n.seq <= m.read_upto, n.seq <= m.seen_upto, \
             ARRAY(SELECT person FROM notification_people p WHERE p.owner = $1 AND p.notification = n.id \
                   ORDER BY p.seq DESC LIMIT $2) \
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
    /// Writing the events and reading the changed groups are two round trips. A group that changes again in between is
    /// returned in its latest state.
    async fn notify(
        &self,
        to: &UserId,
        events: &[NotificationEvent],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<NotificationGroup>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = events.iter().map(|event| integer(event.id.0)).collect();
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
        let object = |event: &NotificationEvent| event.kind.object().map(ContentId::to_text).unwrap_or_default();
        let objects: Vec<String> = events.iter().map(object).collect();
        let people: Vec<&str> = events.iter().map(|event| event.by.as_str()).collect();
        let again: Vec<bool> = events.iter().map(|event| event.kind.is_new_each_time()).collect();
        let events: Vec<i64> = events.iter().map(|event| event.event).collect();
        let (at_time, recent) = (integer(now), integer(window));
        let rows = self
            .pool
            .write(
                NOTIFY,
                &[
                    &to.as_str(),
                    &ids,
                    &kinds,
                    &objects,
                    &people,
                    &again,
                    &events,
                    &at_time,
                    &recent,
                    &integer(MAX_NOTIFICATION_GROUPS),
                    &CLEARED,
                ],
            )
            .await?;
        let changed = rows.iter().map(|row| at::<i64>(row, 0)).collect::<Result<Vec<_>>>()?;
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let mut groups = self.groups(THESE, &[&to.as_str(), &count(MAX_GROUP_PEOPLE), &changed]).await?;
        groups.reverse();
        Ok(groups)
    }

    /// One transaction for each user, a few of them concurrently: no transaction holds locks while it waits for those
    /// of another user.
    async fn notify_many(
        &self,
        batch: &[UserNotifications],
        now: Millis,
        window: Millis,
    ) -> Result<Vec<(UserId, Vec<NotificationGroup>)>> {
        let note = |of: UserNotifications| async move {
            let groups = self.notify(&of.to, &of.events, now, window).await?;
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

    async fn unread_notifications(&self, user: &UserId, limit: usize) -> Result<Vec<NotificationGroup>> {
        self.groups(UNREAD, &[&user.as_str(), &count(MAX_GROUP_PEOPLE), &count(limit)]).await
    }

    async fn mark_notifications(
        &self,
        user: &UserId,
        upto: Option<NotificationId>,
        mark: NotificationMark,
    ) -> Result<MarkOutcome> {
        let upto = upto.map_or(0, |id| integer(id.0));
        let rows = self.pool.write(MARK, &[&user.as_str(), &upto, &(mark == NotificationMark::Read)]).await?;
        Ok(match at(one(&rows)?, 0)? {
            "anew" => MarkOutcome::Anew,
            "before" => MarkOutcome::Before,
            _ => MarkOutcome::Nothing,
        })
    }
}

impl PostgresLedger {
    async fn groups(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<NotificationGroup>> {
        Ok(readable("notifications", &self.pool.read(sql, parameters).await?, group))
    }
}

fn group(row: &Row) -> Result<NotificationGroup> {
    let (kind, object): (&str, &str) = (at(row, 1)?, at(row, 2)?);
    let kind = NotificationKind::from_parts(kind, ContentId::parse(object))
        .ok_or_else(|| LedgerError::Failed(format!("{kind:?} of {object:?} is nothing to be notified of")))?;
    Ok(NotificationGroup {
        id: NotificationId(natural_at(row, 0)?),
        kind,
        seq: at(row, 3)?,
        people: user_ids(at(row, 9)?)?,
        count: natural_at(row, 4)?,
        created_at: natural_at(row, 5)?,
        updated_at: natural_at(row, 6)?,
        read: at(row, 7)?,
        seen: at(row, 8)?,
    })
}
