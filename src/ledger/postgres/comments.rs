//! Comments and their threads.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, id_at, integer, natural_at, one, plain, shown};
use super::events::{NewEvent, with_event};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::comments::MAX_COMMENT_DEPTH;
use crate::ledger::{CommentEditOutcome, CommentOutcome, CommentStore, DeletedComment, LedgerError, Result, Thread};
use crate::model::{Comment, CommentId, DomainEvent, Millis, PostId, Removal, RemovedComment, Tally, UserId};

/// Stands for "no parent" in the store. No comment has this id.
const NONE: CommentId = CommentId::ZERO;

const CREATE: &str = with_event!(
    "outcome, new_likes, new_comments, new_version",
    "feedline_create_comment($1, $2, $3, $4, $5, $6, $7)",
    "outcome = 'stored'",
    "$8",
    "$9",
    "$10"
);

const EDIT: &str =
    with_event!("outcome", "feedline_edit_comment($1, $2, $3, $4, $5, $6)", "outcome = 'edited'", "$6", "$7", "$8");

const DELETE: &str = with_event!(
    "stays, new_likes, new_comments, new_version, along",
    "feedline_delete_comment($1)",
    "stays IS NOT NULL",
    "$2",
    "$3",
    "$4"
);

const REMOVE: &str = with_event!(
    "NULL::bool AS stays, new_likes, new_comments, new_version",
    "feedline_remove_comment($1, $2, $3)",
    "new_version IS NOT NULL",
    "$3",
    "$4",
    "$5"
);

const RESTORE: &str =
    "SELECT NULL::bool AS stays, new_likes, new_comments, new_version FROM feedline_restore_comment($1)";

/// In the columns that [`comment`] reads, and the reason.
macro_rules! select_removed {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.post, c.parent, coalesce((SELECT handle FROM users WHERE users.id = r.author), r.author),
                r.text, r.mentions, c.likes, c.replies, c.edited_at, r.reason
            FROM (",
            $rest,
            ") r CROSS JOIN LATERAL (
                SELECT * FROM comments WHERE comments.post = r.post AND comments.id = r.comment OFFSET 0
            ) c ORDER BY c.id"
        )
    };
}

const REMOVED_BY_ID: &str = select_removed!("SELECT * FROM removed_comments WHERE comment = ANY ($1)");

/// A page of the removed comments of an author.
pub(super) const REMOVED_BY_AUTHOR: &str =
    select_removed!("SELECT * FROM removed_comments WHERE author = $1 AND comment > $2 ORDER BY comment LIMIT $3");

/// Two look-ups for each id, each in one partition: the post of the comment, then the comment.
pub(super) const COMMENTS: &str = "\
    SELECT c.id, c.post, c.parent, coalesce((SELECT handle FROM users WHERE users.id = c.author), c.author),
        c.text, c.mentions, c.likes, c.replies, c.edited_at
    FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = wanted.id OFFSET 0) under
    CROSS JOIN LATERAL (
        SELECT * FROM comments WHERE comments.post = under.post AND comments.id = wanted.id OFFSET 0
    ) c";

/// Walks from each comment up to the comment on the post. After the look-up of the post, all reads stay in one
/// partition.
pub(super) const LINES: &str = "\
    WITH RECURSIVE line AS (
        SELECT wanted.id AS of, c.post, c.parent, c.author
        FROM unnest($1::bigint[]) AS wanted (id)
        CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = wanted.id OFFSET 0) under
        CROSS JOIN LATERAL (
            SELECT * FROM comments WHERE comments.post = under.post AND comments.id = wanted.id OFFSET 0
        ) c
        UNION ALL
        SELECT line.of, c.post, c.parent, c.author
        FROM line
        CROSS JOIN LATERAL (
            SELECT * FROM comments WHERE comments.post = line.post AND comments.id = line.parent OFFSET 0
        ) c
        WHERE line.parent <> 0
    )
    SELECT DISTINCT of, author FROM line WHERE author IS NOT NULL";

/// The condition is a range of (parent, id), which only the index of threads returns in order. With `parent = …` the
/// planner may scan all comments on the post instead.
pub(super) const IN_THREAD: &str = "\
    SELECT id, post, parent, coalesce((SELECT handle FROM users WHERE users.id = author), author),
        text, mentions, likes, replies, edited_at
    FROM comments WHERE post = $1 AND (parent, id) < ($2, $3) AND parent >= $2 ORDER BY parent DESC, id DESC LIMIT $4";

