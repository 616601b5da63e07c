//! Likes, and the position up to which the queue of likes is settled.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one, plain, user};
use super::comments::once;
use super::like_batch::{self, BatchArrays};
use super::pool::Parameters;
use crate::ledger::quarantine::report_unreadable;
use crate::ledger::{
    EventConsumer, Fault, LIKE, LedgerError, LikeBatch, LikeStore, ListPage, QuarantineStore as _, Quarantined, REVERT,
    Result, RevertReason, Reverted, SettledLikes, SkippedLike, like_name,
};
use crate::model::{CommentId, ContentId, DomainEvent, LikeChange, MAX_LIKES, Millis, PostId, Tally, User, UserId};

const POSITION: &str = "SELECT position FROM like_positions WHERE partition = $1";

/// Writes events of all likes that are taken back, also of those that did not exist: they change nothing.
const SETTLE: &str = "\
    WITH answer AS MATERIALIZED (SELECT * FROM feedline_apply_like_batch(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
        $24)
    ), happened AS (
        INSERT INTO events (at, event, pending)
        SELECT $4::bigint, e.event, $24::int FROM answer, unnest($25::text[]) WITH ORDINALITY AS e (event, place)
        WHERE applied ORDER BY place
    )
    SELECT applied, added, tally_of_post, tally_of, tally_likes, tally_comments, tally_versions,
        revert_ids, reverted_by, revert_objects, revert_reasons FROM answer";

/// One look-up for each like, each in one partition.
const LIKES_AMONG: &str = "\
    SELECT '', wanted.p, wanted.n, wanted.owner
    FROM unnest($1::boolean[], $2::bigint[], $3::text[]) AS wanted (p, n, owner)
    WHERE CASE WHEN wanted.p
        THEN EXISTS (SELECT FROM likes WHERE likes.post = wanted.n AND likes.owner = wanted.owner OFFSET 0)
        ELSE EXISTS (SELECT FROM comment_likes c WHERE c.comment = wanted.n AND c.owner = wanted.owner OFFSET 0) END";

const UNTOLD: &str = "SELECT id, owner, object, reason FROM like_reverts WHERE partition = $1 ORDER BY id LIMIT $2";

const REMOVE_REVERTS: &str = "DELETE FROM like_reverts WHERE id = ANY ($1)";

const TALLIES: &str = "\
    SELECT '', p, n, new_likes, new_comments, new_version FROM feedline_like_tallies($1, $2)";

pub(super) const LIKERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.seq
    FROM (SELECT owner, seq FROM likes WHERE post = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) l
    JOIN users u ON u.id = l.owner ORDER BY l.seq DESC";

/// Merges the indexes of the partitions: likes are stored by post.
pub(super) const LIKES_BY: &str = "\
    SELECT post FROM likes WHERE owner = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

pub(super) const COMMENT_LIKERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.at
    FROM (
        SELECT owner, at FROM comment_likes WHERE comment = $1 AND (at, owner) < ($2, $3)
        ORDER BY at DESC, owner DESC LIMIT $4
    ) l
    JOIN users u ON u.id = l.owner ORDER BY l.at DESC, l.owner DESC";

/// One look-up for each id, each in one partition.
pub(super) const LIKED_COMMENTS: &str = "\
    SELECT wanted.id FROM unnest($2::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT FROM comment_likes WHERE comment_likes.comment = wanted.id AND owner = $1 OFFSET 0
    ) liked";

const SKIP_LIKE: &str = "\
    SELECT moved, note FROM feedline_skip_like($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

