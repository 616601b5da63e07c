//! What people put between themselves and others.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::{PostgresLedger, at, id_at, integer, jobs, json_text, one, readable, texts};
use crate::ledger::{Barriers, Job, Lease, Result, Work};
use crate::model::{Barrier, Millis, Relation, UserId};

const BAR: &str = "SELECT feedline_bar($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const UNBAR: &str = "SELECT feedline_unbar($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// Six look-ups a pair, each in one partition. `OFFSET 0` keeps each a look-up: without it the planner may read a
/// whole table once, if it was small when the plan was made.
pub(super) const RELATIONS: &str = "\
    SELECT EXISTS (SELECT FROM follows WHERE follower = reader AND followee = author OFFSET 0),
           EXISTS (SELECT FROM follows WHERE follower = author AND followee = reader OFFSET 0),
           EXISTS (SELECT FROM barriers WHERE maker = author AND kind = 'hide' AND whom = reader OFFSET 0),
           EXISTS (SELECT FROM barriers WHERE maker = reader AND kind = 'mute' AND whom = author OFFSET 0),
           EXISTS (SELECT FROM barriers WHERE maker = reader AND kind = 'block' AND whom = author OFFSET 0),
           EXISTS (SELECT FROM barriers WHERE maker = author AND kind = 'block' AND whom = reader OFFSET 0)
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS pair (reader, author, place) ORDER BY place";

pub(super) const BARRED: &str = "\
    SELECT id FROM unnest($1::text[]) AS t (id)
    WHERE EXISTS (SELECT FROM barriers WHERE maker = id AND kind IN ('hide', 'block') OFFSET 0)
       OR EXISTS (SELECT FROM barred WHERE whom = id AND kind IN ('mute', 'block') OFFSET 0)";

#[async_trait]
impl Barriers for PostgresLedger {
    async fn bar(
        &self,
        barrier: Barrier,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>> {
        let part = |reader, author| Work::Part { reader, author };
        self.change(BAR, Change { barrier, maker, whom, part }, now, lease).await
    }

    async fn unbar(
        &self,
        barrier: Barrier,
        maker: &UserId,
        whom: &UserId,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>> {
        let part = |reader, author| Work::Follow { reader, author };
        self.change(UNBAR, Change { barrier, maker, whom, part }, now, lease).await
    }

    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let (readers, authors): (Vec<&str>, Vec<&str>) =
            pairs.iter().map(|(reader, author)| (reader.as_str(), author.as_str())).unzip();
        self.pool.read(RELATIONS, &[&readers, &authors]).await?.iter().map(relation).collect()
    }

    async fn barred_among(&self, authors: &[UserId]) -> Result<Vec<UserId>> {
        let mut wanted = texts(authors);
        wanted.sort_unstable();
        wanted.dedup();
        Ok(readable("barriers", &self.pool.read(BARRED, &[&wanted]).await?, |row| id_at(row, 0)))
    }
}

/// A barrier that goes up or down.
struct Change<'a> {
    barrier: Barrier,
    maker: &'a UserId,
    whom: &'a UserId,
    /// What is to be done with a reader's inbox and an author's posts.
    part: fn(UserId, UserId) -> Work,
}

impl Change<'_> {
    /// What is to be done, an inbox after the other.
    fn work(&self) -> Vec<(&UserId, &UserId, Work)> {
        let (mine, theirs) = ((self.maker, self.whom), (self.whom, self.maker));
        let inboxes = match self.barrier {
            Barrier::Mute => vec![mine],
            Barrier::Hide => vec![theirs],
            Barrier::Block => vec![mine, theirs],
        };
        let work =
            |(reader, author): (_, _)| (reader, author, (self.part)(UserId::clone(reader), UserId::clone(author)));
        inboxes.into_iter().map(work).collect()
    }
}

impl PostgresLedger {
    async fn change(
        &self,
        sql: &'static str,
        change: Change<'_>,
        now: Millis,
        lease: &Lease,
    ) -> Result<Option<Vec<Job>>> {
        let work = change.work();
        let readers: Vec<&str> = work.iter().map(|(reader, ..)| reader.as_str()).collect();
        let authors: Vec<&str> = work.iter().map(|(_, author, _)| author.as_str()).collect();
        let json = work.iter().map(|(.., work)| json_text(work)).collect::<Result<Vec<_>>>()?;
        let (kind, maker, whom) = (change.barrier.as_str(), change.maker.as_str(), change.whom.as_str());
        let (at_time, until) = (integer(now), integer(lease.millis()));
        let parameters: super::pool::Parameters<'_> =
            &[&kind, &maker, &whom, &at_time, &readers, &authors, &json, &&*lease.holder, &until];
        let rows = self.pool.write(sql, parameters).await?;
        let Some(made) = at::<Option<Vec<Option<i64>>>>(one(&rows)?, 0)? else { return Ok(None) };
        let made = made.into_iter().zip(work.into_iter().map(|(.., work)| work));
        Ok(Some(made.filter_map(|(id, work)| Some(jobs::made(id?, work, now))).collect()))
    }
}

fn relation(row: &Row) -> Result<Relation> {
    Ok(Relation {
        follows: at(row, 0)?,
        followed: at(row, 1)?,
        hidden: at(row, 2)?,
        muted: at(row, 3)?,
        blocks: at(row, 4)?,
        blocked: at(row, 5)?,
    })
}
