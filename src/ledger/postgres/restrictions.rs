//! Restrictions between users.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, id_at, integer, natural_at, one, texts, user};
use super::events::NewEvent;
use super::rows::readable;
use super::statements::Parameters;
use super::{PostgresLedger, jobs, relations};
use crate::ledger::edges::Edge;
use crate::ledger::{EdgeWork, NewJob, RestrictedAuthor, RestrictedUser, RestrictionStore, Result, Work, job_plan};
use crate::model::{DomainEvent, Millis, Relation, Restriction, UserId};

/// Writes an event, unless it is NULL, and one for each follow that ends.
const RESTRICT: &str =
    "SELECT feedline_restrict_with_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

const UNRESTRICT: &str = "SELECT feedline_unrestrict($1, $2, $3, $4, $5, $6, $7, $8)";

pub(super) const DUE_MUTES: &str =
    "SELECT maker, target FROM restrictions WHERE until <= $1 AND kind = 'mute' ORDER BY until LIMIT $2";

pub(super) const RESTRICTED: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.at
    FROM (
        SELECT target, at FROM restrictions WHERE maker = $1 AND kind = $2 AND (at, target) < ($3, $4)
        ORDER BY at DESC, target DESC LIMIT $5
    ) r
    JOIN users u ON u.id = r.target ORDER BY r.at DESC, r.target DESC";

pub(super) const WITH_RESTRICTIONS: &str = "\
    SELECT * FROM (
        SELECT t.id, EXISTS (SELECT FROM restrictions WHERE maker = t.id AND kind = 'hide' OFFSET 0)
                OR EXISTS (SELECT FROM restrictions WHERE maker = t.id AND kind = 'block' OFFSET 0)
                OR EXISTS (
                    SELECT FROM restricted_by
                    WHERE target = t.id AND kind IN ('mute', 'block', 'reposts', 'listed') OFFSET 0)
                AS restricted,
            EXISTS (SELECT FROM users WHERE users.id = t.id AND users.locked OFFSET 0) AS locked
        FROM unnest($1::text[]) AS t (id)
    ) author WHERE restricted OR locked";

#[async_trait]
impl RestrictionStore for PostgresLedger {
    async fn restrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>> {
        self.add_restriction(restriction, maker, target, now, None).await
    }

    async fn mute(
        &self,
        maker: &UserId,
        target: &UserId,
        now: Millis,
        until: Option<Millis>,
    ) -> Result<Option<Vec<NewJob>>> {
        self.add_restriction(Restriction::Mute, maker, target, now, until).await
    }

    async fn unrestrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>> {
        self.end_restriction(restriction, maker, target, now, None).await
    }

    async fn due_mutes(&self, now: Millis, limit: usize) -> Result<Vec<(UserId, UserId)>> {
        let due = |row: &Row| Ok((id_at(row, 0)?, id_at(row, 1)?));
        self.readable_page("restrictions", DUE_MUTES, &[&integer(now)], limit, due).await
    }

    async fn end_due_mute(&self, maker: &UserId, target: &UserId, now: Millis) -> Result<Option<Vec<NewJob>>> {
        self.end_restriction(Restriction::Mute, maker, target, now, Some(now)).await
    }

    async fn restricted(
        &self,
        restriction: Restriction,
        maker: &UserId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<RestrictedUser>> {
        let (at_time, target) = after.map_or((i64::MAX, ""), |(at, target)| (integer(at), target.as_str()));
        let wanted: Parameters<'_> = &[&maker.as_str(), &restriction.as_str(), &at_time, &target];
        let found = |row: &Row| Ok(RestrictedUser { user: user(row)?, at: natural_at(row, 4)? });
        self.readable_page("users", RESTRICTED, wanted, limit, found).await
    }

    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let (readers, authors) = relations::columns(pairs);
        self.pool.read(relations::RELATIONS, &[&readers, &authors]).await?.iter().map(relations::relation).collect()
    }

