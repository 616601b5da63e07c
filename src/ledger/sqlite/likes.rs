//! Likes, and the position up to which the queue of likes is settled.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::people;
use super::rows::post_id_at;
use super::{SqliteLedger, UNLIMITED, count, integer, json_text, natural, quarantine, readable_page};
use crate::ledger::{LikeBatch, LikeStore, ListPage, Result, RevertReason, Reverted, SettledLikes};
use crate::model::{CommentId, ContentId, DomainEvent, LikeChange, Millis, PostId, Tally, User, UserId};

#[async_trait]
impl LikeStore for SqliteLedger {
    async fn like_position(&self, partition: u16) -> Result<String> {
        self.read(move |db| position(db, partition)).await
    }

    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>> {
        self.write_alone(move |db| settle(db, &batch)).await
    }

    async fn like_tallies(&self, objects: &[ContentId]) -> Result<Vec<(ContentId, Tally)>> {
        let objects = objects.to_vec();
        self.read(move |db| objects.iter().map(|object| Ok((*object, tally(db, *object)?))).collect()).await
    }

    async fn likers(&self, post: PostId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.read(move |db| likers(db, post, before, limit)).await
    }

    async fn likes_by(&self, user: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let user = user.clone();
        self.read(move |db| {
            db.prepare_cached(LIKES_BY)?
                .query_map(params![user.as_str(), integer(before.0), count(limit)], |row| post_id_at(row, 0))?
                .collect()
        })
        .await
    }

    async fn comment_likers(
        &self,
        comment: CommentId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>> {
        let (at, user) = after.map_or((i64::MAX, String::new()), |(at, user)| (integer(at), user.to_string()));
        self.read(move |db| {
            let wanted = params![integer(comment.0), at, user, UNLIMITED];
            let liker = |row: &Row<'_>| Ok((natural(row.get(4)?), people::user(row)?));
            readable_page("users", db.prepare_cached(COMMENT_LIKERS)?.query(wanted)?, limit, liker)
        })
        .await
    }

    async fn liked_comments(&self, user: &UserId, ids: &[CommentId]) -> Result<Vec<CommentId>> {
        let user = user.clone();
        let ids = ids.to_vec();
        self.read(move |db| {
            let sql = "SELECT DISTINCT value FROM json_each(?2) WHERE EXISTS \
                       (SELECT 1 FROM comment_likes WHERE comment = value AND user = ?1)";
            let id = |row: &Row<'_>| row.get(0).map(|id: i64| CommentId(natural(id)));
            db.prepare_cached(sql)?.query_map(params![user.as_str(), json_text(&ids)?], id)?.collect()
        })
        .await
    }

    async fn likes_among(&self, likes: &[(ContentId, UserId)]) -> Result<Vec<(ContentId, UserId)>> {
        let mut likes = likes.to_vec();
        self.read(move |db| {
            let mut of_post = db.prepare_cached("SELECT 1 FROM likes WHERE user = ?1 AND post = ?2")?;
            let mut of_comment = db.prepare_cached("SELECT 1 FROM comment_likes WHERE user = ?1 AND comment = ?2")?;
            let mut failed = None;
            likes.retain(|(object, user)| {
                let statement = if matches!(object, ContentId::Post(_)) { &mut of_post } else { &mut of_comment };
                let exists = statement.exists(params![user.as_str(), integer(object.number())]);
                exists.unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
            });
            failed.map_or(Ok(likes), Err)
        })
        .await
    }
}

pub(super) fn position(db: &Connection, partition: u16) -> rusqlite::Result<String> {
    let sql = "SELECT position FROM like_positions WHERE partition = ?1";
    let found = db.prepare_cached(sql)?.query_row([partition], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or_default())
}

fn settle(db: &Connection, batch: &LikeBatch) -> rusqlite::Result<Option<SettledLikes>> {
    if position(db, batch.partition)? != batch.from {
        return Ok(None);
    }
    batch.quarantined.iter().try_for_each(|item| quarantine::put(db, item))?;
    let mut settled = SettledLikes::default();
    settled.reverted.extend(batch.failed.iter().map(|like| Reverted::of(like, RevertReason::Failed)));
    let mut by_object: BTreeMap<ContentId, ObjectChanges<'_>> = BTreeMap::new();
    for change in &batch.changes {
        by_object.entry(change.object).or_default().changes.push(change);
    }
    for change in &batch.unseen {
        by_object.entry(change.object).or_default().unseen.push(change);
    }
    // A user with many likes in the batch is created once.
    let mut sure = HashSet::new();
    for (object, asked) in by_object {
        let difference = apply(db, batch, object, &asked, &mut sure, &mut settled)?;
        if difference != 0 {
            count_up(db, object, difference)?;
        }
        settled.tallies.push((object, tally(db, object)?));
    }
    let unlikes = batch.changes.iter().filter(|change| !change.liked);
    let unlikes: Vec<_> = unlikes.map(|change| (change.user.clone(), change.object)).collect();
    let likes = DomainEvent::liked(&settled.added, batch.noted).into_iter().chain(DomainEvent::unliked(&unlikes));
    for event in likes.chain(settled.reverted.iter().map(Reverted::event)) {
        super::events::append(db, Some(&event), batch.now, false)?;
    }
    set_position(db, batch.partition, &batch.to)?;
    Ok(Some(settled))
}

pub(super) fn set_position(db: &Connection, partition: u16, position: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO like_positions (partition, position) VALUES (?1, ?2) \
               ON CONFLICT DO UPDATE SET position = excluded.position";
    db.prepare_cached(sql)?.execute(params![partition, position]).map(drop)
}

/// The changes of a batch to one object, in the order of the queue.
#[derive(Default)]
struct ObjectChanges<'a> {
    changes: Vec<&'a LikeChange>,
    unseen: Vec<&'a LikeChange>,
}

