//! The standings of users.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::rows::user_id_at;
use super::{SqliteLedger, events, integer, jobs, natural, readable_page};
use crate::ledger::{Result, StandingChange, StandingOutcome, StandingStore, UserStanding, job_plan};
use crate::model::{PostId, Standing};

#[async_trait]
impl StandingStore for SqliteLedger {
    async fn set_standing(&self, change: &StandingChange) -> Result<StandingOutcome> {
        let change = change.clone();
        let outlet = self.outlet;
        self.write(move |db| set(db, &change, outlet)).await
    }

    async fn standings_after(&self, seq: u64, limit: usize) -> Result<Vec<UserStanding>> {
        self.read(move |db| {
            let sql = "SELECT seq, user, level, until FROM standings WHERE seq > ?1 ORDER BY seq";
            readable_page("standings", db.prepare_cached(sql)?.query([integer(seq)])?, limit, entry)
        })
        .await
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<UserStanding> {
    Ok(UserStanding {
        seq: natural(row.get(0)?),
        user: user_id_at(row, 1)?,
        standing: level(row, 2)?,
        until: row.get::<_, Option<i64>>(3)?.map(natural),
    })
}

fn level(row: &Row<'_>, column: usize) -> rusqlite::Result<Standing> {
    Standing::parse(row.get_ref(column)?.as_str()?)
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "no standing".into()))
}

fn set(db: &Connection, change: &StandingChange, outlet: bool) -> rusqlite::Result<StandingOutcome> {
    let user = change.user.as_str();
    if !db.prepare_cached("SELECT 1 FROM users WHERE id = ?1 AND erased_at IS NULL")?.exists([user])? {
        return Ok(StandingOutcome::NoUser);
    }
    let sql = "SELECT level, until, reason FROM standings WHERE user = ?1";
    let before = db.prepare_cached(sql)?.query_row([user], |row| {
        let until = row.get::<_, Option<i64>>(1)?.map(natural);
        Ok((level(row, 0)?, until, row.get::<_, Option<String>>(2)?))
    });
    let (standing, until, reason) = before.optional()?.unwrap_or_default();
    if standing == change.standing && until == change.until && reason == change.reason {
        return Ok(StandingOutcome::Unchanged);
    }
    db.prepare_cached("DELETE FROM standings WHERE user = ?1")?.execute([user])?;
    let sql = "INSERT INTO standings (user, level, reason, until, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![user, change.standing.as_str(), change.reason, change.until.map(integer), integer(change.at)];
    db.prepare_cached(sql)?.execute(row)?;
    events::append(db, job_plan::standing_event(change).as_ref(), change.at, outlet)?;
    if change.standing != Standing::Suspended {
        return Ok(StandingOutcome::Changed(None));
    }
    let work = newest_post(db, user)?.map(|post| job_plan::author_hidden(post, &change.user));
    let job = work.map(|work| jobs::create(db, work, change.at)).transpose()?;
    Ok(StandingOutcome::Changed(job))
}

fn newest_post(db: &Connection, author: &str) -> rusqlite::Result<Option<PostId>> {
    let sql = "SELECT id FROM posts INDEXED BY posts_author WHERE author = ?1 AND deleted_at IS NULL \
               ORDER BY id DESC LIMIT 1";
    let id: Option<i64> = db.prepare_cached(sql)?.query_row([author], |row| row.get(0)).optional()?;
    Ok(id.map(|id: i64| PostId(natural(id))))
}