    async fn restricted_authors(&self, authors: &[UserId]) -> Result<Vec<RestrictedAuthor>> {
        let mut wanted = texts(authors);
        wanted.sort_unstable();
        wanted.dedup();
        let restricted =
            |row: &Row| Ok(RestrictedAuthor { author: id_at(row, 0)?, restricted: at(row, 1)?, locked: at(row, 2)? });
        Ok(readable("restrictions", &self.pool.read(WITH_RESTRICTIONS, &[&wanted]).await?, restricted))
    }
}

impl PostgresLedger {
    /// Adds a restriction that ends by itself at `until` (`None`: never).
    async fn add_restriction(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
        until: Option<Millis>,
    ) -> Result<Option<Vec<NewJob>>> {
        let edges = job_plan::restricted_inboxes(restriction, maker, target);
        let unfollowed: Vec<DomainEvent> = edges.iter().map(Edge::unfollowed).collect();
        let (unfollowed, unfollowed_pending) = NewEvent::all(&unfollowed, self.outlet)?;
        let ended: Vec<DomainEvent> = edges.iter().map(Edge::request_ended).collect();
        let (ended, ended_pending) = NewEvent::all(&ended, self.outlet)?;
        let event = NewEvent::new(job_plan::restriction_event(restriction, maker, target).as_ref(), self.outlet)?;
        let inboxes = InboxJobs::new(&edges, job_plan::detachment(restriction))?;
        let parameters: Parameters<'_> = &[
            &restriction.as_str(),
            &maker.as_str(),
            &target.as_str(),
            &inboxes.readers,
            &inboxes.authors,
            &job_plan::ends_follows(restriction),
            &inboxes.jobs,
            &integer(now),
            &unfollowed,
            &unfollowed_pending.first().copied().unwrap_or_default(),
            &event.text,
            &event.pending,
            &until.map(integer),
            &ended,
            &ended_pending,
        ];
        let rows = self.pool.write(RESTRICT, parameters).await?;
        inboxes.submitted(&rows, now)
    }

    /// Ends a restriction. `due`: only if it ends by itself, at this time at the latest.
    async fn end_restriction(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
        due: Option<Millis>,
    ) -> Result<Option<Vec<NewJob>>> {
        let inboxes = job_plan::restricted_inboxes(restriction, maker, target);
        let inboxes = InboxJobs::new(&inboxes, EdgeWork::Follow)?;
        let parameters: Parameters<'_> = &[
            &restriction.as_str(),
            &maker.as_str(),
            &target.as_str(),
            &inboxes.readers,
            &inboxes.authors,
            &inboxes.jobs,
            &integer(now),
            &due.map(integer),
        ];
        let rows = self.pool.write(UNRESTRICT, parameters).await?;
        inboxes.submitted(&rows, now)
    }
}

/// The inboxes that a restriction concerns and their jobs, as parameters of the functions of the database.
pub(super) struct InboxJobs<'a> {
    pub(super) readers: Vec<&'a str>,
    pub(super) authors: Vec<&'a str>,
    work: Vec<Work>,
    pub(super) jobs: Vec<String>,
}

impl<'a> InboxJobs<'a> {
    pub(super) fn new(inboxes: &'a [Edge], change: EdgeWork) -> Result<Self> {
        let work: Vec<Work> = inboxes.iter().map(|inbox| job_plan::edge_changed(change, inbox)).collect();
        Ok(Self {
            readers: inboxes.iter().map(|inbox| inbox.reader.as_str()).collect(),
            authors: inboxes.iter().map(|inbox| inbox.author.as_str()).collect(),
            jobs: work.iter().map(jobs::new_job).collect::<Result<_>>()?,
            work,
        })
    }

    /// The jobs that a function submitted, from the first column of its result.
    pub(super) fn submitted(self, rows: &[Row], now: Millis) -> Result<Option<Vec<NewJob>>> {
        let Some(numbers) = at::<Option<Vec<i64>>>(one(rows)?, 0)? else { return Ok(None) };
        let made = numbers.chunks(2).zip(self.work).filter(|(numbers, _)| numbers[0] > 0);
        made.map(|(numbers, work)| jobs::submitted(numbers, work, now)).collect::<Result<_>>().map(Some)
    }
}
