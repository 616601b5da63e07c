//! The pull log.

use std::cell::Cell;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::rows::{ids_json, user_id_at};
use super::topic_follows::names_json;
use super::{SqliteLedger, count, integer, natural, readable, readable_page};
use crate::ledger::{DueEntries, FanoutMode, JobId, LedgerError, PullLogEntry, PullLogStore, Result};
use crate::model::{Entry, ListId, Millis, UserId};

#[async_trait]
impl PullLogStore for SqliteLedger {
    async fn fanout_mode(&self, author: &UserId) -> Result<FanoutMode> {
        let author = author.clone();
        self.read(move |db| fanout_mode(db, &author)).await
    }

    async fn pull(&self, job: JobId, author: &UserId, entry: &Entry, repeated: bool, now: Millis) -> Result<u64> {
        let new = new_entry(author, entry, None, repeated, now)?;
        self.write(move |db| pull(db, job, &new)).await
    }

    async fn pull_by_topics(&self, author: &UserId, entry: &Entry, topics: &[String], now: Millis) -> Result<u64> {
        let new = new_entry(author, entry, Some(topics.to_vec()), true, now)?;
        self.write(move |db| pull_by_topics(db, &new)).await
    }

    async fn pulled_top(&self) -> Result<u64> {
        self.read(top).await
    }

    async fn pulled_after(&self, mark: u64, limit: usize) -> Result<Vec<PullLogEntry>> {
        self.read(move |db| after(db, mark, limit)).await
    }

    async fn pulled_for(&self, reader: &UserId, mark: u64, limit: usize) -> Result<DueEntries> {
        let reader = reader.clone();
        self.read(move |db| due(db, DUE, reader.to_string(), mark, limit)).await
    }

    async fn pulled_for_list(&self, list: ListId, mark: u64, limit: usize) -> Result<DueEntries> {
        self.read(move |db| due(db, DUE_FOR_LIST, integer(list.0), mark, limit)).await
    }

    async fn followers_among(&self, author: &UserId, users: &[UserId]) -> Result<Vec<UserId>> {
        let author = author.clone();
        let users = users.to_vec();
        self.read(move |db| followers_among(db, &author, &users)).await
    }

    async fn forget_pulled(&self, before: Millis, limit: usize) -> Result<usize> {
        self.write(move |db| forget(db, before, limit)).await
    }
}

fn fanout_mode(db: &Connection, author: &UserId) -> rusqlite::Result<FanoutMode> {
    let sql =
        "SELECT followers, EXISTS (SELECT 1 FROM pulled WHERE author = ?1 AND topics IS NULL) FROM users WHERE id = ?1";
    let mode = |row: &Row<'_>| Ok(FanoutMode { followers: natural(row.get(0)?), pulled: row.get(1)? });
    let found = db.prepare_cached(sql)?.query_row([author.as_str()], mode);
    found.optional().map(Option::unwrap_or_default)
}

/// An entry that has no mark yet.
fn new_entry(
    author: &UserId,
    entry: &Entry,
    topics: Option<Vec<String>>,
    repeated: bool,
    at: Millis,
) -> Result<PullLogEntry> {
    match entry.post() {
        Some(_) => Ok(PullLogEntry { mark: 0, author: author.clone(), topics, entry: entry.clone(), repeated, at }),
        None => Err(LedgerError::Failed("only what concerns a post is pulled".to_owned())),
    }
}

fn pull(db: &Connection, job: JobId, new: &PullLogEntry) -> rusqlite::Result<u64> {
    if let Some(mark) = insert(db, Some(job), new)? {
        return Ok(natural(mark));
    }
    db.prepare_cached("SELECT mark FROM pulled WHERE job = ?1")?
        .query_row([integer(job.0)], |row| row.get(0).map(natural))
}

fn pull_by_topics(db: &Connection, new: &PullLogEntry) -> rusqlite::Result<u64> {
    let mark = insert(db, None, new)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let sql = "INSERT INTO pulled_topics (topic, mark) SELECT DISTINCT value, ?2 FROM json_each(?1)";
    db.prepare_cached(sql)?.execute(params![new.topics.as_deref().map(names_json), mark])?;
    Ok(natural(mark))
}

/// Inserts an entry, unless the job has one. Returns its mark.
fn insert(db: &Connection, job: Option<JobId>, new: &PullLogEntry) -> rusqlite::Result<Option<i64>> {
    let (kind, _) = new.entry.encode();
    let sql = "INSERT INTO pulled (job, author, kind, post, repeated, at, topics) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
               ON CONFLICT (job) DO NOTHING RETURNING mark";
    let row = params![
        job.map(|job| integer(job.0)),
        new.author.as_str(),
        char::from(kind).to_string(),
        new.entry.post().map_or(0, |post| integer(post.0)),
        new.repeated,
        integer(new.at),
        new.topics.as_deref().map(names_json),
    ];
    db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()
}

fn top(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT coalesce(max(mark), 0) FROM pulled")?.query_row([], |row| row.get(0).map(natural))
}

fn after(db: &Connection, mark: u64, limit: usize) -> rusqlite::Result<Vec<PullLogEntry>> {
    let sql = "SELECT mark, kind, post, author, repeated, at, topics FROM pulled WHERE mark > ?1 ORDER BY mark";
    let pulled = |row: &Row<'_>| {
        Ok(PullLogEntry {
            entry: entry(row)?,
            mark: natural(row.get(0)?),
            author: user_id_at(row, 3)?,
            repeated: row.get(4)?,
            at: natural(row.get(5)?),
            topics: topics(row)?,
        })
    };
    readable_page("pulled", db.prepare_cached(sql)?.query([integer(mark)])?, limit, pulled)
}

