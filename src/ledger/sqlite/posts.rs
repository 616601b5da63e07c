//! Posts, and the lists of an author and of a topic.

use std::collections::BTreeSet;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::author_posts::by_author;
use super::rows::{post_id_at, user_id_at};
use super::{
    SqliteLedger, count, events, integer, is_undecodable, jobs, json_text, readable, repost_counts, timeline, topics,
    visible_posts,
};
use crate::ledger::quarantine::report_unreadable;
use crate::ledger::{EditOutcome, NewJob, PostOwner, PostStore, Result, TimelineRange, VisiblePosts, job_plan};
use crate::model::{DomainEvent, Millis, Post, PostId, TraceContext, UserId};

#[async_trait]
impl PostStore for SqliteLedger {
    async fn create_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<Option<NewJob>> {
        let post = post.clone();
        let outlet = self.outlet;
        self.write(move |db| create(db, &post, trace, outlet)).await
    }

    async fn greatest_id(&self) -> Result<PostId> {
        self.read(|db| {
            let sql =
                "SELECT max(coalesce((SELECT max(id) FROM posts), 0), coalesce((SELECT max(id) FROM comments), 0))";
            db.prepare_cached(sql)?.query_row([], |row| post_id_at(row, 0))
        })
        .await
    }

    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>> {
        let ids = ids.to_vec();
        self.read(move |db| posts(db, &ids)).await
    }

    async fn restricted_in_timeline(&self, _: &UserId, ids: &[PostId]) -> Result<Vec<PostId>> {
        let ids = ids.to_vec();
        self.read(move |db| restricted_among(db, &ids)).await
    }

    async fn post_owners(&self, ids: &[PostId]) -> Result<Vec<PostOwner>> {
        let ids = ids.to_vec();
        self.read_heavy(move |db| owners(db, &ids)).await
    }

    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis) -> Result<Option<NewJob>> {
        let author = author.clone();
        let outlet = self.outlet;
        self.write(move |db| delete(db, id, &author, now, outlet)).await
    }

    async fn edit_post(
        &self,
        before: &Post,
        after: &Post,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<EditOutcome> {
        let base = before.edited_at;
        let after = after.clone();
        let outlet = self.outlet;
        let event = DomainEvent::edit_for(event, before, &after, outlet);
        self.write(move |db| edit(db, base, &after, event.as_ref(), now, outlet)).await
    }

    async fn author_posts(&self, author: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let author = author.clone();
        self.read(move |db| by_author(db, author.as_str(), before, limit)).await
    }

    async fn visible_posts(
        &self,
        author: &UserId,
        viewer: Option<&UserId>,
        before: PostId,
        limit: usize,
    ) -> Result<VisiblePosts> {
        let author = author.clone();
        let viewer = viewer.cloned();
        self.read(move |db| visible_posts::read(db, &author, viewer.as_ref(), before, limit)).await
    }

    async fn public_posts(&self, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        self.read(move |db| {
            db.prepare_cached(PUBLIC)?
                .query_map(params![integer(before.0), count(limit)], |row| post_id_at(row, 0))?
                .collect()
        })
        .await
    }

    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let topic = topic.to_owned();
        self.read(move |db| by_topic(db, &topic, before, limit)).await
    }

    async fn timeline_posts(&self, reader: &UserId, page: TimelineRange) -> Result<Vec<PostId>> {
        let reader = reader.clone();
        // Reads the posts of each author one by one, so the estimate `likely` is not needed.
        self.read(move |db| timeline::read(db, &reader, page.before, page.limit)).await
    }

    async fn timeline_posts_with_topics(&self, reader: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let reader = reader.clone();
        self.read(move |db| timeline::read_with_topics(db, &reader, before, limit)).await
    }

    async fn newest_with_topics(&self, topics: &[String], limit: usize) -> Result<Vec<PostId>> {
        let topics = topics.to_vec();
        self.read(move |db| timeline::newest_with_topics(db, topics, limit)).await
    }
}

pub(super) fn create(
    db: &Connection,
    post: &Post,
    trace: Option<TraceContext>,
    outlet: bool,
) -> rusqlite::Result<Option<NewJob>> {
    if !store(db, post)? {
        return Ok(None);
    }
    events::append(db, DomainEvent::post_created(post, outlet).as_ref(), post.created_at, outlet)?;
    jobs::create(db, job_plan::post_created(post, trace), post.created_at).map(Some)
}

/// Stores a post without a job. Returns `false` if its author has this post already, or had it and deleted it.
pub(super) fn store(db: &Connection, post: &Post) -> rusqlite::Result<bool> {
    let id = integer(post.id.0);
    let author = post.author.as_str();
    let body = json_text(post)?;
    let insert = "INSERT INTO posts (id, author, body) VALUES (?1, ?2, ?3)";
    if let Err(error) = db.prepare_cached(insert)?.execute(params![id, author, body]) {
        let same = "SELECT 1 FROM posts WHERE id = ?1 AND author = ?2 AND (body = ?3 OR deleted_at IS NOT NULL)";
        return if db.prepare_cached(same)?.exists(params![id, author, body])? { Ok(false) } else { Err(error) };
    }
    db.prepare_cached("UPDATE users SET posts = posts + 1 WHERE id = ?1")?.execute([author])?;
    topics::enter(db, post).map(|()| true)
}

