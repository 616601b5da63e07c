//! The pull log.

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one, texts};
use super::rows::readable;
use super::statements::Parameters;
use super::topic_follows::names;
use crate::ledger::{DueEntries, FanoutMode, JobId, LedgerError, PullLogEntry, PullLogStore, Result};
use crate::model::{Entry, ListId, Millis, UserId};

/// The condition is a range in the order of the index; see [`DUE`].
pub(super) const FANOUT_MODE: &str = "\
    SELECT followers, (SELECT count(*) > 0 FROM (
        SELECT FROM pulled WHERE author >= $1 AND author <= $1 AND topics IS NULL ORDER BY author, mark LIMIT 1
    ) p) FROM users WHERE id = $1";

const PULL: &str = "SELECT feedline_append_pulled($1, $2, $3, $4, $5, $6)";

const PULL_BY_TOPICS: &str = "SELECT feedline_append_pulled_by_topics($1, $2, $3, $4, $5)";

const TOP: &str = "SELECT coalesce(max(mark), 0) FROM pulled";

pub(super) const AFTER: &str =
    "SELECT mark, kind, post, author, repeated, at, topics FROM pulled WHERE mark > $1 ORDER BY mark LIMIT $2";

/// One short index search for each followed user and topic, regardless of the length of the log; none if the log has no
/// new entries.
/// The condition is a range from (author, mark) to the end of the author, which only the index on both columns returns
/// in order. With `author = …` the planner may scan the whole log by mark, once for each followee. Each row contains
/// the end of the log. If no entry is due, the result is one row without an entry.
pub(super) const DUE: &str = "\
    WITH last AS MATERIALIZED (
        SELECT coalesce(max(mark), 0) AS mark FROM pulled
    ), by_author AS MATERIALIZED (
        SELECT new.kind, new.post, new.mark FROM follows CROSS JOIN LATERAL (
            SELECT kind, post, mark FROM pulled
            WHERE (author, mark) > (follows.followee, $2) AND author <= follows.followee AND topics IS NULL
            ORDER BY author, mark LIMIT $3
        ) new
        WHERE follows.follower = $1 AND (SELECT mark FROM last) > $2 ORDER BY new.mark LIMIT $3
    ), by_topic AS MATERIALIZED (
        SELECT DISTINCT new.mark FROM topic_follows CROSS JOIN LATERAL (
            SELECT mark FROM pulled_topics
            WHERE (topic, mark) > (topic_follows.topic, $2) AND topic <= topic_follows.topic
            ORDER BY topic, mark LIMIT $3
        ) new
        WHERE topic_follows.follower = $1 AND (SELECT mark FROM last) > $2 ORDER BY new.mark LIMIT $3
    ), due AS MATERIALIZED (
        SELECT kind, post, mark FROM (
            SELECT kind, post, mark FROM by_author
            UNION ALL
            SELECT kind, post, mark FROM by_topic CROSS JOIN LATERAL (
                SELECT kind, post FROM pulled WHERE pulled.mark = by_topic.mark OFFSET 0
            ) entry
        ) new ORDER BY mark LIMIT $3
    )
    SELECT due.mark, due.kind, due.post, last.mark FROM last LEFT JOIN due ON true ORDER BY due.mark";

/// The same for each user and topic of a list.
pub(super) const DUE_FOR_LIST: &str = "\
    WITH last AS MATERIALIZED (
        SELECT coalesce(max(mark), 0) AS mark FROM pulled
    ), new AS MATERIALIZED (
        SELECT new.mark FROM list_users m CROSS JOIN LATERAL (
            SELECT mark FROM pulled
            WHERE (author, mark) > (m.member, $2) AND author <= m.member AND topics IS NOT NULL
            ORDER BY author, mark LIMIT $3
        ) new
        WHERE m.list = $1 AND (SELECT mark FROM last) > $2
        UNION
        SELECT new.mark FROM list_topics m CROSS JOIN LATERAL (
            SELECT mark FROM pulled_topics
            WHERE (topic, mark) > (m.topic, $2) AND topic <= m.topic
            ORDER BY topic, mark LIMIT $3
        ) new
        WHERE m.list = $1 AND (SELECT mark FROM last) > $2
    ), due AS MATERIALIZED (
        SELECT entry.kind, entry.post, first.mark FROM (SELECT mark FROM new ORDER BY mark LIMIT $3) first
        CROSS JOIN LATERAL (SELECT kind, post FROM pulled WHERE pulled.mark = first.mark OFFSET 0) entry
    )
    SELECT due.mark, due.kind, due.post, last.mark FROM last LEFT JOIN due ON true ORDER BY due.mark";

