//! Comments and their threads.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::user_id_at;
use super::{SqliteLedger, UNLIMITED, events, integer, json_text, natural, readable, readable_page};
use crate::ledger::comments::MAX_COMMENT_DEPTH;
use crate::ledger::quarantine::report_unreadable;
use crate::ledger::{CommentEditOutcome, CommentOutcome, CommentStore, DeletedComment, Result, Tally, Thread};
use crate::model::{Comment, CommentId, DomainEvent, Millis, PostId, Removal, RemovedComment, UserId};

#[async_trait]
impl CommentStore for SqliteLedger {
    async fn create_comment(&self, comment: &Comment) -> Result<CommentOutcome> {
        let comment = comment.clone();
        self.write(move |db| create(db, &comment)).await
    }

    async fn comments(&self, ids: &[CommentId]) -> Result<Vec<Comment>> {
        let ids = ids.to_vec();
        self.read(move |db| comments(db, &ids)).await
    }

    async fn lines(&self, ids: &[CommentId]) -> Result<Vec<(CommentId, UserId)>> {
        let ids = ids.to_vec();
        self.read(move |db| lines(db, &ids)).await
    }

    async fn comments_in(&self, thread: Thread, before: CommentId, limit: usize) -> Result<Vec<Comment>> {
        self.read(move |db| list(db, thread, before, limit)).await
    }

    async fn comments_after(&self, thread: Thread, after: CommentId, limit: usize) -> Result<Vec<Comment>> {
        self.read(move |db| {
            let parent = thread.reply_to.unwrap_or(NONE);
            let wanted = params![integer(thread.post.0), integer(parent.0), integer(after.0), UNLIMITED];
            readable_page("comments", db.prepare_cached(IN_THREAD_AFTER)?.query(wanted)?, limit, comment)
        })
        .await
    }

    async fn comments_by(&self, author: &UserId, before: CommentId, limit: usize) -> Result<Vec<Comment>> {
        let author = author.clone();
        self.read(move |db| {
            let wanted = params![author.as_str(), integer(before.0), UNLIMITED];
            readable_page("comments", db.prepare_cached(BY_AUTHOR)?.query(wanted)?, limit, comment)
        })
        .await
    }

    async fn edit_comment(
        &self,
        before: &Comment,
        after: &Comment,
        event: Option<&DomainEvent>,
    ) -> Result<CommentEditOutcome> {
        let base = before.edited_at;
        let after = after.clone();
        let event = event.cloned();
        self.write(move |db| edit(db, base, &after, event.as_ref())).await
    }