/// As [`IN_THREAD`], in the other direction.
pub(super) const IN_THREAD_AFTER: &str = "\
    SELECT id, post, parent, coalesce((SELECT handle FROM users WHERE users.id = author), author),
        text, mentions, likes, replies, edited_at
    FROM comments WHERE post = $1 AND (parent, id) > ($2, $3) AND parent <= $2 ORDER BY parent, id LIMIT $4";

/// Merges the indexes of the partitions: comments are stored by post.
pub(super) const BY_AUTHOR: &str = "\
    SELECT id, post, parent, coalesce((SELECT handle FROM users WHERE users.id = author), author),
        text, mentions, likes, replies, edited_at
    FROM comments WHERE author = $1 AND id < $2 AND author IS NOT NULL ORDER BY id DESC LIMIT $3";

#[async_trait]
impl CommentStore for PostgresLedger {
    async fn create_comment(&self, comment: &Comment) -> Result<CommentOutcome> {
        let id = integer(comment.id.0);
        let post = integer(comment.post.0);
        let parent = integer(comment.reply_to.unwrap_or(NONE).0);
        let author = comment.author.as_ref().map(UserId::as_str);
        let text = comment.text.as_deref().map(plain);
        let mentions = (!comment.mentions.is_empty()).then(|| shown(&comment.mentions));
        let deepest = i32::try_from(MAX_COMMENT_DEPTH).unwrap_or(i32::MAX);
        let (event, at_time) =
            (NewEvent::new(DomainEvent::comment_created(comment).as_ref(), false)?, integer(comment.created_at));
        let parameters: Parameters<'_> =
            &[&id, &post, &parent, &author, &text, &mentions, &deepest, &at_time, &event.text, &event.pending];
        let rows = self.pool.write(CREATE, parameters).await?;
        let row = one(&rows)?;
        Ok(match at(row, 0)? {
            "stored" => CommentOutcome::Stored(tally(row)?),
            "before" => CommentOutcome::Before,
            "no post" => CommentOutcome::NoPost,
            "no parent" => CommentOutcome::NoParent,
            "too deep" => CommentOutcome::TooDeep,
            other => return Err(LedgerError::Failed(format!("a comment: {other}"))),
        })
    }

    async fn comments(&self, ids: &[CommentId]) -> Result<Vec<Comment>> {
        Ok(readable("comments", &self.pool.read(COMMENTS, &[&once(ids)]).await?, comment))
    }

    async fn lines(&self, ids: &[CommentId]) -> Result<Vec<(CommentId, UserId)>> {
        let rows = self.pool.read(LINES, &[&once(ids)]).await?;
        Ok(readable("comments", &rows, |row| Ok((CommentId(natural_at(row, 0)?), id_at(row, 1)?))))
    }

    async fn comments_in(&self, thread: Thread, before: CommentId, limit: usize) -> Result<Vec<Comment>> {
        let post = integer(thread.post.0);
        let parent = integer(thread.reply_to.unwrap_or(NONE).0);
        let parameters: Parameters<'_> = &[&post, &parent, &integer(before.0)];
        self.readable_page("comments", IN_THREAD, parameters, limit, comment).await
    }

    async fn comments_after(&self, thread: Thread, after: CommentId, limit: usize) -> Result<Vec<Comment>> {
        let post = integer(thread.post.0);
        let parent = integer(thread.reply_to.unwrap_or(NONE).0);
        let parameters: Parameters<'_> = &[&post, &parent, &integer(after.0)];
        self.readable_page("comments", IN_THREAD_AFTER, parameters, limit, comment).await
    }

    async fn comments_by(&self, author: &UserId, before: CommentId, limit: usize) -> Result<Vec<Comment>> {
        let parameters: Parameters<'_> = &[&author.as_str(), &integer(before.0)];
        self.readable_page("comments", BY_AUTHOR, parameters, limit, comment).await
    }