pub(super) const AMONG: &str = "SELECT follower FROM followers WHERE followee = $1 AND follower = ANY ($2)";

/// Of the `$2` oldest entries, deletes those older than `$1`.
const FORGET: &str = "\
    WITH old AS (
        DELETE FROM pulled WHERE mark = ANY (ARRAY(
            SELECT mark FROM (SELECT mark, at FROM pulled ORDER BY mark LIMIT $2) oldest WHERE at < $1))
        RETURNING mark, topics
    ), of_topics AS (
        DELETE FROM pulled_topics USING old
        WHERE pulled_topics.topic = ANY (old.topics) AND pulled_topics.mark = old.mark
    )
    SELECT 1 FROM old";

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

    async fn pull_by_topics(&self, author: &UserId, entry: &Entry, topics: &[String], now: Millis) -> Result<u64> {
        let Some(post) = entry.post() else {
            return Err(LedgerError::Failed("only what concerns a post is pulled".to_owned()));
        };
        let (kind, _) = entry.encode();
        let kind = char::from(kind).to_string();
        let post = integer(post.0);
        let parameters: Parameters<'_> = &[&author.as_str(), &kind, &post, &names(topics), &integer(now)];
        natural_at(one(&self.pool.write(PULL_BY_TOPICS, parameters).await?)?, 0)
    }

    async fn pulled_top(&self) -> Result<u64> {
        natural_at(one(&self.pool.read(TOP, &[]).await?)?, 0)
    }

    async fn pulled_after(&self, mark: u64, limit: usize) -> Result<Vec<PullLogEntry>> {
        self.readable_page("pulled", AFTER, &[&integer(mark)], limit, pulled).await
    }

    async fn pulled_for(&self, reader: &UserId, mark: u64, limit: usize) -> Result<DueEntries> {
        let rows = self.pool.read(DUE, &[&reader.as_str(), &integer(mark), &count(limit)]).await?;
        due(&rows, mark, limit)
    }

    async fn pulled_for_list(&self, list: ListId, mark: u64, limit: usize) -> Result<DueEntries> {
        let rows = self.pool.read(DUE_FOR_LIST, &[&integer(list.0), &integer(mark), &count(limit)]).await?;
        due(&rows, mark, limit)
    }

    async fn followers_among(&self, author: &UserId, users: &[UserId]) -> Result<Vec<UserId>> {
        let rows = self.pool.read(AMONG, &[&author.as_str(), &texts(users)]).await?;
        Ok(readable("followers", &rows, |row| id_at(row, 0)))
    }

    async fn forget_pulled(&self, before: Millis, limit: usize) -> Result<usize> {
        Ok(self.pool.write(FORGET, &[&integer(before), &count(limit)]).await?.len())
    }
}

/// Reads the result of [`DUE`] and [`DUE_FOR_LIST`].
fn due(rows: &[Row], mark: u64, limit: usize) -> Result<DueEntries> {
    let end = natural_at(one(rows)?, 3)?.max(mark);
    let mut found = 0;
    let mut reached = end;
    for row in rows {
        if let Some(place) = at::<Option<i64>>(row, 0)? {
            found += 1;
            reached = u64::try_from(place).unwrap_or_default();
        }
    }
    let more = end > mark && found == limit;
    let entries = readable("pulled", &rows[..found], entry);
    Ok(DueEntries { entries, mark: if more { reached } else { end }, more })
}

/// Reads an entry from `kind, post` in the second and third column.
fn entry(row: &Row) -> Result<Entry> {
    let kind: &str = at(row, 1)?;
    let post: i64 = at(row, 2)?;
    let letter = kind.bytes().next().unwrap_or_default();
    Entry::decode(letter, Bytes::from(post.to_string()))
        .ok_or_else(|| LedgerError::Failed(format!("{kind:?} is no kind of entry")))
}

/// Reads `mark, kind, post, author, repeated, at, topics`.
fn pulled(row: &Row) -> Result<PullLogEntry> {
    Ok(PullLogEntry {
        entry: entry(row)?,
        mark: natural_at(row, 0)?,
        author: id_at(row, 3)?,
        repeated: at(row, 4)?,
        at: natural_at(row, 5)?,
        topics: at(row, 6)?,
    })
}