#[async_trait]
impl LikeStore for PostgresLedger {
    async fn like_position(&self, partition: u16) -> Result<String> {
        let rows = self.pool.read(POSITION, &[&i32::from(partition)]).await?;
        rows.first().map_or_else(|| Ok(String::new()), |row| at(row, 0))
    }

    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>> {
        let format = DomainEvent::liked_json_parts();
        let format = format.ok_or_else(|| LedgerError::Failed("an event of likes without its parts".to_owned()))?;
        let arrays = BatchArrays::new(&batch);
        let events = arrays.events(batch.noted)?;
        let taken_back = arrays.unliked_events()?;
        let BatchArrays { liked, unliked, unseen, .. } = &arrays;
        let partition = i32::from(batch.partition);
        let now = integer(batch.now);
        let noted = count(batch.noted);
        let event_size = count(MAX_LIKES);
        let pending = EventConsumer::Likes.bit();
        let parameters: Parameters<'_> = &[
            &partition,
            &batch.from,
            &batch.to,
            &now,
            &arrays.posts,
            &arrays.steps,
            &arrays.comments,
            &liked.objects,
            &liked.users,
            &liked.times,
            &liked.of_posts,
            &arrays.likers,
            &arrays.handles,
            &unliked.objects,
            &unliked.users,
            &unliked.of_posts,
            &arrays.unseen_of_post,
            &unseen.objects,
            &unseen.users,
            &noted,
            &event_size,
            &&format[..],
            &events,
            &pending,
            &taken_back,
        ];
        arrays.result(one(&self.pool.write(SETTLE, parameters).await?)?)
    }

    async fn pending_reverts(&self, partition: u16, limit: usize) -> Result<Vec<Reverted>> {
        loop {
            let rows = self.pool.read(UNTOLD, &[&i32::from(partition), &count(limit)]).await?;
            let mut untold = Vec::new();
            let mut unreadable = Vec::new();
            let mut ids = Vec::new();
            for row in &rows {
                match reverted(row) {
                    Ok(reverted) => untold.push(reverted),
                    Err(error) => {
                        let id: i64 = at(row, 0)?;
                        let text = |column| at::<&str>(row, column).unwrap_or("?");
                        let content = format!("{} {} {}", text(1), text(2), text(3));
                        report_unreadable("like_reverts", &id, &error);
                        let fault = Fault::now(error.to_string(), 1);
                        unreadable.push(Quarantined::new(REVERT, id.to_string(), content, fault));
                        ids.push(id);
                    }
                }
            }
            if ids.is_empty() {
                return Ok(untold);
            }
            self.quarantine(&unreadable).await?;
            self.delete_reverts(&ids).await?;
        }
    }

    async fn delete_reverts(&self, ids: &[i64]) -> Result<()> {
        self.pool.write(REMOVE_REVERTS, &[&ids]).await.map(drop)
    }

    async fn like_tallies(&self, objects: &[ContentId]) -> Result<Vec<(ContentId, Tally)>> {
        let (of_posts, numbers): (Vec<bool>, Vec<i64>) = objects.iter().copied().map(parts).unzip();
        self.pool.read(TALLIES, &[&of_posts, &numbers]).await?.iter().map(tally).collect()
    }

    async fn likers(&self, post: PostId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.listed(LIKERS, &[&integer(post.0), &before.unwrap_or(i64::MAX)], limit).await
    }

    async fn likes_by(&self, user: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let rows = self.pool.read(LIKES_BY, &[&user.as_str(), &integer(before.0), &count(limit)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(PostId)).collect()
    }

    async fn comment_likers(
        &self,
        comment: CommentId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>> {
        let (time, owner) = after.map_or((i64::MAX, ""), |(at, user)| (integer(at), user.as_str()));
        let parameters: Parameters<'_> = &[&integer(comment.0), &time, &owner];
        let liker = |row: &Row| Ok((natural_at(row, 4)?, user(row)?));
        self.readable_page("users", COMMENT_LIKERS, parameters, limit, liker).await
    }

    async fn liked_comments(&self, user: &UserId, ids: &[CommentId]) -> Result<Vec<CommentId>> {
        let rows = self.pool.read(LIKED_COMMENTS, &[&user.as_str(), &once(ids)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(CommentId)).collect()
    }

    async fn likes_among(&self, likes: &[(ContentId, UserId)]) -> Result<Vec<(ContentId, UserId)>> {
        let (of_posts, numbers): (Vec<bool>, Vec<i64>) = likes.iter().map(|(object, _)| parts(*object)).unzip();
        let users: Vec<&str> = likes.iter().map(|(_, user)| user.as_str()).collect();
        let rows = self.pool.read(LIKES_AMONG, &[&of_posts, &numbers, &users]).await?;
        rows.iter().map(|row| Ok((object(row)?, id_at(row, 3)?))).collect()
    }

    async fn skip_like(&self, skipped: &SkippedLike) -> Result<Option<Vec<Reverted>>> {
        let SkippedLike { partition, from, to, content, fault, like } = skipped;
        let number = i32::from(*partition);
        let name = like_name(*partition, to);
        let now = integer(fault.at);
        let content = plain(content);
        let why = plain(&fault.reason);
        let attempts = i64::from(fault.attempts);
        let (owner, object) =
            (like.as_ref().map(|like| like.user.as_str()), like.as_ref().map(|it| it.object.to_text()));
        let failed = RevertReason::Failed;
        let parameters: Parameters<'_> =
            &[&number, from, to, &name, &content, &why, &attempts, &now, &owner, &object, &failed.as_str()];
        let rows = self.pool.write(SKIP_LIKE, parameters).await?;
        let row = one(&rows)?;
        if !at::<bool>(row, 0)? {
            return Ok(None);
        }
        self.trim_quarantine(LIKE).await;
        let note = at::<Option<i64>>(row, 1)?.zip(like.as_ref());
        let reverted = |(id, like): (i64, &LikeChange)| Reverted {
            id,
            user: like.user.clone(),
            object: like.object,
            reason: failed,
        };
        Ok(Some(note.map(reverted).into_iter().collect()))
    }
}

/// An object as the database's functions take it: whether it is a post, and its number.
fn parts(object: ContentId) -> (bool, i64) {
    (matches!(object, ContentId::Post(_)), integer(object.number()))
}

/// Reads an object from the second column on.
fn object(row: &Row) -> Result<ContentId> {
    let number = natural_at(row, 2)?;
    Ok(if at(row, 1)? { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) })
}

/// Reads an object and its tally from the second column on.
pub(super) fn tally(row: &Row) -> Result<(ContentId, Tally)> {
    let tally = Tally { likes: natural_at(row, 3)?, comments: natural_at(row, 4)?, version: natural_at(row, 5)? };
    Ok((object(row)?, tally))
}

fn reverted(row: &Row) -> Result<Reverted> {
    like_batch::reverted(at(row, 0)?, id_at(row, 1)?, at(row, 2)?, at(row, 3)?)
}