    async fn edit_comment(
        &self,
        before: &Comment,
        after: &Comment,
        event: Option<&DomainEvent>,
    ) -> Result<CommentEditOutcome> {
        let author = after.author.as_ref().map(UserId::as_str);
        let text = after.text.as_deref().map(plain);
        let mentions = (!after.mentions.is_empty()).then(|| shown(&after.mentions));
        let base = before.edited_at.map(integer);
        let now = integer(after.edited_at.unwrap_or(after.created_at));
        let event = NewEvent::new(event, false)?;
        let parameters: Parameters<'_> =
            &[&integer(after.id.0), &author, &base, &text, &mentions, &now, &event.text, &event.pending];
        let rows = self.pool.write(EDIT, parameters).await?;
        Ok(match at(one(&rows)?, 0)? {
            "edited" => CommentEditOutcome::Edited,
            "conflict" => CommentEditOutcome::Conflict,
            _ => CommentEditOutcome::Missing,
        })
    }

    async fn remove_comment(
        &self,
        id: CommentId,
        reason: Option<&str>,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<Tally>> {
        let reason = reason.map(plain);
        let event = NewEvent::new(event, self.outlet)?;
        let parameters: Parameters<'_> = &[&integer(id.0), &reason, &integer(now), &event.text, &event.pending];
        counted(&self.pool.write(REMOVE, parameters).await?)
    }

    async fn restore_comment(&self, id: CommentId) -> Result<Option<Tally>> {
        counted(&self.pool.write(RESTORE, &[&integer(id.0)]).await?)
    }

    async fn removed_comments(&self, ids: &[CommentId]) -> Result<Vec<RemovedComment>> {
        let rows = self.pool.read(REMOVED_BY_ID, &[&once(ids)]).await?;
        Ok(readable("removed_comments", &rows, removed))
    }

    async fn delete_comment(
        &self,
        id: CommentId,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<Option<DeletedComment>> {
        let event = NewEvent::new(event, false)?;
        let parameters: Parameters<'_> = &[&integer(id.0), &integer(now), &event.text, &event.pending];
        let rows = self.pool.write(DELETE, parameters).await?;
        let row = one(&rows)?;
        let Some(stays) = at::<Option<bool>>(row, 0)? else { return Ok(None) };
        let along: Vec<i64> = at(row, 4)?;
        let along = along.into_iter().map(|id| CommentId(u64::try_from(id).unwrap_or_default())).collect();
        Ok(Some(DeletedComment { stays, along, tally: tally(row)? }))
    }
}

/// The ids without duplicates, sorted.
pub(super) fn once(ids: &[CommentId]) -> Vec<i64> {
    let mut wanted: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The counts of the post of a comment that was removed or restored; `None` if it was not.
fn counted(rows: &[Row]) -> Result<Option<Tally>> {
    let row = one(rows)?;
    if at::<Option<i64>>(row, 3)?.is_none() { Ok(None) } else { tally(row).map(Some) }
}

/// Reads `likes, comments, likes_version` from the second column on.
fn tally(row: &Row) -> Result<Tally> {
    Ok(Tally { likes: natural_at(row, 1)?, comments: natural_at(row, 2)?, version: natural_at(row, 3)? })
}

/// Reads `id, post, parent, author, text, mentions, likes, replies, edited_at`.
pub(super) fn comment(row: &Row) -> Result<Comment> {
    let id = CommentId(natural_at(row, 0)?);
    let parent = CommentId(natural_at(row, 2)?);
    let deleted = at::<Option<&str>>(row, 3)?.is_none();
    let mentions: Option<Vec<&str>> = at(row, 5)?;
    Ok(Comment {
        id,
        post: PostId(natural_at(row, 1)?),
        reply_to: (parent != NONE).then_some(parent),
        author: if deleted { None } else { Some(id_at(row, 3)?) },
        text: at(row, 4)?,
        // A comment is returned, and can be deleted, without the mentions that cannot be decoded.
        mentions: mentions.unwrap_or_default().into_iter().filter_map(UserId::parse).collect(),
        created_at: id.time(),
        likes: natural_at(row, 6)?,
        replies: natural_at(row, 7)?,
        // Of a deleted comment nothing is shown but its place.
        edited_at: if deleted { None } else { at::<Option<i64>>(row, 8)?.and_then(|at| u64::try_from(at).ok()) },
        liked: None,
        filtered: Vec::new(),
        removed: None,
    })
}

pub(super) fn removed(row: &Row) -> Result<RemovedComment> {
    let mut comment = comment(row)?;
    comment.removed = Some(Removal { reason: at(row, 9)?, former: None });
    Ok(RemovedComment { comment, author: id_at(row, 3)? })
}
