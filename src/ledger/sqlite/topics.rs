//! Topics: their posts, and their order by latest activity.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::post_id_at;
use super::{SqliteLedger, count, integer, natural, open_requests};
use crate::ledger::{MAX_MOVED_TOPICS, Result, Topic, TopicCursor, TopicStore, fold, past};
use crate::model::{Post, PostId, Visibility};

#[async_trait]
impl TopicStore for SqliteLedger {
    async fn topics(&self, cursor: Option<TopicCursor>, limit: usize) -> Result<Vec<Topic>> {
        self.read(move |db| match cursor {
            None => recent(db, PostId::MAX, "", limit),
            Some(cursor) => go_on(db, &cursor, limit),
        })
        .await
    }

    async fn search_topics(
        &self,
        prefix: &str,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<(String, Topic)>> {
        let Some(end) = past(prefix) else { return Ok(Vec::new()) };
        let (folded, name) = after.unwrap_or((prefix, ""));
        let (folded, name) = (folded.to_owned(), name.to_owned());
        self.read(move |db| {
            let wanted = params![folded, name, end, count(limit)];
            let found = |row: &Row<'_>| Ok((row.get(3)?, topic(row)?));
            db.prepare_cached(SEARCH)?.query_map(wanted, found)?.collect()
        })
        .await
    }
}

/// Adds a post to its topics.
pub(super) fn enter(db: &Connection, post: &Post) -> rusqlite::Result<()> {
    if post.topics.is_empty() {
        return Ok(());
    }
    let public = post.visibility == Visibility::Public && !open_requests::is_locked(db, &post.author)?;
    for topic in &post.topics {
        let row = params![topic, integer(post.id.0), public];
        let entered = db
            .prepare_cached("INSERT INTO post_topics (topic, post, public) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
            .execute(row)?;
        if entered == 1 && public {
            let sql = "INSERT INTO topics (name, folded, posts, last) VALUES (?1, ?3, 1, ?2) \
                       ON CONFLICT (name) DO UPDATE SET posts = posts + 1, last = max(last, excluded.last)";
            db.prepare_cached(sql)?.execute(params![topic, integer(post.id.0), fold(topic)])?;
        }
    }
    Ok(())
}

/// Removes a post from its topics.
pub(super) fn leave(db: &Connection, post: &Post) -> rusqlite::Result<()> {
    for topic in &post.topics {
        let sql = "DELETE FROM post_topics WHERE topic = ?1 AND post = ?2 RETURNING public";
        let row = params![topic, integer(post.id.0)];
        let was_public: Option<bool> = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
        if was_public == Some(true) {
            lower(db, topic)?;
        }
    }
    Ok(())
}

fn lower(db: &Connection, topic: &str) -> rusqlite::Result<()> {
    let newest = "SELECT post FROM post_topics INDEXED BY post_topics_public \
                  WHERE topic = ?1 AND public ORDER BY post DESC LIMIT 1";
    let newest: Option<i64> = db.prepare_cached(newest)?.query_row([topic], |row| row.get(0)).optional()?;
    match newest {
        Some(newest) => db
            .prepare_cached("UPDATE topics SET posts = posts - 1, last = ?2 WHERE name = ?1")?
            .execute(params![topic, newest])?,
        None => db.prepare_cached("DELETE FROM topics WHERE name = ?1")?.execute([topic])?,
    };
    Ok(())
}

pub(super) const RECENT: &str = "SELECT name, posts, last FROM topics INDEXED BY topics_recent \
    WHERE (last, name) < (?1, ?2) ORDER BY last DESC, name DESC LIMIT ?3";

/// A scan of the folded names in order.
pub(super) const SEARCH: &str = "SELECT name, posts, last, folded FROM topics INDEXED BY topics_folded \
    WHERE (folded, name) > (?1, ?2) AND folded < ?3 ORDER BY folded, name LIMIT ?4";

/// Reads `name, posts, last`.
fn topic(row: &Row<'_>) -> rusqlite::Result<Topic> {
    Ok(Topic { name: row.get(0)?, posts: natural(row.get(1)?), last: post_id_at(row, 2)? })
}

fn recent(db: &Connection, last: PostId, name: &str, limit: usize) -> rusqlite::Result<Vec<Topic>> {
    let wanted = params![integer(last.0), name, count(limit)];
    db.prepare_cached(RECENT)?.query_map(wanted, topic)?.collect()
}

/// Topics below a cursor: topics without activity since the list was begun, and topics with activity since then, at
/// their earlier positions.
fn go_on(db: &Connection, cursor: &TopicCursor, limit: usize) -> rusqlite::Result<Vec<Topic>> {
    // One snapshot for both statements: a topic could move from one to the other in between.
    let moment = db.unchecked_transaction()?;
    let mut topics = recent(&moment, cursor.last, &cursor.name, limit)?;
    let sql = "SELECT name, posts, (SELECT post FROM post_topics INDEXED BY post_topics_public \
               WHERE topic = name AND public AND post <= ?1 ORDER BY post DESC LIMIT 1) AS stood \
               FROM topics INDEXED BY topics_recent WHERE last > ?1 AND stood NOT NULL \
               AND (stood, name) < (?2, ?3) ORDER BY last DESC LIMIT ?4";
    let wanted = params![integer(cursor.begun.0), integer(cursor.last.0), cursor.name, count(MAX_MOVED_TOPICS)];
    let stirred = moment.prepare_cached(sql)?.query_map(wanted, topic)?.collect::<rusqlite::Result<Vec<_>>>()?;
    topics.extend(stirred);
    topics.sort_unstable_by(|a, b| (b.last, &b.name).cmp(&(a.last, &a.name)));
    topics.truncate(limit);
    Ok(topics)
}