/// A post of an author, unless it is deleted.
fn own(db: &Connection, id: PostId, author: &UserId) -> rusqlite::Result<Option<Post>> {
    let sql = "SELECT body FROM posts WHERE id = ?1 AND author = ?2 AND deleted_at IS NULL";
    db.prepare_cached(sql)?.query_row(params![integer(id.0), author.as_str()], |row| body(row, 0)).optional()
}

fn edit(
    db: &Connection,
    base: Option<Millis>,
    after: &Post,
    event: Option<&DomainEvent>,
    now: Millis,
    outlet: bool,
) -> rusqlite::Result<EditOutcome> {
    let Some(before) = own(db, after.id, &after.author)? else { return Ok(EditOutcome::Missing) };
    if before.edited_at != base {
        return Ok(EditOutcome::Conflict);
    }
    let replace = "UPDATE posts SET body = ?2 WHERE id = ?1";
    db.prepare_cached(replace)?.execute(params![integer(after.id.0), json_text(after)?])?;
    topics::leave(db, &before)?;
    topics::enter(db, after)?;
    events::append(db, event, now, outlet)?;
    let jobs = job_plan::post_edited(&before, after).into_iter().map(|work| jobs::create(db, work, now));
    jobs.collect::<rusqlite::Result<_>>().map(EditOutcome::Edited)
}

pub(super) fn posts(db: &Connection, ids: &[PostId]) -> rusqlite::Result<Vec<Post>> {
    let sql = "SELECT id, body FROM posts WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NULL";
    readable("posts", db.prepare_cached(sql)?.query([json_text(ids)?])?, |row| body(row, 1))
}

pub(super) fn body(row: &Row<'_>, column: usize) -> rusqlite::Result<Post> {
    serde_json::from_str(row.get_ref(column)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

pub(super) fn delete(
    db: &Connection,
    id: PostId,
    author: &UserId,
    now: Millis,
    outlet: bool,
) -> rusqlite::Result<Option<NewJob>> {
    let post = match own(db, id, author) {
        Ok(Some(post)) => Some(post),
        Ok(None) => return Ok(None),
        Err(error) if is_undecodable(&error) => {
            report_unreadable("posts", &id, &error);
            None
        }
        Err(error) => return Err(error),
    };
    db.prepare_cached("UPDATE posts SET deleted_at = ?2, body = NULL WHERE id = ?1")?
        .execute(params![integer(id.0), integer(now)])?;
    db.prepare_cached("UPDATE users SET posts = posts - 1 WHERE id = ?1")?.execute([author.as_str()])?;
    // A post that cannot be decoded keeps its rows in the lists of its topics. Readers of a list omit it, because it
    // has no body.
    if let Some(post) = &post {
        topics::leave(db, post)?;
    }
    repost_counts::leave(db, id)?;
    let event = DomainEvent::post_deleted(id, author, post.as_ref());
    events::append(db, Some(&event), now, outlet)?;
    let content = post.map(|post| (post.topics, post.visibility));
    jobs::create(db, job_plan::post_deleted(id, author, content), now).map(Some)
}

/// Searches the partial index of posts that are not public. They are few, so most look-ups find nothing.
const RESTRICTED: &str = "SELECT value FROM json_each(?1) WHERE value IN \
    (SELECT id FROM posts INDEXED BY posts_restricted WHERE coalesce(body ->> '$.visibility', 'public') <> 'public')";

fn restricted_among(db: &Connection, ids: &[PostId]) -> rusqlite::Result<Vec<PostId>> {
    db.prepare_cached(RESTRICTED)?.query_map([json_text(ids)?], |row| post_id_at(row, 0))?.collect()
}

/// Searches the index for the visibility, so that the body, which may be long, is not read.
const OWNERS: &str = "SELECT post.id, post.author, NOT EXISTS ( \
        SELECT 1 FROM posts some INDEXED BY posts_restricted \
        WHERE some.id = post.id AND coalesce(some.body ->> '$.visibility', 'public') <> 'public') \
    FROM json_each(?1) wanted CROSS JOIN posts post ON post.id = wanted.value AND post.deleted_at IS NULL";

fn owners(db: &Connection, ids: &[PostId]) -> rusqlite::Result<Vec<PostOwner>> {
    let ids: BTreeSet<PostId> = ids.iter().copied().collect();
    let owner =
        |row: &Row<'_>| Ok(PostOwner { post: post_id_at(row, 0)?, author: user_id_at(row, 1)?, public: row.get(2)? });
    readable("posts", db.prepare_cached(OWNERS)?.query([json_text(&ids)?])?, owner)
}

/// Reads the index alone, which has neither deleted nor restricted posts.
pub(super) const PUBLIC: &str = "SELECT id FROM posts INDEXED BY posts_recent \
    WHERE id < ?1 AND deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public' \
    ORDER BY id DESC LIMIT ?2";

pub(super) const BY_TOPIC: &str = "SELECT post FROM post_topics WHERE topic = ?1 AND post < ?2 \
    ORDER BY post DESC LIMIT ?3";

pub(super) fn by_topic(db: &Connection, topic: &str, before: PostId, limit: usize) -> rusqlite::Result<Vec<PostId>> {
    db.prepare_cached(BY_TOPIC)?
        .query_map(params![topic, integer(before.0), count(limit)], |row| post_id_at(row, 0))?
        .collect()
}
