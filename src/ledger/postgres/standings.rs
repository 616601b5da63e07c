//! The standings of users.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, id_at, integer, natural, natural_at, one, plain};
use super::events::{NewEvent, with_event};
use super::statements::Parameters;
use super::{PostgresLedger, jobs};
use crate::ledger::{LedgerError, Result, StandingChange, StandingOutcome, StandingStore, UserStanding, job_plan};
use crate::model::{PostId, Standing};

const SET: &str = with_event!(
    "outcome, job",
    "feedline_set_standing($1, $2, $3, $4, $5, $6)",
    "outcome = 'changed'",
    "$5",
    "$7",
    "$8"
);

pub(super) const AFTER: &str = "SELECT seq, owner, level, until FROM standings WHERE seq > $1 ORDER BY seq LIMIT $2";

#[async_trait]
impl StandingStore for PostgresLedger {
    /// The job names a post of the author. The call reads it first: any post will do.
    async fn set_standing(&self, change: &StandingChange) -> Result<StandingOutcome> {
        let user = change.user.as_str();
        let work = match change.standing {
            Standing::Suspended => {
                let newest = self.pool.read(super::posts::BY_AUTHOR, &[&user, &i64::MAX, &1_i64]).await?;
                let post = newest.first().map(|row| natural_at(row, 0).map(PostId)).transpose()?;
                post.map(|post| job_plan::author_hidden(post, &change.user))
            }
            Standing::Active | Standing::Limited => None,
        };
        let job = work.as_ref().map(jobs::new_job).transpose()?;
        let event = NewEvent::new(job_plan::standing_event(change).as_ref(), self.outlet)?;
        let reason = change.reason.as_deref().map(plain);
        let until = change.until.map(integer);
        let now = integer(change.at);
        let level = change.standing.as_str();
        let parameters: Parameters<'_> = &[&user, &level, &reason, &until, &now, &job, &event.text, &event.pending];
        let rows = self.pool.write(SET, parameters).await?;
        let row = one(&rows)?;
        match (at(row, 0)?, work) {
            ("changed", Some(work)) => {
                let job = jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, change.at)?;
                Ok(StandingOutcome::Changed(Some(job)))
            }
            ("changed", None) => Ok(StandingOutcome::Changed(None)),
            ("unchanged", _) => Ok(StandingOutcome::Unchanged),
            _ => Ok(StandingOutcome::NoUser),
        }
    }

    async fn standings_after(&self, seq: u64, limit: usize) -> Result<Vec<UserStanding>> {
        self.readable_page("standings", AFTER, &[&integer(seq)], limit, entry).await
    }
}

fn entry(row: &Row) -> Result<UserStanding> {
    let level: &str = at(row, 2)?;
    let standing = Standing::parse(level).ok_or_else(|| LedgerError::Failed(format!("{level:?} is not a standing")))?;
    let until = at::<Option<i64>>(row, 3)?.map(natural);
    Ok(UserStanding { seq: natural_at(row, 0)?, user: id_at(row, 1)?, standing, until })
}