    async fn remove_comment(
        &self,
        id: CommentId,
        reason: Option<&str>,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<Tally>> {
        let reason = reason.map(str::to_owned);
        let event = event.cloned();
        let outlet = self.outlet;
        self.write(move |db| take_out(db, id, reason.as_deref(), event.as_ref(), (now, outlet))).await
    }

    async fn restore_comment(&self, id: CommentId) -> Result<Option<Tally>> {
        self.write(move |db| put_back(db, id)).await
    }

    async fn removed_comments(&self, ids: &[CommentId]) -> Result<Vec<RemovedComment>> {
        let ids = ids.to_vec();
        self.read(move |db| removed_among(db, &ids)).await
    }

    async fn delete_comment(
        &self,
        id: CommentId,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<DeletedComment>> {
        let event = event.cloned();
        self.write(move |db| delete(db, id, event.as_ref(), now)).await
    }
}

/// Stands for "no parent" in the store. No comment has this id.
const NONE: CommentId = CommentId::ZERO;

fn create(db: &Connection, comment: &Comment) -> rusqlite::Result<CommentOutcome> {
    let post = integer(comment.post.0);
    let parent = integer(comment.reply_to.unwrap_or(NONE).0);
    let author = comment.author.as_ref().map(|author| author.as_str());
    let before = "SELECT 1 FROM comments WHERE id = ?1 AND (author = ?2 OR author IS NULL)";
    if db.prepare_cached(before)?.exists(params![integer(comment.id.0), author])? {
        return Ok(CommentOutcome::Before);
    }
    let there = "SELECT 1 FROM posts WHERE id = ?1 AND deleted_at IS NULL";
    if !db.prepare_cached(there)?.exists([post])? {
        return Ok(CommentOutcome::NoPost);
    }
    let mut depth = 0;
    if comment.reply_to.is_some() {
        let above = "SELECT depth FROM comments WHERE id = ?1 AND post = ?2 AND author IS NOT NULL";
        let above: Option<u32> = db.prepare_cached(above)?.query_row([parent, post], |row| row.get(0)).optional()?;
        match above {
            None => return Ok(CommentOutcome::NoParent),
            Some(above) if above >= MAX_COMMENT_DEPTH => return Ok(CommentOutcome::TooDeep),
            Some(above) => depth = above + 1,
        }
        db.prepare_cached("UPDATE comments SET replies = replies + 1 WHERE id = ?1")?.execute([parent])?;
    }
    let mentions = if comment.mentions.is_empty() { None } else { Some(json_text(&comment.mentions)?) };
    let sql =
        "INSERT INTO comments (id, post, parent, depth, author, text, mentions) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![integer(comment.id.0), post, parent, depth, author, comment.text, mentions];
    db.prepare_cached(sql)?.execute(row)?;
    events::append(db, DomainEvent::comment_created(comment).as_ref(), comment.created_at, false)?;
    tally(db, post, 1).map(CommentOutcome::Stored)
}

/// Changes the number of comments of a post, and its version. Returns the counts.
fn tally(db: &Connection, post: i64, change: i64) -> rusqlite::Result<Tally> {
    let sql = "INSERT INTO post_counts (post, comments, likes_version) VALUES (?1, MAX(?2, 0), 1) \
               ON CONFLICT DO UPDATE SET comments = comments + ?2, likes_version = likes_version + 1 \
               RETURNING likes, comments, likes_version";
    db.prepare_cached(sql)?.query_row([post, change], |row| {
        Ok(Tally { likes: natural(row.get(0)?), comments: natural(row.get(1)?), version: natural(row.get(2)?) })
    })
}

/// Reads `id, post, parent, author, text, mentions, likes, replies, edited_at`.
pub(super) fn comment(row: &Row<'_>) -> rusqlite::Result<Comment> {
    let id = CommentId(natural(row.get(0)?));
    let parent = CommentId(natural(row.get(2)?));
    // A comment is returned, and can be deleted, without mentions that cannot be decoded.
    let mentions = row.get_ref(5)?.as_str_or_null()?.map(serde_json::from_str).transpose().unwrap_or_else(|error| {
        report_unreadable("comments", &id, &error);
        None
    });
    let deleted = row.get_ref(3)?.as_str_or_null()?.is_none();
    Ok(Comment {
        id,
        post: PostId(natural(row.get(1)?)),
        reply_to: (parent != NONE).then_some(parent),
        author: if deleted { None } else { Some(user_id_at(row, 3)?) },
        text: row.get(4)?,
        mentions: mentions.unwrap_or_default(),
        created_at: id.time(),
        likes: natural(row.get(6)?),
        replies: natural(row.get(7)?),
        // Of a deleted comment nothing is shown but its place.
        edited_at: if deleted { None } else { row.get::<_, Option<i64>>(8)?.map(natural) },
        liked: None,
        filtered: Vec::new(),
        removed: None,
    })
}

fn comments(db: &Connection, ids: &[CommentId]) -> rusqlite::Result<Vec<Comment>> {
    let sql = "SELECT id, post, parent, \
        coalesce((SELECT handle FROM users WHERE users.id = author), author), \
        text, mentions, likes, replies, edited_at \
        FROM comments \
               WHERE id IN (SELECT value FROM json_each(?1))";
    readable("comments", db.prepare_cached(sql)?.query([json_text(ids)?])?, comment)
}

/// Walks from each comment up to the comment on the post. An id that is given twice is walked once.
pub(super) const LINES: &str = "WITH RECURSIVE line (of, id) AS ( \
        SELECT value, value FROM json_each(?1) \
        UNION SELECT line.of, c.parent FROM line CROSS JOIN comments c WHERE c.id = line.id AND c.parent <> 0 \
    ) SELECT DISTINCT line.of, c.author FROM line CROSS JOIN comments c WHERE c.id = line.id AND c.author IS NOT NULL";

fn lines(db: &Connection, ids: &[CommentId]) -> rusqlite::Result<Vec<(CommentId, UserId)>> {
    let line = |row: &Row<'_>| Ok((CommentId(natural(row.get(0)?)), user_id_at(row, 1)?));
    readable("comments", db.prepare_cached(LINES)?.query([json_text(ids)?])?, line)
}

pub(super) const IN_THREAD: &str = "SELECT id, post, parent, \
        coalesce((SELECT handle FROM users WHERE users.id = author), author), \
        text, mentions, likes, replies, edited_at \
    FROM comments INDEXED BY comments_thread WHERE post = ?1 AND parent = ?2 AND id < ?3 ORDER BY id DESC LIMIT ?4";

pub(super) const IN_THREAD_AFTER: &str = "SELECT id, post, parent, \
        coalesce((SELECT handle FROM users WHERE users.id = author), author), \
        text, mentions, likes, replies, edited_at \
    FROM comments INDEXED BY comments_thread WHERE post = ?1 AND parent = ?2 AND id > ?3 ORDER BY id LIMIT ?4";

pub(super) const BY_AUTHOR: &str = "SELECT id, post, parent, \
        coalesce((SELECT handle FROM users WHERE users.id = author), author), \
        text, mentions, likes, replies, edited_at \
    FROM comments INDEXED BY comments_author \
    WHERE author = ?1 AND id < ?2 AND author IS NOT NULL ORDER BY id DESC LIMIT ?3";

fn list(db: &Connection, thread: Thread, before: CommentId, limit: usize) -> rusqlite::Result<Vec<Comment>> {
    let parent = thread.reply_to.unwrap_or(NONE);
    let wanted = params![integer(thread.post.0), integer(parent.0), integer(before.0), UNLIMITED];
    readable_page("comments", db.prepare_cached(IN_THREAD)?.query(wanted)?, limit, comment)
}

fn edit(
    db: &Connection,
    base: Option<Millis>,
    after: &Comment,
    event: Option<&DomainEvent>,
) -> rusqlite::Result<CommentEditOutcome> {
    let id = integer(after.id.0);
    let author = after.author.as_ref().map(|author| author.as_str());
    let sql = "SELECT edited_at FROM comments WHERE id = ?1 AND author = ?2";
    let stored: Option<Option<i64>> =
        db.prepare_cached(sql)?.query_row(params![id, author], |row| row.get(0)).optional()?;
    match stored {
        None => return Ok(CommentEditOutcome::Missing),
        Some(stored) if stored != base.map(integer) => return Ok(CommentEditOutcome::Conflict),
        Some(_) => {}
    }
    let mentions = if after.mentions.is_empty() { None } else { Some(json_text(&after.mentions)?) };
    let sql = "UPDATE comments SET text = ?2, mentions = ?3, edited_at = ?4 WHERE id = ?1";
    db.prepare_cached(sql)?.execute(params![id, after.text, mentions, after.edited_at.map(integer)])?;
    events::append(db, event, after.edited_at.unwrap_or(after.created_at), false)?;
    Ok(CommentEditOutcome::Edited)
}

fn delete(
    db: &Connection,
    id: CommentId,
    event: Option<&DomainEvent>,
    now: Millis,
) -> rusqlite::Result<Option<DeletedComment>> {
    let sql = "SELECT post, parent, replies FROM comments WHERE id = ?1 AND author IS NOT NULL";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let Some((post, parent, replies)) = db.prepare_cached(sql)?.query_row([integer(id.0)], read).optional()? else {
        return Ok(None);
    };
    let stays = replies > 0;
    let along = if stays {
        let sql = "UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE id = ?1";
        db.prepare_cached(sql)?.execute([integer(id.0)])?;
        Vec::new()
    } else {
        remove(db, integer(id.0))?;
        lose_reply(db, parent)?
    };
    events::append(db, event, now, false)?;
    Ok(Some(DeletedComment { stays, along, tally: tally(db, post, -1)? }))
}

fn remove(db: &Connection, id: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM comments WHERE id = ?1")?.execute([id]).map(drop)
}

/// Decrements the number of replies of a comment. If the comment is deleted and this was its last reply, removes it and
/// continues with its parent. Returns the removed comments.
fn lose_reply(db: &Connection, mut id: i64) -> rusqlite::Result<Vec<CommentId>> {
    let mut gone = Vec::new();
    let sql = "UPDATE comments SET replies = replies - 1 WHERE id = ?1 \
               RETURNING parent, replies = 0 AND author IS NULL \
               AND NOT EXISTS (SELECT 1 FROM removed_comments WHERE comment = comments.id)";
    loop {
        let lost = db.prepare_cached(sql)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((parent, true)) = lost else { return Ok(gone) };
        remove(db, id)?;
        gone.push(CommentId(natural(id)));
        id = parent;
    }
}

/// Moves the content of a comment out of its row. `(now, outlet)` are the time, and whether there is an outlet.
fn take_out(
    db: &Connection,
    id: CommentId,
    reason: Option<&str>,
    event: Option<&DomainEvent>,
    (now, outlet): (Millis, bool),
) -> rusqlite::Result<Option<Tally>> {
    let sql = "INSERT INTO removed_comments (comment, post, author, text, mentions, reason, at) \
               SELECT id, post, author, text, mentions, ?2, ?3 FROM comments WHERE id = ?1 AND author IS NOT NULL \
               RETURNING post";
    let row = params![integer(id.0), reason, integer(now)];
    let post: Option<i64> = db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
    let Some(post) = post else { return Ok(None) };
    let sql = "UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE id = ?1";
    db.prepare_cached(sql)?.execute([integer(id.0)])?;
    events::append(db, event, now, outlet)?;
    tally(db, post, -1).map(Some)
}

/// Moves it back.
fn put_back(db: &Connection, id: CommentId) -> rusqlite::Result<Option<Tally>> {
    let sql = "UPDATE comments SET author = r.author, text = r.text, mentions = r.mentions \
               FROM removed_comments r WHERE r.comment = ?1 AND comments.id = ?1";
    if db.prepare_cached(sql)?.execute([integer(id.0)])? == 0 {
        return Ok(None);
    }
    let sql = "DELETE FROM removed_comments WHERE comment = ?1 RETURNING post";
    let post = db.prepare_cached(sql)?.query_row([integer(id.0)], |row| row.get(0))?;
    tally(db, post, 1).map(Some)
}

/// In the columns that [`comment`] reads, and the reason.
pub(super) const REMOVED: &str = "SELECT c.id, c.post, c.parent, \
        coalesce((SELECT handle FROM users WHERE users.id = r.author), r.author), \
        r.text, r.mentions, c.likes, c.replies, c.edited_at, r.reason \
    FROM removed_comments r CROSS JOIN comments c ON c.id = r.comment ";

fn removed_among(db: &Connection, ids: &[CommentId]) -> rusqlite::Result<Vec<RemovedComment>> {
    let sql = format!("{REMOVED} WHERE r.comment IN (SELECT value FROM json_each(?1))");
    readable("removed_comments", db.prepare_cached(&sql)?.query([json_text(ids)?])?, removed)
}

pub(super) fn removed(row: &Row<'_>) -> rusqlite::Result<RemovedComment> {
    let mut comment = comment(row)?;
    comment.removed = Some(Removal { reason: row.get(9)?, former: None });
    Ok(RemovedComment { comment, author: user_id_at(row, 3)? })
}