/// Reads an entry from `kind, post` in the second and third column.
fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let kind = row.get_ref(1)?.as_bytes()?.first().copied().unwrap_or_default();
    let post: i64 = row.get(2)?;
    Entry::decode(kind, Bytes::from(post.to_string()))
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, "no kind of entry".into()))
}

/// Reads the topics in the last column of an entry.
fn topics(row: &Row<'_>) -> rusqlite::Result<Option<Vec<String>>> {
    let names: Option<String> = row.get(6)?;
    let names = names.map(|names| serde_json::from_str(&names)).transpose();
    names.map_err(|error| rusqlite::Error::FromSqlConversionFailure(6, Type::Text, error.into()))
}

/// One short index search for each followed user and topic, regardless of the length of the log.
const DUE: &str = "SELECT mark, kind, post FROM (\
        SELECT p.mark, p.kind, p.post FROM follows f INDEXED BY follows_edge \
        CROSS JOIN pulled p INDEXED BY pulled_author \
            ON p.author = f.followee AND p.mark > ?2 AND p.topics IS NULL \
        WHERE f.follower = ?1 \
        UNION \
        SELECT p.mark, p.kind, p.post FROM topic_follows f \
        CROSS JOIN pulled_topics t ON t.topic = f.topic AND t.mark > ?2 \
        CROSS JOIN pulled p ON p.mark = t.mark \
        WHERE f.follower = ?1\
    ) ORDER BY mark LIMIT ?3";

/// The same for each user and topic of a list.
const DUE_FOR_LIST: &str = "SELECT mark, kind, post FROM (\
        SELECT p.mark, p.kind, p.post FROM list_users m \
        CROSS JOIN pulled p INDEXED BY pulled_listed \
            ON p.author = m.member AND p.mark > ?2 AND p.topics IS NOT NULL \
        WHERE m.list = ?1 \
        UNION \
        SELECT p.mark, p.kind, p.post FROM list_topics m \
        CROSS JOIN pulled_topics t ON t.topic = m.topic AND t.mark > ?2 \
        CROSS JOIN pulled p ON p.mark = t.mark \
        WHERE m.list = ?1\
    ) ORDER BY mark LIMIT ?3";

fn due(db: &Connection, sql: &str, whose: impl ToSql, mark: u64, limit: usize) -> rusqlite::Result<DueEntries> {
    let snapshot = db.unchecked_transaction()?;
    let top = top(&snapshot)?.max(mark);
    if top == mark {
        return Ok(DueEntries { entries: Vec::new(), mark, more: false });
    }
    let mut statement = snapshot.prepare_cached(sql)?;
    let rows = statement.query(params![whose, integer(mark), count(limit)])?;
    // Entries that cannot be decoded count towards the limit, so that the page ends at the right mark.
    let found = Cell::new(0);
    let reached = Cell::new(top);
    let entries = readable("pulled", rows, |row| {
        found.set(found.get() + 1);
        reached.set(natural(row.get(0)?));
        entry(row)
    })?;
    let more = found.get() == limit;
    Ok(DueEntries { entries, mark: if more { reached.get() } else { top }, more })
}

/// The list is the outer loop: the other order would scan all followers.
const AMONG: &str = "SELECT f.follower FROM json_each(?2) u CROSS JOIN follows f INDEXED BY follows_edge \
    ON f.follower = u.value AND f.followee = ?1";

fn followers_among(db: &Connection, author: &UserId, users: &[UserId]) -> rusqlite::Result<Vec<UserId>> {
    let mut statement = db.prepare_cached(AMONG)?;
    readable("follows", statement.query(params![author.as_str(), ids_json(users)?])?, |row| user_id_at(row, 0))
}

fn forget(db: &Connection, before: Millis, limit: usize) -> rusqlite::Result<usize> {
    // Of the `limit` oldest entries, deletes those older than `before`.
    let old = "SELECT mark FROM (SELECT mark, at FROM pulled ORDER BY mark LIMIT ?2) WHERE at < ?1";
    let old_topics = format!(
        "DELETE FROM pulled_topics WHERE (topic, mark) IN \
         (SELECT value, mark FROM pulled, json_each(topics) WHERE mark IN ({old}) AND topics IS NOT NULL)"
    );
    db.prepare_cached(&old_topics)?.execute(params![integer(before), count(limit)])?;
    let old = format!("DELETE FROM pulled WHERE mark IN ({old})");
    db.prepare_cached(&old)?.execute(params![integer(before), count(limit)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::SqliteOptions;

    #[tokio::test]
    async fn pull_log_reads_use_indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [AMONG, DUE, DUE_FOR_LIST] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&explain)?;
                let bound = vec![1; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(bound), |row| row.get(3))?.collect()
            });
            let plan = plan.await.expect("a plan");
            let searches = plan.iter().filter(|step| step.starts_with("SEARCH")).count();
            let mut scans = plan.iter().filter(|step| step.starts_with("SCAN"));
            // They read the given list, or what the searches found.
            assert!(scans.all(|step| step.contains("VIRTUAL TABLE") || step.contains("subquery")), "{plan:?}");
            let both = plan.iter().any(|step| step.contains("follower=? AND followee=?") || step.contains("mark>?"));
            assert!(searches > 0 && both, "{plan:?}");
        }
    }
}