/// Applies the changes of one object. Returns the change of its number of likes.
fn apply<'a>(
    db: &Connection,
    batch: &LikeBatch,
    object: ContentId,
    asked: &ObjectChanges<'a>,
    sure: &mut HashSet<&'a UserId>,
    settled: &mut SettledLikes,
) -> rusqlite::Result<i64> {
    let there = match object {
        ContentId::Post(_) => "SELECT 1 FROM posts WHERE id = ?1 AND deleted_at IS NULL",
        ContentId::Comment(_) => {
            "SELECT 1 FROM comments c JOIN posts p ON p.id = c.post \
             WHERE c.id = ?1 AND c.author IS NOT NULL AND p.deleted_at IS NULL"
        }
    };
    let there = db.prepare_cached(there)?.exists([integer(object.number())])?;
    let why = if there { RevertReason::Hidden } else { RevertReason::Gone };
    settled.reverted.extend(asked.unseen.iter().map(|like| Reverted::of(like, why)));
    let mut difference = 0;
    for change in &asked.changes {
        if there && change.liked && sure.insert(&change.user) {
            people::ensure(db, &change.user, batch.now)?;
        }
        match (there, change.liked) {
            (true, true) if add(db, change)? => {
                difference += 1;
                settled.added.push((change.user.clone(), object));
            }
            (true, false) if remove(db, &change.user, object)? => difference -= 1,
            (true, _) => {}
            (false, true) => settled.reverted.push(Reverted::of(change, RevertReason::Gone)),
            (false, false) => {}
        }
    }
    Ok(difference)
}

/// Returns whether the like is new.
fn add(db: &Connection, change: &LikeChange) -> rusqlite::Result<bool> {
    let sql = match change.object {
        ContentId::Post(_) => "INSERT INTO likes (user, post, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        ContentId::Comment(_) => {
            "INSERT INTO comment_likes (user, comment, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING"
        }
    };
    let row = params![change.user.as_str(), integer(change.object.number()), integer(change.at)];
    Ok(db.prepare_cached(sql)?.execute(row)? == 1)
}

/// Returns whether the like existed.
pub(super) fn remove(db: &Connection, user: &UserId, object: ContentId) -> rusqlite::Result<bool> {
    let sql = match object {
        ContentId::Post(_) => "DELETE FROM likes WHERE user = ?1 AND post = ?2",
        ContentId::Comment(_) => "DELETE FROM comment_likes WHERE user = ?1 AND comment = ?2",
    };
    let row = params![user.as_str(), integer(object.number())];
    Ok(db.prepare_cached(sql)?.execute(row)? == 1)
}

/// The result is read by a separate statement: with RETURNING, SQLite would keep copies of the rows.
pub(super) fn count_up(db: &Connection, object: ContentId, difference: i64) -> rusqlite::Result<()> {
    let sql = match object {
        ContentId::Post(_) => {
            "INSERT INTO post_counts (post, likes, likes_version) VALUES (?1, ?2, 1) \
             ON CONFLICT DO UPDATE SET likes = likes + excluded.likes, likes_version = likes_version + 1"
        }
        ContentId::Comment(_) => {
            "UPDATE comments SET likes = likes + ?2, likes_version = likes_version + 1 WHERE id = ?1"
        }
    };
    db.prepare_cached(sql)?.execute(params![integer(object.number()), difference]).map(drop)
}

pub(super) fn tally(db: &Connection, object: ContentId) -> rusqlite::Result<Tally> {
    let sql = match object {
        ContentId::Post(_) => "SELECT likes, comments, likes_version FROM post_counts WHERE post = ?1",
        ContentId::Comment(_) => "SELECT likes, replies, likes_version FROM comments WHERE id = ?1",
    };
    let tally = |row: &Row<'_>| {
        Ok(Tally { likes: natural(row.get(0)?), comments: natural(row.get(1)?), version: natural(row.get(2)?) })
    };
    Ok(db.prepare_cached(sql)?.query_row([integer(object.number())], tally).optional()?.unwrap_or_default())
}

pub(super) const LIKERS: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.seq \
    FROM likes l INDEXED BY likes_of CROSS JOIN users u ON u.id = l.user \
    WHERE l.post = ?1 AND l.seq < ?2 ORDER BY l.seq DESC LIMIT ?3";

pub(super) const LIKES_BY: &str = "SELECT post FROM likes INDEXED BY likes_one \
    WHERE user = ?1 AND post < ?2 ORDER BY post DESC LIMIT ?3";

pub(super) const COMMENT_LIKERS: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.at \
    FROM comment_likes l INDEXED BY comment_likes_listed CROSS JOIN users u ON u.id = l.user \
    WHERE l.comment = ?1 AND (l.at, l.user) < (?2, ?3) ORDER BY l.at DESC, l.user DESC LIMIT ?4";

fn likers(db: &Connection, post: PostId, before: Option<i64>, limit: usize) -> rusqlite::Result<ListPage<User>> {
    let wanted = params![integer(post.0), before.unwrap_or(i64::MAX), UNLIMITED];
    people::listed(db.prepare_cached(LIKERS)?.query(wanted)?, limit)
}
