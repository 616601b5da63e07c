//! The pull log.

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one, texts};
use super::rows::readable;
use crate::ledger::{DueEntries, FanoutMode, JobId, LedgerError, PullLogEntry, PullLogStore, Result};
use crate::model::{Entry, Millis, UserId};

/// The condition is a range in the order of the index; see [`DUE`].
pub(super) const FANOUT_MODE: &str = "\
    SELECT followers, (SELECT count(*) > 0 FROM (
        SELECT FROM pulled WHERE author >= $1 AND author <= $1 ORDER BY author, mark LIMIT 1
    ) p) FROM users WHERE id = $1";

const PULL: &str = "SELECT feedline_append_pulled($1, $2, $3, $4, $5, $6)";

const TOP: &str = "SELECT coalesce(max(mark), 0) FROM pulled";

pub(super) const AFTER: &str =
    "SELECT mark, kind, post, author, repeated, at FROM pulled WHERE mark > $1 ORDER BY mark LIMIT $2";

/// One short index search for each followee, regardless of the length of the log; none if the log has no new entries.
/// The condition is a range from (author, mark) to the end of the author, which only the index on both columns returns
/// in order. With `author = …` the planner may scan the whole log by mark, once for each followee. Each row contains
/// the end of the log. If no entry is due, the result is one row without an entry.
pub(super) const DUE: &str = "\
    WITH last AS MATERIALIZED (
        SELECT coalesce(max(mark), 0) AS mark FROM pulled
    ), due AS MATERIALIZED (
        SELECT new.kind, new.post, new.mark FROM follows CROSS JOIN LATERAL (
            SELECT kind, post, mark FROM pulled
            WHERE (author, mark) > (follows.followee, $2) AND author <= follows.followee
            ORDER BY author, mark LIMIT $3
        ) new
        WHERE follows.follower = $1 AND (SELECT mark FROM last) > $2 ORDER BY new.mark LIMIT $3
    )
    SELECT due.mark, due.kind, due.post, last.mark FROM last LEFT JOIN due ON true ORDER BY due.mark";

pub(super) const AMONG: &str = "SELECT follower FROM followers WHERE followee = $1 AND follower = ANY ($2)";

/// Of the `$2` oldest entries, deletes those older than `$1`.
const FORGET: &str = "\
    DELETE FROM pulled WHERE mark = ANY (ARRAY(
        SELECT mark FROM (SELECT mark, at FROM pulled ORDER BY mark LIMIT $2) oldest WHERE at < $1)) RETURNING 1";

#[async_trait]
impl PullLogStore for PostgresLedger {
    async fn fanout_mode(&self, author: &UserId) -> Result<FanoutMode> {
        let rows = self.pool.read(FANOUT_MODE, &[&author.as_str()]).await?;
        let fanout_mode = |row| Ok(FanoutMode { followers: natural_at(row, 0)?, pulled: at(row, 1)? });
        rows.first().map_or(Ok(FanoutMode::default()), fanout_mode)
    }

    async fn pull(&self, job: JobId, author: &UserId, entry: &Entry, repeated: bool, now: Millis) -> Result<u64> {
        let Some(post) = entry.post() else {
            return Err(LedgerError::Failed("only what concerns a post is pulled".to_owned()));
        };
        let (kind, _) = entry.encode();
        let kind = char::from(kind).to_string();
        let post = integer(post.0);
        let now = integer(now);
        let rows = self.pool.write(PULL, &[&integer(job.0), &author.as_str(), &kind, &post, &repeated, &now]).await?;
        natural_at(one(&rows)?, 0)
    }

    async fn pulled_top(&self) -> Result<u64> {
        natural_at(one(&self.pool.read(TOP, &[]).await?)?, 0)
    }

    async fn pulled_after(&self, mark: u64, limit: usize) -> Result<Vec<PullLogEntry>> {
        self.readable_page("pulled", AFTER, &[&integer(mark)], limit, pulled).await
    }

    async fn pulled_for(&self, reader: &UserId, mark: u64, limit: usize) -> Result<DueEntries> {
        let rows = self.pool.read(DUE, &[&reader.as_str(), &integer(mark), &count(limit)]).await?;
        let end = natural_at(one(&rows)?, 3)?.max(mark);
        let mut found = 0;
        let mut reached = end;
        for row in &rows {
            if let Some(place) = at::<Option<i64>>(row, 0)? {
                found += 1;
                reached = u64::try_from(place).unwrap_or_default();
            }
        }
        let more = end > mark && found == limit;
        let entries = readable("pulled", &rows[..found], entry);
        Ok(DueEntries { entries, mark: if more { reached } else { end }, more })
    }

    async fn followers_among(&self, author: &UserId, users: &[UserId]) -> Result<Vec<UserId>> {
        let rows = self.pool.read(AMONG, &[&author.as_str(), &texts(users)]).await?;
        Ok(readable("followers", &rows, |row| id_at(row, 0)))
    }

    async fn forget_pulled(&self, before: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET, &[&integer(before), &count(limit)]).await?.len())
    }
}

/// Reads an entry from `kind, post` in the second and third column.
fn entry(row: &Row) -> Result<Entry> {
    let kind: &str = at(row, 1)?;
    let post: i64 = at(row, 2)?;
    let letter = kind.bytes().next().unwrap_or_default();
    Entry::decode(letter, Bytes::from(post.to_string()))
        .ok_or_else(|| LedgerError::Failed(format!("{kind:?} is no kind of entry")))
}

/// Reads `mark, kind, post, author, repeated, at`.
fn pulled(row: &Row) -> Result<PullLogEntry> {
    Ok(PullLogEntry {
        entry: entry(row)?,
        mark: natural_at(row, 0)?,
        author: id_at(row, 3)?,
        repeated: at(row, 4)?,
        at: natural_at(row, 5)?,
    })
}
