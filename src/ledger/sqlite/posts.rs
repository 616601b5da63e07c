//! Posts, and the lists of an author and of a topic.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteLedger, count, integer, jobs, json_text, timeline};
use crate::ledger::{Job, Lease, Posts, Result, Work};
use crate::model::{Millis, Post, PostId, UserId};

#[async_trait]
impl Posts for SqliteLedger {
    async fn create_post(&self, post: &Post, lease: &Lease) -> Result<Job> {
        let (post, lease) = (post.clone(), lease.clone());
        self.write(move |db| create(db, &post, &lease)).await
    }

    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>> {
        let ids = ids.to_vec();
        self.read(move |db| posts(db, &ids)).await
    }

    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>> {
        let (author, lease) = (author.clone(), lease.clone());
        self.write(move |db| delete(db, id, &author, now, &lease)).await
    }

    async fn author_posts(&self, author: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let author = author.clone();
        self.read(move |db| by_author(db, author.as_str(), before, limit)).await
    }

    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let topic = topic.to_owned();
        self.read(move |db| by_topic(db, &topic, before, limit)).await
    }

    async fn timeline_posts(&self, reader: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let reader = reader.clone();
        self.read(move |db| timeline::read(db, &reader, before, limit)).await
    }
}

pub(super) fn create(db: &Connection, post: &Post, lease: &Lease) -> rusqlite::Result<Job> {
    store(db, post)?;
    let work = Work::Post { post: post.id, author: post.author.clone() };
    jobs::create(db, work, post.created_at, lease)
}

/// Stores a post without a job.
pub(super) fn store(db: &Connection, post: &Post) -> rusqlite::Result<()> {
    let (id, author) = (integer(post.id.0), post.author.as_str());
    db.prepare_cached("INSERT INTO posts (id, author, body) VALUES (?1, ?2, ?3)")?.execute(params![
        id,
        author,
        json_text(post)?
    ])?;
    db.prepare_cached("UPDATE users SET posts = posts + 1 WHERE id = ?1")?.execute([author])?;
    for topic in &post.topics {
        db.prepare_cached("INSERT INTO post_topics (topic, post) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![topic, id])?;
    }
    Ok(())
}

pub(super) fn posts(db: &Connection, ids: &[PostId]) -> rusqlite::Result<Vec<Post>> {
    let sql = "SELECT body FROM posts WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NULL";
    db.prepare_cached(sql)?.query_map([json_text(ids)?], body)?.collect()
}

fn body(row: &Row<'_>) -> rusqlite::Result<Post> {
    serde_json::from_str(row.get_ref(0)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}

pub(super) fn delete(
    db: &Connection,
    id: PostId,
    author: &UserId,
    now: Millis,
    lease: &Lease,
) -> rusqlite::Result<Option<Job>> {
    let sql = "SELECT body FROM posts WHERE id = ?1 AND author = ?2 AND deleted_at IS NULL";
    let found = db.prepare_cached(sql)?.query_row(params![integer(id.0), author.as_str()], body).optional()?;
    let Some(post) = found else { return Ok(None) };
    db.prepare_cached("UPDATE posts SET deleted_at = ?2, body = NULL WHERE id = ?1")?
        .execute(params![integer(id.0), integer(now)])?;
    db.prepare_cached("UPDATE users SET posts = posts - 1 WHERE id = ?1")?.execute([author.as_str()])?;
    for topic in &post.topics {
        db.prepare_cached("DELETE FROM post_topics WHERE topic = ?1 AND post = ?2")?
            .execute(params![topic, integer(id.0)])?;
    }
    jobs::create(db, Work::Delete { post: id, author: author.clone(), topics: post.topics }, now, lease).map(Some)
}

/// An author's posts below an id. The index is named because the planner, which has no statistics, would be free
/// to walk everyone's posts by id instead.
pub(super) const BY_AUTHOR: &str = "SELECT id FROM posts INDEXED BY posts_author \
    WHERE author = ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?3";

pub(super) fn by_author(db: &Connection, author: &str, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    db.prepare_cached(BY_AUTHOR)?.query_map(params![author, integer(before.0), count(limit)], id)?.collect()
}

pub(super) const BY_TOPIC: &str = "SELECT post FROM post_topics WHERE topic = ?1 AND post < ?2 \
    ORDER BY post DESC LIMIT ?3";

pub(super) fn by_topic(db: &Connection, topic: &str, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    db.prepare_cached(BY_TOPIC)?.query_map(params![topic, integer(before.0), count(limit)], id)?.collect()
}

fn id(row: &Row<'_>) -> rusqlite::Result<PostId> {
    id_at(row, 0)
}

/// Reads a column that holds a post's id.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<PostId> {
    row.get(column).map(|id| PostId(super::natural(id)))
}
